"""Fields of a plan are those that the sync changes, from the values that the cluster has."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.app import controller
from gitkruise.gitops.preview.inputs import read_side
from gitkruise.gitops.preview.preview import Preview, live_preview
from gitkruise.gitops.preview.report import report_of
from gitkruise.model.gitops.change import MISSING, ChangeKind, ObjectChange
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.report.report_text import source_of, summary
from gitkruise.planner.sync.annotations import DIGEST
from tests.cli.deployments import web as deployment
from tests.git.sops import ENCRYPTED, PLAIN
from tests.gitops.cluster.test_autoscalers import HPA, send
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.stage import MakeStage, Stage, config_map, documents, web
from tests.worlds import SPACE

pytestmark = pytest.mark.slow

GATES: Final = Gates()
IGNORING: Final = ", drift: {{ignore: [{{paths: [/data/theirs]}}]}}"


async def planned(stage: Stage, program: Any, *commits: str) -> Preview:
    """The plan between two commits, from what is live."""
    rules = (program.config, stage.world.catalog, GATES)
    base, target = (read_side(stage.repository, commit, *rules) for commit in commits)
    return await live_preview(
        base, target, stage.world.catalog, GATES, transport=stage.wire, now=stage.clock.now()
    )


def values_of(change: ObjectChange) -> dict[str, tuple[Any, Any]]:
    """(before, after) by field; None is nothing."""
    shown = ((f.path, f.before, f.after) for f in change.fields)
    return {
        ".".join(map(str, path)): tuple(None if v is MISSING else v for v in values)  # type: ignore[misc]
        for path, *values in shown
    }


def pushed(stage: Stage, *objects: Any) -> str:
    return stage.origin.commit({"one/a.yaml": documents(*objects)})


async def follow(stage: Stage, program: Any) -> None:
    async with controller(program, stage.wire, stage.clock):
        await stage.rest(120)


def with_env(obj: dict[str, Any]) -> dict[str, Any]:
    obj["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "OLD", "value": "1"}]
    return obj


def test_values_that_are_encrypted_are_not_compared_with_live_ones(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage = staged()
    sops = ", render: {{decryption: {{provider: sops, secretRef: {{name: age}}}}}}"
    program = options(stage, tmp_path, SOURCE + unit("one", sops))
    text = ENCRYPTED.replace("${SPACE}", SPACE)
    live = {"apiVersion": "v1", "kind": "Secret", "metadata": {
        "name": "token", "annotations": {DIGEST: "sha256:of what was decrypted"}}}  # fmt: skip
    stage.meddle({**live, "data": {"token": PLAIN[2]}})

    async def script() -> None:
        base = stage.origin.commit({"one/a.yaml": text})
        other = text.replace("data:GD2Z", "data:HD2Z")
        target = stage.origin.commit({"one/a.yaml": other})
        for commits, fields in (((base, base), []), ((base, target), ["data.token"])):
            changes = (await planned(stage, program, *commits)).changes
            (token,) = [change for change in changes if change.key.name == "token"]
            assert [*values_of(token)] == fields
            assert not token.pending

    stage.play(script)


def test_a_plan_starts_from_the_commit_that_is_live(staged: MakeStage, tmp_path: Path) -> None:
    """The base of the plan is newer than what the cluster has: one of its fields is due, too."""
    stage = staged()
    program = options(stage, tmp_path, SOURCE + unit("one"))

    async def script() -> None:
        pushed(stage, with_env(web("app:v1")), config_map("a", a="1", b="1", gone="1"))
        await follow(stage, program)
        base = pushed(stage, with_env(web("app:v2", partition=2)), config_map("a", a="1", b="2"))
        target = pushed(stage, web("app:v3", partition=2), config_map("a", a="2", b="2"))
        preview = await planned(stage, program, base, target)
        config, rollout = sorted(preview.changes, key=lambda c: c.key.kind, reverse=True)
        image = "spec.template.spec.containers.0.image"
        env = "spec.template.spec.containers.0.env"
        found = values_of(rollout)
        assert found[image] == ("app:v1", "app:v3")
        assert found["spec.updateStrategy.rollingUpdate.partition"] == (0, 2)
        assert found[env] == ([{"name": "OLD", "value": "1"}], None)
        assert values_of(config) == {
            "data.a": ("1", "2"), "data.b": ("1", "2"), "data.gone": ("1", None),
        }  # fmt: skip
        assert (config.pending, config.drift) == (False, False)
        again = await planned(stage, program, target, target)
        late = next(c for c in again.changes if c.key.kind == "ConfigMap")
        assert (values_of(late), late.pending, late.drift) == (values_of(config), True, False)
        side = read_side(stage.repository, target, program.config, stage.world.catalog, GATES)
        report = report_of(again, side, side, cluster="test")
        assert summary(report).startswith("2 of earlier commits · "), summary(report)
        (text, _) = (source_of(entry, report) for entry in report.entries)
        assert text.endswith("of an earlier commit, and not live")
        await follow(stage, program)
        live = stage.get("ConfigMap", "a")
        assert "gone" not in live["data"]
        back = await planned(stage, program, base, base)  # live has a newer commit than this one
        report = report_of(back, side, side, cluster="test")
        placed = {source_of(entry, report) for entry in report.entries}
        assert any(one.endswith("of an earlier commit, and not live") for one in placed), placed

    stage.play(script)


def test_fields_that_are_left_to_others_are_no_change(staged: MakeStage, tmp_path: Path) -> None:
    """As the sync sends them: neither by its rules, nor where an autoscaler sets the size."""
    stage = staged()
    program = options(stage, tmp_path, SOURCE + unit("one", IGNORING))

    async def script() -> None:
        base = pushed(stage, web("app:v1"), config_map("a", ours="1", theirs="1"))
        await follow(stage, program)
        stage.meddle(config_map("a", theirs="9"))
        stage.meddle(HPA)
        send(stage, web(), "patch", {"spec": {"replicas": 7}}, "scale")
        await stage.rest(60)
        preview = await planned(stage, program, base, base)
        assert {c.kind for c in preview.changes} == {ChangeKind.UNCHANGED}
        target = pushed(stage, web("app:v2"), config_map("a", ours="2", theirs="2"))
        preview = await planned(stage, program, base, target)
        config, rollout = sorted(preview.changes, key=lambda c: c.key.kind, reverse=True)
        assert values_of(config) == {"data.ours": ("1", "2")}
        assert values_of(rollout) == {"spec.template.spec.containers.0.image": ("app:v1", "app:v2")}
        assert preview.forecast is not None
        (played,) = preview.forecast.rollouts
        assert played.replicas == 7
        await follow(stage, program)
        assert stage.get("ConfigMap", "a")["data"] == {"ours": "2", "theirs": "9"}
        assert stage.get("CloneSet", "web", "apps.kruise.io")["spec"]["replicas"] == 7

    stage.play(script)


@pytest.mark.parametrize("mode", ["detect", "off"])
def test_drift_that_the_unit_leaves_is_no_change_until_git_changes_the_object(
    staged: MakeStage, tmp_path: Path, mode: str
) -> None:
    stage = staged()
    program = options(stage, tmp_path, SOURCE + unit("one", f", drift: {{{{mode: '{mode}'}}}}"))

    async def script() -> None:
        base = pushed(stage, web("app:v1"), config_map("a", mode="slow", size="1"))
        await follow(stage, program)
        stage.meddle(config_map("a", mode="fast"))
        target = pushed(stage, web("app:v2"), config_map("a", mode="slow", size="1"))
        preview = await planned(stage, program, base, target)
        assert [c.key.kind for c in preview.changes if c.kind is not ChangeKind.UNCHANGED] == [
            "CloneSet"
        ]
        await follow(stage, program)
        assert stage.get("ConfigMap", "a")["data"]["mode"] == "fast"
        newer = pushed(stage, web("app:v2"), config_map("a", mode="slow", size="2"))
        (change,) = (c for c in (await planned(stage, program, target, newer)).changes if c.fields)
        assert values_of(change) == {"data.mode": ("fast", "slow"), "data.size": ("1", "2")}
        await follow(stage, program)
        assert stage.get("ConfigMap", "a")["data"] == {"mode": "slow", "size": "2"}

    stage.play(script)


def test_a_pause_by_git_is_a_change_where_a_canary_pauses_already(
    staged: MakeStage, tmp_path: Path
) -> None:
    """The live value is the canary's: after the commit it is git that has to end the pause."""
    stage = staged()
    program = options(stage, tmp_path, SOURCE + unit("one"))

    async def script() -> None:
        stage.origin.commit({"one/a.yaml": deployment("v1", "3")})
        await follow(stage, program)
        base = stage.origin.commit({"one/a.yaml": deployment("v2", "3")})
        await follow(stage, program)
        assert stage.get("Deployment", "web", "apps")["spec"]["paused"] is True
        target = stage.origin.commit({"one/a.yaml": deployment("v2", "3", paused=True)})
        (change,) = (await planned(stage, program, base, target)).changes
        assert values_of(change) == {"spec.paused": (None, True)}
        (change,) = (await planned(stage, program, base, base)).changes
        assert change.kind is ChangeKind.UNCHANGED

    stage.play(script)


def test_content_and_marks_that_another_manager_brought_back_are_drift(
    staged: MakeStage, tmp_path: Path
) -> None:
    """As `kubectl rollout undo` does: no earlier commit waits to be applied."""
    stage = staged()
    program = options(stage, tmp_path, SOURCE + unit("one"))

    async def script() -> None:
        pushed(stage, config_map("a", mode="slow"))
        await follow(stage, program)
        notes = stage.get("ConfigMap", "a")["metadata"]["annotations"]
        target = pushed(stage, config_map("a", mode="fast"))
        await follow(stage, program)
        stage.meddle(config_map("a", notes, mode="slow"), manager="kubectl")
        preview = await planned(stage, program, target, target)
        (change,) = (c for c in preview.changes if c.key.kind == "ConfigMap")
        assert values_of(change) == {"data.mode": ("slow", "fast")}
        assert (change.pending, change.drift) == (False, True)

    stage.play(script)
