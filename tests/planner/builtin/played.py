"""A Deployment and its ReplicaSets in memory: planned, written and given pods, sync by sync."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gitkruise.model.planning.canary import ANNOTATION, PAUSED
from gitkruise.model.planning.canary_lock import CanaryLock, lock_of, pending_lock
from gitkruise.model.planning.plan import Create, Delete, Patch, Plan
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.builtin.deployment import observe_deployment, plan_deployment
from gitkruise.wire.patch.json_patch import merge_patch
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, key_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import format_time
from tests.worlds import SPACE, deployment

START: Final = datetime(2026, 11, 21, 10, tzinfo=UTC)
SYNCS_MAX: Final = 400


def version_of(one: Obj) -> str:
    image: str = one["spec"]["template"]["spec"]["containers"][0]["image"]
    return image.rpartition(":")[2]


GO: Final[dict[str, Any]] = {"paused": False}
# Edits of CAN-44's end that meet no sync in between, and where they come to rest, again and again
RESUMED: Final[dict[str, list[tuple[list[dict[str, Any]], str]]]] = {
    "CAN-102": [([{"canary": "5"}], "7,3 paused"), ([GO], "5,5 paused"), ([GO], "0,10")],
    "CAN-103": [([{"canary": "5"}, GO], "5,5 paused"), ([GO], "0,10")],
    "CAN-104": [([GO, {"canary": "5"}], "5,5 paused"), ([GO], "0,10")],
    "CAN-105": [([{**GO, "canary": "30%"}], "7,3 paused"), ([GO], "0,10")],
    "CAN-106": [([{"canary": "5"}, {"canary": "3"}, GO], "0,10")],
    "CAN-107": [
        ([{**GO, "canary": "5"}], "5,5 paused"),
        ([{**GO, "canary": "3"}], "5,5 paused"),
        ([GO], "0,10"),
    ],
    "CAN-108": [([{**GO, "canary": "100%"}], "0,10")],
    "CAN-109": [([GO, {"canary": "5"}, {"canary": "3"}], "0,10")],
}


class Played:
    """`available` says of a ReplicaSet how many of its pods are; all of them by default."""

    def __init__(self, replicas: int, surge: Any, down: Any, canary: str | None = None) -> None:
        self.now = START
        self.available: Callable[[Obj], int] = lambda one: int(one["spec"]["replicas"])
        self.writes = 0
        self.events: list[str] = []
        rolling = {"maxSurge": surge, "maxUnavailable": down}
        made: Any = deployment(
            replicas=replicas, strategy={"type": "RollingUpdate", "rollingUpdate": rolling}
        )
        made["metadata"] |= {"namespace": SPACE, "uid": "u", "generation": 1, "annotations": {}}
        self.objects: dict[ObjectKey, Any] = {}
        self.key = key_of(made)
        self._store(made)
        self.edit(canary=canary)

    # What the planner reads.

    def get(self, key: ObjectKey) -> Obj | None:
        return self.objects.get(key)

    def owned(self, uid: str, group_kind: GroupKind, namespace: str) -> Sequence[Obj]:
        del namespace
        return [o for k, o in self.objects.items() if k.group_kind == group_kind and uid]

    def pods_of(self, uid: str, namespace: str) -> Any:
        del uid, namespace
        return ()

    # What a user does.

    def edit(self, **changes: Any) -> None:
        """Change it in one update: canary (None removes it), image, or fields of the spec."""
        body: dict[str, Any] = {"metadata": {"annotations": {}}, "spec": {}}
        for field, value in changes.items():
            if field == "canary":
                body["metadata"]["annotations"][ANNOTATION] = value
            elif field == "image":
                template = deployment(image=f"app:{value}")["spec"]["template"]
                body["spec"]["template"] = template
            elif field == "rolling":
                body["spec"]["strategy"] = {"rollingUpdate": value}
            else:
                body["spec"][field] = value
        self._store(merge_patch(self.raw, body))

    def play(self, steps: list[tuple[list[dict[str, Any]], str]]) -> None:
        for edits, end in steps:
            for changes in edits:
                self.edit(**changes)
            assert self.settle()[-1] == end, edits

    def resize(self, version: str, replicas: int) -> None:
        """`kubectl scale rs`."""
        one = next(o for o in self.sets if version_of(o) == version)
        self._store(merge_patch(one, {"spec": {"replicas": replicas}}))
        self.step_kubelets()

    # What is seen.

    @property
    def raw(self) -> Any:
        return self.objects[self.key]

    @property
    def sets(self) -> list[Any]:
        return [o for k, o in self.objects.items() if k.kind == "ReplicaSet"]

    @property
    def sizes(self) -> dict[str, int]:
        return {version_of(o): o["spec"]["replicas"] for o in self.sets}

    @property
    def paused(self) -> bool:
        return bool(get(self.raw, "spec", "paused"))

    @property
    def paused_by_canary(self) -> bool:
        return self.paused and PAUSED in self.raw["metadata"]["annotations"]

    @property
    def line(self) -> str:
        """Sizes in the order of versions, as `7,3`, with `paused` when a canary paused it."""
        sizes = self.sizes
        text = ",".join(str(sizes[v]) for v in sorted(sizes))
        return text + (" paused" if self.paused_by_canary else "")

    # What happens.

    def plan(self) -> Plan:
        seen = observe_deployment(self, self.key, self.now)  # type: ignore[arg-type]
        assert seen is not None
        return plan_deployment(seen, Gates())

    def sync(self, *, writes: int | None = None) -> bool:
        """Plan once and write; only the first `writes` if the controller ends after them."""
        plan = self.plan()
        self.events += [e.reason for e in plan.events]
        for action in plan.actions[:writes]:
            self._write(action)
        if plan.status is not None and writes is None:
            self._store({**self.raw, "status": plan.status}, status=True)
        return bool(plan.actions) or plan.status is not None

    def step_kubelets(self) -> None:
        """Every ReplicaSet has its pods; as many are available as `available` says."""
        for one in self.sets:
            wanted, ready = one["spec"]["replicas"], self.available(one)
            status = {
                "replicas": wanted,
                "readyReplicas": ready,
                "availableReplicas": ready,
                "observedGeneration": one["metadata"]["generation"],
            }
            self._store({**one, "status": status}, status=True)

    def settle(self) -> list[str]:
        """Sync until nothing is written; the lines that were seen, each once in a row."""
        seen: list[str] = []
        for _ in range(SYNCS_MAX):
            moved = self.sync()
            self.step_kubelets()
            if not seen or seen[-1] != self.line:
                seen.append(self.line)
            if not moved:
                return seen
            self.now += timedelta(seconds=1)
        raise AssertionError(f"never quiet: {seen[-10:]}")

    def _write(self, action: Create | Patch | Delete) -> None:
        self.writes += 1
        if isinstance(action, Create):
            meta = action.obj["metadata"] | {
                "uid": action.obj["metadata"]["name"],
                "generation": 1,
                "creationTimestamp": format_time(self.now + timedelta(seconds=self.writes)),
            }
            self._store({**action.obj, "metadata": meta})
        elif isinstance(action, Delete):
            del self.objects[action.key]
        else:
            one = self.objects[action.key]
            for step in action.steps:
                one = merge_patch(one, step.body)
            self._store(one)
        if action.done is not None:
            self.events.append(action.done.reason)

    def _store(self, obj: Any, *, status: bool = False) -> None:
        key = key_of(obj)
        before: Mapping[str, Any] = self.objects.get(key) or {}
        meta = {**obj["metadata"], "resourceVersion": str(self.now.timestamp())}
        if before and not status and before.get("spec") != obj["spec"]:
            meta["generation"] += 1
        self.objects[key] = {**obj, "metadata": meta}


def started(replicas: int, surge: Any, down: Any, canary: str | None = None) -> Played:
    """One that runs v1 everywhere."""
    played = Played(replicas, surge, down, canary)
    played.edit(image="v1")
    played.settle()
    return played


def at_canary() -> Played:
    """CAN-44: 10 pods, maxSurge 2, maxUnavailable 1, canary 3, paused at 7 of v1 and 3 of v2."""
    played = started(10, 2, 1, "3")
    played.edit(image="v2")
    assert played.settle()[-1] == "7,3 paused"
    return played


def unbegun(raw: Obj) -> CanaryLock:
    """The lock with which a new template of `raw` waits until its canary begins."""
    return replace(lock_of(raw) or pending_lock(raw), begun=False)
