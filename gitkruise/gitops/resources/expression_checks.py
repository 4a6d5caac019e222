"""Checks of the expressions of Unit objects: in a worker process, each version of a unit once.

An author of Unit objects may write hundreds of expressions that cost half a second each. On
the event loop they would stop everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gitkruise.errors import Finding
from gitkruise.gitops.build.untrusted import Workers
from gitkruise.gitops.config.dependency_checks import bad_expression, expression_groups
from gitkruise.model.gitops.config import Unit


class ExpressionChecks:
    """Findings for invalid expressions, remembered for as long as a unit is unchanged."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._known: dict[str, tuple[Unit, Finding | None]] = {}

    async def findings(self, units: Iterable[Unit]) -> Mapping[str, Finding]:
        """Return GK7031 by unit for the first invalid expression of each."""
        kept: dict[str, tuple[Unit, Finding | None]] = {}
        for unit in units:
            known = self._known.get(unit.id)
            if known is None or known[0] is not unit:
                known = unit, await self._checked(unit)
            kept[unit.id] = known
        self._known = kept
        return {name: found for name, (_, found) in kept.items() if found is not None}

    async def _checked(self, unit: Unit) -> Finding | None:
        groups = tuple(expression_groups(unit))
        if not groups:
            return None
        results = await self._workers.check([(one.texts, dict(one.sample)) for one in groups])
        for group, result in zip(groups, results, strict=True):
            if result.why:
                return bad_expression(unit, group.paths[result.number], result.why)
        return None
