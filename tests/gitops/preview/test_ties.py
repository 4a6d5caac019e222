"""What a plan promises of pods that OpenKruise drives: counts and sets, whichever pod it takes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitkruise.cli.console.style import Style
from gitkruise.cli.views.plan import plan_lines
from gitkruise.gitops.cluster.engine import delegated_by
from gitkruise.gitops.preview.inputs import PlanSide
from gitkruise.gitops.preview.preview import live_preview
from gitkruise.gitops.preview.render_json import plan_obj
from gitkruise.gitops.preview.report import report_of
from gitkruise.gitops.preview.simulate import (
    NAMESPACE,
    Forecast,
    live_world,
    loosened_by,
    rollout_objects,
)
from gitkruise.model.gitops.config import Reference, Unit, UnitSpec, Workloads
from gitkruise.model.planning.forecast import ForecastStep, PodMove
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import CLONESET
from gitkruise.model.workloads.pod import POD
from gitkruise.model.workloads.revision import REVISION
from gitkruise.planner.health.tie_breaks import split
from gitkruise.planner.report.blast_radius import pods_named
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.sandbox.initial_objects import bootstrap
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.world.api.cluster import World
from tests.gitops.cluster.test_engine import ALIVE, DEAD, wire_to
from tests.gitops.preview.test_preview import CATALOG, placed, preview_of
from tests.planner.sync.build import COMMIT, desired
from tests.worlds import SPACE, START, Lab, cloneset

WEB = ObjectKey(*CLONESET, SPACE, "web")
AROUND = (NAMESPACE, GroupKind("", "Node"), REVISION, CLONESET)


def stand_in(world: World) -> World:
    """A model cluster that holds what `world` does."""
    transport = WorldTransport(Cluster(world, lambda: START))
    found = asyncio.run(rollout_objects(transport, CATALOG, [SPACE], kinds=(), served=CATALOG))
    return live_world(found, CATALOG, Gates())


def renamed(world: World, names: dict[str, str]) -> World:
    """The same cluster in which pods go by each other's names, so that ties break otherwise."""
    twin = stand_in(world)
    pods = [
        {**pod, "metadata": {**pod["metadata"], "name": names[pod["metadata"]["name"]]}}
        for pod in twin.objects(POD)
    ]
    rest = [obj for kind in AROUND for obj in twin.objects(kind)]
    twin.restore([*rest, *pods], world.version)
    return twin


@st.composite
def rollouts(draw: st.DrawFn) -> tuple[Obj, Obj, list[int]]:
    """A CloneSet, what a commit makes of it, and who goes by whose name."""
    replicas = draw(st.integers(2, 7))
    policy = draw(st.sampled_from(["ReCreate", "InPlaceIfPossible"]))
    rolling: dict[str, Any] = {
        "podUpdatePolicy": policy,
        "maxUnavailable": draw(st.sampled_from([1, 2, "50%"])),
        "partition": draw(st.sampled_from([0, 1, "50%"])),
    }
    image = draw(st.sampled_from(["app:v1", "app:v2"]))
    after = max(replicas + draw(st.integers(-3, 1)), 0)
    before = placed(cloneset("web", replicas, podUpdatePolicy=policy))
    others = draw(st.permutations(range(replicas)))
    return before, placed(cloneset("web", after, image, **rolling)), others


def moves(forecast: Forecast | None, names: dict[str, str]) -> list[Counter[tuple[str, str]]]:
    steps = forecast.rollouts[0].steps if forecast and forecast.rollouts else ()
    return [
        Counter((names.get(m.pod, ""), m.how) for m in step.moves if m.how != "create")
        for step in steps
    ]


@pytest.mark.slow
@settings(max_examples=20)
@given(rollouts())
def test_whichever_of_equal_pods_are_taken_the_promise_is_kept(
    drawn: tuple[Obj, Obj, Sequence[int]],
) -> None:
    before, after, others = drawn
    lab = Lab()
    lab.apply(before)
    lab.run()
    pods = sorted(pod["metadata"]["name"] for pod in lab.pods())
    names = {pod: pods[other] for pod, other in zip(pods, others, strict=True)}
    world = stand_in(lab.world)
    exact = preview_of(world, before, after, lab.now, live=True)
    loosened = loosened_by(exact, world, [desired(after)], {WEB})
    really = moves(
        preview_of(renamed(lab.world, names), before, after, lab.now, live=True),
        {new: old for old, new in names.items()},
    )
    if loosened is None or not loosened.rollouts:
        assert not any(really)
        return
    steps = loosened.rollouts[0].steps
    assert len(steps) == len(really)
    for step, done in zip(steps, really, strict=True):
        certain, left_open = split(step)
        kept = Counter((m.pod, m.how) for m in certain if m.how != "create")
        assert kept <= done
        for number, of in left_open:  # one set for updates and one for deletions may overlap
            assert sum(n for (pod, _), n in done.items() if pod in of) >= number
        assert kept.total() + sum(number for number, _ in left_open) == done.total()
    taken = {pod for done in really for pod, _ in done}
    assert not taken & {pod for pod, _ in loosened.rollouts[0].held}


STEP = [
    PodMove(pod="web-a", how="in-place"),
    PodMove(pod="web-b", how="in-place", of=("web-b", "web-c", "web-d")),
    PodMove(pod="web-c", how="in-place", of=("web-b", "web-c", "web-d")),
]


@pytest.mark.parametrize(
    ("step", "words"),
    [
        pytest.param(STEP[:1], "-a", id="certain"),
        pytest.param(STEP[1:2], "any 1 of {-b -c +1}", id="open"),
        pytest.param(STEP, "-a any 2 of {-b -c +1}", id="both"),
    ],
)
def test_what_is_open_is_stated(step: list[PodMove], words: str) -> None:
    forecast_step = ForecastStep(moves=tuple(step), starts=timedelta(0), lasts=timedelta(0))
    assert pods_named(forecast_step, lambda pod: pod.removeprefix("web"), most=2) == words


@pytest.mark.parametrize(("engine", "open_moves"), [("own", 0), ("kruise", 2)])
def test_a_plan_against_a_cluster_promises_what_its_engine_keeps(
    engine: Literal["own", "kruise"], open_moves: int
) -> None:
    lab = Lab()
    bootstrap(lab.world, lab.now, nodes=0)
    before = placed(cloneset("web", 4, podUpdatePolicy="InPlaceIfPossible"))
    after = placed(cloneset("web", 4, "app:v2", podUpdatePolicy="InPlaceIfPossible", partition=2))
    lab.apply(before)
    lab.run()
    spec = UnitSpec(source_ref=Reference(name="main"), workloads=Workloads(engine=engine))
    base, target = (
        PlanSide(commit=COMMIT, objects=(desired(obj),), units={WEB: Unit("default", "shop", spec)})
        for obj in (before, after)
    )
    transport = WorldTransport(Cluster(lab.world, lambda: lab.now))
    made = asyncio.run(
        live_preview(base, target, CATALOG, Gates(), transport=transport, now=lab.now)
    )
    report = report_of(made, base, target, cluster="test")
    shown = [move for step in plan_obj(report)["rollouts"][0]["steps"] for move in step["moves"]]
    assert len(shown) == 2
    assert sum("anyOf" in move and "pod" not in move for move in shown) == open_moves
    text = "\n".join(plan_lines(report, Style(colour=False, unicode=True, width=100)))
    assert ("any 1 of {" in text) == bool(open_moves)
    assert ("it may take any" in text) == bool(open_moves)


@pytest.mark.parametrize(
    ("engine", "found", "delegated"),
    [
        pytest.param("own", ALIVE, False, id="ours"),
        pytest.param("kruise", None, True, id="asked-for"),
        pytest.param("auto", ALIVE, True, id="alive"),
        pytest.param("auto", DEAD, False, id="dead"),
        pytest.param("auto", None, False, id="none"),
    ],
)
def test_whose_pods_openkruise_drives(
    engine: Literal["own", "kruise", "auto"], found: dict[str, Any] | None, delegated: bool
) -> None:
    spec = UnitSpec(source_ref=Reference(name="main"), workloads=Workloads(engine=engine))
    units = {WEB: Unit("default", "shop", spec)}
    assert asyncio.run(delegated_by(wire_to(found), units, START)) == (
        frozenset({WEB}) if delegated else frozenset()
    )
