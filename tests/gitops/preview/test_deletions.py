"""A plan says of deletions what the controller does: how many there are, and what they await."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitkruise.app import controller
from gitkruise.gitops.preview.inputs import read_side
from gitkruise.gitops.preview.preview import live_preview, offline_preview
from gitkruise.gitops.preview.report import report_of
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import Obj
from tests.gitops.plans import CATALOG
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.stage import MakeStage, config_map, documents
from tests.observer.histories import SINK
from tests.worlds import deployment


def alone(name: str) -> Obj:
    obj = config_map(name, a="b")
    obj["metadata"]["annotations"] = {"gitkruise.io/reconcile": "Disabled"}
    return obj


GOING = [config_map(f"going-{n}", a="b") for n in range(5)]
STAYING = [config_map(f"staying-{n}", a="b") for n in range(2)]
ALONE = [alone(f"alone-{n}") for n in range(3)]


def deployed(image: str) -> Obj:
    return {**deployment(image=image, replicas=2), "metadata": {"name": "web"}}


def late(value: str) -> Obj:
    obj = config_map("late", a=value)
    obj["metadata"]["annotations"] = {"gitkruise.io/wave": "5"}
    return obj


@pytest.mark.slow
def test_what_comes_after_a_stuck_rollout_waits(staged: MakeStage, tmp_path: Path) -> None:
    """Later waves and deletions, as in the controller."""
    stage = staged()

    async def script() -> None:
        files = [documents(deployed("app:v1"), late("old"), GOING[0])]
        files += [documents(deployed("app:v2-broken"), late("new"))]
        old = stage.origin.commit({"one/a.yaml": files[0]})
        program = options(stage, tmp_path, SOURCE + unit("one"))
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(60)
            new, gates, catalog = stage.origin.commit({"one/a.yaml": files[1]}), Gates(), CATALOG
            base, target = (
                read_side(stage.repository, c, program.config, catalog, gates) for c in (old, new)
            )
            preview = await live_preview(
                base, target, catalog, gates, transport=stage.wire, now=stage.clock.now()
            )
            blast = [span.text for span in report_of(preview, base, target).blast]
            line = "2 changes of unit shop/one WAIT: Deployment shop/web gets stuck before"
            assert blast[0] == line
            await stage.rest(120)
        assert stage.get("ConfigMap", "going-0") is not None
        assert stage.get("ConfigMap", "late")["data"] == {"a": "old"}

    stage.play(script)


@pytest.mark.slow
def test_objects_that_are_left_alone_do_not_count(staged: MakeStage, tmp_path: Path) -> None:
    stage, records = staged(), dict[str, UnitRecord]()

    def program() -> Any:
        heed = (lambda r: records.update({r.unit: r}),)
        return options(stage, tmp_path, SOURCE + unit("one"), listeners=heed)

    async def script() -> None:
        old = stage.origin.commit({"one/a.yaml": documents(*GOING, *STAYING, *ALONE)})
        async with controller(program(), stage.wire, stage.clock):
            await stage.rest(60)
        new = stage.origin.commit({"one/a.yaml": documents(*STAYING, *ALONE)})
        after, gates, catalog = program(), Gates(), stage.world.catalog
        base, target = (
            read_side(stage.repository, c, after.config, catalog, gates) for c in (old, new)
        )
        live = await live_preview(
            base, target, catalog, gates, transport=stage.wire, now=stage.clock.now()
        )
        for preview in (live, offline_preview(base, target, catalog, gates)):
            blast = [span.text for span in report_of(preview, base, target).blast]
            assert blast[0] == "5 of 7 objects of unit shop/one WAIT FOR APPROVAL, limit 3"
        async with controller(after, stage.wire, stage.clock):
            await stage.rest(60)
        assert "deletion of 5 of 7 objects, limit 3" in str(records["shop/one"])

    stage.play(script)


KEPT = config_map("kept", a="b")
KEPT["metadata"]["annotations"] = {"gitkruise.io/prune": "Confirm"}
# prune of a unit, what a plan of its removal says, how many of its six objects are deleted
ENDS: dict[str, tuple[str, str, int]] = {
    "mirrored": ("maxDelete: 5", "ask for approval", 5),
    "more than its limit": (
        "maxDelete: 1",
        "6 objects of unit shop/two left git and STAY: more than prune.maxDelete (1)", 0),
    "mirrored, and off": (
        "enabled: false", "6 objects of unit shop/two left git and STAY: prune.enabled is off", 0),
    "off, and deleted": ("enabled: false, deletionPolicy: Delete", "ask for approval", 5),
    "more than its limit, deleted": (
        "maxDelete: 1, deletionPolicy: WaitForTermination", "ask for approval", 5),
    "released": (
        "deletionPolicy: Orphan",
        "6 objects of unit shop/two left git and STAY: prune.deletionPolicy is Orphan", 0),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDS)
def test_a_unit_that_leaves_ends_as_it_says(staged: MakeStage, tmp_path: Path, name: str) -> None:
    prune, sentence, count = ENDS[name]
    stage, one, gates = staged(), documents(config_map("one", a="b")), Gates()
    if sentence == "ask for approval":
        why = "annotation gitkruise.io/prune: Confirm"
        sentence = f"1 object of unit shop/two left git and STAYS: {why}"

    async def script() -> None:
        files = {"one/a.yaml": one, "two/a.yaml": documents(*GOING, KEPT)}
        old = stage.origin.commit(files)
        more = f", sinkRef: {{{{name: git}}}}, prune: {{{{{prune}}}}}"
        before = options(stage, tmp_path, SOURCE + SINK + unit("one") + unit("two", more))
        async with controller(before, stage.wire, stage.clock):
            await stage.rest(60)
        new = stage.origin.commit({"two/a.yaml": None})
        after = options(stage, tmp_path, SOURCE + SINK + unit("one"))
        base = read_side(stage.repository, old, before.config, CATALOG, gates)
        target = read_side(stage.repository, new, after.config, CATALOG, gates)
        preview = await live_preview(
            base, target, CATALOG, gates, transport=stage.wire, now=stage.clock.now()
        )
        report = report_of(preview, base, target)
        assert sentence in [span.text for span in report.blast]
        assert not any("WAIT" in span.text for span in report.blast)
        assert report.totals.deleted == count
        async with controller(after, stage.wire, stage.clock):
            await stage.rest(60)
        there = [stage.get("ConfigMap", obj["metadata"]["name"]) for obj in (*GOING, KEPT)]
        assert sum(obj is None for obj in there) == count

    stage.play(script)


@pytest.mark.slow
def test_what_a_unit_had_left_goes_with_it(staged: MakeStage, tmp_path: Path) -> None:
    """Deletions that an earlier commit asked for, and that waited for approval."""
    stage, one, gates = staged(), documents(config_map("one", a="b")), Gates()
    more = ", sinkRef: {{name: git}}, prune: {{maxDelete: 1, deletionPolicy: Delete}}"
    before = SOURCE + SINK + unit("one") + unit("two", more)

    async def script() -> None:
        files = {"one/a.yaml": one, "two/a.yaml": documents(*GOING, *STAYING)}
        stage.origin.commit(files)
        program = options(stage, tmp_path, before)
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(60)
            old = stage.origin.commit({"two/a.yaml": documents(*STAYING)})
            await stage.rest(60)
        new = stage.origin.commit({"two/a.yaml": None})
        after = options(stage, tmp_path, SOURCE + SINK + unit("one"))
        base = read_side(stage.repository, old, program.config, CATALOG, gates)
        target = read_side(stage.repository, new, after.config, CATALOG, gates)
        target = replace(target, followed_by=frozenset(target.everyone))
        preview = await live_preview(
            base, target, CATALOG, gates, transport=stage.wire, now=stage.clock.now()
        )
        assert report_of(preview, base, target).totals.deleted == len((*GOING, *STAYING))
        async with controller(after, stage.wire, stage.clock):
            await stage.rest(60)
        names = [obj["metadata"]["name"] for obj in (*GOING, *STAYING)]
        assert not any(stage.get("ConfigMap", name) for name in names)

    stage.play(script)
