"""Forecast of Deployments: waves of new and old pods, and where the rollout holds."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.model.planning.forecast import RolloutForecast
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from gitkruise.world.kubelet.profiles import FAST
from gitkruise.world.simulation.forecast import predict
from tests.worlds import SPACE, Lab, container, deployment

DEPLOYMENTS = ResourceRef("apps", "v1", "deployments")
CANARY = "gitkruise.io/canary"


def web(canary: str | None = None, *, surge: Any = 2, unavailable: Any = 1, **spec: Any) -> Obj:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    obj = deployment(**{"replicas": 10, "strategy": strategy, **spec})
    notes = {} if canary is None else {CANARY: canary}
    return {**obj, "metadata": {"name": "web", "annotations": notes}}


def running(obj: Obj) -> Lab:
    lab = Lab()
    lab.apply(obj)
    lab.run()
    return lab


def image(name: str, **fields: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [container(image=name, **fields)]}}}


def forecast(lab: Lab, canary: str | None = None, **spec: Any) -> RolloutForecast:
    notes = {} if canary is None else {"metadata": {"annotations": {CANARY: canary}}}
    write = ApiRequest(
        verb="patch",
        resource=DEPLOYMENTS,
        namespace=SPACE,
        name="web",
        body={**notes, "spec": spec},
        content_type=MERGE_PATCH,
    )
    (found,) = predict(lab.world, [write], lab.now, profile=FAST).rollouts
    return found


def waves(found: RolloutForecast) -> list[tuple[int, int, int]]:
    """(new, old, available) after each step."""
    return [(c.new, c.old, c.available) for s in found.steps if (c := s.counts) is not None]


def test_can_37_a_canary_is_forecast_wave_by_wave_up_to_its_hold() -> None:
    lab = running(web("3"))
    found = forecast(lab, **image("app:v2"))
    assert waves(found) == [(3, 9, 9), (3, 7, 10)]
    assert (found.updated_before, found.updated_after, found.partition) == (0, 3, 7)
    assert (found.max_surge, found.max_unavailable) == (2, 1)
    assert (found.hold, found.canary) == ("CanaryReached", "3")
    assert found.previous != found.revision


def test_without_a_canary_all_pods_are_replaced() -> None:
    found = forecast(running(web()), **image("app:v2"))
    assert waves(found)[-1][:2] == (10, 0)
    assert min(up for *_, up in waves(found)) >= 9
    assert max(new + old for new, old, _ in waves(found)) <= 12
    assert (found.hold, found.count("create"), found.count("delete")) == ("", 10, 10)


def test_recreate_takes_all_pods_first() -> None:
    found = forecast(running(web(strategy={"type": "Recreate"})), **image("app:v2"))
    assert waves(found) == [(0, 0, 0), (10, 0, 0)]
    assert (found.max_unavailable, found.hold) == (10, "")


def test_a_bad_image_gets_stuck_within_its_budget() -> None:
    found = forecast(running(web()), **image("app:bad"))
    assert found.hold == "Stuck"
    assert "cannot be pulled" in found.message
    assert waves(found)[-1][2] == 9


@pytest.mark.parametrize(("to", "hold"), [("50%", "CanaryReached"), ("100%", "")])
def test_a_higher_canary_and_the_end_of_the_pause_go_on(to: str, hold: str) -> None:
    lab = running(web("3"))
    lab.patch(web(), {"spec": image("app:v2")})
    lab.run()
    found = forecast(lab, to, paused=False)
    updated = 5 if hold else 10
    assert (found.hold, found.updated_before, found.updated_after) == (hold, 3, updated)
    assert waves(found)[-1][:2] == (updated, 10 - updated)


def test_a_canary_that_changes_nothing_yet_moves_nothing() -> None:
    lab = running(web("3"))
    found = forecast(lab, "5")
    assert (found.steps, found.hold) == ((), "")


def test_a_rollback_to_the_pods_that_run_is_not_held() -> None:
    lab = running(web("3"))
    lab.patch(web(), {"spec": image("app:v2")})
    lab.run()
    found = forecast(lab, paused=False, **image("app:v1"))
    assert (found.hold, found.updated_before, found.updated_after) == ("", 7, 10)
    assert waves(found)[-1] == (10, 0, 10)


def test_scaling_a_held_rollout_keeps_its_shares() -> None:
    lab = running(web("3"))
    lab.patch(web(), {"spec": image("app:v2")})
    lab.run()
    found = forecast(lab, replicas=20)
    assert waves(found)[-1] == (6, 14, 20 - 10)
    assert (found.hold, found.count("create")) == ("CanaryReached", 10)


def test_a_pause_and_its_end() -> None:
    lab = running(web())
    held = forecast(lab, paused=True, **image("app:v2"))
    assert (held.steps, held.hold, held.updated_after) == ((), "Paused", 0)
    lab.patch(web(), {"spec": {"paused": True, **image("app:v2")}})
    lab.run()
    assert forecast(lab, paused=False).updated_after == 10


def test_the_forecast_is_what_then_happens() -> None:
    lab = running(web("3"))
    found = forecast(lab, **image("app:v2"))
    lab.patch(web(), {"spec": image("app:v2")})
    lab.run()
    images = [pod["spec"]["containers"][0]["image"] for pod in lab.pods()]
    assert (images.count("app:v2"), images.count("app:v1")) == (3, 7)
    assert waves(found)[-1][:2] == (3, 7)


def test_a_rollout_that_outlasts_the_forecast_says_so() -> None:
    slow: dict[str, Any] = {"minReadySeconds": 1200, "progressDeadlineSeconds": 3600}
    found = forecast(running(web()), None, **slow, **image("app:v2"))
    assert found.hold == "Stuck"
    assert found.message.startswith("still rolling after 30m: ")
