"""Container lifecycle on a simulated node: a table of stages, each triggered by a timer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from gitkruise.model.planning.plan import Event
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.workloads.pod import pod_facts
from gitkruise.planner.pods.container_hashes import environment_hash, expected_environment
from gitkruise.planner.pods.sidecar_terminator import waits_for_others
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import parse_time
from gitkruise.world.kubelet.config_refs import missing_environment, reads_metadata
from gitkruise.world.kubelet.container_status import terminated
from gitkruise.world.kubelet.probes import (
    LEAST_STOP_S,
    LIVENESS,
    POST_START,
    PRE_STOP,
    READINESS,
    STARTUP,
    hook_fails,
    hook_s,
    kill_grace_s,
    probe_fails,
    probe_times,
    sleep_s,
)
from gitkruise.world.kubelet.profiles import ImageFate, Profile, draw
from gitkruise.world.kubelet.runtime import (
    PodRuntime,
    RuntimeContainer,
    RuntimeState,
    every,
    image_id,
    initial,
    is_sidecar,
    policy_of,
)

CRASH_FIRST_S, CRASH_MAX_S, CRASH_FORGET_S = 10.0, 300.0, 600.0
PULL_BACKOFF_AFTER_S: Final = 1.0
NORMAL, WARNING = "Normal", "Warning"
# Stages that end a container: by itself within the grace period, or by SIGKILL.
_OWN_STOPS: Final = ("stop", "sigkill")
_AGENT_STOPS: Final = ("agent-stop", "agent-sigkill")
_STOPS: Final = (*_OWN_STOPS, *_AGENT_STOPS)
_FAILURES: Final = ("liveness-failure", "startup-failure")


@dataclass(slots=True)
class WorkerState:
    """State of one pod on its node, without the pod's identity: identical pods share one.

    Changed only while it is played, before a pod holds it. `timers` is (container, stage) → due
    instant. `starting` is container → image being started. `blocked` is container → image that
    cannot start before something changes; `lacks` is set while a ConfigMap or Secret is missing.
    `backoffs` is (container, image and resources) → (pause, instant of the last count): kubelet's
    crash back-off.
    """

    runtime: PodRuntime
    timers: dict[tuple[str, str], datetime] = field(default_factory=dict)
    starting: dict[str, str] = field(default_factory=dict)
    blocked: dict[str, str] = field(default_factory=dict)
    backoffs: dict[tuple[str, str], tuple[float, datetime]] = field(default_factory=dict)
    lacks: bool = False
    ending: bool = False

    def copy(self) -> WorkerState:
        """A copy to play on."""
        return WorkerState(
            runtime=self.runtime,
            timers=dict(self.timers),
            starting=dict(self.starting),
            blocked=dict(self.blocked),
            backoffs=dict(self.backoffs),
            lacks=self.lacks,
            ending=self.ending,
        )

    def due(self, now: datetime) -> bool:
        """Return whether a timer is due."""
        return bool(self.timers) and min(self.timers.values()) <= now

    def cancel(self, name: str, *stages: str) -> None:
        for stage in stages:
            self.timers.pop((name, stage), None)


class StageContext(NamedTuple):
    """Inputs of a stage, and the list that collects its events.

    `present` are the pod's images that a node agent pulled ahead. With `assumed`, ConfigMaps and
    Secrets count as present.
    """

    view: ClusterView
    pod: Obj
    now: datetime
    profile: Profile
    events: list[Event] | None  # None: events are off
    present: frozenset[str] = frozenset()
    assumed: bool = False

    def has(self, spec: Obj) -> bool:
        """Return whether a container starts without a pull."""
        return spec["image"] in self.present and spec.get("imagePullPolicy") != "Always"

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    def say(self, reason: str, message: str, *, type_: str = NORMAL) -> None:
        if self.events is not None:
            self.events.append(Event(type_, reason, message))

    def after(self, seconds: float, state: WorkerState, name: str, stage: str) -> datetime:
        count = state.runtime.containers[name].restarts if name in state.runtime.containers else -1
        delay = self.profile.delay_s(seconds, seed=f"{self.uid}/{name}/{stage}/{count}")
        return self.now + timedelta(seconds=delay)

    def exactly(self, seconds: float) -> datetime:
        """`seconds` from now at the profile's speed, without jitter."""
        return self.now + timedelta(seconds=seconds / self.profile.speed)

    def spec(self, name: str) -> Obj | None:
        for spec in every(self.pod):  # asked all the time: no generator
            if spec["name"] == name:
                return spec
        return None


def begin(state: WorkerState, ctx: StageContext, spec: Obj) -> None:
    """Start a container, unless it is starting already, waits for back-off, or cannot start."""
    name, image = spec["name"], spec["image"]
    if state.starting.get(name) == image or state.blocked.get(name) == image:
        return
    state.blocked.pop(name, None)
    state.cancel(name, "start", "post-start", "backoff")
    if _backing_off(state, ctx, spec):
        return
    state.starting[name] = image
    if ctx.has(spec):
        state.timers[name, "pull"] = ctx.now
        return
    state.timers[name, "pull"] = ctx.after(ctx.profile.pull_s, state, name, "pull")
    ctx.say("Pulling", f'Pulling image "{image}"')


def _backing_off(state: WorkerState, ctx: StageContext, spec: Obj) -> bool:
    """Return whether crash back-off keeps the container from starting; counts the start (KUB-61).

    A start counts when the sync knew an exited container of that name, whatever its exit code. The
    sync that killed a container does not know its exit yet, but that of the one before.
    """
    name = spec["name"]
    seen = state.runtime.containers.get(name)
    if seen is None or seen.run is not RuntimeState.EXITED or seen.finished is None:
        return False
    exit_ = parse_time((seen.last or {}).get("finishedAt")) if seen.killed else seen.finished
    if exit_ is None:
        return False
    kind = name, f"{spec['image']} {spec.get('resources')}"
    pause, last = state.backoffs.get(kind, (0.0, ctx.now))
    if not pause or (exit_ - last).total_seconds() > CRASH_FORGET_S / ctx.profile.speed:
        state.backoffs[kind] = (CRASH_FIRST_S, ctx.now)
        return False
    length = timedelta(seconds=pause / ctx.profile.speed)
    if ctx.now >= exit_ + length:
        state.backoffs[kind] = (min(2 * pause, CRASH_MAX_S), ctx.now)
        return False
    if (name, "retry") not in state.timers:
        state.timers[name, "retry"] = seen.finished + length
        state.runtime = state.runtime.having(seen._replace(killed=False))
        meta = ctx.pod["metadata"]
        who = f"{meta['name']}_{meta['namespace']}({ctx.uid})"
        message = f"back-off {pause:g}s restarting failed container={name} pod={who}"
        state.runtime = state.runtime.stuck(name, "CrashLoopBackOff", message)
        ctx.say(
            "BackOff", f"Back-off restarting failed container {name} in pod {who}", type_=WARNING
        )
    return True


def kill(state: WorkerState, ctx: StageContext, name: str, message: str = "") -> None:
    """Send SIGTERM to a running container; it exits within the pod's grace period."""
    grace = ctx.pod["metadata"].get("deletionGracePeriodSeconds")
    seen, spec = state.runtime.containers.get(name), ctx.spec(name) or {}
    if grace is None and seen is not None:
        grace = kill_grace_s(spec, live=seen.live, startup=seen.startup)
    if grace is None:
        grace = ctx.pod["spec"].get("terminationGracePeriodSeconds", 30)
    if _terminate(state, ctx, name, max(float(grace), 1.0), _OWN_STOPS):
        ctx.say("Killing", message or f"Stopping container {name}")
        if hook_fails(spec, PRE_STOP):
            ctx.say("FailedPreStopHook", "PreStopHook failed", type_=WARNING)


def stop_by_agent(state: WorkerState, ctx: StageContext, name: str, grace_s: float) -> None:
    """Stop a running container as a node agent does: kubelet sees an exit that it did not cause,
    so that the restart counts for back-off (KUB-64)."""
    _terminate(state, ctx, name, grace_s, _AGENT_STOPS)


def _terminate(
    state: WorkerState, ctx: StageContext, name: str, grace_s: float, stages: tuple[str, str]
) -> bool:
    """Set the timer of the exit; False when the container is not running, or ends already."""
    seen = state.runtime.containers.get(name)
    if seen is None or not seen.up or {(name, stage) for stage in _STOPS} & state.timers.keys():
        return False
    state.cancel(name, "exit", "crash", *_FAILURES)
    took = hook_s(ctx.spec(name) or {}, PRE_STOP)
    hook = min(took or 0.0, grace_s)  # it is cut off, and the container has a moment left
    left = grace_s if took is None else max(grace_s - hook, LEAST_STOP_S)
    wanted = ctx.after(ctx.profile.stop_s, state, name, "stop") + (ctx.exactly(hook) - ctx.now)
    latest = ctx.exactly(hook + left)
    state.timers[name, stages[wanted > latest]] = min(wanted, latest)
    return True


def _pulled(state: WorkerState, ctx: StageContext, name: str) -> None:
    spec = ctx.spec(name)
    assert spec is not None
    image = state.starting[name]
    if ctx.profile.fate_of(image) is ImageFate.PULL_FAILS:
        error = (
            f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": '
            f"{image}: not found"
        )
        _give_up(state, ctx, name, "ErrImagePull", error)
        ctx.say("Failed", f'Failed to pull image "{image}": {error}', type_=WARNING)
        ctx.say("Failed", "Error: ErrImagePull", type_=WARNING)
        state.timers[name, "backoff"] = ctx.exactly(PULL_BACKOFF_AFTER_S)
        return
    there = f'Container image "{image}" already present on machine'
    ctx.say("Pulled", there if ctx.has(spec) else f'Successfully pulled image "{image}"')
    if problem := missing_environment(ctx.view, ctx.pod, spec, assumed=ctx.assumed):
        _give_up(state, ctx, name, "CreateContainerConfigError", problem)
        ctx.say("Failed", f"Error: {problem}", type_=WARNING)
        state.lacks = True
        return
    state.timers[name, "start"] = ctx.after(ctx.profile.start_s, state, name, "start")


def _give_up(state: WorkerState, ctx: StageContext, name: str, reason: str, message: str) -> None:
    del ctx
    state.blocked[name] = state.starting.pop(name)
    state.runtime = state.runtime.stuck(name, reason, message)


def _backoff(state: WorkerState, ctx: StageContext, name: str) -> None:
    """A pull that failed fails for ever here: the node waits for another image, without retries."""
    image = state.blocked.get(name, "")
    message = f'Back-off pulling image "{image}"'
    _, error = state.runtime.waiting.get(name, ("", ""))
    state.runtime = state.runtime.stuck(
        name, "ImagePullBackOff", f"{message}: ErrImagePull: {error}"
    )
    ctx.say("BackOff", message)
    ctx.say("Failed", "Error: ImagePullBackOff", type_=WARNING)


def _started(state: WorkerState, ctx: StageContext, name: str) -> None:
    """The container runs; it is reported once its postStart hook is over."""
    spec = ctx.spec(name)
    assert spec is not None
    ctx.say("Created", f"Created container: {name}")
    ctx.say("Started", f"Started container {name}")
    state.timers[name, "post-start"] = ctx.exactly(hook_s(spec, POST_START) or 0.0)


def _post_started(state: WorkerState, ctx: StageContext, name: str) -> None:
    """Report the container; kill it when its postStart hook failed."""
    spec = ctx.spec(name)
    assert spec is not None
    image, old = state.starting.pop(name), state.runtime.containers.get(name)
    took = timedelta(seconds=(hook_s(spec, POST_START) or 0.0) / ctx.profile.speed)
    restarts = old.restarts + 1 if old else 0
    plain_init = any(spec is init for init in initial(ctx.pod)) and not is_sidecar(spec)
    fate = ctx.profile.fate_of(image)
    probed = bool(spec.get("readinessProbe"))
    fresh = RuntimeContainer(
        name=name,
        image=image,
        image_id=image_id(image),
        restarts=restarts,
        started=ctx.now - took,
        ready=not probed and not plain_init and fate is not ImageFate.NEVER_READY,
        startup=None if spec.get("startupProbe") else True,
        resources=spec.get("resources") or {},
        last=terminated(old) if old else None,
        environment=_environment(ctx, name),
    )
    state.runtime = state.runtime.having(fresh).unstuck(name)
    if hook_fails(spec, POST_START):
        _end_after_hook(state, ctx, name)
    else:
        schedule(state, ctx, spec, fate)


def _end_after_hook(state: WorkerState, ctx: StageContext, name: str) -> None:
    """Source: startContainer and the errors of its hook (KUB-56)."""
    ctx.say("FailedPostStartHook", "PostStartHook failed", type_=WARNING)
    ctx.say("Killing", "FailedPostStartHook")
    _ended(state, ctx, name, code=137, killed=False)
    if policy_of(ctx.pod) != "Never":
        state.runtime = state.runtime.stuck(name, "PostStartHookError", "PostStartHook failed")


def _environment(ctx: StageContext, name: str) -> int | None:
    """The hash of the metadata variables that a container starts with; None without any."""
    if not reads_metadata(ctx.pod["spec"]):
        return None
    facts = pod_facts(ctx.pod)
    container = next((c for c in facts.containers if c.name == name), None)
    values = expected_environment(facts, container) if container is not None else {}
    return environment_hash(values)


def schedule(state: WorkerState, ctx: StageContext, spec: Obj, fate: ImageFate | None) -> None:
    """Set the timers of probes and of an exit by itself."""
    name, profile = spec["name"], ctx.profile
    if fate is ImageFate.CRASHES:
        state.timers[name, "crash"] = ctx.now
        return
    fresh = not state.runtime.containers[name].restarts
    if fresh and profile.chaos_rate and draw(f"{ctx.uid}/{name}") < profile.chaos_rate:
        state.timers[name, "crash"] = ctx.after(2 * profile.ready_s, state, name, "crash")
    plain_init = any(spec is init for init in initial(ctx.pod)) and not is_sidecar(spec)
    if plain_init or _runs_to_completion(ctx.pod, spec):
        command = [*(spec.get("command") or ()), *(spec.get("args") or ())]
        state.timers[name, "exit"] = ctx.after(
            sleep_s(command) or profile.complete_s, state, name, "exit"
        )
    if probe_fails(spec, STARTUP, fate):
        delay_s = probe_times(spec, STARTUP).delay_s
        state.timers[name, "startup-failure"] = ctx.exactly(delay_s)
    elif spec.get(STARTUP):
        state.timers[name, "startup"] = _probe_at(state, ctx, spec, STARTUP, "startup")
    else:
        expect_failure(state, ctx, spec, fate)
        if becomes_ready(spec, fate):
            state.timers[name, "ready"] = _probe_at(state, ctx, spec, READINESS, "ready")


def becomes_ready(spec: Obj, fate: ImageFate | None) -> bool:
    """Return whether a readiness probe succeeds at some time."""
    if not spec.get(READINESS) or fate is ImageFate.NEVER_READY:
        return False
    return not probe_fails(spec, READINESS, fate)


def expect_failure(
    state: WorkerState, ctx: StageContext, spec: Obj, fate: ImageFate | None
) -> None:
    """Set the timer of a liveness probe that fails; it waits for the startup probe."""
    if probe_fails(spec, LIVENESS, fate):
        started = state.runtime.containers[spec["name"]].started or ctx.now
        delay = ctx.exactly(probe_times(spec, LIVENESS).delay_s) - ctx.now
        state.timers[spec["name"], "liveness-failure"] = max(started + delay, ctx.now)


def _runs_to_completion(pod: Obj, spec: Obj) -> bool:
    """Return whether a regular container exits by itself: not one that serves the others."""
    return policy_of(pod) != "Always" and not is_sidecar(spec) and not waits_for_others(spec)


def _probe_at(state: WorkerState, ctx: StageContext, spec: Obj, probe: str, stage: str) -> datetime:
    initial_delay = float(spec[probe].get("initialDelaySeconds") or 0)
    settled = ctx.after(ctx.profile.ready_s, state, spec["name"], stage)
    return settled + (ctx.exactly(initial_delay) - ctx.now)


def _startup(state: WorkerState, ctx: StageContext, name: str) -> None:
    _become(state, name, startup=True)
    spec = ctx.spec(name)
    if spec is not None:
        fate = ctx.profile.fate_of(state.runtime.containers[name].image)
        expect_failure(state, ctx, spec, fate)
        if becomes_ready(spec, fate):
            state.timers[name, "ready"] = ctx.now


def _failed(state: WorkerState, ctx: StageContext, name: str, *, probe: str) -> None:
    """Report a failed probe; as many in a row as its threshold have the container killed."""
    spec, seen = ctx.spec(name), state.runtime.containers[name]
    if spec is None or not seen.up:
        return
    word = "Liveness" if probe == LIVENESS else "Startup"
    ctx.say("Unhealthy", f"{word} probe failed: ", type_=WARNING)
    times = probe_times(spec, probe)
    if times.failures(seen.started or ctx.now, ctx.now, ctx.profile.speed) < times.threshold:
        stage = f"{word.lower()}-failure"
        state.timers[name, stage] = ctx.exactly(times.period_s)
    elif probe == LIVENESS:
        state.runtime = state.runtime.having(seen._replace(live=False))
    else:
        state.runtime = state.runtime.having(seen._replace(startup=False))


def _ready(state: WorkerState, ctx: StageContext, name: str) -> None:
    del ctx
    _become(state, name, ready=True)


def _become(
    state: WorkerState, name: str, *, ready: bool | None = None, startup: bool | None = None
) -> None:
    seen = state.runtime.containers[name]
    state.runtime = state.runtime.having(
        seen._replace(
            ready=seen.ready if ready is None else ready,
            startup=seen.startup if startup is None else startup,
        )
    )


def _ended(state: WorkerState, ctx: StageContext, name: str, *, code: int, killed: bool) -> None:
    seen = state.runtime.containers[name]
    state.cancel(name, "ready", "startup", "exit", "crash", *_FAILURES, *_STOPS)
    state.runtime = state.runtime.having(
        seen._replace(
            run=RuntimeState.EXITED,
            finished=ctx.now,
            exit_code=code,
            ready=False,
            startup=False if seen.startup is False else None,
            killed=killed,
        )
    )


def _again(state: WorkerState, ctx: StageContext, name: str) -> None:
    """A pause is over: the next decision may start the container."""
    del ctx
    state.blocked.pop(name, None)


STAGES: Final[Mapping[str, Callable[[WorkerState, StageContext, str], None]]] = MappingProxyType(
    {
        "pull": _pulled,
        "backoff": _backoff,
        "start": _started,
        "post-start": _post_started,
        "startup": _startup,
        "startup-failure": partial(_failed, probe=STARTUP),
        "liveness-failure": partial(_failed, probe=LIVENESS),
        "ready": _ready,
        "exit": partial(_ended, code=0, killed=False),
        "crash": partial(_ended, code=1, killed=False),
        "stop": partial(_ended, code=0, killed=True),
        "sigkill": partial(_ended, code=137, killed=True),
        "agent-stop": partial(_ended, code=0, killed=False),
        "agent-sigkill": partial(_ended, code=137, killed=False),
        "retry": _again,
        "config": _again,
    }
)


def play_due(state: WorkerState, ctx: StageContext) -> None:
    """Play every stage whose timer is due, earliest first."""
    for _ in range(1000):
        if not state.due(ctx.now):
            return
        _, (name, stage) = min((at, who) for who, at in state.timers.items())
        del state.timers[name, stage]
        STAGES[stage](state, ctx, name)
    raise AssertionError(f"a pod's stages never settle: {ctx.uid}")
