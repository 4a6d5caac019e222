"""Answers of the dashboard that take a computation: a commit, its plan, drift, a forecast."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gitkruise.cli.context.cluster import ClusterChoice
from gitkruise.cli.context.local_repository import named_commit
from gitkruise.cli.context.next_commands import carrying
from gitkruise.wire.primitives.times import format_time

if TYPE_CHECKING:
    from gitkruise.cli.context.cluster import ChosenCluster
    from gitkruise.git.repository.repository import Repository
    from gitkruise.model.gitops.config import Config

_VERBS: Final = frozenset({"promote", "hold", "pause", "resume", "rollback"})
_PLANS: Final = 16  # that are kept: the plan of a commit against its parent stays the same


@dataclass(slots=True)
class Answers:
    """Computes answers outside the event loop, one at a time.

    `path` is the repository, "" without one; `config_path` a configuration that is not in it;
    `choice` how commands find the cluster.
    """

    chosen: ChosenCluster
    path: str
    config_path: Path | None
    choice: ClusterChoice = field(default_factory=ClusterChoice)
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)
    _plans: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    async def find_out(self, about: str) -> Mapping[str, Any] | None:
        """Answer `commit/ID`, `plan/ID`, `drift` or `forecast/VERB/NOUN/[NAMESPACE/]NAME`.

        None without a repository, or for another question. Raises GitkruiseError.
        """
        question, _, id_ = about.partition("/")
        if not self.path:
            return None
        if question == "drift" and not id_:
            async with self._one:
                return await self._drift()
        if question == "forecast":
            return await self._forecast(*id_.split("/"))
        from gitkruise.cli.views.history import COMMIT_ID  # noqa: PLC0415  imports the model

        ask = _OF_COMMIT.get(question)
        if ask is None or not COMMIT_ID.fullmatch(id_):
            return None
        async with self._one:
            return await ask(self, id_)

    async def commit(self, id_: str) -> Mapping[str, Any]:
        """Return a commit as git has it, with the approvals that it brings."""
        return await asyncio.to_thread(_commit_document, self.path, id_)

    async def plan(self, id_: str) -> Mapping[str, Any]:
        """Return the plan of a commit against its parent, from git alone."""
        from gitkruise.cli.context.commit_plan import plan_of_commit  # noqa: PLC0415  the model
        from gitkruise.cli.views.plan_page import plan_document  # noqa: PLC0415  the model
        from gitkruise.dashboard.rights import bounded  # noqa: PLC0415  imports msgspec

        full = await asyncio.to_thread(named_commit, self.path, id_)
        if full not in self._plans:
            given = await self._config(full)
            report = await asyncio.to_thread(plan_of_commit, self.path, full, given)
            bounded(self._plans, _PLANS)[full] = {
                **plan_document(report),
                "command": f"gitkruise plan {full[:7]}",
                "planned": format_time(self.chosen.clock.now()),
            }
        return self._plans[full]

    async def _drift(self) -> Mapping[str, Any]:
        from gitkruise.cli.views.history import drift_item  # noqa: PLC0415  imports libyaml
        from gitkruise.gitops.config.loader import load_config  # noqa: PLC0415  imports jsonschema
        from gitkruise.gitops.inspect.drift import compare  # noqa: PLC0415  imports the model
        from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

        given = load_config(self.config_path) if self.config_path else None
        found, known = await compare(
            self.path, "", given, load_catalog(),
            transport=self.chosen.transport, cluster=self.chosen.name,
        )  # fmt: skip
        return {
            "items": [drift_item(one) for one in found],
            "compared": len(known),
            "command": carrying("gitkruise drift", self.chosen.flags),
            "at": format_time(self.chosen.clock.now()),
        }

    async def _forecast(self, verb: str, *place: str) -> Mapping[str, Any] | None:
        """The edit that a command would make, and its plan."""
        from gitkruise.cli.context.commit_action import ActionOptions, foreseen  # noqa: PLC0415

        if verb not in _VERBS or len(place) not in {2, 3} or not all(place):
            return None
        noun, *space, name = place
        options = ActionOptions(
            verb=verb, object_name=f"{noun}/{name}", namespace="".join(space), unit="",
            repo=self.path, config_path=self.config_path, cluster=self.choice, dry_run=True,
        )  # fmt: skip
        async with self._one:
            found = await asyncio.to_thread(foreseen, options)
        return {**found, "at": format_time(self.chosen.clock.now())}

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


_OF_COMMIT: Final[Mapping[str, Callable[[Answers, str], Awaitable[Mapping[str, Any]]]]] = {
    "commit": Answers.commit,
    "plan": Answers.plan,
}


def _commit_document(path: str, id_: str) -> dict[str, Any]:
    from gitkruise.git.repository.repository import Repository  # noqa: PLC0415
    from gitkruise.gitops.reconcile.approval import approvals  # noqa: PLC0415  imports the model

    full = named_commit(path, id_)
    with Repository.open(path) as repository:
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
