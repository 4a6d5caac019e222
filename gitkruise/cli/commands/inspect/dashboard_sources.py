"""Sources of the dashboard's answers: a repository of this machine, or a running controller."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from gitkruise.cli.context.charts import chart_fetcher
from gitkruise.cli.context.cluster import ChosenCluster, ClusterChoice, units_following
from gitkruise.cli.context.commit_action import ActionOptions, foreseen, query_of
from gitkruise.cli.context.commit_plan import fetched_head, page_of_commit, proposed_commit
from gitkruise.cli.context.local_repository import named_commit
from gitkruise.errors import Finding, UsageProblem
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.actions import ActionVerb
from gitkruise.gitops.config.loader import load_config
from gitkruise.gitops.inspect.drift import DriftComparison, compare
from gitkruise.gitops.preview.inputs import config_here
from gitkruise.gitops.reconcile.approval import approvals
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.printable import visible, visible_lines
from gitkruise.wire.primitives.names import CONFIG_FILE
from gitkruise.wire.primitives.times import format_time

if TYPE_CHECKING:
    from gitkruise.gitops.build.untrusted import PagePart
    from gitkruise.gitops.notify.pull_request_plan import ProposedCommit, PullRequestPlanner
    from gitkruise.gitops.runtime.fleet_questions import RunningFleet
    from gitkruise.gitops.runtime.foreseen_edits import ForeseenEdit
    from gitkruise.gitops.workers.frames import PlanPage
    from gitkruise.model.gitops.config import Config
    from gitkruise.model.gitops.notifications import Pull


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


PULL: Final = re.compile("[1-9][0-9]{0,9}")


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

    async def page(self, full: str, part: PagePart) -> PlanPage:
        """Return the plan or the diff of a commit against its first parent, from git alone."""
        ...

    def listed(self) -> Mapping[str, Any]:
        """Return the open pull requests that are known, and the places of others, as rows by the
        first part of their pages' paths; and `forge` for each list of them, with its problem."""
        ...

    async def proposed(self, kind: str, place: str) -> ProposedCommit | None:
        """Return the head of a pull request (`pr`) or a branch (`branch`) by its place on the
        pages; None for one that cannot be."""
        ...

    async def drift(self) -> DriftComparison:
        """Compare live objects with git now; a unit that cannot be read hides no other."""
        ...

    async def foreseen(self, edit: AskedEdit) -> ForeseenEdit:
        """Return the edit that a command would make, and its preview. Raises NothingToDo."""
        ...


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

    async def page(self, full: str, part: PagePart) -> PlanPage:
        given = await self._config(full)
        return await asyncio.to_thread(page_of_commit, self.path, full, given, part)

    def listed(self) -> Mapping[str, Any]:
        """No forge is asked, so that users name what they look for."""
        return {kind: {"owner": "", "into": "", "units": []} for kind in ("pr", "branch")}

    async def proposed(self, kind: str, place: str) -> ProposedCommit | None:
        """Fetch the head from the remote of the clone, whose branches stay as they are."""
        if kind == "pr" and not PULL.fullmatch(place):
            return None
        head = await asyncio.to_thread(fetched_head, self.path, kind, place)
        name = f"{'branch' if kind == 'branch' else 'pull request'} {place}"
        given = await self._config(head)
        return await asyncio.to_thread(proposed_commit, self.path, name, head, given)

    async def drift(self) -> DriftComparison:
        given = load_config(self.config_path) if self.config_path else None
        return await compare(
            self.path, "", given, load_catalog(),
            transport=self.chosen.transport, charts=chart_fetcher(self.chosen.clock),
            cluster=self.chosen.name,
        )  # fmt: skip

    async def foreseen(self, edit: AskedEdit) -> ForeseenEdit:
        options = ActionOptions(
            verb=edit.verb, object_name=f"{edit.noun}/{edit.name}", namespace=edit.namespace,
            unit="", repo=self.path, config_path=self.config_path, cluster=self.choice,
            dry_run=True, partition=edit.partition,
        )  # fmt: skip
        return await asyncio.to_thread(foreseen, options)

    def _commit(self, id_: str) -> dict[str, Any]:
        full = named_commit(self.path, id_)
        with Repository.open(self.path) as repository:
            return commit_document(repository, full)

    async def _config(self, commit: str) -> Config | None:
        """Return the units that are not in the repository: of a file, or of the cluster."""
        with Repository.open(self.path) as repository:
            if self.config_path is not None:
                return config_here(repository, commit, load_config(self.config_path))
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

    async def page(self, full: str, part: PagePart) -> PlanPage:
        fleet = self._leading()
        return await fleet.page(await fleet.followed(full), part)

    def listed(self) -> Mapping[str, Any]:
        fleet = self.fleet()
        if fleet is None:
            return {}
        pulls = {
            f"pr/{sink}/{pull.number}": _pull_row(sink, pull, planner)
            for sink, pull, planner in fleet.pulls()
        }
        branches = {
            f"branch/{source}": _place_row(source, branch, units)
            for source, branch, units in fleet.branches()
        }
        forges = {
            f"forge/{sink}": {**_place_row(sink, "", units), "problem": problem}
            for sink, units, problem in fleet.looks()
        }
        return {**pulls, **branches, **forges}

    async def proposed(self, kind: str, place: str) -> ProposedCommit | None:
        """`place` is NAMESPACE/SINK/NUMBER of a pull request, NAMESPACE/SOURCE/NAME of a branch."""
        namespace, owner, rest = [*place.split("/", 2), "", ""][:3]
        if not rest or (kind == "pr" and not PULL.fullmatch(rest)):
            return None
        fleet, name = self._leading(), f"{namespace}/{owner}"
        if kind == "branch":
            return await fleet.branch(name, rest)
        return await fleet.pull(name, int(rest))

    async def drift(self) -> DriftComparison:
        return await self._leading().drift()

    async def foreseen(self, edit: AskedEdit) -> ForeseenEdit:
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
                        ("why", "it starts, waits for the lease, or has no shard"),
                        ("next", "try again, or open the dashboard of the process that leads"),
                    ),
                )
            )
        return fleet


def _pull_row(sink: str, pull: Pull, planner: PullRequestPlanner) -> Mapping[str, Any]:
    about = {"number": pull.number, "title": visible(pull.title), "head": pull.head}
    place = _place_row(sink, planner.branch, sorted(planner.config.units))
    return {**place, **about, "branch": visible(pull.branch)}


def _place_row(owner: str, into: str, units: Sequence[str]) -> Mapping[str, Any]:
    return {"owner": owner, "into": into, "units": units}


def commit_document(repository: Repository, full: str) -> dict[str, Any]:
    """Return a commit as git has it, with the approvals that it brings. Blocking."""
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
    return visible_lines(repository.message(commit))
