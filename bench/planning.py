"""Cost of one planning round: observe and decide over very many pods, idle and rolling."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import count, cycle
from typing import Final

from bench.fleet import fleet, store_of
from bench.timing import Row, cpu
from gitkruise.kube.cache.list_watch import Feed, ObjectSeen
from gitkruise.kube.client.codec import decode, encode
from gitkruise.kube.client.rawobject import RawObject
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.cloneset.observe import observe_cloneset
from gitkruise.planner.cloneset.plan import plan_cloneset
from gitkruise.wire.primitives.requests import PODS
from tests.worlds import START

GOAL_MS: Final = 150.0  # for 10,000 pods, and ten times that for ten times as many
CHANGE_MS: Final = 5.0  # for one change among 10,000 pods
NOW: Final = START + timedelta(hours=2)
SIZES: Final = (1_000, 10_000, 100_000)


def rows() -> Iterator[Row]:
    for rolling in (0, 500):
        for size in SIZES:
            yield _round(size, rolling)
    yield _change(10_000)


def _change(size: int) -> Row:
    """A round after one of the pods reported that it is ready, or no longer ready."""
    made = fleet(size)
    store, feed = store_of(made, size), Feed(ref=PODS, kind="Pod")
    (raw,) = made.pods(1)
    versions = count(10**9 + 1)
    words = cycle(("False", "True"))

    def work() -> None:
        pod = decode(raw)
        pod["metadata"]["resourceVersion"] = str(next(versions))
        (ready,) = (c for c in pod["status"]["conditions"] if c["type"] == "Ready")
        ready["status"] = next(words)
        store.apply(feed, ObjectSeen(RawObject(encode(pod), api_version="v1", kind="Pod")))
        snapshot = observe_cloneset(store, made.key, NOW)
        assert snapshot is not None
        assert len(snapshot.pods) == size
        assert not plan_cloneset(snapshot, Gates()).actions

    return Row(
        name=f"planning round, {size:,} pods, one changed",
        value=cpu(work, repeats=5) * 1000,
        unit="ms",
        limit=CHANGE_MS,
    )


def _round(size: int, rolling: int) -> Row:
    made = fleet(size, rolling=rolling)
    store = store_of(made, size)

    def work() -> int:
        snapshot = observe_cloneset(store, made.key, NOW)
        assert snapshot is not None
        assert len(snapshot.pods) == size
        return len(plan_cloneset(snapshot, Gates()).actions)

    assert work() == min(rolling, size), "the fleet differs from the one asked for"
    kind = f"{rolling} patches" if rolling else "idle"
    return Row(
        name=f"planning round, {size:,} pods, {kind}",
        value=cpu(work, repeats=5) * 1000,
        unit="ms",
        limit=GOAL_MS * size / 10_000 if size >= 10_000 else None,
    )
