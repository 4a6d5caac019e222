"""A unit's drift.ignore in the planner's form."""

from __future__ import annotations

from gitkruise.model.gitops.change import IgnoreRule
from gitkruise.model.gitops.config import Drift
from gitkruise.planner.sync.drift import pointer


def ignore_rules(drift: Drift) -> tuple[IgnoreRule, ...]:
    """Return the rules; their pointers were checked when the configuration was loaded."""
    return tuple(
        IgnoreRule(
            kind=rule.kind,
            name=rule.name,
            paths=tuple(pointer(path) for path in rule.paths),
            manager=rule.manager,
        )
        for rule in drift.ignore
    )
