"""Carry out a plan against the model cluster, with the live executor's semantics."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from gitkruise.model.plan import Outcome, Plan
from gitkruise.wire.names import ObjectKey

if TYPE_CHECKING:
    from gitkruise.world.cluster import World


def execute(
    plan: Plan, world: World, workload: Any, key: ObjectKey, now: datetime
) -> list[Outcome]:
    """One outcome an action; then events, then the status through its subresource."""
    raise AssertionError(plan, world, workload, key, now)
