"""Holds every write of a live controller against the truth, just before it takes effect."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from gitkruise.errors import InvalidObject
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.planning.amounts import resolve_amounts
from gitkruise.model.workloads.cloneset import CloneSetFacts, cloneset_facts
from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.wire.patch.json_patch import json_patch, merge_patch
from gitkruise.wire.patch.strategic_merge import strategic_patch
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    ApiRequest,
)
from gitkruise.world.api.cluster import World
from tests.worlds import SPACE

WEB: Final = ObjectKey("apps.kruise.io", "CloneSet", SPACE, "web")
_GUARDS: Final = ("uid", "resourceVersion")
_FOUND = load_catalog().by_kind("", "v1", "Pod")
assert _FOUND is not None
_POD: Final = _FOUND
_TESTED: Final = frozenset(
    f"/metadata/{name}"
    for name in ("uid", "deletionTimestamp", "ownerReferences", "labels", "finalizers")
)


class Judge:
    """Laws of a rollout by what a request would do; `broken` are sentences.

    `still` says that no pod may be disturbed at all.
    """

    def __init__(self, world: World, *, still: bool = False) -> None:
        self.world, self.still = world, still
        self.broken: list[str] = []
        self.writes: list[str] = []  # verb and name, events aside

    @property
    def owner(self) -> CloneSetFacts:
        raw = self.world.get(WEB)
        assert raw is not None
        return cloneset_facts(raw)

    def pods(self) -> list[PodFacts]:
        return [p for p in self.world.pods_of(self.owner.uid, SPACE) if p.active]

    def look(self, request: ApiRequest, now: datetime) -> None:
        """Judge one request that is about to be carried out."""
        if request.verb in {"get", "list"} or request.resource.plural == "events":
            return
        name = request.name or get(request.body, "metadata", "name", default="")
        self.writes.append(f"{request.verb} {request.resource.plural} {name}")
        if request.verb != "create" and not guarded(request):
            self.say("a write that holds for any version")
        if request.resource.plural != "pods":
            return
        if request.verb == "create":
            self._no_surplus()
        elif self._is_ours(request):
            self._within_limits(request, now)

    def say(self, sentence: str) -> None:
        self.broken.append(f"{sentence} (write {len(self.writes)}: {self.writes[-1]})")

    def _no_surplus(self) -> None:
        amounts = resolve_amounts(self.owner)
        if len(self.pods()) + 1 > amounts.replicas + amounts.surge:
            self.say("more pods than replicas and maxSurge allow")

    def _is_ours(self, request: ApiRequest) -> bool:
        """Whether the pod is the CloneSet's; a missing one is nobody's, and the server says so."""
        pod = self.world.get(ObjectKey("", "Pod", request.namespace, request.name))
        if pod is None:
            return False
        owners = [r["uid"] for r in pod["metadata"].get("ownerReferences") or ()]
        if self.owner.uid not in owners:
            self.say("somebody else's pod is touched")
            return False
        return guarded(request) and self._holds(request, pod)

    def _holds(self, request: ApiRequest, pod: Obj) -> bool:
        """The server would carry it out: the pod is what the sender saw."""
        meta = pod["metadata"]
        if request.verb != "delete":
            return after(request, pod) is not None and not meta.get("deletionTimestamp")
        guards = get(request.body, "preconditions")
        return bool(
            guards.get("resourceVersion") in {None, meta["resourceVersion"]}
            and guards["uid"] == meta["uid"]
            and not meta.get("deletionTimestamp")
        )

    def _disturbs(self, request: ApiRequest) -> bool:
        """A delete, or the step of an in-place update that takes the pod out of service."""
        if request.verb == "delete":
            return True
        pod = self._stored(request)
        made = after(request, pod)
        return made is not None and gate_closed(made) and not gate_closed(pod)

    def _moves(self, request: ApiRequest, pod: PodFacts) -> bool:
        """The pod leaves its revision."""
        if request.verb == "delete":
            return True
        made = after(request, self._stored(request))
        return made is not None and pod_facts(made).revision != pod.revision

    def _stored(self, request: ApiRequest) -> Obj:
        pod = self.world.get(ObjectKey("", "Pod", request.namespace, request.name))
        assert pod is not None
        return pod

    def _within_limits(self, request: ApiRequest, now: datetime) -> None:
        owner, pods = self.owner, self.pods()
        amounts = resolve_amounts(owner)
        pod = next((p for p in pods if p.name == request.name), None)
        if pod is None:
            return
        disturbs = self._disturbs(request)
        if self.still and disturbs:
            self.say("a pod is disturbed although its template is what it was")
        available = {p.name for p in pods if p.available(now, min_ready_s=owner.min_ready_s)}
        left = len(available) - (pod.name in available and disturbs)
        if left < min(len(available), amounts.replicas - amounts.unavailable):
            self.say(f"{left} available of {amounts.replicas}")
        self._partition(request, pod, pods)

    def _partition(self, request: ApiRequest, pod: PodFacts, pods: list[PodFacts]) -> None:
        update = self.owner.status.get("updateRevision") or ""
        if pod.on_revision(update) or not self._moves(request, pod):
            return
        old = sum(not p.on_revision(update) for p in pods)
        if old - 1 < resolve_amounts(self.owner).partition:
            self.say(f"{old - 1} pods left on the old revision")


def guarded(request: ApiRequest) -> bool:
    """The write holds for one object as the sender saw it: by version, or by tests of a patch."""
    body = request.body or {}
    if request.content_type == JSON_PATCH:
        tested = {operation["path"] for operation in body if operation["op"] == "test"}
        return tested >= _TESTED
    if request.verb == "delete":  # the last try of a deletion names the uid alone
        return bool(get(body, "preconditions", "uid"))
    if request.subresource == "status" and request.content_type == STRATEGIC_PATCH:
        return bool(get(body, "metadata", "uid"))  # and so does that of a status
    if request.content_type == APPLY_PATCH:
        return bool(get(body, "metadata", "uid")) and opens_only(request)
    return all((body.get("metadata") or {}).get(name) for name in _GUARDS)


def opens_only(request: ApiRequest) -> bool:
    """An apply that adds true conditions, where no other writer has set them to another value."""
    listed = get(request.body, "status", "conditions", default=())
    forced = request.params.get("force", "false") != "false"
    return not forced and bool(listed) and all(c["status"] == "True" for c in listed)


def after(request: ApiRequest, pod: Obj) -> Obj | None:
    """The pod as a guarded patch leaves it; None where its tests fail."""
    if request.content_type != JSON_PATCH:
        version = get(request.body, "metadata", "resourceVersion")
        if version not in {None, pod["metadata"]["resourceVersion"]}:
            return None
        if request.content_type == MERGE_PATCH:
            merged: Obj = merge_patch(pod, request.body)
            return merged
        return strategic_patch(pod, request.body, _POD.schema)  # as an apply merges conditions
    try:
        made: Obj = json_patch(pod, request.body)
    except InvalidObject:
        return None
    return made


def gate_closed(pod: Obj) -> bool:
    conditions: Any = get(pod, "status", "conditions", default=())
    return any(c["type"] == "InPlaceUpdateReady" and c["status"] == "False" for c in conditions)
