"""The model cluster's kubelet: pods that have a node get containers, statuses and an end.

Source: kubelet of Kubernetes 1.34 as far as the API shows it. What it decides is
`world.pod_actions`, what happens then is the table `world.stages`, what it reports is
`world.kubelet_status`. It keeps nothing that cannot be read back from pod statuses, so a new
kubelet goes on where the last one stopped. Failed pulls are not retried: an image that fails here
(`world.profiles`) fails for ever, and a cluster with nothing else to do is quiet.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from gitkruise.errors import ApiError, NotFound
from gitkruise.model.plan import Event
from gitkruise.model.view import View
from gitkruise.wire.names import GroupKind, Obj, ObjectKey, key_of
from gitkruise.world import events as event_log
from gitkruise.world.bells import Bells
from gitkruise.world.containers import (
    Sandbox,
    every,
    identity_of,
    initial,
    is_sidecar,
    runs_as_asked,
    runtime_of,
)
from gitkruise.world.environment import missing_volume
from gitkruise.world.fates import Fates
from gitkruise.world.kubelet_status import ENDED, only_seen, pod_status
from gitkruise.world.pod_actions import pod_actions
from gitkruise.world.pod_run import PodRun
from gitkruise.world.profiles import GENERAL, Profile
from gitkruise.world.stages import WARNING, Life, Turn, begin, kill, ring
from gitkruise.world.writes import remove, write_status

if TYPE_CHECKING:
    from gitkruise.world.cluster import World
    from gitkruise.world.state import Record

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
        self._bells = Bells()
        self._fates = Fates(profile, shared=not events)
        self._resting: set[str] = set()  # uids of pods that ran as asked when we began
        self._ips: set[str] = set()
        self._hosts: dict[str, tuple[ObjectKey, Obj | None, str]] = {}  # by node: read, address

    def run(self, world: World, now: datetime) -> datetime | None:
        """Do everything due at `now`; the next due instant, None to wait for a change."""
        for _ in range(SETTLE_MAX):
            dirty = self._news(world, now)
            dirty.update(dict.fromkeys(self._bells.ringing(now, self._is_awaited)))
            if not dirty:
                return self._bells.next(self._is_awaited)
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
            return self._begin(world.objects(POD))
        dirty: dict[str, None] = {}
        for record in records:
            if record.key[:2] == POD:
                uid = self._heard(record)
                if uid:
                    dirty[uid] = None
            elif record.key.kind in {"ConfigMap", "Secret"} and record.key.group == "":
                self._retry_config(record.key.namespace, now)
        return dirty

    def _begin(self, pods: Sequence[Obj]) -> dict[str, None]:
        """Uids of those to look at; one that runs as asked is met when it changes."""
        uids = {pod["metadata"]["uid"]: pod for pod in pods if pod["spec"].get("nodeName")}
        for uid in self._runs.keys() - uids.keys():
            self._forget(uid)
        new = [uid for uid in uids if uid not in self._runs]
        self._ips |= {ip for uid in new if (ip := (uids[uid].get("status") or {}).get("podIP"))}
        self._resting = {uid for uid in new if runs_as_asked(uids[uid])}
        for uid in new:
            if uid not in self._resting:
                self._meet(uids[uid], as_asked=False)
        return dict.fromkeys(uid for uid in uids if uid not in self._resting)

    def _heard(self, record: Record) -> str:
        """The uid of a pod to look at after a change, or ""."""
        pod = record.after or record.before
        assert pod is not None
        uid = str(pod["metadata"]["uid"])
        if uid in self._resting and record.before is not None:
            self._resting.remove(uid)
            self._meet(record.before, as_asked=True)
        if record.after is None:
            self._forget(uid)
            return ""
        run = self._runs.get(uid)
        if run is None and pod["spec"].get("nodeName"):
            run = self._meet(pod, as_asked=runs_as_asked(pod))
        if run is None or run.written == pod["metadata"]["resourceVersion"]:
            return ""
        return uid

    def _meet(self, pod: Obj, *, as_asked: bool) -> PodRun:
        """Take charge of a pod; of one that runs as asked nothing is left to be told."""
        who = identity_of(pod)
        life = self._fates.met(Life(runtime_of(pod)))
        run = PodRun(key=key_of(pod), who=who, life=life, told=life.runtime)
        if who.ip:
            self._ips.add(who.ip)
        if as_asked:
            run.judged = run.made_from(pod)
        self._runs[who.uid] = run
        return run

    def _retry_config(self, namespace: str, now: datetime) -> None:
        at = now + timedelta(seconds=CONFIG_RETRY_S / self.profile.speed)
        for uid, run in self._runs.items():
            if run.life.lacks and run.key.namespace == namespace:
                life = run.life = run.life.copy()
                life.lacks = False
                for name in list(life.blocked) or [""]:
                    life.timers[name, "config"] = at
                self._bells.set(at, uid)

    def _is_awaited(self, at: datetime, uid: str) -> bool:
        run = self._runs.get(uid)
        return run is not None and at in run.life.timers.values()

    def _forget(self, uid: str) -> None:
        run = self._runs.pop(uid, None)
        if run is not None:
            self._ips.discard(run.who.ip)

    # One pod

    def _turn(self, world: World, uid: str, now: datetime) -> None:
        run = self._runs.get(uid)
        if run is None:
            return
        pod = world.get(run.key)
        if pod is None or pod["metadata"]["uid"] != uid:
            self._forget(uid)
            return
        if not run.life.ending and run.is_judged(pod) and not run.life.due(now):
            return  # nothing changed that a decision is made from
        events: list[Event] | None = [] if self.events else None
        turn = Turn(view=world, pod=pod, now=now, profile=self.profile, events=events)
        before = run.life
        try:
            if run.spec is not pod["spec"]:
                run.spec, run.shape = pod["spec"], self._fates.shape_of(pod["spec"])
            run.life = self._fates.after(before, run.shape, turn, self._play)
            self._place_in_network(world, run, before, pod)
            self._report(world, run, turn)
        except NotFound:
            self._forget(uid)
        except ApiError:  # somebody refuses our write: this pod waits, the others go on
            run.life = run.life.copy()
            pause = timedelta(seconds=ERROR_RETRY_S / self.profile.speed)
            run.life.timers["", "config"] = now + pause
        if run.life is not before:
            for at in run.life.timers.values():
                self._bells.set(at, uid)

    def _play(self, life: Life, turn: Turn) -> None:
        """Let `life` go on until nothing is left to be decided at this instant."""
        for _ in range(SETTLE_MAX):
            ring(life, turn)
            decided_on = life.runtime
            if turn.pod["metadata"].get("deletionTimestamp"):
                self._end(life, turn)
            elif (turn.pod.get("status") or {}).get("phase") not in ENDED:
                self._act(life, turn)
            if life.runtime is decided_on and not life.due(turn.now):
                break  # decided anew, it would be the same

    def _act(self, life: Life, turn: Turn) -> None:
        if not life.runtime.containers and (problem := missing_volume(turn.view, turn.pod)):
            if not life.lacks:
                turn.say("FailedMount", problem, type_=WARNING)
            life.lacks = True
            return
        actions = pod_actions(turn.pod, life.runtime)
        if actions.kill_pod:
            for container in every(turn.pod):
                kill(life, turn, container["name"])
        if actions.attempt is not None:
            life.runtime = life.runtime._replace(sandbox=Sandbox(attempt=actions.attempt))
        for name, message in actions.kill.items():
            kill(life, turn, name, message)
        for name in (*actions.start_init, *actions.start):
            seen = life.runtime.containers.get(name)
            spec = turn.spec(name)
            if spec is not None and (seen is None or not seen.up):
                begin(life, turn, spec)

    def _place_in_network(self, world: World, run: PodRun, before: Life, pod: Obj) -> None:
        """A new sandbox has a new address."""
        if run.life.runtime.sandbox not in (None, before.runtime.sandbox):
            host = bool(pod["spec"].get("hostNetwork"))
            ip = self._host_ip(world, pod) if host else self._free_ip(run.who.uid)
            run.who = run.who._replace(ip=ip)

    def _free_ip(self, uid: str) -> str:
        start = int.from_bytes(sha256(uid.encode()).digest()[:3], "big")
        for i in range(ADDRESSES):
            number = (start + i) % ADDRESSES + 1
            ip = f"10.244.{number // 256 % 256}.{number % 256}"
            if ip not in self._ips:
                self._ips.add(ip)
                return ip
        raise AssertionError("out of pod addresses")

    def _end(self, life: Life, turn: Turn) -> None:
        """Stop everything: regular containers together, then sidecars, the last one first."""
        life.ending = True
        life.starting.clear()
        for who in [w for w in life.timers if w[1] not in {"stop", "sigkill"}]:
            del life.timers[who]
        sidecars = [s["name"] for s in initial(turn.pod) if is_sidecar(s)]
        known = life.runtime.containers
        up = [s["name"] for s in every(turn.pod) if s["name"] in known and known[s["name"]].up]
        first = [name for name in up if name not in sidecars]
        for name in first or up[-1:]:
            kill(life, turn, name)

    # Writing

    def _report(self, world: World, run: PodRun, turn: Turn) -> None:
        pod, life = turn.pod, run.life
        gone = life.ending and not any(c.up for c in life.runtime.containers.values())
        made_from = run.made_from(pod)
        if not gone and run.has_told(made_from):
            run.judged = made_from
            self._tell(world, pod, turn)  # nothing changed that a status is made from
            return
        if not gone or _has_last_words(world, pod):
            pod = self._tell_status(world, run, turn)
        run.judged = made_from if pod is turn.pod else run.made_from(pod)
        self._tell(world, pod, turn)
        if gone:
            self._remove(world, run, turn.now)

    def _tell_status(self, world: World, run: PodRun, turn: Turn) -> Obj:
        """The pod with its status, as far as that is news by now."""
        pod, more, alike = turn.pod, bool(run.life.timers), world.state.alike
        if more and world.state.lean and run.keeps_quiet(pod, turn.now, alike):
            return pod
        known, host_ip = run.as_known(pod), self._host_ip(world, pod)
        runtime = run.life.runtime
        status = pod_status(known, runtime, run.who, turn.now, host_ip=host_ip, alike=alike)
        if status != pod.get("status") and not (more and only_seen(pod, status)):
            pod = write_status(world, pod, status, turn.now, user=USER)
            run.written = pod["metadata"]["resourceVersion"]
            run.told, run.untold, run.down = runtime, None, None
        return pod

    def _tell(self, world: World, pod: Obj, turn: Turn) -> None:
        for event in turn.events or ():
            host = pod["spec"]["nodeName"]
            event_log.record(world, pod, event, turn.now, component="kubelet", host=host)

    def _remove(self, world: World, run: PodRun, now: datetime) -> None:
        remove(world, run.key, run.who.uid, now, user=USER)
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


def _has_last_words(world: World, pod: Obj) -> bool:
    """Whether the status of a pod that is about to go is still written, for those who watch."""
    if world.state.lean and not pod["metadata"].get("finalizers"):
        return False
    return (pod.get("status") or {}).get("phase") not in ENDED
