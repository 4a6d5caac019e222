"""The model cluster's kubelet: pods that have a node get containers, statuses and an end.

Source: kubelet of Kubernetes 1.34 as far as the API shows it. What it decides is
`world.pod_actions`, what happens then is the table `world.stages`, what it reports is
`world.kubelet_status`. It keeps nothing that cannot be read back from pod statuses, so a new
kubelet goes on where the last one stopped. Failed pulls are not retried: an image that fails here
(`world.profiles`) fails for ever, and a cluster with nothing else to do is quiet.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from datetime import datetime, timedelta
from hashlib import sha256
from operator import is_
from typing import TYPE_CHECKING, Any, Final

from gitkruise.errors import ApiError, NotFound
from gitkruise.model.plan import Event
from gitkruise.model.view import View
from gitkruise.wire.names import GroupKind, Obj, ObjectKey, key_of
from gitkruise.wire.request import ApiRequest
from gitkruise.wire.times import format_time
from gitkruise.world import events as event_log
from gitkruise.world.containers import (
    Sandbox,
    every,
    initial,
    is_sidecar,
    runs_as_asked,
    runtime_of,
)
from gitkruise.world.environment import missing_volume
from gitkruise.world.kubelet_status import (
    ENDED,
    OWNED_CONDITIONS,
    containers_ready,
    in_transit,
    is_starting,
    only_seen,
    pod_status,
)
from gitkruise.world.pod_actions import PodActions, pod_actions
from gitkruise.world.profiles import GENERAL, Profile
from gitkruise.world.stages import WARNING, PodRun, Turn, begin, kill, ring
from gitkruise.world.writes import PODS, pod_status_request

if TYPE_CHECKING:
    from gitkruise.world.cluster import World

POD: Final = GroupKind("", "Pod")
USER: Final = "system:node"
CONFIG_RETRY_S, ERROR_RETRY_S = 10.0, 10.0
ADDRESSES: Final = 2**16 - 2  # of 10.244.0.0/16
SETTLE_MAX: Final = 100  # decisions for one pod at one instant


class Kubelet:
    """All nodes of one World. `run` does what is due at `now` and says when to call again."""

    def __init__(self, profile: Profile = GENERAL, *, events: bool = True) -> None:
        self.profile = profile
        self.events = events
        self._seen: int | None = None
        self._runs: dict[str, PodRun] = {}
        self._due: list[tuple[datetime, str]] = []
        self._ips: set[str] = set()
        self._hosts: dict[str, tuple[ObjectKey, Obj | None, str]] = {}  # by node: read, address

    def run(self, world: World, now: datetime) -> datetime | None:
        """Do everything due at `now`; the next due instant, None to wait for a change."""
        for _ in range(SETTLE_MAX):
            dirty = self._news(world, now)
            dirty.update(self._ringing(now))
            if not dirty:
                return self._next()
            for uid in sorted((uid for uid in dirty if uid in self._runs), key=self._place):
                self._turn(world, uid, now)
        raise AssertionError("the kubelet never settles")

    def _place(self, uid: str) -> tuple[ObjectKey, str]:
        """Pods are served in name order, so that a trace does not depend on how uids fall."""
        return self._runs[uid].key, uid

    # What changed, and what is due

    def _news(self, world: World, now: datetime) -> dict[str, None]:
        """Uids of pods that changed since the last look, other than by us; in order."""
        records = world.news_since(self._seen)
        self._seen = world.version
        if records is None:
            pods = world.objects(POD)
            for uid in self._runs.keys() - {pod["metadata"]["uid"] for pod in pods}:
                self._forget(uid)
            return self._meet(pods)
        dirty: dict[str, None] = {}
        for record in records:
            if record.key.kind == "Pod":
                pod = record.after or record.before
                assert pod is not None
                uid = pod["metadata"]["uid"]
                run = self._runs.get(uid)
                if run is None and record.before is not None:
                    self._meet([record.before], at_rest=True)
                if record.after is None:
                    self._forget(uid)
                elif run is None or run.written != pod["metadata"]["resourceVersion"]:
                    dirty |= self._meet([pod], at_rest=True)
            elif record.key.kind in {"ConfigMap", "Secret"} and record.key.group == "":
                self._retry_config(record.key.namespace, now)
        return dirty

    def _meet(self, pods: Iterable[Obj], *, at_rest: bool = False) -> dict[str, None]:
        """Uids of those to look at. One that runs as asked is met when it changes (`at_rest`)."""
        dirty: dict[str, None] = {}
        for pod in pods:
            uid = pod["metadata"]["uid"]
            if not pod["spec"].get("nodeName"):
                continue
            if uid not in self._runs:
                if address := (pod.get("status") or {}).get("podIP"):
                    self._ips.add(address)
                as_asked = runs_as_asked(pod)
                if as_asked and not at_rest:
                    continue
                run = PodRun(key=key_of(pod), uid=uid, runtime=runtime_of(pod))
                self._runs[uid] = run
                run.judged = _made_from(pod, run) if as_asked else None
            dirty[uid] = None
        return dirty

    def _retry_config(self, namespace: str, now: datetime) -> None:
        at = now + timedelta(seconds=CONFIG_RETRY_S / self.profile.speed)
        for run in self._runs.values():
            if run.lacks and run.key.namespace == namespace:
                run.lacks = False
                for name in list(run.blocked) or [""]:
                    run.timers[name, "config"] = at
                heapq.heappush(self._due, (at, run.uid))

    def _ringing(self, now: datetime) -> dict[str, None]:
        ringing: dict[str, None] = {}
        while self._due and self._due[0][0] <= now:
            at, uid = heapq.heappop(self._due)
            if self._live(at, uid):
                ringing[uid] = None
        return ringing

    def _next(self) -> datetime | None:
        while self._due and not self._live(*self._due[0]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def _live(self, at: datetime, uid: str) -> bool:
        run = self._runs.get(uid)
        return run is not None and at in run.timers.values()

    def _forget(self, uid: str) -> None:
        run = self._runs.pop(uid, None)
        if run is not None and run.runtime.sandbox:
            self._ips.discard(run.runtime.sandbox.ip)

    # One pod

    def _turn(self, world: World, uid: str, now: datetime) -> None:
        run = self._runs.get(uid)
        if run is None:
            return
        pod = world.get(run.key)
        if pod is None or pod["metadata"]["uid"] != uid:
            self._forget(uid)
            return
        if not run.ending and _is_judged(pod, run) and not run.due(now):
            return  # nothing changed that a decision is made from
        events: list[Event] | None = [] if self.events else None
        turn = Turn(view=world, pod=pod, now=now, profile=self.profile, events=events)
        try:
            self._settle(world, run, turn)
        except NotFound:
            self._forget(uid)
        except ApiError:  # somebody refuses our write: this pod waits, the others go on
            run.timers["", "config"] = now + timedelta(seconds=ERROR_RETRY_S / self.profile.speed)
        for at in set(run.timers.values()):
            heapq.heappush(self._due, (at, uid))

    def _settle(self, world: World, run: PodRun, turn: Turn) -> None:
        for _ in range(SETTLE_MAX):
            if ring(run, turn) == {"pull"} and _is_judged(turn.pod, run):
                self._tell(world, turn.pod, turn)  # what a decision rests on is as it was
                return
            decided_on = run.runtime
            if turn.pod["metadata"].get("deletionTimestamp"):
                self._end(run, turn)
            elif (turn.pod.get("status") or {}).get("phase") not in ENDED:
                self._act(world, run, turn)
            if run.runtime is decided_on and not run.due(turn.now):
                break  # decided anew, it would be the same
        self._report(world, run, turn)

    def _act(self, world: World, run: PodRun, turn: Turn) -> None:
        if not run.runtime.containers and (problem := missing_volume(world, turn.pod)):
            if not run.lacks:
                turn.say("FailedMount", problem, type_=WARNING)
            run.lacks = True
            return
        actions = pod_actions(turn.pod, run.runtime)
        if actions.kill_pod:
            for container in every(turn.pod):
                kill(run, turn, container["name"])
        if actions.attempt is not None:
            self._make_sandbox(run, turn, actions)
        for name, message in actions.kill.items():
            kill(run, turn, name, message)
        for name in (*actions.start_init, *actions.start):
            seen = run.runtime.containers.get(name)
            spec = turn.spec(name)
            if spec is not None and (seen is None or not seen.up):
                begin(run, turn, spec)

    def _make_sandbox(self, run: PodRun, turn: Turn, actions: PodActions) -> None:
        assert actions.attempt is not None
        host = bool(turn.pod["spec"].get("hostNetwork"))
        ip = self._host_ip(turn.view, turn.pod) if host else self._free_ip(run.uid)
        run.runtime = run.runtime._replace(sandbox=Sandbox(attempt=actions.attempt, ip=ip))

    def _free_ip(self, uid: str) -> str:
        start = int.from_bytes(sha256(uid.encode()).digest()[:3], "big")
        for i in range(ADDRESSES):
            number = (start + i) % ADDRESSES + 1
            ip = f"10.244.{number // 256 % 256}.{number % 256}"
            if ip not in self._ips:
                self._ips.add(ip)
                return ip
        raise AssertionError("out of pod addresses")

    def _end(self, run: PodRun, turn: Turn) -> None:
        """Stop everything: regular containers together, then sidecars, the last one first."""
        run.ending = True
        run.starting.clear()
        for who in [w for w in run.timers if w[1] not in {"stop", "sigkill"}]:
            del run.timers[who]
        sidecars = [s["name"] for s in initial(turn.pod) if is_sidecar(s)]
        up = [s["name"] for s in every(turn.pod) if run.runtime.containers.get(s["name"])]
        up = [name for name in up if run.runtime.containers[name].up]
        first = [name for name in up if name not in sidecars]
        for name in first or up[-1:]:
            kill(run, turn, name)

    # Writing

    def _report(self, world: World, run: PodRun, turn: Turn) -> None:
        pod = turn.pod
        gone = run.ending and not any(c.up for c in run.runtime.containers.values())
        if not gone and _is_told(pod, run):
            run.judged = _made_from(pod, run)
            self._tell(world, pod, turn)  # nothing changed that a status is made from
            return
        if not gone or _has_last_words(world, pod):
            pod = self._tell_status(world, run, turn)
        run.judged = _made_from(pod, run)
        self._tell(world, pod, turn)
        if gone:
            self._remove(world, run, turn.now)

    def _tell_status(self, world: World, run: PodRun, turn: Turn) -> Obj:
        """The pod with its status, as far as that is news by now."""
        pod, more = turn.pod, bool(run.timers)
        if more and world.state.lean and in_transit(pod, run.runtime):
            if run.down is None and containers_ready(pod, run.runtime, "Running")[0] == "False":
                run.down = turn.now
            return pod
        known = _as_known(pod, run)
        host_ip, alike = self._host_ip(world, pod), world.state.alike
        status = pod_status(known, run.runtime, turn.now, host_ip=host_ip, alike=alike)
        if more and world.state.lean and is_starting(pod, status):
            run.untold = status
        elif status != pod.get("status") and not (more and only_seen(pod, status)):
            pod = self._write(world, pod, status, turn.now)
            run.written = pod["metadata"]["resourceVersion"]
            run.untold = run.down = None
        return pod

    def _tell(self, world: World, pod: Obj, turn: Turn) -> None:
        for event in turn.events or ():
            host = pod["spec"]["nodeName"]
            event_log.record(world, pod, event, turn.now, component="kubelet", host=host)

    def _write(self, world: World, pod: Obj, status: Obj, now: datetime) -> Obj:
        return world.handle(pod_status_request(pod, status), now, user=USER).body

    def _remove(self, world: World, run: PodRun, now: datetime) -> None:
        body: Any = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": run.uid},
        }
        request = ApiRequest(
            verb="delete",
            resource=PODS,
            namespace=run.key.namespace,
            name=run.key.name,
            body=body,
        )
        world.handle(request, now, user=USER)
        left = world.get(run.key)
        if left:  # finalizers keep it; removing the last one removes the pod
            run.written = left["metadata"]["resourceVersion"]

    def _host_ip(self, view: View, pod: Obj) -> str:
        name = pod["spec"]["nodeName"]
        key, known, address = self._hosts.get(name) or (ObjectKey("", "Node", "", name), None, "")
        node = view.get(key)
        if node is None:
            return ""
        if known is not node:
            addresses = (node.get("status") or {}).get("addresses") or ()
            address = next((str(a["address"]) for a in addresses if a["type"] == "InternalIP"), "")
            self._hosts[name] = key, node, address
        return address


def _made_from(pod: Obj, run: PodRun) -> tuple[object, ...]:
    """What a decision and a status are made from, to be compared by identity."""
    meta = pod["metadata"]
    going, generation = meta.get("deletionTimestamp"), meta.get("generation")
    return pod["spec"], pod.get("status"), run.runtime, generation, going, bool(run.timers)


def _is_judged(pod: Obj, run: PodRun) -> bool:
    return run.judged is not None and all(map(is_, run.judged, _made_from(pod, run)))


def _is_told(pod: Obj, run: PodRun) -> bool:
    """Whether the last status says all there is to say.

    A timer puts news off, as it does which generation was seen; and that a pod is to go shows once
    one of its containers is down.
    """
    if run.judged is None:
        return False
    spec, status, runtime, seen, going, waiting = map(is_, run.judged, _made_from(pod, run))
    up = going or all(c.up for c in run.runtime.containers.values())
    return spec and status and runtime and up and (bool(run.timers) or (seen and waiting))


def _has_last_words(world: World, pod: Obj) -> bool:
    """Whether the status of a pod that is about to go is still written, for those who watch."""
    if world.state.lean and not pod["metadata"].get("finalizers"):
        return False
    return (pod.get("status") or {}).get("phase") not in ENDED


def _as_known(pod: Obj, run: PodRun) -> Obj:
    """`pod` with the status we know of and have not written; what others say of it stands."""
    if run.untold is None and run.down is None:
        return pod
    listed = pod["status"].get("conditions") or ()
    if run.untold is not None:
        ours = [c for c in run.untold["conditions"] if c["type"] in OWNED_CONDITIONS]
        others = [c for c in listed if c["type"] not in OWNED_CONDITIONS]
        return {**pod, "status": {**run.untold, "conditions": [*ours, *others]}}
    down = {"status": "False", "lastTransitionTime": format_time(run.down)}
    told = [
        {**c, **down} if c["type"] == "ContainersReady" and c["status"] == "True" else c
        for c in listed
    ]
    return {**pod, "status": {**pod["status"], "conditions": told}}
