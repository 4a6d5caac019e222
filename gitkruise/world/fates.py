"""What pods that are alike live through alike: played for the first, and for the others known.

A preview moves thousands of pods that differ in nothing but who they are. Which container is
killed and started when follows from a pod's spec and from what goes on on its node; where delays
are not drawn for each pod, and nobody listens for its events, two such pods share one Life.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from gitkruise.wire.names import Obj
from gitkruise.world.environment import needs_objects
from gitkruise.world.kubelet_status import ENDED
from gitkruise.world.profiles import Profile
from gitkruise.world.stages import Life, Turn

_SHAPES_MAX: Final = 16  # specs known at a time; a rollout has two
_Key = tuple[int, int, Any, Any, bool]


class Fates:
    """Lives and specs that pods have in common, and what became of them at the present instant."""

    def __init__(self, profile: Profile, *, shared: bool) -> None:
        self._shared = shared and not profile.jitter and not profile.trouble
        self._lives: dict[tuple[Any, ...], Life] = {}
        self._shapes: list[Obj] = []
        self._now: datetime | None = None
        self._known: dict[_Key, tuple[Life, Obj, Life]] = {}

    def met(self, life: Life) -> Life:
        """`life`, or the equal one of a pod met before."""
        if not self._shared:
            return life
        listed = life.runtime.containers.values()
        mark = tuple([(c.name, c.image, c.run, c.restarts, c.started, c.finished) for c in listed])
        known = self._lives.setdefault(mark, life)
        return known if known == life else life

    def shape_of(self, spec: Obj) -> Obj | None:
        """What equal specs have in common, whatever their node; None where a pod is on its own."""
        if not self._shared:
            return None
        bare = {name: value for name, value in spec.items() if name != "nodeName"}
        for known in self._shapes:
            if known == bare:
                return known
        if needs_objects(spec):
            return None
        self._shapes = [bare, *self._shapes[: _SHAPES_MAX - 1]]
        return bare

    def after(
        self, life: Life, shape: Obj | None, turn: Turn, play: Callable[[Life, Turn], None]
    ) -> Life:
        """What `life` of a pod of that shape becomes; the same object where nothing happens."""
        if shape is None:
            return _played(life, turn, play)
        if turn.now != self._now:
            self._now, self._known = turn.now, {}
        meta = turn.pod["metadata"]
        ended = (turn.pod.get("status") or {}).get("phase") in ENDED
        going, grace = meta.get("deletionTimestamp"), meta.get("deletionGracePeriodSeconds")
        key = id(life), id(shape), going, grace, ended
        known = self._known.get(key)
        if known is not None:
            return known[2]
        after = _played(life, turn, play)
        if not after.crashes:  # who crashes is called by name
            self._known[key] = life, shape, after
        return after


def _played(life: Life, turn: Turn, play: Callable[[Life, Turn], None]) -> Life:
    after = life.copy()
    play(after, turn)
    return life if after == life else after
