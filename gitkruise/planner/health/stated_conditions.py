"""Health by conditions other than Ready: Gateway API, API services, autoscalers, sealed secrets.

kstatus does not look at these conditions: by it a route which leads nowhere is Current.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from gitkruise.model.gitops.health import Health, Phase
from gitkruise.planner.health.builtin import from_condition, progress
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import get

_GATEWAY_API: Final = frozenset({"Accepted", "Programmed", "ResolvedRefs"})
_GATEWAY_KINDS: Final = (
    "BackendTLSPolicy", "GRPCRoute", "Gateway", "GatewayClass", "HTTPRoute", "ListenerSet",
    "TCPRoute", "TLSRoute", "UDPRoute",
)  # fmt: skip
# The conditions that must be True if they are stated. An autoscaler that lacks metrics keeps its
# size, and lacks them for a moment with every new pod: ScalingActive does not count.
STATED: Final[Mapping[GroupKind, frozenset[str]]] = {
    GroupKind("apiregistration.k8s.io", "APIService"): frozenset({"Available"}),
    GroupKind("autoscaling", "HorizontalPodAutoscaler"): frozenset({"AbleToScale"}),
    GroupKind("bitnami.com", "SealedSecret"): frozenset({"Synced"}),
    **{GroupKind("gateway.networking.k8s.io", kind): _GATEWAY_API for kind in _GATEWAY_KINDS},
}
_PARTS: Final = ("parents", "listeners", "ancestors")  # of a status, with conditions each


def by_stated_conditions(obj: Obj, now: datetime | None) -> Health | None:
    """Return InProgress with the first condition that is not True, None if all are.

    It may become True without a commit, when another object arrives, so that only health.timeout
    makes it a failure. Conditions of an earlier generation count only if there are no others: of a
    parent that a route had before they stay.
    """
    del now
    types = STATED[GroupKind(obj["apiVersion"].rpartition("/")[0], obj["kind"])]
    stated = [one for one in _conditions(obj.get("status")) if one.get("type") in types]
    generation = get(obj, "metadata", "generation", default=0)
    fresh = [one for one in stated if _seen(one, generation) >= generation]
    if stated and not fresh:
        seen = max(_seen(one, generation) for one in stated)
        message = f"generation is {generation}, but the controller has seen {seen}"
        return progress("LatestGenerationNotObserved", message)
    missing = next((one for one in fresh if one.get("status") != "True"), None)
    return from_condition(Phase.IN_PROGRESS, missing) if missing is not None else None


def _seen(condition: Obj, generation: int) -> int:
    stated = condition.get("observedGeneration")
    return stated if isinstance(stated, int) else generation


def _conditions(status: Any) -> Iterator[Obj]:
    """Yield the conditions of a status and of its parts; a foreign kind may have any form."""
    if not isinstance(status, Mapping):
        return
    parts = [part for name in _PARTS for part in _mappings(status.get(name))]
    for one in (status, *parts):
        yield from _mappings(one.get("conditions"))


def _mappings(listed: Any) -> Iterator[Obj]:
    if isinstance(listed, list | tuple):
        yield from (one for one in listed if isinstance(one, Mapping))
