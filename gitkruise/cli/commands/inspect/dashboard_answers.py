"""Answers of the dashboard that take a computation: a commit, its plan, drift, a forecast."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gitkruise.cli.commands.inspect.dashboard_sources import (
    AnswerSource,
    AskedEdit,
    FollowsNothing,
)
from gitkruise.cli.console.findings import finding_obj
from gitkruise.cli.context.next_commands import carrying
from gitkruise.cli.views.history import COMMIT_ID, drift_items
from gitkruise.dashboard.node_rows import NODE, machine_row
from gitkruise.dashboard.record_rights import left_out
from gitkruise.dashboard.rights import bounded
from gitkruise.errors import (
    ApiError,
    Finding,
    GitkruiseError,
    NotFound,
    NothingToDo,
    UsageProblem,
)
from gitkruise.gitops.build.untrusted import PagePart
from gitkruise.gitops.workers.jobs import page_of
from gitkruise.kube.client.discovery import listed
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.node.node_image import NODE_IMAGE
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.times import format_time

if TYPE_CHECKING:
    from gitkruise.cli.context.cluster import ChosenCluster
    from gitkruise.dashboard.gate import Viewer
    from gitkruise.gitops.notify.pull_request_plan import ProposedCommit
    from gitkruise.gitops.runtime.foreseen_edits import ForeseenEdit
    from gitkruise.gitops.workers.frames import PlanPage

log: Final = logging.getLogger(__name__)
_VERBS: Final = frozenset({"promote", "hold", "pause", "resume", "rollback"})
_GATED: Final = frozenset({"promote", "hold"})  # that set a partition
_PARTITION: Final = re.compile(r"partition=([0-9]{1,9}%?)")
_OF_OBJECT: Final = frozenset({"GK7041", "GK7042"})  # refusals
_PROPOSED: Final = ("pr/", "branch/")
_PROPOSED_S: Final = 15.0
# What a commit says of its content, and is withheld from those who do not see that.
_BODY: Final[Mapping[str, Any]] = {"message": "", "approvals": []}
_TITLE: Final[Mapping[str, Any]] = {"subject": "", "author": "", "url": ""}
_PLANS: Final = 16  # that are kept: the plan of a commit against its parent stays the same


class _KeptPlan(NamedTuple):
    """A plan as a document, and the objects that it changes."""

    document: Mapping[str, Any]
    keys: frozenset[ObjectKey]


class _Planned(NamedTuple):
    """A commit that has a plan. `name` stays the same for as long as the plan does."""

    name: str
    command: str
    page: Callable[[PagePart], Awaitable[PlanPage]]


@dataclass(slots=True)
class Answers:
    """Computes answers outside the event loop, one at a time; none without a `source`."""

    chosen: ChosenCluster
    source: AnswerSource | None
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)
    # By commit, and by what of it is shown; None is everything.
    _plans: dict[tuple[str, frozenset[ObjectKey] | None], _KeptPlan] = field(default_factory=dict)
    _found: dict[str, tuple[ProposedCommit, float]] = field(default_factory=dict)  # until when

    async def find_out(self, about: str, viewer: Viewer) -> Mapping[str, Any] | None:
        """Answer `commit/ID`, `plan/ID`, `diff/ID`, `drift`, `machines`, or a forecast by its verb
        and object: `forecast/VERB/NOUN/[NAMESPACE/]NAME`, with `?partition=30%` for one that the
        verb sets. `pr/…` and `branch/…` are ids, too: see AnswerSource.proposed.

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

        known = COMMIT_ID.fullmatch(rest) or rest.startswith(_PROPOSED)
        asked = question in {"commit", "plan", "diff"} and known
        return await self._of_git(self.source, about, viewer) if asked or about == "drift" else None

    async def _of_git(
        self, source: AnswerSource, about: str, viewer: Viewer
    ) -> Mapping[str, Any] | None:
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

    async def _whole(
        self, source: AnswerSource, question: str, id_: str
    ) -> Mapping[str, Any] | None:
        if question == "commit" and not id_.startswith(_PROPOSED):
            return await source.commit(id_)
        planned = await self._planned(source, id_)
        if planned is None:
            return None
        if question == "commit":
            return _proposal(self._found[id_][0])
        if question == "diff":
            return (await planned.page(PagePart(diff=True))).document
        return (await self._plan(planned)).document

    async def _part(
        self, source: AnswerSource, question: str, id_: str, viewer: Viewer
    ) -> Mapping[str, Any] | None:
        """A commit, its plan or its diff for a viewer of some objects that it changes."""
        planned = await self._planned(source, id_)
        if planned is None:
            return None
        keys = (await self._plan(planned)).keys
        shown = await viewer.shown(keys)
        hidden = len(keys) - len(shown)
        if question == "commit":
            proposed = id_.startswith(_PROPOSED)
            found = _proposal(self._found[id_][0]) if proposed else await source.commit(id_)
            return _commit_part(found, shown=len(shown), hidden=hidden)
        if question == "diff":
            return (await planned.page(PagePart(diff=True, shown=shown))).document
        plan = (await self._plan(planned, shown)).document
        return _plan_part(plan, shown=len(shown), hidden=hidden)

    async def _planned(self, source: AnswerSource, id_: str) -> _Planned | None:
        """Return the commit of an id; None for a pull request or a branch that cannot be.

        A head is asked for again after _PROPOSED_S, however many viewers ask.
        """
        if not id_.startswith(_PROPOSED):
            full = await source.full(id_)
            return _Planned(full, f"gitkruise plan {full[:7]}", partial(source.page, full))
        now = self.chosen.clock.monotonic()
        known, until = self._found.get(id_, (None, now))
        if known is None or now >= until:
            kind, _, place = id_.partition("/")
            known = await source.proposed(kind, place)
            if known is None:
                return None
            self._found.pop(id_, None)
            until = now + _PROPOSED_S
            bounded(self._found, _PLANS)[id_] = known, until
        command = f"gitkruise plan {known.base[:7]}...{known.head[:7]}"
        flags = self.chosen.flags if known.live else ""
        return _Planned(f"{id_} {until}", carrying(command, flags), known.page)

    async def _plan(
        self, planned: _Planned, shown: frozenset[ObjectKey] | None = None
    ) -> _KeptPlan:
        key = planned.name, shown
        if key not in self._plans:
            found = await planned.page(PagePart(shown=shown))
            document = {
                **_document(found),
                "command": planned.command,
                "planned": format_time(self.chosen.clock.now()),
            }
            bounded(self._plans, _PLANS)[key] = _KeptPlan(document, frozenset(found.keys))
        return self._plans[key]

    async def _drift(
        self, source: AnswerSource, viewer: Viewer, *, everything: bool
    ) -> Mapping[str, Any]:
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
        unread: list[str] = []
        nodes, images = [await self._listed(k, viewer, unread) for k in (NODE, NODE_IMAGE)]
        return {
            "nodes": {name: machine_row(node, images.get(name)) for name, node in nodes.items()},
            "unread": unread,
            "at": format_time(self.chosen.clock.now()),
        }

    async def _listed(self, kind: GroupKind, viewer: Viewer, unread: list[str]) -> dict[str, Obj]:
        """The objects of a kind without namespaces by name; a reason is added to `unread`."""
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


def _proposal(found: ProposedCommit) -> dict[str, Any]:
    """Head of the page of a pull request or a branch."""
    return {
        "id": found.head, "name": found.name, "subject": found.title, "url": found.url,
        "into": found.into, "base": found.base, "live": found.live,
    }  # fmt: skip


def _commit_part(found: Mapping[str, Any], *, shown: int, hidden: int) -> Mapping[str, Any]:
    """A commit for a viewer of some of the objects that it changes.

    Its message is shown where nothing is hidden, its subject where something is shown: the
    explanation of an object has it, too.
    """
    withheld = _BODY if hidden or not shown else {}
    if not shown:
        withheld = {**withheld, **_TITLE}
    content = {name: empty for name, empty in withheld.items() if name in found}
    return {**found, **content, "hidden": left_out({"object": hidden})}


def _plan_part(plan: Mapping[str, Any], *, shown: int, hidden: int) -> Mapping[str, Any]:
    """A plan of some objects: what is said of nothing would be wrong about the others."""
    content = {} if shown else {"subject": "", "blast": [], "summary": ""}
    nothing = "" if hidden else plan["nothing"]
    return {**plan, **content, "nothing": nothing, "hidden": left_out({"object": hidden})}


async def _foreseen(seen: ForeseenEdit, viewer: Viewer | None) -> dict[str, Any]:
    """An edit and its plan; for a `viewer` who does not see everything, of what it may list.

    The edit reaches one object, so its changed lines are about that; those around them may not be.
    """
    whole = page_of(seen.report())
    if viewer is None:
        return {"diff": list(seen.diff), "plan": _document(whole)}
    keys = frozenset(whole.keys)
    shown = await viewer.shown(keys)
    part = _document(page_of(seen.report(shown)))
    plan = _plan_part(part, shown=len(shown), hidden=len(keys) - len(shown))
    return {"diff": list(seen.changed_lines), "plan": plan}


def _document(page: PlanPage) -> dict[str, Any]:
    """A plan with its findings."""
    return {**page.document, "findings": [finding_obj(finding) for finding in page.findings]}


def _about_the_object(error: GitkruiseError) -> bool:
    """Return whether a refusal is about the object that was asked for, and names no other."""
    return isinstance(error, UsageProblem) and {f.code for f in error.findings} <= _OF_OBJECT


def _withheld(about: str) -> UsageProblem:
    notes = (
        ("why", "the reason may name objects that you may not list; the dashboard has logged it"),
        ("next", "ask someone who may list every resource of the cluster"),
    )
    return UsageProblem(Finding(code="GK7091", message=f"{about}: no answer", notes=notes))
