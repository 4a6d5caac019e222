"""The arithmetic of going forward and back: computed, played ahead, and then really done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gitkruise.errors import InvalidManifests, UsageProblem
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.actions import (
    ActionArgs,
    ActionTarget,
    ActionVerb,
    compute,
)
from gitkruise.gitops.actions.proof import check_outcome, earlier_stages
from gitkruise.gitops.actions.target import BranchState, ObjectQuery, find_target, read_branch
from gitkruise.gitops.preview.inputs import whole_repository
from gitkruise.gitops.preview.preview import offline_preview
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.config import UnitSpec
from gitkruise.model.planning.forecast import RolloutForecast
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import CLONESET
from gitkruise.wire.primitives.names import GroupKind
from tests.git.repos import Origin, make_origin, run_git
from tests.gitops.actions.test_rollback import fleet
from tests.gitops.stage import MakeStage, Stage, documents

RULES = (load_catalog(), Gates())


def found_target(
    repository: Repository, kind: GroupKind = CLONESET
) -> tuple[BranchState, ActionTarget]:
    tip = repository.resolve("main")
    state = read_branch(repository, "main", tip, whole_repository(), *RULES)
    return find_target([state], ObjectQuery(kind=kind, name="web"))


def played(
    origin: Origin, verb: ActionVerb, arguments: ActionArgs, kind: GroupKind = CLONESET
) -> RolloutForecast:
    """The prediction of an act, which has passed its own check. No cluster, no commit on main."""
    with Repository.open(str(origin.bare)) as repository:
        state, target = found_target(repository, kind)
        edit = compute(verb, repository, target, arguments)
        commit = origin.commit({edit.file: edit.data}, branch="proposed")
        run_git(origin.work, "reset", "-q", "--hard", "HEAD~1")
        after = read_branch(repository, "proposed", commit, state.config, *RULES)
        stages = earlier_stages(repository, target, state.side.objects)
        preview = offline_preview(state.side, after.side, *RULES, earlier=stages)
        check_outcome(edit, target, preview)
        assert preview.forecast is not None
        (prediction,) = preview.forecast.rollouts
        return prediction


def commit_all(origin: Origin, *versions: tuple[str, int | str]) -> None:
    for image, partition in versions:
        origin.commit({"web.yaml": documents(fleet(image, partition))})


HELD = (("app:v1", 0), ("app:v2", 28))  # 12 of 40 are updated
BY_HAND = (*HELD, ("app:v1", 28))  # then the template alone went back
# verb, what is added to it, history, pods on the update revision before and after, what holds
ARITHMETIC = {
    "back-from-a-canary": (ActionVerb.ROLLBACK, "", HELD, 28, 40, ""),
    "back-after-a-revert-by-hand": (ActionVerb.ROLLBACK, "", BY_HAND, 28, 40, ""),
    "on-to-12": (ActionVerb.PROMOTE, "12", HELD, 12, 28, "PartitionReached"),
    "on-to-all": (ActionVerb.PROMOTE, "", HELD, 12, 40, ""),
    "on-to-50%-is-20-more-than-12": (ActionVerb.PROMOTE, "50%", HELD, 12, 20, "PartitionReached"),
    "hold-moves-nobody": (ActionVerb.HOLD, "30", HELD, 12, 12, "PartitionReached"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ARITHMETIC)
def test_pods_move_as_asked_in_the_simulation(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    verb, to, history, before, after, hold = ARITHMETIC[name]
    origin = make_origin(tmp_path_factory.mktemp("git"))
    commit_all(origin, *history)
    p = played(origin, verb, ActionArgs(partition=to))
    assert (p.updated_before, p.updated_after, p.hold) == (before, after, hold)


@pytest.mark.parametrize(
    ("helm", "file"),
    [
        ({}, "charts/web/values.yaml"),
        ({"valuesFiles": ["a.yaml", "prod/web.yaml"]}, "prod/web.yaml"),
        ({"values": {"a": 1}}, "charts/web/values.yaml, or in render.helm.values of its unit"),
    ],
)
@pytest.mark.parametrize("verb", [ActionVerb.PROMOTE, ActionVerb.PAUSE, ActionVerb.ROLLBACK])
def test_values_of_a_chart_are_not_edited(
    tmp_path: Path, verb: ActionVerb, helm: dict[str, Any], file: str
) -> None:
    origin = make_origin(tmp_path)
    commit_all(origin, *HELD)
    spec = {
        "sourceRef": {"name": "s"}, "path": "./charts/web", "render": {"kind": "helm", "helm": helm}
    }  # fmt: skip
    with Repository.open(str(origin.bare)) as repository:
        _, target = found_target(repository)
        unit = msgspec.structs.replace(target.unit, spec=msgspec.convert(spec, UnitSpec))
        with pytest.raises(UsageProblem) as caught:
            compute(verb, repository, replace(target, unit=unit), ActionArgs())
    (finding,) = caught.value.findings
    assert finding.code == "GK3602"
    assert dict(finding.notes)["next"] == f"change the value in {file}, and commit"


def act(stage: Stage, verb: ActionVerb, to: str = "") -> str:
    edit = compute(
        verb, stage.repository, found_target(stage.repository)[1], ActionArgs(partition=to)
    )
    return edit.data.decode()


@pytest.mark.slow
def test_12_of_40_reverted_by_hand_are_stranded_and_the_rollback_brings_them_back(
    staged: MakeStage,
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            for image, partition in BY_HAND:
                await stage.push(fleet(image, partition))
                await stage.rest(120)
            assert stage.images() == ["app:v1"] * 28 + ["app:v2"] * 12
            assert stage.state == "Stuck"
            assert "AbandonedRevisionRunning: 12 pods" in stage.rollout.message
            await stage.push(app=act(stage, ActionVerb.ROLLBACK))
            await stage.rest(120)
            assert (stage.state, stage.images()) == ("Done", ["app:v1"] * 40)

    stage.play(script)


@pytest.mark.slow
def test_a_canary_is_held_promoted_paused_resumed_and_rolled_back(staged: MakeStage) -> None:
    stage = staged()
    seen = []

    async def script() -> None:
        async with stage.running():
            for image, partition in HELD:
                await stage.push(fleet(image, partition))
                await stage.rest(120)
            for verb, to in (
                (ActionVerb.PROMOTE, "20"), (ActionVerb.PAUSE, ""),
                (ActionVerb.PROMOTE, "10"), (ActionVerb.RESUME, ""),
                (ActionVerb.HOLD, "50%"), (ActionVerb.ROLLBACK, ""),
            ):  # fmt: skip
                await stage.push(app=act(stage, verb, to))
                await stage.rest(120)
                seen.append((stage.state, stage.images().count("app:v2")))

    stage.play(script)
    assert seen == [
        ("Held", 20), ("Paused", 20), ("Paused", 20), ("Held", 30), ("Held", 30), ("Done", 0),
    ]  # fmt: skip


def test_without_a_namespace_or_with_several_units_the_object_is_still_one(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    origin = make_origin(tmp_path_factory.mktemp("git"))
    commit_all(origin, ("app:v1", 0))
    with Repository.open(str(origin.bare)) as repository:
        _, found = found_target(repository)
        assert (found.key.namespace, found.unit.id, found.pods) == (
            "default", "default/repository", 40,
        )  # fmt: skip
        with pytest.raises(UsageProblem, match="GK7041"):
            compute(ActionVerb.PROMOTE, repository, found, ActionArgs())


def structural(origin: Origin, old: str, new: str) -> bytes:
    """web.yaml after a rollback from `new` to `old`."""
    origin.commit({"web.yaml": old})
    origin.commit({"web.yaml": new})
    with Repository.open(str(origin.bare)) as repository:
        return compute(
            ActionVerb.ROLLBACK, repository, found_target(repository)[1], ActionArgs()
        ).data


OLD = """\
# the shop's front
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: app  # the only one
          image: app:v1
          env:
            - {name: A, value: "1"}
  # how it moves
  updateStrategy:
    partition: 0
---
apiVersion: v1
kind: ConfigMap
metadata: {name: flags}
data: {a: b}
"""
NEW = (
    OLD.replace("app:v1", "app:v2")
    .replace('            - {name: A, value: "1"}\n', "")
    .replace("          env:\n", "          command: [run]\n")
    .replace("replicas: 3", "replicas: 5  # grown")
    .replace("partition: 0", "partition: 2")
)


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_structure_goes_back_as_it_was_written_and_the_rest_stays(
    end: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    origin = make_origin(tmp_path_factory.mktemp("git"))
    found = structural(origin, OLD.replace("\n", end), NEW.replace("\n", end))
    wanted = OLD.replace("replicas: 3", "replicas: 5  # grown")
    assert found.decode() == wanted.replace("\n", end)


def test_a_template_written_in_one_line_is_not_taken_apart(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    origin = make_origin(tmp_path_factory.mktemp("git"))
    start = OLD.index("  template:")
    flow = (
        "  template: {metadata: {labels: {app: web}}, "
        "spec: {containers: [{name: app, image: app:v2}]}}\n"
    )
    new = OLD[:start] + flow + OLD[OLD.index("  # how it moves") :]
    with pytest.raises(InvalidManifests, match="GK3602"):
        structural(origin, OLD, new)


@pytest.mark.parametrize("verb", [ActionVerb.PROMOTE, ActionVerb.HOLD])
def test_a_partition_of_git_that_means_nothing_is_an_error(
    tmp_path: Path, verb: ActionVerb
) -> None:
    origin = make_origin(tmp_path)
    commit_all(origin, ("app:v1", 0), ("app:v2", "lots"))
    with Repository.open(str(origin.bare)) as repository:
        _, target = found_target(repository)
        with pytest.raises(UsageProblem, match="'lots' is neither an integer nor a percentage"):
            compute(verb, repository, target, ActionArgs(partition="30%"))
