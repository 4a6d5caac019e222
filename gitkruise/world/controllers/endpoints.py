"""The endpoint controllers: Endpoints and EndpointSlices of every Service with a selector.

Source: kube-controller-manager's endpoint and endpoint slice controllers (1.34). A Service is
looked at again when it, its pods' places or readiness, or what was written for it changes; one with
many pods less often, so that a rollout of thousands does not write thousands of long lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gitkruise.admission.builtin.endpoints import ENDPOINTS, SLICE
from gitkruise.errors import ApiError, Forbidden, NotFound
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.world.api.cluster import CommittedChange, World
from gitkruise.world.controllers import endpoint_slices, endpoint_subsets
from gitkruise.world.controllers.client import ObjectWriter
from gitkruise.world.controllers.object_backoff import ObjectBackoff, Report, earliest
from gitkruise.world.controllers.service_backends import Backend, backends, ready_condition, traits
from gitkruise.world.controllers.service_selectors import Selections

SERVICE, POD, NODE = GroupKind("", "Service"), GroupKind("", "Pod"), GroupKind("", "Node")
_WRITERS: Final = {
    kind: ObjectWriter(f"system:serviceaccount:kube-system:{name}", "kube-controller-manager")
    for kind, name in ((ENDPOINTS, "endpoint-controller"), (SLICE, "endpointslice-controller"))
}
TRIGGER: Final = "endpoints.kubernetes.io/last-change-trigger-time"
ZONE: Final = "topology.kubernetes.io/zone"
RETRY: Final = timedelta(seconds=1)  # after a refusal
# Between two looks at a Service: what comes close together is written once.
PAUSE, PAUSE_PER_POD = timedelta(milliseconds=200), timedelta(milliseconds=1)
ROUNDS_MAX: Final = 100
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class _Watched:
    """Observed state of a Service at the last sync: instants are texts, "" is unset."""

    created: str = ""
    turned: dict[str, str] = field(default_factory=dict)  # by pod: when its readiness last did
    rests_until: datetime | None = None
    lacks_node: bool = False


class EndpointsController:
    """Both controllers for one World. `run` does what is due at `now`."""

    def __init__(self, report: Report | None = None) -> None:
        self._backoff = ObjectBackoff(report)
        self._seen: int | None = None
        self._selections = Selections()
        self._watched: dict[ObjectKey, _Watched] = {}
        self._dirty: dict[ObjectKey, None] = {}
        self._written: set[str] = set()  # versions of what was written since the last look

    def run(self, world: World, now: datetime) -> datetime | None:
        """Look at every Service that is due; the next due instant, None to wait for a change."""
        for _ in range(ROUNDS_MAX):
            self._backoff.retry(now)
            self._news(world, now)
            due = [key for key in self._dirty if self._rests(key) <= now]
            if not due:
                return earliest(*map(self._rests, self._dirty), self._backoff.next())
            for key in due:
                del self._dirty[key]
                self._backoff.attempt(key, now, self._settle, world, key)
        raise AssertionError("the endpoints never settle")

    def _rests(self, key: ObjectKey) -> datetime:
        watched = self._watched.get(key)
        return (watched and watched.rests_until) or _LONG_AGO

    # What changed

    def _news(self, world: World, now: datetime) -> None:
        """Note whose endpoints may be others since the last look."""
        if self._seen == world.version:
            return
        records = world.changes_since(self._seen)
        self._seen = world.version
        if records is None:
            self._start_over(world, now)
        else:
            for record in records:
                self._backoff.attempt(("read", record.key), now, self._read, world, record)
        self._written.clear()

    def _start_over(self, world: World, now: datetime) -> None:
        self._selections, self._watched, self._dirty = Selections(), {}, {}
        for service in world.objects(SERVICE):
            key = _key(SERVICE, service)
            self._backoff.attempt(("read", key), now, self._meet, key, service)
        for namespace in {key.namespace for key in self._dirty}:
            for pod in world.objects(POD, namespace):
                key = _key(POD, pod)
                self._backoff.attempt(("read", key), now, self._count, namespace, pod)
        for obj in world.objects(ENDPOINTS):  # of a Service that was deleted unnoticed
            labels = obj["metadata"].get("labels") or {}
            if labels.get(endpoint_subsets.MANAGED_BY) == endpoint_subsets.CONTROLLER:
                self._dirty[_key(SERVICE, obj)] = None

    def _meet(self, key: ObjectKey, service: Obj, _: datetime) -> None:
        self._note(key, service, ())

    def _count(self, namespace: str, pod: Obj, _: datetime) -> None:
        self._selections.pod(namespace, None, pod)

    def _read(self, world: World, record: CommittedChange, _: datetime) -> None:
        kind, namespace = record.key[:2], record.key.namespace
        if kind == SERVICE:
            pods = world.objects(POD, namespace)
            self._note(record.key, record.after, pods)
        elif kind == POD:
            if namespace in self._selections:
                self._pod(namespace, record)
        elif kind == NODE:
            if record.before is None:
                self._dirty |= {k: None for k, w in self._watched.items() if w.lacks_node}
        elif kind in _WRITERS and namespace in self._selections:
            self._disturbed(record)

    def _note(self, key: ObjectKey, service: Obj | None, pods: Iterable[Obj]) -> None:
        self._selections.note(key.namespace, key.name, service, pods)
        if service is None or self._selections.has(key.namespace, key.name):
            self._dirty[key] = None

    def _pod(self, namespace: str, record: CommittedChange) -> None:
        before, after = record.before, record.after
        if before is not None and after is not None and traits(before) == traits(after):
            return
        for name in self._selections.pod(namespace, before, after):
            self._dirty[ObjectKey(*SERVICE, namespace, name)] = None

    def _disturbed(self, record: CommittedChange) -> None:
        """Another client changed a slice, or deleted one that this controller manages."""
        obj = record.after or record.before
        assert obj is not None
        meta, name = obj["metadata"], record.key.name
        if record.key[:2] == SLICE:
            name = (meta.get("labels") or {}).get(endpoint_slices.SERVICE_NAME, "")
        elif record.after is not None:
            return
        ours = record.after is not None and meta["resourceVersion"] in self._written
        if not ours and self._selections.has(record.key.namespace, name):
            self._dirty[ObjectKey(*SERVICE, record.key.namespace, name)] = None

    # One Service

    def _settle(self, world: World, key: ObjectKey, now: datetime) -> None:
        service = world.get(key)
        if service is None:
            self._watched.pop(key, None)
            old = world.get(ObjectKey(*ENDPOINTS, key.namespace, key.name))
            self._drop(world, ENDPOINTS, (old,) if old is not None else (), now)
            return
        if not self._selections.has(key.namespace, key.name):
            return
        names = self._selections.pods(key.namespace, key.name)
        found = (world.get(ObjectKey(*POD, key.namespace, name)) for name in names)
        pods = [pod for pod in found if pod is not None]
        known = self._watched.get(key)
        watched = self._watched.setdefault(key, _Watched())
        trigger = _trigger(watched, service, pods, first=known is None)
        listed = list(backends(service, pods))
        zones = _zones(world, listed)
        watched.lacks_node = any(one.node not in zones for one in listed)
        watched.rests_until = now + PAUSE + len(listed) * PAUSE_PER_POD
        try:
            self._write_endpoints(world, service, listed, trigger, now)
            self._write_slices(world, service, listed, zones, trigger, now)
        except Forbidden:
            return  # its namespace is going away
        except ApiError:
            self._dirty[key] = None
            watched.rests_until = now + RETRY

    def _write_endpoints(
        self, world: World, service: Obj, listed: Sequence[Backend], trigger: str, now: datetime
    ) -> None:
        meta = service["metadata"]
        old = world.get(ObjectKey(*ENDPOINTS, meta["namespace"], meta["name"]))
        subsets, cut = endpoint_subsets.subsets_of(service, listed)
        if old is not None:
            labels = old["metadata"].get("labels") or {}
            marked = endpoint_subsets.OVER_CAPACITY in (old["metadata"].get("annotations") or {})
            same = (old.get("subsets") or []) == subsets and marked == cut
            if same and endpoint_subsets.labels_agree(labels, service):
                return
        kept: Obj = old["metadata"] if old else {n: meta[n] for n in ("name", "namespace")}
        notes = _annotated(kept, trigger, endpoint_subsets.OVER_CAPACITY)
        if cut:
            notes[endpoint_subsets.OVER_CAPACITY] = "truncated"
        body = {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {
                **kept, "labels": endpoint_subsets.labels_of(service), "annotations": notes,
            },
            "subsets": subsets,
        }  # fmt: skip
        self._write(world, ENDPOINTS, body, now, new=old is None)

    def _write_slices(
        self,
        world: World,
        service: Obj,
        listed: Sequence[Backend],
        zones: dict[str, str],
        trigger: str,
        now: datetime,
    ) -> None:
        meta = service["metadata"]
        owned = world.owned(meta["uid"], SLICE, meta["namespace"])
        existing = [
            obj
            for obj in owned
            if endpoint_slices.is_ours(obj, meta["name"])
            and not obj["metadata"].get("deletionTimestamp")
        ]
        todo = endpoint_slices.reconciled(service, listed, existing, zones)
        making = [] if meta.get("deletionTimestamp") else todo.make
        for new, slices in ((True, making), (False, todo.change)):
            for obj in slices:
                notes = _annotated(obj["metadata"], trigger)
                body = {**obj, "metadata": {**obj["metadata"], "annotations": notes}}
                self._write(world, SLICE, body, now, new=new)
        self._drop(world, SLICE, todo.drop, now)

    def _write(self, world: World, kind: GroupKind, body: Obj, now: datetime, *, new: bool) -> None:
        writer = _WRITERS[kind]
        stored = (writer.create if new else writer.update)(world, body, now)
        self._written.add(stored["metadata"]["resourceVersion"])

    def _drop(self, world: World, kind: GroupKind, gone: Iterable[Obj], now: datetime) -> None:
        for obj in gone:
            with suppress(NotFound):
                _WRITERS[kind].delete(world, obj, now)


def _key(kind: GroupKind, obj: Obj) -> ObjectKey:
    return ObjectKey(*kind, obj["metadata"]["namespace"], obj["metadata"]["name"])


def _zones(world: World, listed: Iterable[Backend]) -> dict[str, str]:
    """The zone of each node that exists."""
    found: dict[str, str] = {}
    for name in {one.node for one in listed}:
        node = world.get(ObjectKey(*NODE, "", name))
        if node is not None:
            found[name] = (node["metadata"].get("labels") or {}).get(ZONE, "")
    return found


def _trigger(watched: _Watched, service: Obj, pods: Sequence[Obj], *, first: bool) -> str:
    """Return the earliest change since the last sync; "" for a change without a time.

    The first sync returns the Service's creation (TriggerTimeTracker).
    """
    created = service["metadata"]["creationTimestamp"]
    before = watched.turned
    watched.turned = {
        pod["metadata"]["name"]: at
        for pod in pods
        if (at := ready_condition(pod).get("lastTransitionTime"))
    }
    fresh = [at for name, at in watched.turned.items() if at > before.get(name, "")]
    if created > watched.created:
        fresh.append(created)
    watched.created = created
    return created if first else min(fresh, default="")


def _annotated(meta: Obj, trigger: str, *aside: str) -> dict[str, Any]:
    """The annotations of an object that is written because of `trigger`."""
    dropped = {TRIGGER, *aside}
    kept = {k: v for k, v in (meta.get("annotations") or {}).items() if k not in dropped}
    return {**kept, **({TRIGGER: trigger} if trigger else {})}
