"""Cost of one planning round of a SidecarSet: observe and decide over ten thousand pods."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from bench.fleet import listed
from bench.timing import Row, cpu
from gitkruise.kube.client.rawobject import RawObject
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import SIDECARSET
from gitkruise.model.workloads.pod import POD
from gitkruise.model.workloads.revision import REVISION, revision_object
from gitkruise.model.workloads.sidecarset import sidecarset_facts
from gitkruise.model.workloads.sidecarset_revision import REVISION_NAMESPACE
from gitkruise.planner.sidecarset.observe import NAMESPACE, observe_sidecarset
from gitkruise.planner.sidecarset.plan import plan_sidecarset
from gitkruise.wire.primitives.names import Obj, ObjectKey
from tests.planner.sidecarset.build import hot, injected, revision, sidecarset
from tests.pods import NOW

GOAL_MS: Final = 150.0
PODS: Final = 10_000
KEY: Final = ObjectKey(*SIDECARSET, "", "ss")


def rows() -> Iterator[Row]:
    yield _round("at rest", 0, 0)
    yield _round("half rolled, held by partition", PODS // 2, 0)
    for patches in (100, 500):
        yield _round(f"{patches} patches", PODS, patches)


def sides(image: str, **update: Any) -> dict[str, Any]:
    """A set with a hot and a cold sidecar."""
    return sidecarset(hot(f"mesh:{image}"), {"name": "log", "image": f"log:{image}"}, update=update)


def _stored(raw: Obj, number: int) -> Obj:
    made = revision(raw, number)
    obj = revision_object(made, REVISION_NAMESPACE, sidecarset_facts(raw).owner_reference)
    return {**obj, "metadata": {**obj["metadata"], "uid": made.uid, "resourceVersion": "5"}}


def _pods(new: Obj, old: Obj, waiting: int) -> Iterator[RawObject]:
    for at in range(PODS):
        raw = injected(old if at < waiting else new, f"p-{at:05}")
        stamp = f"{at // 3600 % 24:02}:{at // 60 % 60:02}:{at % 60:02}Z"  # no two alike
        text = json.dumps(raw).replace("10:00:00Z", stamp)
        yield RawObject(text.encode(), api_version="v1", kind="Pod")


def _round(name: str, waiting: int, patches: int) -> Row:
    """Partition 40% asks for 6,000 pods, and 50% for no more than have it."""
    partition = "40%" if patches else "50%"
    new, old = sides("v2", maxUnavailable=patches, partition=partition), sides("v1")
    latest = revision(new).name
    new = {**new, "status": {"observedGeneration": 1, "latestRevision": latest}}
    store = listed(
        [
            (SIDECARSET, [new]),
            (REVISION, [_stored(old, 1), _stored(new, 2)]),
            (NAMESPACE, [{"apiVersion": "v1", "kind": "Namespace", "metadata": _META}]),
            (POD, _pods(new, old, waiting)),
        ]
    )

    def work() -> int:
        snapshot = observe_sidecarset(store, KEY, NOW)
        assert snapshot is not None
        assert len(snapshot.pods) == PODS
        return len(plan_sidecarset(snapshot, Gates()).actions)

    assert work() == patches, "the fleet differs from the one asked for"
    return Row(
        name=f"sidecar round, {PODS:,} pods, {name}",
        value=cpu(work, repeats=5) * 1000,
        unit="ms",
        limit=GOAL_MS if patches <= 100 else None,  # what is patched costs the server seconds
    )


_META: Final = {"name": REVISION_NAMESPACE, "uid": "n", "resourceVersion": "1"}
