"""The model cluster's kubelet: pods that have a node get containers, statuses and an end."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from gitkruise.world.profiles import GENERAL, Profile

if TYPE_CHECKING:
    from gitkruise.world.cluster import World


class Kubelet:
    """All nodes of one World. `run` does what is due at `now` and says when to call again."""

    def __init__(self, profile: Profile = GENERAL, *, events: bool = True) -> None:
        self.profile = profile
        self.events = events

    def run(self, world: World, now: datetime) -> datetime | None:
        """Do everything due at `now`; the next due instant, None to wait for a change."""
        raise AssertionError(world, now)
