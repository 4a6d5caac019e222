"""Holds every write of a live controller against the truth, just before it takes effect."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from gitkruise.model.cloneset import CloneSetFacts, cloneset_facts
from gitkruise.model.labels import REVISION_HASH
from gitkruise.model.pod import PodFacts
from gitkruise.planner.cloneset.budget import resolve_amounts
from gitkruise.wire.names import Obj, ObjectKey
from gitkruise.wire.paths import get
from gitkruise.wire.request import ApiRequest
from gitkruise.world.cluster import World
from tests.worlds import SPACE

WEB: Final = ObjectKey("apps.kruise.io", "CloneSet", SPACE, "web")
_GUARDS: Final = ("uid", "resourceVersion")


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
        return bool(
            get(request.body, "preconditions", "resourceVersion")
            or get(request.body, "metadata", "resourceVersion")
        ) and self._holds(request, pod)

    def _holds(self, request: ApiRequest, pod: Obj) -> bool:
        """The server would carry it out: the pod is what the sender saw."""
        guards = get(request.body, "preconditions") or get(request.body, "metadata")
        meta = pod["metadata"]
        return bool(
            guards["resourceVersion"] == meta["resourceVersion"]
            and guards["uid"] == meta["uid"]
            and not meta.get("deletionTimestamp")
        )

    def _within_limits(self, request: ApiRequest, now: datetime) -> None:
        owner, pods = self.owner, self.pods()
        amounts = resolve_amounts(owner)
        pod = next((p for p in pods if p.name == request.name), None)
        if pod is None:
            return
        if self.still and (disturbs(request) or request.verb == "delete"):
            self.say("a pod is disturbed although its template is what it was")
        available = {p.name for p in pods if p.available(now, min_ready_s=owner.min_ready_s)}
        left = len(available) - (pod.name in available and disturbs(request))
        if left < min(len(available), amounts.replicas - amounts.unavailable):
            self.say(f"{left} available of {amounts.replicas}")
        self._partition(request, pod, pods)

    def _partition(self, request: ApiRequest, pod: PodFacts, pods: list[PodFacts]) -> None:
        update = self.owner.status.get("updateRevision") or ""
        if not moves(request) or pod.on_revision(update):
            return
        old = sum(not p.on_revision(update) for p in pods)
        if old - 1 < resolve_amounts(self.owner).partition:
            self.say(f"{old - 1} pods left on the old revision")


def guarded(request: ApiRequest) -> bool:
    """The write holds for one object in one version only."""
    body = request.body or {}
    guards = body.get("preconditions") if request.verb == "delete" else body.get("metadata")
    return all((guards or {}).get(name) for name in _GUARDS)


def disturbs(request: ApiRequest) -> bool:
    """A delete, or the step of an in-place update that takes the pod out of service."""
    if request.verb == "delete":
        return True
    conditions: Any = get(request.body, "status", "conditions", default=())
    return any(c["type"] == "InPlaceUpdateReady" and c["status"] == "False" for c in conditions)


def moves(request: ApiRequest) -> bool:
    """The pod leaves its revision."""
    labels = get(request.body, "metadata", "labels", default={}) or {}
    return request.verb == "delete" or REVISION_HASH in labels
