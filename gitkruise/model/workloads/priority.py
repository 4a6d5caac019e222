"""Update priority and scatter terms, as CloneSets and SidecarSets both spell them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.values.selectors import Selector, label_selector


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """Pods that `selector` matches are `weight` heavier; heavier pods are updated first."""

    weight: int
    selector: Selector


def order_terms(priority: Obj | None) -> tuple[str, ...]:
    """The label keys of a priorityStrategy's orderPriority."""
    return tuple(term["orderedKey"] for term in (priority or {}).get("orderPriority") or ())


def weight_terms(priority: Obj | None) -> tuple[Weight, ...]:
    """The terms of a priorityStrategy's weightPriority. Raises BadRequest on a bad selector."""
    return tuple(
        Weight(weight=int(term.get("weight") or 0), selector=label_selector(term["matchSelector"]))
        for term in (priority or {}).get("weightPriority") or ()
    )


def scatter_terms(scatter: Iterable[Obj] | None) -> tuple[tuple[str, str], ...]:
    """(label key, value) of each term of a scatterStrategy."""
    return tuple((term.get("key") or "", term.get("value") or "") for term in scatter or ())
