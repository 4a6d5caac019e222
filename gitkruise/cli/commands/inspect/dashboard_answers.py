"""Answers of the dashboard that take a computation: a commit, its plan, drift, a forecast."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from gitkruise.cli.context.cluster import ClusterChoice
from gitkruise.cli.context.local_repository import named_commit
from gitkruise.cli.context.next_commands import carrying
from gitkruise.errors import Finding, UsageProblem
from gitkruise.wire.primitives.times import format_time

if TYPE_CHECKING:
    from gitkruise.cli.context.cluster import ChosenCluster
    from gitkruise.git.repository.repository import Repository
    from gitkruise.gitops.inspect.drift import DriftComparison
    from gitkruise.gitops.runtime.fleet_questions import RunningFleet
    from gitkruise.model.gitops.config import Config
    from gitkruise.model.gitops.report import PlanReport

_VERBS: Final = frozenset({"promote", "hold", "pause", "resume", "rollback"})
_PLANS: Final = 16  # that are kept: the plan of a commit against its parent stays the same


class AnswerSource(Protocol):
    """Commits and live objects, as answers read them. Its methods raise GitkruiseError."""

    async def commit(self, id_: str) -> Mapping[str, Any]:
        """Return a commit as git has it, with the approvals that it brings."""
        ...

    async def full(self, id_: str) -> str:
        """Return the full id of a commit. Raises SourceFailed GK3201."""
        ...

    async def report(self, full: str) -> PlanReport:
        """Return the plan of a commit against its first parent, from git alone."""
        ...

    async def drift(self) -> DriftComparison:
        """Compare live objects with git now; a unit that cannot be read hides no other."""
        ...

    async def foreseen(self, verb: str, noun: str, namespace: str, name: str) -> Mapping[str, Any]:
        """Return the edit that a command would make, and its plan."""
        ...


@dataclass(slots=True)
class Answers:
    """Computes answers outside the event loop, one at a time; none without a `source`."""

    chosen: ChosenCluster
    source: AnswerSource | None
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)
    _plans: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    async def find_out(self, about: str) -> Mapping[str, Any] | None:
        """Answer `commit/ID`, `plan/ID`, `drift` or `forecast/VERB/NOUN/[NAMESPACE/]NAME`.

        None without a repository, or for another question. Raises GitkruiseError.
        """
        question, _, id_ = about.partition("/")
        if self.source is None:
            return None
        if question == "drift" and not id_:
            async with self._one:
                return await self._drift(self.source)
        if question == "forecast":
            return await self._forecast(self.source, *id_.split("/"))
        from gitkruise.cli.views.history import COMMIT_ID  # noqa: PLC0415  imports the model

        if question not in {"commit", "plan"} or not COMMIT_ID.fullmatch(id_):
            return None
        async with self._one:
            if question == "commit":
                return await self.source.commit(id_)
            return await self._plan(self.source, id_)

    async def _plan(self, source: AnswerSource, id_: str) -> Mapping[str, Any]:
        from gitkruise.cli.views.plan_page import plan_document  # noqa: PLC0415  the model
        from gitkruise.dashboard.rights import bounded  # noqa: PLC0415  imports msgspec

        full = await source.full(id_)
        if full not in self._plans:
            report = await source.report(full)
            bounded(self._plans, _PLANS)[full] = {
                **plan_document(report),
                "command": f"gitkruise plan {full[:7]}",
                "planned": format_time(self.chosen.clock.now()),
            }
        return self._plans[full]

    async def _drift(self, source: AnswerSource) -> Mapping[str, Any]:
        from gitkruise.cli.views.history import drift_items  # noqa: PLC0415  imports libyaml

        seen = await source.drift()
        return {
            **drift_items(seen.differing, seen.unread),
            "compared": len(seen.compared),
            "command": carrying("gitkruise drift", self.chosen.flags),
            "at": format_time(self.chosen.clock.now()),
        }

    async def _forecast(
        self, source: AnswerSource, verb: str, *place: str
    ) -> Mapping[str, Any] | None:
        if verb not in _VERBS or len(place) not in {2, 3} or not all(place):
            return None
        noun, *space, name = place
        async with self._one:
            found = await source.foreseen(verb, noun, "".join(space), name)
        return {**found, "at": format_time(self.chosen.clock.now())}


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

    async def report(self, full: str) -> PlanReport:
        from gitkruise.cli.context.commit_plan import plan_of_commit  # noqa: PLC0415  the model

        given = await self._config(full)
        return await asyncio.to_thread(plan_of_commit, self.path, full, given)

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

    async def foreseen(self, verb: str, noun: str, namespace: str, name: str) -> Mapping[str, Any]:
        from gitkruise.cli.context.commit_action import ActionOptions, foreseen  # noqa: PLC0415

        options = ActionOptions(
            verb=verb, object_name=f"{noun}/{name}", namespace=namespace, unit="",
            repo=self.path, config_path=self.config_path, cluster=self.choice, dry_run=True,
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

    async def report(self, full: str) -> PlanReport:
        fleet = self._leading()
        return await fleet.plan(await fleet.followed(full))

    async def drift(self) -> DriftComparison:
        return await self._leading().drift()

    async def foreseen(self, verb: str, noun: str, namespace: str, name: str) -> Mapping[str, Any]:
        """Refuse: an edit is previewed where it can be committed. Raises UsageProblem GK7066."""
        named = f"{noun}/{name}" + (f" -n {namespace}" if namespace else "")
        raise UsageProblem(
            Finding(
                code="GK7066",
                message="the pages of `gitkruise run` preview no edit",
                notes=(
                    ("why", "the controller has mirrors of its sources, and no checkout"),
                    ("next", f"in a checkout: gitkruise {verb} {named} --print"),
                ),
            )
        )

    def _leading(self) -> RunningFleet:
        fleet = self.fleet()
        if fleet is None:
            raise UsageProblem(
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
