"""Pods after an interruption: a new kubelet goes on with them, and a reboot ends what ran."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from gitkruise.wire.primitives.names import Obj
from gitkruise.world.kubelet.probes import LIVENESS, STARTUP, probe_fails
from gitkruise.world.kubelet.profiles import Profile
from gitkruise.world.kubelet.runtime import RuntimeState, every, policy_of
from gitkruise.world.kubelet.stages import (
    StageContext,
    WorkerState,
    becomes_ready,
    expect_failure,
    schedule,
)

LOST_EXIT_CODE: Final = 255  # as containerd reports it


def resumed(state: WorkerState, ctx: StageContext) -> WorkerState:
    """The state of containers that another kubelet started, with the timers of their probes and
    exits; these are due when they would have been there, or now."""
    after = state.copy()
    for name, seen in state.runtime.containers.items():
        spec, fate = ctx.spec(name), ctx.profile.fate_of(seen.image)
        if not seen.up or spec is None:
            continue
        schedule(after, ctx._replace(now=seen.started or ctx.now), spec, fate)
        if seen.startup and spec.get(STARTUP):
            after.cancel(name, "startup", "startup-failure")
            expect_failure(after, ctx, spec, fate)
            if becomes_ready(spec, fate):
                after.timers[name, "ready"] = ctx.now
        if seen.ready:
            after.cancel(name, "ready")
    after.timers = {who: max(at, ctx.now) for who, at in after.timers.items()}
    return after if after.timers != state.timers else state


def awaits(pod: Obj, profile: Profile) -> bool:
    """Return whether something is due of a pod whose containers all run and are ready."""
    if policy_of(pod) != "Always":
        return True
    return any(
        probe_fails(spec, LIVENESS, profile.fate_of(spec["image"]))
        for spec in every(pod)
        if LIVENESS in spec
    )


def lose_sandbox(state: WorkerState, now: datetime) -> WorkerState:
    """The state after a reboot of the node: everything ended, and the sandbox is not ready."""
    runtime = state.runtime
    ended = {
        name: seen._replace(
            run=RuntimeState.EXITED,
            finished=now,
            exit_code=LOST_EXIT_CODE,
            ready=False,
            startup=None,
            killed=False,
        )
        if seen.up
        else seen
        for name, seen in runtime.containers.items()
    }
    box = runtime.sandbox and runtime.sandbox._replace(ready=False)
    return WorkerState(
        runtime=runtime._replace(sandbox=box, containers=ended),
        backoffs=dict(state.backoffs),
        ending=state.ending,
    )
