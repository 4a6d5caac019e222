"""Random histories of a CloneSet whose strategy and template change in every field that counts."""

from __future__ import annotations

from typing import Any, Final

from tests.observer.histories import EDITS, POLICIES, WHOLE, Edit, Player, drawn

# (maxUnavailable, maxSurge)
BUDGETS: Final = ((0, 1), (1, 0), (1, 1), ("50%", 0), ("30%", "20%"), ("100%", 0), (2, "100%"))
_WEIGHT: Final = {"weight": 5, "matchSelector": {"matchLabels": {"app": "web"}}}
_ORDERS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"scatterStrategy": [{"key": "app", "value": "web"}]},
    {"priorityStrategy": {"orderPriority": [{"orderedKey": "app"}]}},
    {"priorityStrategy": {"weightPriority": [_WEIGHT]}},
)


def _rolling(spec: dict[str, Any], **fields: Any) -> None:
    spec["updateStrategy"]["rollingUpdate"].update(fields)


def _budget(spec: dict[str, Any], budget: tuple[Any, Any]) -> None:
    _rolling(spec, maxUnavailable=budget[0], maxSurge=budget[1])


def _order(spec: dict[str, Any], order: dict[str, Any]) -> None:
    for key in ("scatterStrategy", "priorityStrategy"):
        spec["updateStrategy"]["rollingUpdate"].pop(key, None)
    _rolling(spec, **order)


def _env(spec: dict[str, Any], value: int) -> None:
    """Set what no container takes over in place."""
    spec["template"]["spec"]["containers"][0]["env"] = [{"name": "V", "value": str(value)}]


ENV: Final = drawn("env", (1, 2, 3), _env)
_PERCENT: Final = drawn(
    "partition", ("0%", "1%", "30%", "50%", "99%", "100%"),
    lambda spec, value: _rolling(spec, partition=value),
)  # fmt: skip
_SETTINGS: Final[tuple[Edit, ...]] = (
    ENV, ENV, _PERCENT, _PERCENT,
    drawn("maxUnavailable and maxSurge", BUDGETS, _budget),
    drawn("policy", POLICIES, lambda spec, value: _rolling(spec, podUpdatePolicy=value)),
    drawn("order", _ORDERS, _order),
    drawn("minReadySeconds", (0, 2, 5), lambda spec, value: spec.update(minReadySeconds=value)),
    drawn("replicas", range(10), lambda spec, value: spec.update(replicas=value)),
    drawn("limit", (0, 1, 2), lambda spec, value: spec.update(revisionHistoryLimit=value)),
)  # fmt: skip


class SettingsPlayer(Player):
    """Plays one history of edits of fields of a CloneSet."""

    whole = (*_SETTINGS, *WHOLE[:7])
    edits = (*_SETTINGS, *_SETTINGS, *EDITS)
