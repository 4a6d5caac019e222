"""A container's life on a simulated node as a table of stages: what happens when a timer rings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple

from gitkruise.model.plan import Event
from gitkruise.model.view import View
from gitkruise.wire.names import Obj
from gitkruise.wire.paths import get
from gitkruise.world.container_status import terminated
from gitkruise.world.containers import (
    Container,
    PodRuntime,
    Run,
    every,
    image_id,
    initial,
    is_sidecar,
    policy_of,
)
from gitkruise.world.environment import missing_environment
from gitkruise.world.profiles import ImageFate, Profile, draw

CRASH_FIRST_S, CRASH_MAX_S, CRASH_FORGET_S = 10.0, 300.0, 600.0
PULL_BACKOFF_AFTER_S: Final = 1.0
NORMAL, WARNING = "Normal", "Warning"


@dataclass(slots=True)
class Life:
    """What goes on on a node for one pod, whoever it is: pods that are alike share one.

    Changed only while it is played, before it is anybody's. `timers` is (container, stage) → when
    it rings. `starting` is container → image being brought up. `blocked` is container → image that
    cannot start before something changes; `lacks` tells that a ConfigMap or Secret is missing.
    """

    runtime: PodRuntime
    timers: dict[tuple[str, str], datetime] = field(default_factory=dict)
    starting: dict[str, str] = field(default_factory=dict)
    blocked: dict[str, str] = field(default_factory=dict)
    crashes: dict[str, tuple[str, float, datetime]] = field(default_factory=dict)
    lacks: bool = False
    ending: bool = False

    def copy(self) -> Life:
        """One to be played on."""
        return Life(
            runtime=self.runtime,
            timers=dict(self.timers),
            starting=dict(self.starting),
            blocked=dict(self.blocked),
            crashes=dict(self.crashes),
            lacks=self.lacks,
            ending=self.ending,
        )

    def due(self, now: datetime) -> bool:
        """Whether a timer rings."""
        return bool(self.timers) and min(self.timers.values()) <= now

    def cancel(self, name: str, *stages: str) -> None:
        for stage in stages:
            self.timers.pop((name, stage), None)


class Turn(NamedTuple):
    """What a stage may look at, and where it leaves the events it causes."""

    view: View
    pod: Obj
    now: datetime
    profile: Profile
    events: list[Event] | None  # None: nobody listens

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    def say(self, reason: str, message: str, *, type_: str = NORMAL) -> None:
        if self.events is not None:
            self.events.append(Event(type_, reason, message))

    def after(self, seconds: float, life: Life, name: str, stage: str) -> datetime:
        count = life.runtime.containers[name].restarts if name in life.runtime.containers else -1
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


def begin(life: Life, turn: Turn, spec: Obj) -> None:
    """Start a container, unless it is starting already, waits for back-off, or cannot start."""
    name, image = spec["name"], spec["image"]
    if life.starting.get(name) == image or life.blocked.get(name) == image:
        return
    life.blocked.pop(name, None)
    life.cancel(name, "start", "backoff")
    if _backing_off(life, turn, spec):
        return
    life.starting[name] = image
    life.timers[name, "pull"] = turn.after(turn.profile.pull_s, life, name, "pull")
    turn.say("Pulling", f'Pulling image "{image}"')


def _backing_off(life: Life, turn: Turn, spec: Obj) -> bool:
    """Whether a crash keeps the container from starting now; counts the crash."""
    name = spec["name"]
    seen = life.runtime.containers.get(name)
    if seen is None or seen.run is not Run.EXITED or seen.killed or seen.finished is None:
        return False
    kind = f"{spec['image']} {spec.get('resources')}"
    known, pause, last = life.crashes.get(name, ("", 0.0, turn.now))
    forgotten = (seen.finished - last).total_seconds() > CRASH_FORGET_S / turn.profile.speed
    if known != kind or forgotten:
        life.crashes[name] = (kind, CRASH_FIRST_S, turn.now)
        return False
    due = seen.finished + timedelta(seconds=pause / turn.profile.speed)
    if turn.now >= due:
        life.crashes[name] = (kind, min(2 * pause, CRASH_MAX_S), turn.now)
        return False
    if (name, "retry") not in life.timers:
        life.timers[name, "retry"] = due
        meta = turn.pod["metadata"]
        who = f"{meta['name']}_{meta['namespace']}({turn.uid})"
        message = f"back-off {pause:g}s restarting failed container={name} pod={who}"
        life.runtime = life.runtime.stuck(name, "CrashLoopBackOff", message)
        turn.say(
            "BackOff", f"Back-off restarting failed container {name} in pod {who}", type_=WARNING
        )
    return True


def kill(life: Life, turn: Turn, name: str, message: str = "") -> None:
    """Send SIGTERM to a running container; it exits within its grace period."""
    seen = life.runtime.containers.get(name)
    if seen is None or not seen.up or {(name, "stop"), (name, "sigkill")} & life.timers.keys():
        return
    life.cancel(name, "exit", "crash")
    spec = turn.spec(name) or {}
    meta = turn.pod["metadata"]
    grace = meta.get("deletionGracePeriodSeconds")
    if grace is None:
        grace = turn.pod["spec"].get("terminationGracePeriodSeconds", 30)
    wanted = turn.after(turn.profile.stop_s, life, name, "stop") + (
        turn.exactly(_pre_stop_s(spec)) - turn.now
    )
    latest = turn.exactly(max(float(grace), 1.0))
    life.timers[name, "sigkill" if wanted > latest else "stop"] = min(wanted, latest)
    turn.say("Killing", message or f"Stopping container {name}")


def _pre_stop_s(spec: Obj) -> float:
    hook = get(spec, "lifecycle", "preStop", default={})
    if "sleep" in hook:
        return float(hook["sleep"].get("seconds") or 0)
    return _sleep_s(get(hook, "exec", "command", default=())) or 0.0


def _sleep_s(command: Sequence[str]) -> float | None:
    if len(command) != 2 or command[0].rpartition("/")[2] != "sleep":
        return None
    return float(command[1]) if command[1].isdigit() else None


def _pulled(life: Life, turn: Turn, name: str) -> None:
    spec = turn.spec(name)
    assert spec is not None
    image = life.starting[name]
    if turn.profile.fate_of(image) is ImageFate.PULL_FAILS:
        error = (
            f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": '
            f"{image}: not found"
        )
        _give_up(life, turn, name, "ErrImagePull", error)
        turn.say("Failed", f'Failed to pull image "{image}": {error}', type_=WARNING)
        turn.say("Failed", "Error: ErrImagePull", type_=WARNING)
        life.timers[name, "backoff"] = turn.exactly(PULL_BACKOFF_AFTER_S)
        return
    turn.say("Pulled", f'Successfully pulled image "{image}"')
    if problem := missing_environment(turn.view, turn.pod, spec):
        _give_up(life, turn, name, "CreateContainerConfigError", problem)
        turn.say("Failed", f"Error: {problem}", type_=WARNING)
        life.lacks = True
        return
    life.timers[name, "start"] = turn.after(turn.profile.start_s, life, name, "start")


def _give_up(life: Life, turn: Turn, name: str, reason: str, message: str) -> None:
    del turn
    life.blocked[name] = life.starting.pop(name)
    life.runtime = life.runtime.stuck(name, reason, message)


def _backoff(life: Life, turn: Turn, name: str) -> None:
    """A pull that failed fails for ever here: the node waits for another image, without retries."""
    image = life.blocked.get(name, "")
    message = f'Back-off pulling image "{image}"'
    _, error = life.runtime.waiting.get(name, ("", ""))
    life.runtime = life.runtime.stuck(name, "ImagePullBackOff", f"{message}: ErrImagePull: {error}")
    turn.say("BackOff", message)
    turn.say("Failed", "Error: ImagePullBackOff", type_=WARNING)


def _started(life: Life, turn: Turn, name: str) -> None:
    spec = turn.spec(name)
    assert spec is not None
    image, old = life.starting.pop(name), life.runtime.containers.get(name)
    restarts = old.restarts + 1 if old else 0
    plain_init = any(spec is init for init in initial(turn.pod)) and not is_sidecar(spec)
    fate = turn.profile.fate_of(image)
    probed = bool(spec.get("readinessProbe"))
    fresh = Container(
        name=name,
        image=image,
        image_id=image_id(image),
        restarts=restarts,
        started=turn.now,
        ready=not probed and not plain_init and fate is not ImageFate.NEVER_READY,
        startup=None if spec.get("startupProbe") else True,
        resources=spec.get("resources") or {},
        last=terminated(old) if old else None,
    )
    life.runtime = life.runtime.having(fresh).unstuck(name)
    turn.say("Created", f"Created container: {name}")
    turn.say("Started", f"Started container {name}")
    _plan_life(life, turn, spec, fate)


def _plan_life(life: Life, turn: Turn, spec: Obj, fate: ImageFate | None) -> None:
    """When the container answers its probes, and whether and when it exits by itself."""
    name, profile = spec["name"], turn.profile
    if fate is ImageFate.CRASHES:
        life.timers[name, "crash"] = turn.now
        return
    fresh = not life.runtime.containers[name].restarts
    if fresh and profile.trouble and draw(f"{turn.uid}/{name}") < profile.trouble:
        life.timers[name, "crash"] = turn.after(2 * profile.ready_s, life, name, "crash")
    plain_init = any(spec is init for init in initial(turn.pod)) and not is_sidecar(spec)
    if plain_init or (policy_of(turn.pod) != "Always" and not is_sidecar(spec)):
        command = [*(spec.get("command") or ()), *(spec.get("args") or ())]
        life.timers[name, "exit"] = turn.after(
            _sleep_s(command) or profile.complete_s, life, name, "exit"
        )
    if spec.get("startupProbe"):
        life.timers[name, "startup"] = _probe_at(life, turn, spec, "startupProbe", "startup")
    elif spec.get("readinessProbe") and fate is not ImageFate.NEVER_READY:
        life.timers[name, "ready"] = _probe_at(life, turn, spec, "readinessProbe", "ready")


def _probe_at(life: Life, turn: Turn, spec: Obj, probe: str, stage: str) -> datetime:
    initial_delay = float(spec[probe].get("initialDelaySeconds") or 0)
    settled = turn.after(turn.profile.ready_s, life, spec["name"], stage)
    return settled + (turn.exactly(initial_delay) - turn.now)


def _startup(life: Life, turn: Turn, name: str) -> None:
    _become(life, name, startup=True)
    spec = turn.spec(name)
    if spec is not None and spec.get("readinessProbe"):
        fate = turn.profile.fate_of(life.runtime.containers[name].image)
        if fate is not ImageFate.NEVER_READY:
            life.timers[name, "ready"] = turn.now


def _ready(life: Life, turn: Turn, name: str) -> None:
    del turn
    _become(life, name, ready=True)


def _become(
    life: Life, name: str, *, ready: bool | None = None, startup: bool | None = None
) -> None:
    seen = life.runtime.containers[name]
    life.runtime = life.runtime.having(
        seen._replace(
            ready=seen.ready if ready is None else ready,
            startup=seen.startup if startup is None else startup,
        )
    )


def _ended(life: Life, turn: Turn, name: str, *, code: int, killed: bool) -> None:
    seen = life.runtime.containers[name]
    life.cancel(name, "ready", "startup", "exit", "crash", "stop", "sigkill")
    life.runtime = life.runtime.having(
        seen._replace(
            run=Run.EXITED,
            finished=turn.now,
            exit_code=code,
            ready=False,
            startup=None,
            killed=killed,
        )
    )


def _exit(life: Life, turn: Turn, name: str) -> None:
    _ended(life, turn, name, code=0, killed=False)


def _crash(life: Life, turn: Turn, name: str) -> None:
    _ended(life, turn, name, code=1, killed=False)


def _stop(life: Life, turn: Turn, name: str) -> None:
    _ended(life, turn, name, code=0, killed=True)


def _sigkill(life: Life, turn: Turn, name: str) -> None:
    _ended(life, turn, name, code=137, killed=True)


def _again(life: Life, turn: Turn, name: str) -> None:
    """A pause is over: the next decision may start the container."""
    del turn
    life.blocked.pop(name, None)


STAGES: Final[Mapping[str, Callable[[Life, Turn, str], None]]] = MappingProxyType(
    {
        "pull": _pulled,
        "backoff": _backoff,
        "start": _started,
        "startup": _startup,
        "ready": _ready,
        "exit": _exit,
        "crash": _crash,
        "stop": _stop,
        "sigkill": _sigkill,
        "retry": _again,
        "config": _again,
    }
)


def ring(life: Life, turn: Turn) -> None:
    """Play every stage whose timer is due, earliest first."""
    for _ in range(1000):
        if not life.due(turn.now):
            return
        _, (name, stage) = min((at, who) for who, at in life.timers.items())
        del life.timers[name, stage]
        STAGES[stage](life, turn, name)
    raise AssertionError(f"a pod's stages never settle: {turn.uid}")
