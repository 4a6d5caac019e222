"""The model cluster's kubelet: runs, reports and stops the pods that have a node.

Source: kubelet of Kubernetes 1.34 as far as the API shows it. It decides
in `pod_actions`, plays the table `stages` and reports through `status`. All its state can be read
back from pod statuses, so a new kubelet continues where the last one stopped. Failed pulls are not
retried: an image that fails here (`profiles`) always fails, and an idle cluster is quiet.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from gitkruise.errors import ApiError, NotFound
from gitkruise.model.node.node_image import NODE_IMAGE, PullPhase
from gitkruise.model.planning.plan import Event
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.workloads.pod import FINISHED
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, key_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.images import familiar_parts, is_image
from gitkruise.world.controllers import event_recorder as event_log
from gitkruise.world.controllers.client import remove, write_status
from gitkruise.world.controllers.object_backoff import ObjectBackoff, Report, earliest
from gitkruise.world.kubelet.config_refs import missing_volume
from gitkruise.world.kubelet.pod_actions import pod_actions
from gitkruise.world.kubelet.pod_worker import PodWorker
from gitkruise.world.kubelet.profiles import GENERAL, Profile
from gitkruise.world.kubelet.recovery import awaits, lose_sandbox, resumed
from gitkruise.world.kubelet.runtime import (
    PodSandbox,
    every,
    identity_of,
    initial,
    is_sidecar,
    matches_spec,
    runtime_of,
)
from gitkruise.world.kubelet.stages import (
    WARNING,
    StageContext,
    WorkerState,
    begin,
    kill,
    play_due,
    stop_by_agent,
)
from gitkruise.world.kubelet.state_sharing import SharedStates
from gitkruise.world.kubelet.status import only_seen, pod_status

if TYPE_CHECKING:
    from gitkruise.world.api.cluster import World
    from gitkruise.world.store.store import CommittedChange

POD, NODE = GroupKind("", "Pod"), GroupKind("", "Node")
SANDBOX_CHANGED: Final = "Pod sandbox changed, it will be killed and re-created."
USER: Final = "system:node"
CONFIG_RETRY_S, ERROR_RETRY_S = 10.0, 10.0
ADDRESSES: Final = 2**16 - 2  # of 10.244.0.0/16
_NOTHING: Final[frozenset[str]] = frozenset()
SETTLE_MAX: Final = 100  # decisions for one pod at one instant


class Kubelet:
    """All nodes of one World. `run` does what is due at `now` and says when to call again.

    With `assumed`, the ConfigMaps and Secrets that pods read count as present.
    """

    def __init__(
        self,
        profile: Profile = GENERAL,
        *,
        events: bool = True,
        report: Report | None = None,
        assumed: bool = False,
    ) -> None:
        self.profile = profile
        self.events = events
        self._assumed = assumed
        self._seen: int | None = None
        self._runs: dict[str, PodWorker] = {}
        self._timers = Timers()
        self._backoff = ObjectBackoff(report)
        self._dirty: dict[str, None] = {}  # uids of pods to look at
        self._shared_states = SharedStates(profile, shared=not events, assumed=assumed)
        self._settled: set[str] = set()  # uids of pods that matched their spec at the start
        self._ips: set[str] = set()
        self._hosts: dict[str, tuple[ObjectKey, Obj | None, str]] = {}  # by node: read, address

    def run(self, world: World, now: datetime) -> datetime | None:
        """Do everything due at `now`; the next due instant, None to wait for a change."""
        dirty: dict[str, None] = {}
        for _ in range(SETTLE_MAX):
            self._backoff.retry(now)
            self._collect_changes(world, now)
            dirty, self._dirty = self._dirty, {}
            dirty.update(dict.fromkeys(self._timers.due(now, self._is_awaited)))
            if not dirty:
                return earliest(self._timers.next(self._is_awaited), self._backoff.next())
            for uid in sorted((uid for uid in dirty if uid in self._runs), key=self._place):
                self._backoff.attempt(uid, now, self._sync, world, uid)
        for uid in dirty:  # they rest alone; the others were served in every round
            self._backoff.attempt(uid, now, _never_settles)
        return earliest(now, self._backoff.next())

    # What a node agent sees and does

    def worker(self, pod: Obj) -> PodWorker | None:
        """The pod's worker; None while the pod has no node, or is another one than it was."""
        uid = pod["metadata"]["uid"]
        if uid in self._settled:
            self._settled.remove(uid)
            return self._load(pod, settled=True)
        return self._runs.get(uid)

    def stop_container(
        self, world: World, pod: Obj, name: str, now: datetime, *, grace_s: float
    ) -> None:
        """Stop a container of `pod` through the runtime; what ends or has ended is left."""
        run = self.worker(pod)
        if run is None or run.state.ending:
            return
        ctx = StageContext(view=world, pod=pod, now=now, profile=self.profile, events=None)
        run.state = run.state.copy()
        stop_by_agent(run.state, ctx, name, grace_s)
        for at in run.state.timers.values():
            self._timers.set(at, run.identity.uid)

    def _place(self, uid: str) -> tuple[ObjectKey, str]:
        """Pods are served in name order, so that a trace does not depend on how uids fall."""
        return self._runs[uid].key, uid

    # What changed, and what is due

    def _collect_changes(self, world: World, now: datetime) -> None:
        """Note pods that others changed since the last run; in order."""
        records = world.changes_since(self._seen)
        self._seen = world.version
        if records is None:
            self._load_all(world.objects(POD), now)
            return
        for record in records:
            if record.key[:2] == POD:
                self._backoff.attempt(record.key, now, self._on_change, record)
            elif record.key.kind in {"ConfigMap", "Secret"} and record.key.group == "":
                self._retry_config(record.key.namespace, now)
            elif record.key[:2] == NODE:
                self._backoff.attempt(record.key, now, self._on_node, world, record)

    def _on_node(self, world: World, record: CommittedChange, now: datetime) -> None:
        """Another boot id is a reboot: every pod of the node loses its sandbox."""
        before, after = (_boot_of(node) for node in (record.before, record.after))
        if record.after is None or not before or not after or before == after:
            return
        name = record.key.name
        if self.events:
            message = f"Node {name} has been rebooted, boot id: {after}"
            event = Event(WARNING, "Rebooted", message)
            event_log.record(world, record.after, event, now, component="kubelet", host=name)
        for pod in world.objects(POD):
            if pod["spec"].get("nodeName") == name and (run := self.worker(pod)) is not None:
                run.state = lose_sandbox(run.state, now)
                self._dirty[run.identity.uid] = None

    def _load_all(self, pods: Sequence[Obj], now: datetime) -> None:
        """Note the pods to sync; one that runs as requested is loaded when it changes."""
        uids = {pod["metadata"]["uid"]: pod for pod in pods if pod["spec"].get("nodeName")}
        for uid in self._runs.keys() - uids.keys():
            self._forget(uid)
        new = [uid for uid in uids if uid not in self._runs]
        self._settled = set()
        self._dirty |= dict.fromkeys(uid for uid in uids if uid in self._runs)
        for uid in new:
            self._backoff.attempt(key_of(uids[uid]), now, self._first_look, uids[uid])

    def _first_look(self, pod: Obj, _: datetime) -> None:
        uid, status = pod["metadata"]["uid"], pod.get("status") or {}
        if address := status.get("podIP"):
            self._ips.add(address)
        if matches_spec(pod) and not (self.events and awaits(pod, self.profile)):
            self._settled.add(uid)
            return
        self._load(pod, settled=False)
        self._dirty[uid] = None

    def _on_change(self, record: CommittedChange, _: datetime) -> None:
        """Note the pod of a change if it needs a sync."""
        pod = record.after or record.before
        assert pod is not None
        uid = str(pod["metadata"]["uid"])
        if uid in self._settled and record.before is not None:
            self._settled.remove(uid)
            self._load(record.before, settled=True)
        if record.after is None:
            self._forget(uid)
            return
        run = self._runs.get(uid)
        if run is None and pod["spec"].get("nodeName"):
            run = self._load(pod, settled=matches_spec(pod))
        if run is not None and run.written != pod["metadata"]["resourceVersion"]:
            self._dirty[uid] = None

    def _load(self, pod: Obj, *, settled: bool) -> PodWorker:
        """Start managing a pod; the status of one that runs as requested is up to date."""
        identity = identity_of(pod)
        state = self._shared_states.intern(WorkerState(runtime_of(pod)))
        run = PodWorker(key=key_of(pod), identity=identity, state=state, reported=state.runtime)
        if identity.ip:
            self._ips.add(identity.ip)
        if settled:
            run.last_inputs = run.status_inputs(pod)
        self._runs[identity.uid] = run
        return run

    def _retry_config(self, namespace: str, now: datetime) -> None:
        at = now + timedelta(seconds=CONFIG_RETRY_S / self.profile.speed)
        for uid, run in self._runs.items():
            if run.state.lacks and run.key.namespace == namespace:
                state = run.state = run.state.copy()
                state.lacks = False
                for name in list(state.blocked) or [""]:
                    state.timers[name, "config"] = at
                self._timers.set(at, uid)

    def _is_awaited(self, at: datetime, uid: str) -> bool:
        run = self._runs.get(uid)
        return run is not None and at in run.state.timers.values()

    def _forget(self, uid: str) -> None:
        run = self._runs.pop(uid, None)
        if run is not None:
            self._ips.discard(run.identity.ip)

    # One pod

    def _sync(self, world: World, uid: str, now: datetime) -> None:
        run = self._runs.get(uid)
        if run is None:
            return
        pod = world.get(run.key)
        if pod is None or pod["metadata"]["uid"] != uid:
            self._forget(uid)
            return
        if not run.state.ending and run.is_unchanged(pod) and not run.state.due(now):
            return  # nothing changed that a decision is made from
        events: list[Event] | None = [] if self.events else None
        ctx = StageContext(
            view=world, pod=pod, now=now, profile=self.profile, events=events,
            present=pulled_ahead(world, pod), assumed=self._assumed,
        )  # fmt: skip
        before = self._resumed(run, ctx)
        try:
            if run.spec is not pod["spec"]:
                run.spec, run.shape = pod["spec"], self._shared_states.shape_of(pod["spec"])
            run.state = self._shared_states.advance(before, run.shape, ctx, self._play)
            self._place_in_network(world, run, before, pod)
            self._report(world, run, ctx)
        except NotFound:
            self._forget(uid)
        except ApiError:  # the write was rejected: this pod waits, the others continue
            run.state = run.state.copy()
            pause = timedelta(seconds=ERROR_RETRY_S / self.profile.speed)
            run.state.timers["", "config"] = now + pause
        if run.state is not before:
            for at in run.state.timers.values():
                self._timers.set(at, uid)

    def _resumed(self, worker: PodWorker, ctx: StageContext) -> WorkerState:
        """The state of `run`; with the timers that a pod has whose containers others started.

        A forecast takes a pod that is stuck as it is.
        """
        if worker.spec is None and self.events:
            worker.state = resumed(worker.state, ctx)
            for at in worker.state.timers.values():
                self._timers.set(at, worker.identity.uid)
        return worker.state

    def _play(self, state: WorkerState, ctx: StageContext) -> None:
        """Play `state` until nothing is left to decide at this instant."""
        for _ in range(SETTLE_MAX):
            play_due(state, ctx)
            decided_on = state.runtime
            if ctx.pod["metadata"].get("deletionTimestamp"):
                self._end(state, ctx)
            elif (ctx.pod.get("status") or {}).get("phase") not in FINISHED:
                self._act(state, ctx)
            if state.runtime is decided_on and not state.due(ctx.now):
                break  # another decision would be the same

    def _act(self, state: WorkerState, ctx: StageContext) -> None:
        known = ctx.assumed or state.runtime.containers
        if not known and (problem := missing_volume(ctx.view, ctx.pod)):
            if not state.lacks:
                ctx.say("FailedMount", problem, type_=WARNING)
            state.lacks = True
            return
        actions = pod_actions(ctx.pod, state.runtime)
        if actions.kill_pod:
            for container in every(ctx.pod):
                kill(state, ctx, container["name"])
        if actions.attempt:
            ctx.say("SandboxChanged", SANDBOX_CHANGED)
        if actions.attempt is not None:
            state.runtime = state.runtime._replace(sandbox=PodSandbox(attempt=actions.attempt))
        for name, message in actions.kill.items():
            kill(state, ctx, name, message)
        for name in (*actions.start_init, *actions.start):
            seen = state.runtime.containers.get(name)
            spec = ctx.spec(name)
            if spec is not None and (seen is None or not seen.up):
                begin(state, ctx, spec)

    def _place_in_network(
        self, world: World, worker: PodWorker, before: WorkerState, pod: Obj
    ) -> None:
        """A new sandbox has a new address."""
        if worker.state.runtime.sandbox not in (None, before.runtime.sandbox):
            host = bool(pod["spec"].get("hostNetwork"))
            ip = self._host_ip(world, pod) if host else self._free_ip(worker.identity.uid)
            worker.identity = worker.identity._replace(ip=ip)

    def _free_ip(self, uid: str) -> str:
        start = int.from_bytes(sha256(uid.encode()).digest()[:3], "big")
        for i in range(ADDRESSES):
            number = (start + i) % ADDRESSES + 1
            ip = f"10.244.{number // 256 % 256}.{number % 256}"
            if ip not in self._ips:
                self._ips.add(ip)
                return ip
        raise AssertionError("out of pod addresses")

    def _end(self, state: WorkerState, ctx: StageContext) -> None:
        """Stop everything: regular containers together, then sidecars, the last one first."""
        state.ending = True
        state.starting.clear()
        for who in [w for w in state.timers if w[1] not in {"stop", "sigkill"}]:
            del state.timers[who]
        sidecars = [s["name"] for s in initial(ctx.pod) if is_sidecar(s)]
        known = state.runtime.containers
        up = [s["name"] for s in every(ctx.pod) if s["name"] in known and known[s["name"]].up]
        first = [name for name in up if name not in sidecars]
        for name in first or up[-1:]:
            kill(state, ctx, name)

    # Writing

    def _report(self, world: World, worker: PodWorker, ctx: StageContext) -> None:
        pod, state = ctx.pod, worker.state
        gone = state.ending and not any(c.up for c in state.runtime.containers.values())
        status_inputs = worker.status_inputs(pod)
        if not gone and worker.is_reported(status_inputs):
            worker.last_inputs = status_inputs
            self._record_events(world, pod, ctx)  # nothing changed that a status is made from
            return
        if not gone or _writes_final_status(world, pod):
            pod = self._write_status(world, worker, ctx)
        worker.last_inputs = status_inputs if pod is ctx.pod else worker.status_inputs(pod)
        self._record_events(world, pod, ctx)
        if gone:
            self._remove(world, worker, ctx.now)

    def _write_status(self, world: World, worker: PodWorker, ctx: StageContext) -> Obj:
        """The pod with its status, as far as that is news by now."""
        pod, more, memo = ctx.pod, bool(worker.state.timers), world.state.memo
        if more and world.state.fast_path and worker.may_defer(pod, ctx.now, memo):
            return pod
        known, host_ip = worker.with_unwritten(pod), self._host_ip(world, pod)
        runtime = worker.state.runtime
        status = pod_status(known, runtime, worker.identity, ctx.now, host_ip=host_ip, memo=memo)
        if status != pod.get("status") and not (more and only_seen(pod, status)):
            pod = write_status(world, pod, status, ctx.now, user=USER)
            worker.written = pod["metadata"]["resourceVersion"]
            worker.reported, worker.unwritten, worker.down = runtime, None, None
        return pod

    def _record_events(self, world: World, pod: Obj, ctx: StageContext) -> None:
        for event in ctx.events or ():
            host = pod["spec"]["nodeName"]
            event_log.record(world, pod, event, ctx.now, component="kubelet", host=host)

    def _remove(self, world: World, worker: PodWorker, now: datetime) -> None:
        remove(world, worker.key, worker.identity.uid, now, user=USER)
        left = world.get(worker.key)
        if left:  # finalizers keep it; removing the last one removes the pod
            worker.written = left["metadata"]["resourceVersion"]

    def _host_ip(self, view: ClusterView, pod: Obj) -> str:
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


def _boot_of(node: Obj | None) -> str:
    return str(get(node, "status", "nodeInfo", "bootID", default=""))


def _never_settles(_: datetime) -> None:
    raise AssertionError("the kubelet never settles")


def _writes_final_status(world: World, pod: Obj) -> bool:
    """Return whether the last status of a pod is written before its deletion, for watchers."""
    if world.state.fast_path and not pod["metadata"].get("finalizers"):
        return False
    return (pod.get("status") or {}).get("phase") not in FINISHED


def pulled_ahead(world: World, pod: Obj) -> frozenset[str]:
    """Images of a pod that the agent of its node pulled ahead, as the pod spells them."""
    if not world.state.knows(NODE_IMAGE):
        return _NOTHING
    node = pod["spec"].get("nodeName") or ""
    image = world.get(ObjectKey(*NODE_IMAGE, "", node))
    pulled = ((image or {}).get("status") or {}).get("imageStatuses")
    if not pulled:
        return _NOTHING
    found = set()
    for name in {spec["image"] for spec in every(pod) if is_image(spec["image"])}:
        repository, tag = familiar_parts(name)
        tags = (pulled.get(repository) or {}).get("tags") or ()
        if any(one["tag"] == tag and one["phase"] == PullPhase.SUCCEEDED for one in tags):
            found.add(name)
    return frozenset(found)


class Timers:
    """Due instants of pods. An instant that is no longer awaited is dropped."""

    __slots__ = ("_at", "_instants")

    def __init__(self) -> None:
        self._instants: list[datetime] = []  # a heap
        self._at: dict[datetime, dict[str, None]] = {}  # uids in the order they were set

    def set(self, at: datetime, uid: str) -> None:
        who = self._at.get(at)
        if who is None:
            who = self._at[at] = {}
            heapq.heappush(self._instants, at)
        who[uid] = None

    def due(self, now: datetime, awaited: Callable[[datetime, str], bool]) -> list[str]:
        """Pop the uids that are due up to `now`."""
        found: list[str] = []
        while self._instants and self._instants[0] <= now:
            at = heapq.heappop(self._instants)
            found += [uid for uid in self._at.pop(at) if awaited(at, uid)]
        return found

    def next(self, awaited: Callable[[datetime, str], bool]) -> datetime | None:
        """Return the next awaited instant."""
        while self._instants:
            at = self._instants[0]
            if any(awaited(at, uid) for uid in self._at[at]):
                return at
            del self._at[heapq.heappop(self._instants)]
        return None
