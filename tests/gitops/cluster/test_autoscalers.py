"""A workload that an autoscaler sizes keeps the size it is given; git says the rest."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.errors import ApiError, Forbidden
from gitkruise.wire.primitives.names import Obj, split_api_version
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest
from tests.gitops.stage import WEB, MakeStage, Stage, config_map, documents, web
from tests.gitops.status.test_health_checks import definition
from tests.worlds import SPACE

pytestmark = pytest.mark.slow

HPA: Final[Obj] = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web"},
    "spec": {
        "minReplicas": 1,
        "maxReplicas": 9,
        "scaleTargetRef": {
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "CloneSet",
            "name": "web",
        },
    },
}


KEDA: Final = definition("keda.sh", "v1alpha1", "ScaledObject")
SCALED: Final[Obj] = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "ScaledObject",
    "metadata": {"name": "web"},
    "spec": {"scaleTargetRef": HPA["spec"]["scaleTargetRef"], "minReplicaCount": 0},
}


def send(stage: Stage, obj: Obj, verb: str, body: Any, subresource: str = "") -> None:
    group, version = split_api_version(obj["apiVersion"])
    kind = stage.world.catalog.by_kind(group, version, obj["kind"])
    assert kind is not None
    request = ApiRequest(
        verb=verb,
        resource=kind.ref,
        namespace=SPACE,
        name=obj["metadata"]["name"],
        subresource=subresource,
        body=body,
        content_type=MERGE_PATCH,
        params={"fieldManager": "kube-controller-manager"},
    )
    stage.world.handle(request, stage.clock.now())
    stage.cluster.publish()


def scaled(stage: Stage, size: int) -> None:
    """What the controller of autoscalers does."""
    send(stage, web(), "patch", {"spec": {"replicas": size}}, "scale")


def size(stage: Stage) -> int:
    found = stage.world.get(WEB)
    assert found is not None
    return int(found["spec"]["replicas"])


@pytest.mark.parametrize(
    ("more", "later"),
    [
        pytest.param([HPA], [], id="in git"),
        pytest.param([], [HPA], id="somebody else's"),
        pytest.param([KEDA, SCALED], [], id="KEDA's, in git"),
    ],
)
def test_its_size_is_left_alone_and_everything_else_is_not(
    staged: MakeStage, more: list[Obj], later: list[Obj]
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), *more)
            await stage.rest(30)
            for autoscaler in later:
                stage.meddle(autoscaler)
            await stage.rest(1)
            stage.wire.requests.clear()
            scaled(stage, 6)
            await stage.rest(30)
            assert (size(stage), stage.wire.writes(), stage.state) == (6, [], "Done")
            await stage.push(web("app:v2"), *more)
            await stage.rest(60)
            assert (size(stage), stage.images()) == (6, ["app:v2"] * 6)
            smaller = web("app:v2")
            smaller["spec"]["replicas"] = 2
            await stage.push(smaller, *more)
            await stage.rest(30)
            assert (size(stage), stage.state) == (6, "Done")
            scaled(stage, 5)
            await stage.rest(30)
            assert size(stage) == 5

    stage.play(script)


def test_a_size_that_is_left_alone_is_no_change_of_a_commit(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), HPA)
            await stage.rest(30)
            scaled(stage, 6)
            await stage.rest(30)
        stage.start_over()  # what git said before is not known any more
        stage.origin.commit({"app.yaml": documents(web("app:v2"), HPA)}, "second")
        async with stage.running():
            await stage.follower.check()
            await stage.rest(60)
            assert (size(stage), stage.images()) == (6, ["app:v2"] * 6)
            assert dict(stage.record.steps)[WEB][-1].change == "app v1 → v2"

    stage.play(script)


def test_a_size_in_git_that_has_no_effect_is_no_change_either(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), HPA)
            await stage.rest(30)
            scaled(stage, 6)
            await stage.rest(30)
            smaller = web("app:v2")
            smaller["spec"]["replicas"] = 2
            await stage.push(smaller, HPA)
            await stage.rest(60)
            assert size(stage) == 6
            assert dict(stage.record.steps)[WEB][-1].change == "app v1 → v2"

    stage.play(script)


def test_without_its_autoscaler_it_has_the_size_that_git_says(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web())
            await stage.rest(30)
            stage.meddle(HPA)
            scaled(stage, 6)
            await stage.push(web("app:v2"))
            await stage.rest(60)
            assert size(stage) == 6
            send(stage, HPA, "delete", None)
            await stage.rest(60)
            assert size(stage) == 4

    stage.play(script)


def test_a_size_that_moves_under_the_apply_is_looked_at_again(staged: MakeStage) -> None:
    stage = staged()

    def moved(request: ApiRequest) -> ApiError | None:
        if request.name == "web" and "dryRun" not in request.params and size(stage) == 6:
            scaled(stage, 7)
        return None

    async def script() -> None:
        async with stage.running():
            await stage.push(web())
            await stage.rest(30)
            stage.meddle(HPA)
            scaled(stage, 6)
            await stage.rest(5)
            stage.wire.refuse = moved
            await stage.push(web("app:v2"))
            await stage.rest(60)
            assert (size(stage), stage.images()) == (7, ["app:v2"] * 7)

    stage.play(script)


def test_who_may_not_see_autoscalers_goes_on_without_them(staged: MakeStage) -> None:
    stage = staged()

    def refuse(request: ApiRequest) -> ApiError | None:
        hidden = request.resource.plural == "horizontalpodautoscalers"
        return Forbidden("not yours") if hidden else None

    stage.wire.refuse = refuse

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), config_map("settings", a="1"))
            await stage.rest(30)
            assert (stage.state, stage.record.findings) == ("Done", ())

    stage.play(script)
