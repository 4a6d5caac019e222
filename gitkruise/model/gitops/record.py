"""Record of a unit, its objects and its rollouts: the one source that every sink reads.

A record carries no heartbeat and no resourceVersion: nothing in it changes without news.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from gitkruise.errors import Finding
from gitkruise.model.gitops.analysis import AnalysisRun
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.promotion import PromotionRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import ObjectKey

APPROVAL: Final = "approval ("  # how `UnitRecord.waits` begins where a person is waited for
UNSEEN: Final = "the controller has not seen the newest spec yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionCount:
    """Pods of one revision. `role` is update, current or other; `hash` is the short form."""

    hash: str
    role: str
    pods: int
    available: int
    commit: str = ""  # that introduced it, if the ControllerRevision records one
    images: tuple[tuple[str, str], ...] = ()  # (container, image)


@dataclass(frozen=True, slots=True)
class PodRecord:
    """One pod of a rollout: `revision` is the short hash it runs, `state` is Ready, NotReady, or
    Terminating."""

    name: str
    revision: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """Progress of one CloneSet, SidecarSet or Deployment against what git requests.

    `asked` is how many pods should be on the update revision; `updating` are on it and not
    available yet. `failing` are (pod, why) of updated pods that cannot start for a container that
    the workload brings, `hindered` of those that cannot for a container of another object.
    `refused` is what the API server answered to writes of pods. Unless `generation_seen`, all of
    them are of the spec before: the commit is not applied yet, or the controller has not seen it.
    """

    key: ObjectKey
    state: State
    message: str
    replicas: int
    partition: str  # as written: "4", "60%" or "0"
    kept: int  # pods the partition keeps on the current revision
    asked: int
    updated: int
    updated_ready: int
    ready: int
    total: int
    available: int
    budget: int  # maxUnavailable, resolved
    in_place: bool
    update_revision: str
    current_revision: str
    revisions: tuple[RevisionCount, ...] = ()
    failing: tuple[tuple[str, str], ...] = ()
    hindered: tuple[tuple[str, str], ...] = ()
    refused: str = ""
    generation_seen: bool = True
    engine: str = "own"
    pods: tuple[PodRecord, ...] = ()  # by name; none where there are too many to be read
    members: frozenset[str] = frozenset()  # uids of the pods in `total`
    behind: frozenset[str] = frozenset()  # of those not in `updated`
    unready: frozenset[str] = frozenset()  # of those not in `ready`
    canary: str = ""  # of a Deployment, as written, while it holds or will hold its rollout

    @property
    def innocent(self) -> bool:
        """Return whether only containers of other objects keep its pods from starting."""
        return bool(self.hindered) and not self.failing

    @property
    def gate(self) -> str:
        """Return what holds it: `partition 60%`, or `canary 30%` of a Deployment."""
        return f"canary {self.canary}" if self.canary else f"partition {self.partition}"


class PodCounts(NamedTuple):
    """Pods of several rollouts, each once: a SidecarSet's are also those of their workloads.

    One is updated, or ready, if all its rollouts say so.
    """

    updated: int
    ready: int
    total: int


def pod_counts(rollouts: Iterable[Rollout]) -> PodCounts:
    """Count the pods of `rollouts`. Before the spec was seen none is known to be updated."""
    members: set[str] = set()
    behind: set[str] = set()
    unready: set[str] = set()
    unnamed = [0, 0, 0]  # pods without a uid are taken for different ones
    for r in rollouts:
        old = r.members if not r.generation_seen else r.behind
        updated = r.updated if r.generation_seen else 0
        members |= r.members
        behind |= old
        unready |= r.unready
        unnamed[0] += r.total - len(r.members)
        unnamed[1] += r.total - updated - len(old)
        unnamed[2] += r.total - r.ready - len(r.unready)
    total = len(members) + unnamed[0]
    return PodCounts(total - len(behind) - unnamed[1], total - len(unready) - unnamed[2], total)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutStep:
    """One commit's share in the life of a rollout: what it changed, asked for, and got."""

    commit: GitCommit
    change: str  # `partition 60% → 30%`
    revision: str
    partition: str
    asked: int
    replicas: int
    started: datetime
    state: State
    updated: int
    done: datetime | None = None
    message: str = ""

    @property
    def title(self) -> str:
        """Its change, or the subject of a commit that changed nothing of the rollout."""
        return self.change or self.commit.subject


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRecord:
    """One object of a unit as git's reader should know it."""

    key: ObjectKey
    state: State
    digest: str = ""  # "" for Secrets: a digest could be guessed from
    commit: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRecord:
    """One field that differs from git and is not being corrected.

    `manager` is who set it, as far as managedFields show, and `written` when it last wrote.
    """

    key: ObjectKey
    field: str
    git: str
    live: str
    manager: str = ""
    written: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervention:
    """A change of an object that no commit explains: `reason` is DriftCorrected, TakenOver or
    Pruned, `text` names the fields and managers, or the volumes that went with the object."""

    at: datetime
    key: ObjectKey
    reason: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Deletion policy for a unit's objects when the unit leaves the configuration.

    `policy` is MirrorPrune, Delete, WaitForTermination or Orphan; MirrorPrune of a unit that
    prunes nothing is Orphan. `limit` is prune.maxDelete; `account` the service account that
    deletes, as namespace/name, "" for gitkruise's own rights.
    """

    policy: str
    propagation: str = "Foreground"
    timeout: timedelta = timedelta(minutes=5)
    limit: int = 10
    account: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRecord:
    """The chart of a repository of charts that a unit is rendered from; `digest` is the SHA-256 of
    its archive."""

    repository: str
    name: str
    version: str
    digest: str

    def __str__(self) -> str:
        return f"chart {self.name} {self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRecord:
    """A base in another repository that a unit is rendered from, and the commit that `ref` names in
    it."""

    url: str
    ref: str
    commit: str

    def __str__(self) -> str:
        return f"base {self.named} of {self.url}"

    @property
    def named(self) -> str:
        """Return `v1.2 at 4f2c9e1`, or the commit alone where `ref` is its id."""
        at = f"{self.ref} at " if self.ref != self.commit else ""
        return f"{at}{self.commit[:7]}"


def commit_about(
    state: State, waits: str, *, attempted: GitCommit | None, live: GitCommit | None
) -> GitCommit | None:
    """Return the commit that the state of a unit is about."""
    rejected = state is State.REJECTED or (state is State.WAITING and waits)
    return attempted if rejected else live


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRecord:
    """Everything known about one unit.

    `attempted` is the newest commit looked at, `causal` the one that last changed this unit's
    content, `sent` the last one all of which was sent, `applied` the last one that was well, too.
    `waits` is what `attempted` waits for before all of it is carried out; "" unless it waits.
    """

    unit: str
    cluster: str
    source: str  # branch or other ref
    state: State
    message: str
    since: datetime
    path: str = ""  # the unit's folder, "." for the root; "" in records of earlier versions
    attempted: GitCommit | None = None
    applied: GitCommit | None = None
    sent: GitCommit | None = None
    causal: GitCommit | None = None
    objects: tuple[ObjectRecord, ...] = ()
    rollouts: tuple[Rollout, ...] = ()
    steps: tuple[tuple[ObjectKey, tuple[RolloutStep, ...]], ...] = ()
    drift: tuple[DriftRecord, ...] = ()
    findings: tuple[Finding, ...] = ()
    superseded: tuple[tuple[GitCommit, str], ...] = ()  # (commit, id of the one that overtook it)
    removal: Removal | None = None  # unknown in records of earlier versions
    promotion: PromotionRecord | None = None  # of units that have one
    waits: str = ""
    interventions: tuple[Intervention, ...] = ()  # the newest, oldest first
    chart: ChartRecord | None = None  # of `causal`, where git does not contain it
    bases: tuple[BaseRecord, ...] = ()  # of `causal`

    @property
    def asks_for_approval(self) -> bool:
        """Return whether nothing but a person lets the unit go on."""
        return self.waits.startswith(APPROVAL)

    @property
    def about(self) -> GitCommit | None:
        """Return the commit that state and message are about: one that was rejected or waits, or
        the live one."""
        live = self.causal or self.applied
        return commit_about(self.state, self.waits, attempted=self.attempted, live=live)

    @property
    def analysis(self) -> AnalysisRun | None:
        """Return the measurements of the step and the revision where the promotion is now.

        Before the spec of a new commit was seen, the revision is still that of the commit before.
        """
        promotion = self.promotion
        run = promotion.analysis if promotion is not None else None
        if promotion is None or run is None or run.left or run.step != promotion.step:
            return None
        rollout = next((r for r in self.rollouts if r.key == promotion.key), None)
        if rollout is None or not rollout.generation_seen:
            return None
        return run if rollout.update_revision.rpartition("-")[2] == run.revision else None

    @property
    def counted(self) -> bool:
        """Return whether pods were counted against the spec of `causal`."""
        return all(r.generation_seen for r in self.rollouts)

    @property
    def updated(self) -> int:
        """Return how many pods are known to run what `causal` wants."""
        return pod_counts(self.rollouts).updated

    @property
    def total(self) -> int:
        return pod_counts(self.rollouts).total
