"""Kinds whose controllers state other conditions than Ready: one row per state."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.planner.health.health import Phase, health
from tests.planner.health.test_health import obj, says

GATEWAY: Final = "gateway.networking.k8s.io/v1/Gateway"
ROUTE: Final = "gateway.networking.k8s.io/v1/HTTPRoute"
SERVICE: Final = "apiregistration.k8s.io/v1/APIService"
SCALER: Final = "autoscaling/v2/HorizontalPodAutoscaler"
SEALED: Final = "bitnami.com/v1alpha1/SealedSecret"


def parents(*stated: dict[str, Any]) -> dict[str, Any]:
    """The status of a route with one parent for each list of conditions."""
    return {"parents": [{"parentRef": {"name": "web"}, **one} for one in stated]}


def accepted(status: str = "True", generation: int = 2) -> dict[str, Any]:
    return says("Accepted", status, "Accepted", observedGeneration=generation)


LOST: Final = says("ResolvedRefs", "False", "BackendNotFound", message="no Service web")
ROWS: dict[str, tuple[Any, Phase, str, str]] = {
    "gateway without a controller": (
        obj(GATEWAY, {}, says("Accepted", "Unknown", "Pending", message="Waiting for controller")),
        Phase.IN_PROGRESS, "Pending", "Waiting for controller",
    ),
    "gateway programmed": (obj(GATEWAY, {}, says("Programmed")), Phase.CURRENT, "", ""),
    "gateway with a broken listener": (
        obj(GATEWAY, {}, {**says("Programmed"), "listeners": [{"name": "https", **LOST}]}),
        Phase.IN_PROGRESS, "BackendNotFound", "no Service web",
    ),
    "route without a status": (obj(ROUTE), Phase.CURRENT, "", ""),
    "route accepted": (obj(ROUTE, {}, parents(accepted())), Phase.CURRENT, "", ""),
    "route to no backend": (
        obj(ROUTE, {}, parents(accepted(), LOST)),
        Phase.IN_PROGRESS, "BackendNotFound", "no Service web",
    ),
    "route that was accepted before": (
        obj(ROUTE, {}, parents(accepted(generation=1))),
        Phase.IN_PROGRESS, "LatestGenerationNotObserved",
        "generation is 2, but the controller has seen 1",
    ),
    "route refused by a parent that it had before": (
        obj(ROUTE, {}, parents(accepted("False", generation=1), accepted())),
        Phase.CURRENT, "", "",
    ),
    "route with a text for the generation": (
        obj(ROUTE, {}, parents(says("Accepted", observedGeneration="1"))), Phase.CURRENT, "", "",
    ),
    "route with parents of another form": (
        obj(ROUTE, {}, {"parents": "web", "listeners": [3, {"conditions": {}}]}),
        Phase.CURRENT, "", "",
    ),
    "API service away": (
        obj(SERVICE, {}, says("Available", "False", "ServiceNotFound", message="not present")),
        Phase.IN_PROGRESS, "ServiceNotFound", "not present",
    ),
    "API service": (obj(SERVICE, {}, says("Available")), Phase.CURRENT, "", ""),
    "autoscaler without a target": (
        obj(SCALER, {}, says("AbleToScale", "False", "FailedGetScale", message="not found")),
        Phase.IN_PROGRESS, "FailedGetScale", "not found",
    ),
    "autoscaler without metrics": (
        obj(SCALER, {}, says("ScalingActive", "False", "FailedGetResourceMetric")),
        Phase.CURRENT, "", "",
    ),
    "secret that cannot be unsealed": (
        obj(SEALED, {}, says("Synced", "False", message="no key could decrypt secret")),
        Phase.IN_PROGRESS, "Synced", "no key could decrypt secret",
    ),
    "a condition of that name of another kind": (
        obj("x.io/v1/Thing", {}, says("Accepted", "False")), Phase.CURRENT, "", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_health(name: str) -> None:
    raw, phase, reason, message = ROWS[name]
    found = health(raw)
    assert (found.phase, found.reason, found.message) == (phase, reason, message)
