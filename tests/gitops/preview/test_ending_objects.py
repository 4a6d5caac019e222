"""A plan of objects that git has again while the old ones are being deleted: they are created."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from gitkruise.app import controller
from gitkruise.gitops.preview.inputs import PlanSide, read_side
from gitkruise.gitops.preview.preview import live_preview
from gitkruise.gitops.preview.report import report_of
from gitkruise.model.gitops.report import PlanReport
from gitkruise.model.workloads.feature_gates import Gates
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.stage import MakeStage, config_map, documents, web

ONE, TWO, THING = (config_map(name, a="b") for name in ("one", "two", "thing"))
FINALIZER: Final = "example.com/slow"
OLD, NEW = web("app:v1"), web("app:v2")


@pytest.mark.slow
@pytest.mark.parametrize("home", ["one", "two"], ids=["its unit", "another unit"])
def test_they_are_created_when_the_old_ones_are_gone(
    staged: MakeStage, tmp_path: Path, home: str
) -> None:
    stage = staged()
    program = options(stage, tmp_path, SOURCE + unit("one") + unit("two"))

    def hold(*finalizers: str) -> None:
        for obj in (THING, {**OLD, "spec": {}}):
            meta = {"name": obj["metadata"]["name"], "finalizers": [*finalizers]}
            kind = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
            stage.meddle({**kind, "metadata": meta}, manager="finalizer")

    async def plan(old: str, new: str) -> PlanReport:
        def side(commit: str) -> PlanSide:
            config, catalog = program.config, stage.world.catalog
            return read_side(stage.repository, commit, config, catalog, Gates())

        base, target = side(old), side(new)
        preview = await live_preview(
            base, target, stage.world.catalog, Gates(), transport=stage.wire, now=stage.clock.now()
        )
        return report_of(preview, base, target, cluster="test")

    async def script() -> None:
        stage.origin.commit({"one/a.yaml": documents(ONE), "two/a.yaml": documents(TWO)})
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(20)
            stage.origin.commit({"one/b.yaml": documents(THING, OLD)})
            await stage.rest(60)
            hold(FINALIZER)
            old = stage.origin.commit({"one/b.yaml": None})
            await stage.rest(60)
            uids = {
                kind: stage.get(kind, name, group)["metadata"]["uid"]
                for kind, name, group in (
                    ("ConfigMap", "thing", ""), ("CloneSet", "web", "apps.kruise.io")
                )
            }  # fmt: skip
            new = stage.origin.commit({f"{home}/b.yaml": documents(THING, NEW)})
            report = await plan(old, new)
            changes = {(str(e.kind), e.keys[0].name) for e in report.entries}
            assert changes == {("create", "thing"), ("create", "web")}
            assert report.totals.pods.added == 4
            blast = [span.text for span in report.blast]
            assert (
                "created when the old one is gone, which is being deleted: ConfigMap shop/thing, "
                "CloneSet shop/web"
            ) in blast
            await stage.rest(60)
            hold()
            await stage.rest(60)
            found = stage.get("ConfigMap", "thing")["metadata"]["uid"]
            assert found != uids["ConfigMap"]
            assert stage.images() == ["app:v2"] * 4

    stage.play(script)
