"""Next actions of a kubelet for one pod: the containers to kill and to start.

Source: kubelet's computePodActions of Kubernetes 1.34; every row of its own table of cases is a
row of tests/world/kubelet/test_pod_actions.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from gitkruise.wire.primitives.names import Obj
from gitkruise.world.kubelet.runtime import (
    PodRuntime,
    RuntimeContainer,
    RuntimeState,
    initial,
    is_sidecar,
    policy_of,
    regular,
    was_replaced,
)


class PodActions(NamedTuple):
    """`kill` is name → message of the Killing event. `kill_pod` ends all, sandbox included.

    `attempt` is the number of the sandbox to create, None to keep the present one.
    """

    kill: Mapping[str, str] = MappingProxyType({})
    start_init: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    kill_pod: bool = False
    attempt: int | None = None


_NOTHING: Final = PodActions()


def pod_actions(pod: Obj, runtime: PodRuntime) -> PodActions:
    """One decision for a pod that is not being deleted."""
    sandbox = runtime.sandbox
    host = bool(pod["spec"].get("hostNetwork"))
    if sandbox is None or not sandbox.ready or not (sandbox.addressed or host):
        return _new_sandbox(pod, runtime)
    if not initial(pod):
        return _regular_actions(pod, runtime, {}, ())
    init = _InitWalk(pod, runtime)
    if init.failed:
        return PodActions(kill_pod=True)
    if not init.done:
        return PodActions(kill=init.kill, start_init=init.starts)
    return _regular_actions(pod, runtime, init.kill, init.starts)


def _regular_actions(
    pod: Obj, runtime: PodRuntime, init_kill: Mapping[str, str], init_starts: tuple[str, ...]
) -> PodActions:
    """Add the actions for the regular containers to those for the others."""
    kill, start, kept = dict(init_kill), [], False
    policy = policy_of(pod)
    for spec in regular(pod):
        message, again = _judge(spec, runtime.containers.get(spec["name"]), policy)
        if message is not None:
            kill[spec["name"]] = message
        if again:
            start.append(spec["name"])
        kept = kept or (message is None and not again and _up(runtime, spec["name"]))
    if not kept and not start:
        return PodActions(kill_pod=True) if runtime.sandbox is not None else PodActions()
    if not (kill or start or init_starts):
        return _NOTHING
    return PodActions(kill=kill, start_init=init_starts, start=tuple(start))


def _new_sandbox(pod: Obj, runtime: PodRuntime) -> PodActions:
    attempt = runtime.sandbox.attempt + 1 if runtime.sandbox else 0
    policy, known = policy_of(pod), runtime.containers
    if policy == "Never" and attempt and known:
        return PodActions(kill_pod=True)
    start = [
        spec["name"]
        for spec in regular(pod)
        if not (policy == "OnFailure" and _finished_well(known.get(spec["name"])))
    ]
    if not start and any(spec["name"] in known for spec in regular(pod)):
        return PodActions(kill_pod=True)
    if initial(pod):
        return PodActions(
            kill_pod=attempt > 0, attempt=attempt, start_init=(initial(pod)[0]["name"],)
        )
    return PodActions(kill_pod=attempt > 0, attempt=attempt, start=tuple(start))


def _judge(spec: Obj, seen: RuntimeContainer | None, policy: str) -> tuple[str | None, bool]:
    """(message to kill with or None, whether to start) for a regular container."""
    name = spec["name"]
    if seen is None or seen.run is RuntimeState.CREATED:
        return None, True
    if seen.run is RuntimeState.UNKNOWN:
        return 'Container is in "unknown" state, try killing it before restart', True
    if seen.run is RuntimeState.EXITED:
        again = policy == "Always" or (policy == "OnFailure" and seen.exit_code != 0)
        return None, again or was_replaced(spec, seen, policy)
    return _judge_running(spec, seen, name, restart=policy != "Never")


def _judge_running(
    spec: Obj, seen: RuntimeContainer, name: str, *, restart: bool
) -> tuple[str | None, bool]:
    after = ", will be restarted" if restart else ""
    if seen.image != spec["image"]:  # whatever the policy says
        return f"Container {name} definition changed, will be restarted", True
    if not seen.live:
        return f"Container {name} failed liveness probe{after}", restart
    if seen.startup is False:
        return f"Container {name} failed startup probe{after}", restart
    if _resize_restarts(spec, seen):
        return f"Container {name} resize requires restart", True
    return None, False


def _resize_restarts(spec: Obj, seen: RuntimeContainer) -> bool:
    restarting = {
        rule["resourceName"]
        for rule in spec.get("resizePolicy") or ()
        if rule.get("restartPolicy") == "RestartContainer"
    }
    if not restarting:
        return False
    new, old = spec.get("resources") or {}, seen.resources
    return any(
        (new.get(part) or {}).get(name) != (old.get(part) or {}).get(name)
        for part in ("requests", "limits")
        for name in restarting
    )


class _InitWalk:
    """The init containers, from last to first, until the newest one with a status decides."""

    def __init__(self, pod: Obj, runtime: PodRuntime) -> None:
        self.kill: dict[str, str] = {}
        self.failed = False
        self._starts: list[int] = []
        self._specs: Sequence[Obj] = initial(pod)
        self._restart = policy_of(pod) != "Never"
        was_done = any(
            c.run in {RuntimeState.CREATED, RuntimeState.RUNNING}
            for spec in regular(pod)
            if (c := runtime.containers.get(spec["name"]))
        )
        self.done = was_done or not self._specs
        met = was_done
        for i in range(len(self._specs) - 1, -1, -1):
            spec = self._specs[i]
            seen = runtime.containers.get(spec["name"])
            if is_sidecar(spec):
                self._sidecar(i, seen, first=not met, initialised=self.done)
            elif seen is not None and not met:
                self._plain(i, seen)
            met = met or seen is not None
        if not met and self._specs:
            self._starts.append(0)

    @property
    def starts(self) -> tuple[str, ...]:
        """Names to start, in the order of the spec."""
        return tuple(self._specs[i]["name"] for i in sorted(set(self._starts)))

    def _next(self, i: int) -> None:
        if i == len(self._specs) - 1:
            self.done = True
        else:
            self._starts.append(i + 1)

    def _plain(self, i: int, seen: RuntimeContainer) -> None:
        if seen.run is RuntimeState.RUNNING:
            return
        if seen.run is RuntimeState.EXITED and seen.exit_code == 0:
            self._next(i)
            return
        if seen.run is RuntimeState.CREATED:
            self._starts.append(i)
            return
        if not self._restart:
            self.failed = True
            return
        if seen.run is RuntimeState.UNKNOWN:
            self.kill[seen.name] = (
                "Init container is in unknown state, try killing it before restart"
            )
        self._starts.append(i)

    def _sidecar(
        self, i: int, seen: RuntimeContainer | None, *, first: bool, initialised: bool
    ) -> None:
        if seen is None:
            if not first:
                self._starts.append(i)  # its status was lost; it must run
            return
        name = seen.name
        if seen.run is RuntimeState.EXITED or seen.run is RuntimeState.CREATED:
            self._starts.append(i)
            return
        if seen.run is RuntimeState.UNKNOWN:
            self.kill[name] = "Init container is in unknown state, try killing it before restart"
            self._starts.append(i)
            return
        if seen.startup is None:
            return
        if seen.startup and first and not initialised:
            self._next(i)
        message, _ = _judge_running(self._specs[i], seen, name, restart=True)
        if message is not None:
            self.kill[name] = message
            self._starts.append(i)


def _finished_well(seen: RuntimeContainer | None) -> bool:
    return seen is not None and seen.run is RuntimeState.EXITED and seen.exit_code == 0


def _up(runtime: PodRuntime, name: str) -> bool:
    return name in runtime.containers and runtime.containers[name].up
