"""Shared states of identical pods: stages are played for one pod and reused for the others.

A forecast moves thousands of pods that differ only in name and uid. Stages depend only on the
spec and the state on the node; without jitter and without events two such pods share one state.
This is an optimisation: a forecast of 10,000 pods plays each transition about once.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from gitkruise.model.workloads.pod import FINISHED
from gitkruise.wire.primitives.names import Obj
from gitkruise.world.kubelet.config_refs import needs_objects, reads_metadata
from gitkruise.world.kubelet.profiles import Profile
from gitkruise.world.kubelet.stages import StageContext, WorkerState

_SHAPES_MAX: Final = 16  # specs known at a time; a rollout has two
_Key = tuple[int, int, Any, Any, bool, frozenset[str]]


class SharedStates:
    """States and specs that pods share, and the transitions known at the present instant."""

    def __init__(self, profile: Profile, *, shared: bool, assumed: bool = False) -> None:
        self._assumed = assumed
        self._shared = shared and not profile.jitter and not profile.chaos_rate
        self._interned: dict[tuple[Any, ...], WorkerState] = {}
        self._shapes: list[Obj] = []
        self._now: datetime | None = None
        self._known: dict[_Key, tuple[WorkerState, Obj, WorkerState]] = {}

    def intern(self, state: WorkerState) -> WorkerState:
        """Return `state`, or the equal one of another pod."""
        if not self._shared:
            return state
        listed = state.runtime.containers.values()
        mark = tuple([(c.name, c.image, c.run, c.restarts, c.started, c.finished) for c in listed])
        known = self._interned.setdefault(mark, state)
        return known if known == state else state

    def shape_of(self, spec: Obj) -> Obj | None:
        """Return the shared spec without node; None for a pod that shares nothing."""
        if not self._shared:
            return None
        bare = {name: value for name, value in spec.items() if name != "nodeName"}
        for known in self._shapes:
            if known == bare:
                return known
        if needs_objects(spec, assumed=self._assumed) or reads_metadata(spec):
            return None
        self._shapes = [bare, *self._shapes[: _SHAPES_MAX - 1]]
        return bare

    def advance(
        self,
        state: WorkerState,
        shape: Obj | None,
        ctx: StageContext,
        play: Callable[[WorkerState, StageContext], None],
    ) -> WorkerState:
        """Return the next state of a pod of that shape; the same object if nothing happens."""
        if shape is None:
            return _played(state, ctx, play)
        if ctx.now != self._now:
            self._now, self._known = ctx.now, {}
        meta = ctx.pod["metadata"]
        ended = (ctx.pod.get("status") or {}).get("phase") in FINISHED
        going, grace = meta.get("deletionTimestamp"), meta.get("deletionGracePeriodSeconds")
        key = id(state), id(shape), going, grace, ended, ctx.present
        known = self._known.get(key)
        if known is not None:
            return known[2]
        after = _played(state, ctx, play)
        reasons = [reason for reason, _ in after.runtime.waiting.values()]
        if "CrashLoopBackOff" not in reasons:  # its message contains the pod's name
            self._known[key] = state, shape, after
        return after


def _played(
    state: WorkerState, ctx: StageContext, play: Callable[[WorkerState, StageContext], None]
) -> WorkerState:
    after = state.copy()
    play(after, ctx)
    return state if after == state else after
