"""The plan of a pull request, as `gitkruise plan` makes it, against what is live."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gitkruise.errors import Finding, InvalidManifests
from gitkruise.git.repo import Repository
from gitkruise.gitops.live import LiveView
from gitkruise.gitops.plan_markdown import fenced, plan_markdown
from gitkruise.gitops.plan_report import report_of
from gitkruise.gitops.planning import Side, read_side
from gitkruise.gitops.prospect import live_preview, offline_preview
from gitkruise.kube.clock import Clock
from gitkruise.model.change import ChangeKind
from gitkruise.model.config import Config
from gitkruise.model.settings import Gates
from gitkruise.model.telling import Pull, PullStory
from gitkruise.planner.sync.report_words import summary
from gitkruise.planner.telling.comment import PLAN_MAX

_FINDINGS: Final = 10
_BROUGHT_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Foretold:
    """A story with its plan, and the plan in a few words."""

    story: PullStory
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreteller:
    """Plans pull requests into one branch of one repository, for the units of `config`."""

    repository: Repository
    branch: str
    config: Config
    live: LiveView
    cluster: str
    gates: Gates
    clock: Clock

    async def foretell(self, pull: Pull, ref: str) -> Foretold:
        """The plan for the head of `pull`, which is kept under `ref`.

        Raises SourceFailed when git cannot be asked, ApiError when the cluster cannot.
        """
        base = await asyncio.to_thread(self._base, pull, ref)
        story = PullStory(
            number=pull.number, state="open", head=pull.head, branch=pull.base, base=base
        )
        try:
            before, after = await asyncio.to_thread(self._sides, base, pull.head)
        except InvalidManifests as error:
            return Foretold(_unplanned(story, error.findings))
        errors = [f for f in after.findings if f.severity == "error"]
        if errors:
            return Foretold(_unplanned(story, errors))
        catalog = self.live.catalog
        if pull.foreign:  # strangers learn nothing of what is live
            preview = await asyncio.to_thread(offline_preview, before, after, catalog, self.gates)
        else:
            where = (self.live.transport, self.clock.now())
            preview = await live_preview(where, before, after, catalog, self.gates)
        report = report_of(preview, before, after, cluster="" if pull.foreign else self.cluster)
        moved = any(c.kind is not ChangeKind.UNCHANGED and not c.drift for c in preview.changes)
        if any(f.severity == "error" for f in preview.unplayed):
            return Foretold(_unplanned(story, preview.unplayed))
        plan = plan_markdown(report, limit=PLAN_MAX)
        story = PullStory(
            number=pull.number, state="open", head=pull.head, branch=pull.base, base=base,
            plan=plan, touches=moved,
        )  # fmt: skip
        return Foretold(story, summary(report))

    def brought(self, story: PullStory, merged_as: str) -> tuple[str, ...]:
        """The commits that a merge brought to the branch. Blocking. Raises SourceFailed."""
        self.repository.fetch(f"refs/heads/{self.branch}")
        found = {merged_as, story.head}
        parents = self.repository.commit(merged_as).parents
        if len(parents) > 1:
            between = self.repository.commits_between(parents[0], merged_as, limit=_BROUGHT_MAX)
            found |= {commit.id for commit in between}
        if story.base and self.repository.is_ancestor(story.head, merged_as):
            between = self.repository.commits_between(story.base, story.head, limit=_BROUGHT_MAX)
            found |= {commit.id for commit in between}
        return tuple(sorted(found))

    def _base(self, pull: Pull, ref: str) -> str:
        """Where the pull request left the branch; both ends are here after it."""
        tip = self.repository.fetch(f"refs/heads/{self.branch}")
        if not self.repository.here(pull.head):
            self.repository.fetch(ref)
        return self.repository.merge_base(tip, pull.head)

    def _sides(self, base: str, head: str) -> tuple[Side | None, Side]:
        rules = (self.config, self.live.catalog, self.gates)
        before = read_side(self.repository, base, *rules) if base else None
        return before, read_side(self.repository, head, *rules)


def _unplanned(story: PullStory, findings: Sequence[Finding]) -> PullStory:
    told = [f"{f}" for f in findings[:_FINDINGS]]
    more = len(findings) - _FINDINGS
    lines = [*told, *([f"… and {more} more"] if more > 0 else [])]
    failed = "It would not be applied; what is live would stay.\n\n" + fenced("text", lines)
    return PullStory(
        number=story.number, state="open", head=story.head, branch=story.branch, base=story.base,
        failed=failed, touches=True,
    )  # fmt: skip
