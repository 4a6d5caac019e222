"""Answers of the dashboard that take a computation: a commit, its plan, drift, a forecast."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from gitkruise.cli.context.cluster import ClusterChoice
from gitkruise.cli.context.local_repository import named_commit
from gitkruise.cli.context.next_commands import carrying
from gitkruise.errors import (
    ApiError,
    Finding,
    GitkruiseError,
    NotFound,
    NothingToDo,
    UsageProblem,
)
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.times import format_time

if TYPE_CHECKING:
    from gitkruise.cli.context.cluster import ChosenCluster
    from gitkruise.dashboard.gate import Viewer
    from gitkruise.git.repository.repository import Repository
    from gitkruise.gitops.inspect.drift import DriftComparison
    from gitkruise.gitops.runtime.fleet_questions import RunningFleet
    from gitkruise.gitops.runtime.foreseen_edits import ForeseenEdit
    from gitkruise.model.gitops.change import ObjectChange
    from gitkruise.model.gitops.config import Config
    from gitkruise.model.gitops.report import PlanReport
    from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey

log: Final = logging.getLogger(__name__)
_VERBS: Final = frozenset({"promote", "hold", "pause", "resume", "rollback"})
_GATED: Final = frozenset({"promote", "hold"})  # that set a partition
_PARTITION: Final = re.compile(r"partition=([0-9]{1,9}%?)")
_OF_OBJECT: Final = frozenset({"GK7041", "GK7042"})  # refusals
_PLANS: Final = 16  # that are kept: the plan of a commit against its parent stays the same


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedEdit:
    """An edit of git whose effects a page asks for; `partition` "" is the default of the verb."""

    verb: str
    noun: str
    namespace: str
    name: str
    partition: str = ""

    @property
    def command(self) -> str:
        """Return the command that makes it."""
        space = f" -n {self.namespace}" if self.namespace else ""
        gate = f" --partition {self.partition}" if self.partition else ""
        return f"gitkruise {self.verb} {self.noun}/{self.name}{space}{gate}"


class FollowsNothing(UsageProblem):
    """GK7067: the controller of this process does not lead. Its text names no object."""


class AnswerSource(Protocol):
    """Commits and live objects, as answers read them. Its methods raise GitkruiseError."""

    async def commit(self, id_: str) -> Mapping[str, Any]:
        """Return a commit as git has it, with the approvals that it brings."""
        ...

    async def full(self, id_: str) -> str:
        """Return the full id of a commit. Raises SourceFailed GK3201."""
        ...

    async def report(self, full: str, shown: Set[ObjectKey] | None = None) -> PlanReport:
        """Return the plan of a commit against its first parent, from git alone; with `shown`, of
        those objects only."""
        ...

    async def changes(self, full: str) -> Sequence[ObjectChange]:
        """Return the changes of objects between a commit and its first parent, by git alone."""
        ...

    async def drift(self) -> DriftComparison:
        """Compare live objects with git now; a unit that cannot be read hides no other."""
        ...

    async def foreseen(self, edit: AskedEdit) -> ForeseenEdit:
        """Return the edit that a command would make, and its preview. Raises NothingToDo."""
        ...


class _KeptPlan(NamedTuple):
    """A plan as a document, and the objects that it changes."""

    document: Mapping[str, Any]
    keys: frozenset[ObjectKey]


@dataclass(slots=True)
class Answers:
    """Computes answers outside the event loop, one at a time; none without a `source`."""

    chosen: ChosenCluster
    source: AnswerSource | None
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)
    # By commit, and by what of it is shown; None is everything.
    _plans: dict[tuple[str, frozenset[ObjectKey] | None], _KeptPlan] = field(default_factory=dict)

    async def find_out(self, about: str, viewer: Viewer) -> Mapping[str, Any] | None:
        """Answer `commit/ID`, `plan/ID`, `diff/ID`, `drift`, `machines`, or a forecast by its verb
        and object: `forecast/VERB/NOUN/[NAMESPACE/]NAME`, with `?partition=30%` for one that the
        verb sets.

        None for another question, and for one about git without a repository. Raises
        GitkruiseError: GK7091 instead of a reason that could name what the viewer may not see.
        """
        question, _, rest = about.partition("/")
        if about == "machines":
            return await self._machines(viewer)
        if self.source is None:
            return None
        if question == "forecast":
            return await self._forecast(self.source, viewer, *rest.split("/"))
        from gitkruise.cli.views.history import COMMIT_ID  # noqa: PLC0415  imports the model

        asked = question in {"commit", "plan", "diff"} and COMMIT_ID.fullmatch(rest)
        return await self._of_git(self.source, about, viewer) if asked or about == "drift" else None

    async def _of_git(self, source: AnswerSource, about: str, viewer: Viewer) -> Mapping[str, Any]:
        question, _, id_ = about.partition("/")
        everything = await viewer.everything()
        try:
            async with self._one:
                if question == "drift":
                    return await self._drift(source, viewer, everything=everything)
                if everything:
                    return await self._whole(source, question, id_)
                return await self._part(source, question, id_, viewer)
        except GitkruiseError as error:
            if everything or isinstance(error, FollowsNothing):
                raise
            log.warning(log_line("dashboard-answer-withheld", object=about, error=error))
            raise _withheld(about) from error

    async def _whole(self, source: AnswerSource, question: str, id_: str) -> Mapping[str, Any]:
        if question == "commit":
            return await source.commit(id_)
        full = await source.full(id_)
        if question == "diff":
            return await _diff(source, full)
        return (await self._plan(source, full)).document

    async def _part(
        self, source: AnswerSource, question: str, id_: str, viewer: Viewer
    ) -> Mapping[str, Any]:
        """A commit, its plan or its diff for a viewer of some objects that it changes."""
        full = await source.full(id_)
        keys = (await self._plan(source, full)).keys
        shown = await viewer.shown(keys)
        hidden = len(keys) - len(shown)
        if question == "commit":
            return _commit_part(await source.commit(full), shown=len(shown), hidden=hidden)
        if question == "diff":
            return await _diff(source, full, shown)
        plan = (await self._plan(source, full, shown)).document
        return _plan_part(plan, shown=len(shown), hidden=hidden)

    async def _plan(
        self, source: AnswerSource, full: str, shown: frozenset[ObjectKey] | None = None
    ) -> _KeptPlan:
        from gitkruise.cli.views.plan_page import plan_document  # noqa: PLC0415  the model
        from gitkruise.dashboard.rights import bounded  # noqa: PLC0415  imports msgspec

        if (full, shown) not in self._plans:
            report = await source.report(full, shown)
            document = {
                **plan_document(report),
                "command": f"gitkruise plan {full[:7]}",
                "planned": format_time(self.chosen.clock.now()),
            }
            keys = frozenset(key for entry in report.entries for key in entry.keys)
            bounded(self._plans, _PLANS)[full, shown] = _KeptPlan(document, keys)
        return self._plans[full, shown]

    async def _drift(
        self, source: AnswerSource, viewer: Viewer, *, everything: bool
    ) -> Mapping[str, Any]:
        from gitkruise.cli.views.history import drift_items  # noqa: PLC0415  imports libyaml
        from gitkruise.dashboard.record_rights import left_out  # noqa: PLC0415  imports the names

        seen = await source.drift()
        shown = seen.compared if everything else await viewer.shown(seen.compared)
        differing = [one for one in seen.differing if everything or one.key in shown]
        unread = seen.unread if everything else ()
        hidden = {"object": len(seen.compared - shown), "unit": len(seen.unread) - len(unread)}
        return {
            **drift_items(differing, unread),
            "compared": len(shown),
            "hidden": left_out(hidden),
            "command": carrying("gitkruise drift", self.chosen.flags),
            "at": format_time(self.chosen.clock.now()),
        }

    async def _machines(self, viewer: Viewer) -> Mapping[str, Any]:
        """Nodes and NodeImages that the viewer may list, and why others were not read."""
        from gitkruise.dashboard.node_rows import NODE, machine_row  # noqa: PLC0415  for a page
        from gitkruise.model.node.node_image import NODE_IMAGE  # noqa: PLC0415  imports the model

        unread: list[str] = []
        nodes, images = [await self._listed(k, viewer, unread) for k in (NODE, NODE_IMAGE)]
        return {
            "nodes": {name: machine_row(node, images.get(name)) for name, node in nodes.items()},
            "unread": unread,
            "at": format_time(self.chosen.clock.now()),
        }

    async def _listed(self, kind: GroupKind, viewer: Viewer, unread: list[str]) -> dict[str, Obj]:
        """The objects of a kind without namespaces by name; a reason is added to `unread`."""
        from gitkruise.kube.client.discovery import listed  # noqa: PLC0415  for a page
        from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415
        from gitkruise.wire.primitives.names import ObjectKey  # noqa: PLC0415  for a page

        known = load_catalog().stored(kind)
        assert known is not None
        if not await viewer.shown({ObjectKey(kind.group, kind.kind, "", "")}):
            unread.append(f"{viewer.name} may not list {known.ref.plural}")
            return {}
        try:
            found = await listed(self.chosen.transport, known.ref)
        except NotFound:
            return {}  # not served here
        except ApiError as error:
            unread.append(f"{known.ref.plural}: {error}")
            return {}
        return {obj["metadata"]["name"]: obj for obj in found}

    async def _forecast(
        self, source: AnswerSource, viewer: Viewer, verb: str, *place: str
    ) -> Mapping[str, Any] | None:
        edit = asked_edit(verb, *place)
        if edit is None:
            return None
        everything = await viewer.everything()
        try:
            async with self._one:
                seen = await source.foreseen(edit)
            found = await _foreseen(seen, None if everything else viewer)
        except NothingToDo as nothing:
            found = {"message": nothing.findings[0].message}
        except GitkruiseError as error:
            if everything or isinstance(error, FollowsNothing) or _about_the_object(error):
                raise
            log.warning(log_line("dashboard-answer-withheld", object=edit.command, error=error))
            raise _withheld(edit.command) from error
        command = carrying(edit.command, self.chosen.flags)
        return {**found, "command": command, "at": format_time(self.chosen.clock.now())}


def asked_edit(verb: str, *place: str) -> AskedEdit | None:
    """Return the edit of `VERB/NOUN/[NAMESPACE/]NAME[?partition=VALUE]`; None for anything else."""
    if verb not in _VERBS or len(place) not in {2, 3} or not all(place):
        return None
    noun, *space, last = place
    name, asks, asked = last.partition("?")
    gate = _PARTITION.fullmatch(asked)
    if asks and (gate is None or verb not in _GATED):
        return None
    partition = gate[1] if gate is not None else ""
    return AskedEdit(verb=verb, noun=noun, namespace="".join(space), name=name, partition=partition)


@dataclass(frozen=True, slots=True)
class LocalRepository:
    """A repository of this machine, and a cluster that is asked each time.

    `config_path` is a configuration that is not in it; `choice` how commands find the cluster.
    """

    chosen: ChosenCluster
    path: str
    config_path: Path | None
    choice: ClusterChoice = field(default_factory=ClusterChoice)

    async def commit(self, id_: str) -> Mapping[str, Any]:
        return await asyncio.to_thread(self._commit, id_)

    async def full(self, id_: str) -> str:
        return await asyncio.to_thread(named_commit, self.path, id_)

    async def report(self, full: str, shown: Set[ObjectKey] | None = None) -> PlanReport:
        from gitkruise.cli.context.commit_plan import plan_of_commit  # noqa: PLC0415  the model

        given = await self._config(full)
        return await asyncio.to_thread(plan_of_commit, self.path, full, given, shown)

    async def changes(self, full: str) -> Sequence[ObjectChange]:
        from gitkruise.cli.context.commit_plan import changes_of_commit  # noqa: PLC0415  the model

        return await asyncio.to_thread(changes_of_commit, self.path, full, await self._config(full))

    async def drift(self) -> DriftComparison:
        from gitkruise.cli.context.charts import chart_fetcher  # noqa: PLC0415
        from gitkruise.gitops.config.loader import load_config  # noqa: PLC0415  imports jsonschema
        from gitkruise.gitops.inspect.drift import compare  # noqa: PLC0415  imports the model
        from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

        given = load_config(self.config_path) if self.config_path else None
        return await compare(
            self.path, "", given, load_catalog(),
            transport=self.chosen.transport, charts=chart_fetcher(self.chosen.clock),
            cluster=self.chosen.name,
        )  # fmt: skip

    async def foreseen(self, edit: AskedEdit) -> ForeseenEdit:
        from gitkruise.cli.context.commit_action import ActionOptions, foreseen  # noqa: PLC0415

        options = ActionOptions(
            verb=edit.verb, object_name=f"{edit.noun}/{edit.name}", namespace=edit.namespace,
            unit="", repo=self.path, config_path=self.config_path, cluster=self.choice,
            dry_run=True, partition=edit.partition,
        )  # fmt: skip
        return await asyncio.to_thread(foreseen, options)

    def _commit(self, id_: str) -> dict[str, Any]:
        from gitkruise.git.repository.repository import Repository  # noqa: PLC0415

        full = named_commit(self.path, id_)
        with Repository.open(self.path) as repository:
            return commit_document(repository, full)

    async def _config(self, commit: str) -> Config | None:
        """Return the units that are not in the repository: of a file, or of the cluster."""
        from gitkruise.cli.context.cluster import units_following  # noqa: PLC0415
        from gitkruise.git.repository.repository import Repository  # noqa: PLC0415
        from gitkruise.gitops.config.loader import load_config  # noqa: PLC0415  imports jsonschema
        from gitkruise.model.gitops.config import CONFIG_FILE  # noqa: PLC0415  start-up budget

        if self.config_path is not None:
            return load_config(self.config_path)
        with Repository.open(self.path) as repository:
            if repository.find(commit, CONFIG_FILE) is not None:
                return None
            return await units_following(self.chosen, repository)


@dataclass(frozen=True, slots=True)
class RunningSources:
    """Sources that the controller of this process follows; `fleet` gives it while it leads."""

    fleet: Callable[[], RunningFleet | None]

    async def commit(self, id_: str) -> Mapping[str, Any]:
        found = await self._leading().followed(id_)
        return await asyncio.to_thread(commit_document, found.repository, found.id)

    async def full(self, id_: str) -> str:
        return (await self._leading().followed(id_)).id

    async def report(self, full: str, shown: Set[ObjectKey] | None = None) -> PlanReport:
        fleet = self._leading()
        return await fleet.plan(await fleet.followed(full), shown)

    async def changes(self, full: str) -> Sequence[ObjectChange]:
        fleet = self._leading()
        return await fleet.changes(await fleet.followed(full))

    async def drift(self) -> DriftComparison:
        return await self._leading().drift()

    async def foreseen(self, edit: AskedEdit) -> ForeseenEdit:
        from gitkruise.cli.context.commit_action import query_of  # noqa: PLC0415  the model
        from gitkruise.gitops.actions.actions import ActionVerb  # noqa: PLC0415  the model

        query = query_of(edit.verb, f"{edit.noun}/{edit.name}", edit.namespace)
        return await self._leading().foreseen(ActionVerb(edit.verb), query, edit.partition)

    def _leading(self) -> RunningFleet:
        fleet = self.fleet()
        if fleet is None:
            raise FollowsNothing(
                Finding(
                    code="GK7067",
                    message="this process follows no repository now",
                    notes=(
                        ("why", "it starts, or waits until the process that leads is gone"),
                        ("next", "try again, or open the dashboard of the process that leads"),
                    ),
                )
            )
        return fleet


async def _diff(
    source: AnswerSource, full: str, shown: Set[ObjectKey] | None = None
) -> Mapping[str, Any]:
    """Manifests of the changed objects, of those `shown` only, as diffs."""
    from gitkruise.cli.views.plan_page import diff_document  # noqa: PLC0415  the model

    changes = await source.changes(full)
    mine = [change for change in changes if shown is None or change.key in shown]
    return await asyncio.to_thread(diff_document, mine)


def _commit_part(found: Mapping[str, Any], *, shown: int, hidden: int) -> Mapping[str, Any]:
    """A commit for a viewer of some of the objects that it changes.

    Its message is shown where nothing is hidden, its subject where something is shown: the
    explanation of an object has it, too.
    """
    from gitkruise.dashboard.record_rights import left_out  # noqa: PLC0415  imports the names

    content: dict[str, Any] = {}
    if hidden or not shown:
        content = {"message": "", "approvals": []}
    if not shown:
        content |= {"subject": "", "author": ""}
    return {**found, **content, "hidden": left_out({"object": hidden})}


def _plan_part(plan: Mapping[str, Any], *, shown: int, hidden: int) -> Mapping[str, Any]:
    """A plan of some objects: what is said of nothing would be wrong about the others."""
    from gitkruise.dashboard.record_rights import left_out  # noqa: PLC0415  imports the names

    content = {} if shown else {"subject": "", "blast": [], "summary": ""}
    nothing = "" if hidden else plan["nothing"]
    return {**plan, **content, "nothing": nothing, "hidden": left_out({"object": hidden})}


async def _foreseen(seen: ForeseenEdit, viewer: Viewer | None) -> dict[str, Any]:
    """An edit and its plan; for a `viewer` who does not see everything, of what it may list.

    The edit reaches one object, so its changed lines are about that; those around them may not be.
    """
    from gitkruise.cli.views.plan_page import plan_document  # noqa: PLC0415  the model

    whole = seen.report()
    if viewer is None:
        return {"diff": list(seen.diff), "plan": plan_document(whole)}
    keys = frozenset(key for entry in whole.entries for key in entry.keys)
    shown = await viewer.shown(keys)
    part = plan_document(seen.report(shown))
    plan = _plan_part(part, shown=len(shown), hidden=len(keys) - len(shown))
    return {"diff": list(seen.changed_lines), "plan": plan}


def _about_the_object(error: GitkruiseError) -> bool:
    """Return whether a refusal is about the object that was asked for, and names no other."""
    return isinstance(error, UsageProblem) and {f.code for f in error.findings} <= _OF_OBJECT


def _withheld(about: str) -> UsageProblem:
    notes = (
        ("why", "the reason may name objects that you may not list; the dashboard has logged it"),
        ("next", "ask someone who may list every resource of the cluster"),
    )
    return UsageProblem(Finding(code="GK7091", message=f"{about}: no answer", notes=notes))


def commit_document(repository: Repository, full: str) -> dict[str, Any]:
    """Return a commit as git has it, with the approvals that it brings. Blocking."""
    from gitkruise.gitops.reconcile.approval import approvals  # noqa: PLC0415  imports the model

    found = repository.commit(full)
    parents = found.parents
    return {
        "id": full,
        "subject": found.subject,
        "author": found.author,
        "time": format_time(found.time) if found.time else "",
        "parents": list(parents),
        "message": _message(repository, full),
        "approvals": sorted(approvals(repository, full, parents[0] if parents else "")),
    }


def _message(repository: Repository, commit: str) -> str:
    from gitkruise.printable import visible_lines  # noqa: PLC0415

    return visible_lines(repository.message(commit))
