"""Live objects compared with git by a user who may not read all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from gitkruise.errors import ApiError, Forbidden, NotFound
from gitkruise.gitops.inspect.drift import DriftComparison, compare
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.config import Config, GitSource, GitSourceSpec, Unit, UnitSpec
from gitkruise.wire.primitives.requests import ApiRequest
from tests.gitops.cluster.test_autoscalers import HPA, scaled
from tests.gitops.stage import UNIT, MakeStage, Stage, config_map, documents, web
from tests.worlds import cloneset

pytestmark = pytest.mark.slow

Refusal = Callable[[ApiRequest], ApiError | None]


async def compared(stage: Stage, refuse: Refusal, *names: str) -> DriftComparison:
    """Compare the only unit of the stage through a line that refuses some requests."""
    return await compared_units(stage, refuse, {UNIT: Unit("shop", "web", stage.spec)}, *names)


async def compared_units(
    stage: Stage, refuse: Refusal, units: dict[str, Unit], *names: str
) -> DriftComparison:
    stage.wire.refuse = refuse
    source = GitSource("shop", "src", GitSourceSpec(url=str(stage.origin.bare), ref=stage.ref))
    config = Config(sources={"shop/src": source}, units=units)
    return await compare(
        str(stage.origin.bare), "main", config, load_catalog(),
        transport=stage.wire, charts=stage.around.charts, cluster="test",
        asked=lambda key: not names or key.name in names,
    )  # fmt: skip


def without(plural: str) -> Refusal:
    return lambda r: Forbidden(f"no {plural}") if r.resource.plural == plural else None


def test_objects_that_may_not_be_read_hide_no_drift_of_others(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), config_map("settings", a="1"))
            await stage.rest()
        scaled(stage, 6)
        seen = await compared(stage, without("configmaps"))
        assert [(r.key.name, r.field) for r in seen.differing] == [("web", "spec.replicas")]
        assert {key.name for key in seen.compared} == {"web"}
        (error,) = seen.unread
        assert error.findings[0].message == "not allowed: no configmaps"
        assert error.findings[0].notes == (("unchanged", "ConfigMap objects were not compared"),)

    stage.play(script)


def test_an_object_is_compared_without_the_rights_to_others(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), config_map("settings", a="1"))
            await stage.rest()
        seen = await compared(stage, without("configmaps"), "web")
        assert (seen.differing, seen.unread) == ([], ())
        assert {key.name for key in seen.compared} == {"web"}
        assert {key.name for key in seen.others} == {"settings"}
        seen = await compared(stage, without("configmaps"), "settings")
        assert (len(seen.unread), seen.compared) == (1, frozenset())

    stage.play(script)


def test_the_objects_of_many_units_are_listed_together(staged: MakeStage) -> None:
    """Two thousand units took eight thousand requests, one after the other."""
    stage, names = staged(), [f"u{number}" for number in range(5)]
    ref = stage.spec.source_ref
    units = {f"shop/{n}": Unit("shop", n, UnitSpec(source_ref=ref, path=n)) for n in names}

    async def script() -> None:
        stage.origin.commit(
            {f"{n}/a.yaml": documents(cloneset(n), config_map(n, a="1")) for n in names}
        )
        stage.meddle(config_map("u1", a="1"))
        seen = await compared_units(stage, lambda _: None, units)
        missing = [r.key.name for r in seen.differing if r.live == "is missing"]
        assert missing == ["u0", "u0", "u1", "u2", "u2", "u3", "u3", "u4", "u4"]
        read = Counter(request.resource.plural for request in stage.wire.requests)
        assert (read["configmaps"], read["clonesets"]) == (1, 1)
        assert read["horizontalpodautoscalers"] == 0  # no size differs

    stage.play(script)


def test_a_unit_that_leaves_an_object_alone_hides_it_from_no_other(staged: MakeStage) -> None:
    stage = staged()
    ref = stage.spec.source_ref
    units = {f"shop/{n}": Unit("shop", n, UnitSpec(source_ref=ref, path=n)) for n in ("a", "b")}

    async def script() -> None:
        ours = config_map("settings", v="1")
        alone = config_map("settings", v="1")
        alone["metadata"]["annotations"] = {"gitkruise.io/apply": "Ignore"}
        stage.origin.commit({"a/a.yaml": documents(alone), "b/b.yaml": documents(ours)})
        stage.meddle(config_map("settings", v="2"))
        seen = await compared_units(stage, lambda _: None, units)
        assert [r.field for r in seen.differing] == ["data.v"]

    stage.play(script)


def test_a_size_is_doubtful_while_autoscalers_may_not_be_read(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web())
            await stage.rest()
        stage.meddle(HPA)
        scaled(stage, 6)
        assert not (await compared(stage, lambda _: None)).differing
        seen = await compared(stage, without("horizontalpodautoscalers"))
        assert [r.field for r in seen.differing] == ["spec.replicas"]
        (error,) = seen.unread
        assert dict(error.findings[0].notes)["unknown"].endswith("sets sizes in namespace shop")

    stage.play(script)


def test_an_object_of_a_version_that_the_cluster_does_not_serve_is_not_gone(
    staged: MakeStage,
) -> None:
    stage = staged()
    spec = {name: value for name, value in web()["spec"].items() if name != "updateStrategy"}
    older = {**web(), "apiVersion": "apps.kruise.io/v1alpha1", "spec": spec}

    def old(request: ApiRequest) -> ApiError | None:
        version = (request.resource.plural, request.resource.version)
        return NotFound("no such version") if version == ("clonesets", "v1alpha1") else None

    async def script() -> None:
        async with stage.running():
            await stage.push(older)
            await stage.rest()
        seen = await compared(stage, old)
        assert (seen.differing, {key.name for key in seen.compared}) == ([], {"web"})

    stage.play(script)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gitkruise.io/reconcile", "Disabled"),
        ("gitkruise.io/apply", "Ignore"),
        ("gitkruise.io/hold", "2099-01-01T00:00:00Z the fire"),
    ],
)
def test_what_a_sync_leaves_as_it_is_does_not_drift(
    staged: MakeStage, name: str, value: str
) -> None:
    stage = staged()
    there, missing = config_map("there", {name: value}, a="1"), config_map("never", {name: value})

    async def script() -> None:
        async with stage.running():
            await stage.push(config_map("there", a="1"), config_map("more"))
            await stage.rest()
            await stage.push(there, missing, config_map("more"), config_map("not-yet"))
        seen = await compared(stage, lambda _: None)
        assert [(r.key.name, r.live) for r in seen.differing] == [("not-yet", "is missing")]

    stage.play(script)


WIDGET = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "gear", "namespace": "shop"},
}


@pytest.mark.parametrize(
    ("refuse", "code", "says"),
    [
        (lambda _: None, "GK4201", "this cluster does not know kind Widget"),
        (without("customresourcedefinitions"), "GK4301", "no customresourcedefinitions"),
    ],
    ids=["not served", "definitions not readable"],
)
def test_an_object_of_a_kind_that_is_not_known_is_not_taken_for_equal(
    staged: MakeStage, refuse: Refusal, code: str, says: str
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web())
            await stage.rest()
        await stage.push(web(), WIDGET)
        seen = await compared(stage, refuse)
        assert (seen.differing, {key.name for key in seen.compared}) == ([], {"web"})
        ((finding,),) = (error.findings for error in seen.unread)
        assert (finding.code, says in finding.message) == (code, True)
        notes = dict(finding.notes)
        assert notes["unchanged"] == "Widget shop/gear was not compared"
        assert notes.get("next")

    stage.play(script)
