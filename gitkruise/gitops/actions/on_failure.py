"""The rollback that a unit requests (`onFailure`) for a failed rollout or for failed measurements,
proposed or pushed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from gitkruise.errors import ApiError, DiagnosticError, Finding, Severity
from gitkruise.git.plumbing.errors import RefMoved
from gitkruise.gitops.actions.actions import ActionArgs, ActionVerb
from gitkruise.gitops.actions.hold import action_of
from gitkruise.gitops.actions.loop import Following, error_line, keep_looking
from gitkruise.gitops.actions.proposals import ActionProposal, ActionRequest, Proposer
from gitkruise.gitops.actions.pull_requests import ActionPullRequests, action_branch
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.status.unit_status import Reporter
from gitkruise.model.gitops.config import Unit
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.notifications import Pull
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import SETTLED, STUCK_FOR, State
from gitkruise.planner.analysis.schedule import blocks
from gitkruise.planner.notify.comment import plain
from gitkruise.planner.report.rollout_steps import failed_commits
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import ObjectKey, named

log = logging.getLogger(__name__)
CODE: Final = "GK3505"
BRANCHES: Final = "revert"  # of pull requests that propose a rollback
_CHANNEL: Final = "onFailure"
LOOK: Final = timedelta(seconds=30)  # at a pull request of ours
RECOVERED: Final = timedelta(minutes=5)  # as git asks; earlier it may fail again


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The workload to roll back, why, and further lines of the commit."""

    key: ObjectKey
    why: str
    trailers: tuple[tuple[str, str], ...] = ()


class FailureHandler:
    """Goes back for one unit, once for each commit that got stuck or was measured to be bad.

    A rollback that gets stuck itself is left to people. Nothing is remembered: the commit that
    failed is the record's, and a pull request is known by the name of its branch.
    """

    def __init__(
        self,
        unit: Unit,
        following: Following,
        reporter: Reporter,
        proposer: Proposer,
        *,
        pull_requests: ActionPullRequests | None = None,
        has_news: Callable[[str], bool],
        containment: Containment = UNREPORTED,
    ) -> None:
        self._unit, self._following, self._reporter = unit, following, reporter
        self._proposer, self._pull_requests, self._has_news = proposer, pull_requests, has_news
        self._clock = proposer.clock
        self._wake = asyncio.Event()
        self._containment = containment
        self._done = ""  # the commit that was seen to
        self._proposed = ""  # the branch whose pull request proposes its rollback
        self._recovered = ""  # the commit at which no rollback is proposed any more
        self._seen: tuple[object, float] | None = None  # a state of the unit, and since when
        reporter.listen(lambda _: self._wake.set())

    async def run(self) -> None:
        """Until cancelled."""
        await keep_looking(
            self.look, self._failed, self._wake, self._clock,
            seed=self._unit.id, containment=self._containment,
        )  # fmt: skip

    @property
    def _failure(self) -> Failure | None:
        record = self._reporter.record
        return measured_badly(record) or stuck_rollout(record)

    def _failed(self, error: RefMoved | DiagnosticError | ApiError) -> float:
        if not isinstance(error, RefMoved):
            what = "rollbacks that are over cannot be withdrawn"
            if self._failure is not None:
                proposed = f"the pull request of {self._proposed} cannot be read"
                what = proposed if self._proposed else "the rollback cannot be prepared"
            self._say(f"{what}: {error_line(error)}")
        return 2.0

    async def look(self) -> timedelta | None:
        """Go back if it is time; how long nothing is to be done without news."""
        record, now = self._reporter.record, self._clock.now()
        failure = self._failure
        causal, live = record.causal, self._following.live_commit
        if failure is None or causal is None:
            left = await self._retire(record, causal)
            self._say("")
            return left
        if self._done == causal.id:
            return await self._follow(causal)
        if self._unit.spec.suspended(now) is not None:
            return None
        left = (
            timedelta() if measured_badly(record) is not None else STUCK_FOR - self._lasting(record)
        )
        if left > timedelta():
            return left
        if not live or self._has_news(self._unit.id):
            return timedelta(seconds=1)
        await self._go_back(failure, causal, live)
        return LOOK if self._proposed else None

    def _lasting(self, record: UnitRecord) -> timedelta:
        """Return how long the unit is known to be in its state: the wall clock may be set."""
        mark, now = (record.causal, record.state, record.since), self._clock.monotonic()
        if self._seen is None or self._seen[0] != mark:
            self._seen = mark, now
        return timedelta(seconds=now - self._seen[1])

    async def _retire(self, record: UnitRecord, causal: GitCommit | None) -> timedelta | None:
        """Withdraw proposed rollbacks of a unit that recovered; how long it has to stay so."""
        if self._pull_requests is None or causal is None:
            return None
        if record.state not in SETTLED or self._recovered == causal.id:
            return None
        left = RECOVERED - self._lasting(record)
        if left > timedelta():
            return left
        why = f"{plain(self._unit.id)} is {record.state} at {causal.short}: it has recovered."
        prefix = action_branch(BRANCHES, record, "")
        await self._pull_requests.retire(prefix, "", ActionVerb.ROLLBACK, None, why)
        self._recovered, self._done, self._proposed = causal.id, "", ""
        return None

    async def _follow(self, causal: GitCommit) -> timedelta | None:
        """Say what has become of the pull request; how long nothing is to be done without news."""
        if self._pull_requests is None or not self._proposed:
            return None
        pull = await self._pull_requests.found(self._proposed)
        if pull is not None:
            self._say(_became(causal, pull), pull)
        return LOOK

    async def _go_back(self, failure: Failure, causal: GitCommit, live: str) -> None:
        repository, record = self._proposer.repository, self._reporter.record
        await asyncio.to_thread(repository.fetch, self._proposer.ref)
        action = await asyncio.to_thread(action_of, repository, causal.id, failure.key)
        if action == ActionVerb.ROLLBACK:
            self._done, self._proposed = causal.id, ""
            self._say(f"{causal.short} is a rollback already: what now is for people to say")
            return
        name = f"{failure.key.name}-{causal.short}"
        branch = action_branch(BRANCHES, record, name)
        pull = await self._pull_requests.found(branch) if self._pull_requests is not None else None
        if pull is None:
            steps = dict(record.steps).get(failure.key, ())
            act = ActionRequest(
                verb=ActionVerb.ROLLBACK,
                key=failure.key,
                args=ActionArgs(failed=failed_commits(steps)),
                trailers=failure.trailers,
            )
            proposal = await self._proposer.propose(act, live)
            same = self._reporter.record.causal == causal and not self._has_news(self._unit.id)
            if proposal is None or not same:
                self._wake.set()
                return
            pull = await self._deliver(proposal, branch, failure)
            subject = proposal.subject
            log.warning(log_line("rollback-proposed", unit=self._unit.id, subject=subject))
        if self._pull_requests is not None and pull is not None:
            prefix, why = action_branch(BRANCHES, record, ""), f"Overtaken by #{pull.number}."
            await self._pull_requests.retire(prefix, branch, ActionVerb.ROLLBACK, failure.key, why)
        self._done, self._proposed = causal.id, branch if pull is not None else ""
        self._recovered = ""
        if pull is not None:
            self._say(_became(causal, pull), pull)

    async def _deliver(
        self, proposal: ActionProposal, branch: str, failure: Failure
    ) -> Pull | None:
        """Return its pull request; None for a push."""
        if self._pull_requests is None:
            await asyncio.to_thread(self._proposer.push, proposal)
            return None
        body = f"{failure.why}\n\n{plain(proposal.edit.why)}"
        return await self._pull_requests.make(branch, proposal, body)

    def _say(self, words: str, pull: Pull | None = None) -> None:
        finding = None
        if words:
            failure = self._failure
            next_ = "check that the forge answers, and that the token may close pull requests"
            if failure is not None:
                next_ = f"gitkruise rollback {named(failure.key)}"
            if pull is not None and pull.state == "open":
                next_ = f"merge {pull.url}"
            finding = Finding(
                code=CODE,
                message=f"onFailure: {words}",
                notes=(
                    ("unchanged", "what runs stays as git asks for it"),
                    ("next", next_),
                ),
                severity=Severity.WARNING,
            )
        self._reporter.remark(_CHANNEL, finding)


def _became(causal: GitCommit, pull: Pull) -> str:
    """Return what has become of the proposed rollback of a commit."""
    if pull.state == "closed":
        return f"{causal.short} failed; the pull request of its rollback was closed: {pull.url}"
    merged = pull.state == "merged"
    return (
        f"{causal.short} failed; the rollback is {pull.state if merged else 'proposed'}: {pull.url}"
    )


def stuck_rollout(record: UnitRecord) -> Failure | None:
    """Return the first stuck rollout of a stuck unit; None for any other unit."""
    stuck = next((r for r in record.rollouts if r.state is State.STUCK), None)
    if stuck is None or record.state is not State.STUCK:
        return None
    return Failure(key=stuck.key, why=plain(f"{stuck.key} is stuck: {stuck.message}"))


def measured_badly(record: UnitRecord) -> Failure | None:
    """Return the workload whose measurements failed at the step where it is now.

    A step that a user takes in spite of them, and a new revision, are left alone. The run is that
    of this process or of its memory in the cluster, never one of the status branch.
    """
    promotion, run = record.promotion, record.analysis
    if promotion is None or run is None or not run.phase.bad:
        return None
    bad = ", ".join(f"{one.name} {one.phase}" for one in run.metrics if one.phase.bad)
    return Failure(
        key=promotion.key,
        why=plain(f"{promotion.key}, step {run.step}: {blocks(run)}"),
        trailers=(("Gitkruise-Analysis", bad), ("Gitkruise-Pods", str(run.pods))),
    )
