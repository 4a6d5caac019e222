"""The namespace controller: deletes the content of a terminating namespace, then the namespace.

Source: kube-controller-manager's namespace controller with ordered deletion (CTL-30 to CTL-33).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from gitkruise.errors import ApiError
from gitkruise.model.workloads.conditions import dated
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.names import Obj, key_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import parse_time
from gitkruise.world.api.cluster import World
from gitkruise.world.controllers.client import ObjectWriter
from gitkruise.world.controllers.object_backoff import ObjectBackoff, Report, earliest
from gitkruise.world.store.strategies import NAMESPACE, POD

_WRITER: Final = ObjectWriter(
    "system:serviceaccount:kube-system:namespace-controller", "kube-controller-manager"
)
FINALIZERS_RETRY: Final = timedelta(seconds=15)
FINALIZER: Final = "kubernetes"
# type -> (reason, message) while there is nothing to complain about
_CALM: Final = {
    "NamespaceDeletionDiscoveryFailure": (
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": (
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
}


class NamespaceController:
    """One controller for one World. `delay` is waited after a deletion before anything is done."""

    def __init__(self, delay: timedelta = timedelta(0), *, report: Report | None = None) -> None:
        self.delay = delay
        self._backoff = ObjectBackoff(report)

    def run(self, world: World, now: datetime) -> datetime | None:
        """Do what is due for every terminating namespace; the next due instant or None."""
        going = [ns for ns in world.objects(NAMESPACE) if ns["metadata"].get("deletionTimestamp")]
        times: list[datetime | None] = []

        def empty(namespace: Obj, now: datetime) -> None:
            times.append(self._empty(world, namespace, now))

        for namespace in going:
            self._backoff.attempt(key_of(namespace), now, empty, namespace)
        return earliest(*times, self._backoff.next())

    def _empty(self, world: World, namespace: Obj, now: datetime) -> datetime | None:
        begun = parse_time(namespace["metadata"]["deletionTimestamp"])
        if begun is None:
            raise ValueError("a deletion without a time")
        if now < begun + self.delay:
            return begun + self.delay
        name = namespace["metadata"]["name"]
        failures: list[str] = []
        pods = _pods(world)
        left = _delete_all(world, [pods], name, now, failures)
        if failures or not left:  # what refuses to let a pod go may be in the namespace, too
            others = [kind for kind in _contents(world) if kind != pods]
            left += _delete_all(world, others, name, now, failures)
        _report(world, namespace, left, failures, now)
        if left or failures:
            return now + _patience(left, now)
        _finalize(world, name, now)
        return None


def _pods(world: World) -> Kind:
    kind = world.catalog.stored(POD)
    assert kind is not None
    return kind


def _contents(world: World) -> list[Kind]:
    """Every namespaced kind that can be deleted, in its storage version."""
    return [
        kind
        for kind in world.catalog.kinds()
        if kind.namespaced and kind.is_stored_form and "delete" in kind.verbs
    ]


def _delete_all(
    world: World, kinds: Sequence[Kind], namespace: str, now: datetime, failures: list[str]
) -> list[tuple[Kind, Obj]]:
    """Delete all objects of `kinds`; what is left of them. Adds one failure for each kind."""
    left: list[tuple[Kind, Obj]] = []
    for kind in kinds:
        refusals: list[str] = []
        for obj in world.objects(kind.group_kind, namespace):
            if not obj["metadata"].get("deletionTimestamp"):
                _delete(world, obj, now, refusals)
        failures += refusals[:1]
        left += ((kind, obj) for obj in world.objects(kind.group_kind, namespace))
    return left


def _delete(world: World, obj: Obj, now: datetime, refusals: list[str]) -> None:
    options = {
        "propagationPolicy": "Background",
        "preconditions": {"uid": obj["metadata"]["uid"]},
    }
    try:
        _WRITER.delete(world, obj, now, options)
    except ApiError as error:
        refusals.append(error.message)


def _patience(left: Sequence[tuple[Kind, Obj]], now: datetime) -> timedelta:
    """Return the requeue delay: half the longest grace period left, or the wait for finalizers."""
    ends = [
        end - now
        for kind, obj in left
        if kind.group_kind == POD and (end := parse_time(obj["metadata"].get("deletionTimestamp")))
    ]
    longest = max(ends, default=timedelta(0))
    if longest <= timedelta(0):
        return FINALIZERS_RETRY
    return longest / 2 + timedelta(seconds=1)


def _report(
    world: World,
    namespace: Obj,
    left: Sequence[tuple[Kind, Obj]],
    failures: Sequence[str],
    now: datetime,
) -> None:
    """Say in the namespace's conditions what keeps it, unless they say so already."""
    known = {c["type"]: c for c in get(namespace, "status", "conditions", default=())}
    if not known and not left and not failures:
        return
    desired = {name: _words("False", *calm) for name, calm in _CALM.items()}
    desired |= _failed_conditions(left, failures)
    conditions = [
        dated({"type": name, **words}, known.get(name), now) for name, words in desired.items()
    ]
    if conditions == list(known.values()):
        return
    change = {"status": {"conditions": conditions}}
    _WRITER.patch(world, namespace, change, now, subresource="status")


def _words(status: str, reason: str, message: str) -> Obj:
    return {"status": status, "reason": reason, "message": message}


def _failed_conditions(left: Sequence[tuple[Kind, Obj]], failures: Sequence[str]) -> dict[str, Obj]:
    out: dict[str, Obj] = {}
    if failures:
        text = "Failed to delete all resource types, " + str(len(failures)) + " remaining: "
        out["NamespaceDeletionContentFailure"] = _words(
            "True", "ContentDeletionFailed", text + ", ".join(sorted(failures))
        )
    kinds = Counter(f"{kind.plural}.{kind.group}" for kind, _ in left)
    if kinds:
        listed = ", ".join(
            f"{name} has {n} resource instances" for name, n in sorted(kinds.items())
        )
        out["NamespaceContentRemaining"] = _words(
            "True", "SomeResourcesRemain", f"Some resources are remaining: {listed}"
        )
    held = Counter(name for _, obj in left for name in obj["metadata"].get("finalizers") or ())
    if held:
        listed = ", ".join(f"{name} in {n} resource instances" for name, n in sorted(held.items()))
        text = f"Some content in the namespace has finalizers remaining: {listed}"
        out["NamespaceFinalizersRemaining"] = _words("True", "SomeFinalizersRemain", text)
    return out


def _finalize(world: World, name: str, now: datetime) -> None:
    """Take the controller's finalizer away; without others the namespace is gone."""
    found = next(ns for ns in world.objects(NAMESPACE) if ns["metadata"]["name"] == name)
    others = [f for f in get(found, "spec", "finalizers", default=()) if f != FINALIZER]
    asked = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name},
        "spec": {"finalizers": others},
    }
    _WRITER.update(world, asked, now, subresource="finalize")
