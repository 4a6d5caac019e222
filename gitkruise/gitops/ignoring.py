"""A unit's drift.ignore as the planner reads it."""

from __future__ import annotations

from gitkruise.model.change import IgnoreRule
from gitkruise.model.config import Drift
from gitkruise.planner.sync.drift import pointer


def ignore_rules(drift: Drift) -> tuple[IgnoreRule, ...]:
    """The rules; their pointers were checked when the configuration was read."""
    return tuple(
        IgnoreRule(
            kind=rule.kind,
            name=rule.name,
            paths=tuple(pointer(path) for path in rule.paths),
            manager=rule.manager,
        )
        for rule in drift.ignore
    )
