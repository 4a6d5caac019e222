"""Laws of a Deployment's rollout with a canary, over random edits, failures and restarts.

A case is a Deployment and a list of moments. In each a user may edit it, pods become available or
fail, and the controller syncs, possibly ending after its first writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gitkruise.model.planning.amounts import bounds
from gitkruise.model.planning.canary import ARMED, GATE, canary_of
from tests.laws.examples import one_in
from tests.planner.builtin.played import Played, started, version_of

CANARIES: Final = (None, "0", "1", "3", "5", "10%", "30%", "60%", "99%", "100%", "40")
VERSIONS: Final = ("v1", "v2", "v3", "v4")
AMOUNTS: Final = (0, 1, 2, 5, "10%", "25%", "50%")
APPROVALS_MAX: Final = 8

EDITS: Final = st.one_of(
    st.builds(lambda v: {"image": v}, st.sampled_from(VERSIONS)),
    st.builds(lambda v: {"image": v, "paused": False}, st.sampled_from(VERSIONS)),
    st.builds(lambda n: {"replicas": n}, st.integers(0, 24)),
    st.builds(lambda c: {"canary": c}, st.sampled_from(CANARIES)),
    st.builds(lambda c: {"canary": c, "paused": False}, st.sampled_from(CANARIES)),
    st.builds(lambda p: {"paused": p}, st.booleans()),
)


@dataclass(frozen=True)
class Moment:
    """What happens before a sync. `ready` is the share of each version's pods that serve."""

    edit: dict[str, Any] | None
    ready: dict[str, float]
    writes: int | None  # after which the controller ends; None: it goes on
    syncs: int


MOMENTS: Final = st.builds(
    Moment,
    edit=st.none() | EDITS,
    ready=st.dictionaries(st.sampled_from(VERSIONS), st.sampled_from((0.0, 0.4, 1.0)), max_size=2),
    writes=st.none() | st.integers(0, 2),
    syncs=st.integers(1, 6),
)


@dataclass
class Judge:
    """A Deployment that is played, and the rules that each sync of it must keep."""

    played: Played
    ready: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.played.available = self._available

    def _available(self, one: Any) -> int:
        """Pods that serve: those that did and were not removed, and a share of the others."""
        wanted: int = one["spec"]["replicas"]
        status = one.get("status") or {}
        kept = min(status.get("availableReplicas") or 0, wanted)
        share = self.ready.get(version_of(one), 1.0)
        return max(0, min(wanted, round(wanted * share) if share < 1 else wanted, kept + 2))

    def serving(self) -> int:
        """Pods that serve at least once all deletions so far took place."""
        return sum(
            min(o["spec"]["replicas"], (o.get("status") or {}).get("availableReplicas") or 0)
            for o in self.played.sets
        )

    def sync(self, writes: int | None) -> bool:
        played = self.played
        spec = played.raw["spec"]
        wanted, total = spec["replicas"], sum(played.sizes.values())
        allowed = bounds(spec["strategy"], wanted)
        paused, serving, marked = played.paused, self.serving(), played.paused_by_canary
        noted = [
            o["metadata"]["annotations"]["deployment.kubernetes.io/desired-replicas"]
            for o in played.sets
            if o["spec"]["replicas"]
        ]
        scaling = any(note != str(wanted) for note in noted)
        sizes = played.sizes
        moved = played.sync(writes=writes)
        after = sum(played.sizes.values())
        assert after <= max(total, wanted + allowed.surge)
        if not paused and not scaling:
            least = wanted - min(allowed.unavailable, wanted)
            assert self.serving() >= min(serving, least), (sizes, played.sizes)
            self.check_gate(sizes, wanted)
        if played.paused_by_canary and not marked:
            self.check_pause(wanted)
        if marked and total == wanted and paused:
            assert played.sizes == sizes
        return moved

    def check_gate(self, before: dict[str, int], wanted: int) -> None:
        """An unapproved template gets no more pods than its canary has."""
        canary = canary_of(self.played.raw["metadata"]["annotations"])
        limit = canary.pods(wanted) if canary else None
        newest = version_of(self.played.raw)
        olds = sum(n for version, n in before.items() if version != newest)
        new = next((o for o in self.played.sets if version_of(o) == newest), None)
        if limit is not None and olds and new and new["metadata"]["annotations"].get(GATE) == ARMED:
            assert new["spec"]["replicas"] <= max(limit, before.get(newest, 0))

    def check_pause(self, wanted: int) -> None:
        """A canary pauses at the requested pods of the new template, without surge."""
        played = self.played
        canary = canary_of(played.raw["metadata"]["annotations"])
        limit = canary.pods(wanted) if canary else None
        assert limit is not None
        new = played.sizes[version_of(played.raw)]
        assert sum(played.sizes.values()) == wanted
        assert limit <= new < wanted

    def settle(self) -> None:
        """Sync until nothing is written: after all that happened, no sync writes again."""
        self.ready = {}
        self.played.step_kubelets()
        for _ in range(200):
            moved = self.sync(None)
            before = self.counts()
            self.played.step_kubelets()
            if not moved and self.counts() == before:
                break
        else:
            raise AssertionError(f"never quiet: {self.played.line}")
        writes = self.played.writes
        assert self.played.settle() == [self.played.line]
        assert self.played.writes == writes

    def counts(self) -> list[Any]:
        return [o.get("status") for o in self.played.sets]


@settings(max_examples=5 * one_in(1))
@given(
    replicas=st.integers(1, 16),
    surge=st.sampled_from(AMOUNTS),
    down=st.sampled_from(AMOUNTS),
    canary=st.sampled_from(CANARIES),
    moments=st.lists(MOMENTS, min_size=1, max_size=12),
)
def test_a_rollout_keeps_its_bounds_and_ends_as_asked(
    replicas: int, surge: Any, down: Any, canary: str | None, moments: list[Moment]
) -> None:
    assume(str(surge).strip("%0") or str(down).strip("%0"))  # admission rejects 0 for both
    judge = Judge(started(replicas, surge, down, canary))
    for moment in moments:
        if moment.edit is not None:
            judge.played.edit(**moment.edit)
        judge.ready = moment.ready
        judge.played.step_kubelets()
        for number in range(moment.syncs):
            judge.sync(moment.writes if number == 0 else None)
            judge.played.step_kubelets()
    for _ in range(APPROVALS_MAX):
        judge.settle()
        if not judge.played.paused:
            break
        judge.played.edit(paused=False)
    wanted = judge.played.raw["spec"]["replicas"]
    newest = version_of(judge.played.raw)
    rest = {v: n for v, n in judge.played.sizes.items() if n}
    assert not judge.played.paused
    assert rest == ({newest: wanted} if wanted else {})
