"""Acts on SidecarSets: partition and pause, and a rollback of sidecars and partition together."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.errors import UsageProblem
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
from gitkruise.model.planning.forecast import RolloutForecast
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import SIDECARSET
from tests.git.repos import run_git
from tests.gitops.reconcile.test_sidecars import mesh
from tests.gitops.stage import MakeStage, Stage, documents, web

RULES = (load_catalog(), Gates())


def found_target(stage: Stage) -> tuple[BranchState, ActionTarget]:
    tip = stage.repository.resolve("main")
    state = read_branch(stage.repository, "main", tip, whole_repository(), *RULES)
    return find_target([state], ObjectQuery(kind=SIDECARSET, name="mesh", namespace="shop"))


def commit(stage: Stage, *objects: Any) -> None:
    stage.origin.commit({"app.yaml": documents(*objects)})


def played(stage: Stage, verb: ActionVerb, arguments: ActionArgs) -> RolloutForecast:
    """The prediction of an act, without a cluster, after it has passed its own check."""
    state, target = found_target(stage)
    edit = compute(verb, stage.repository, target, arguments)
    proposed = stage.origin.commit({edit.file: edit.data}, branch="proposed")
    run_git(stage.origin.work, "reset", "-q", "--hard", "HEAD~1")
    after = read_branch(stage.repository, "proposed", proposed, state.config, *RULES)
    stages = earlier_stages(stage.repository, target, state.side.objects)
    preview = offline_preview(state.side, after.side, *RULES, earlier=stages)
    check_outcome(edit, target, preview)
    assert preview.forecast is not None
    return next(p for p in preview.forecast.rollouts if p.key.kind == "SidecarSet")


PLAYED = {
    "promote": (ActionVerb.PROMOTE, ActionArgs(partition="1"), (1, 3, "PartitionReached")),
    "promote-all": (ActionVerb.PROMOTE, ActionArgs(), (1, 4, "")),
    "promote-by-share": (
        ActionVerb.PROMOTE,
        ActionArgs(partition="50%"),
        (1, 2, "PartitionReached"),
    ),
    "hold": (ActionVerb.HOLD, ActionArgs(partition="100%"), (1, 1, "PartitionReached")),
    "rollback": (ActionVerb.ROLLBACK, ActionArgs(), (3, 4, "")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYED)
def test_pods_move_as_asked_in_the_simulation(name: str, staged: MakeStage) -> None:
    stage = staged()
    verb, arguments, wanted = PLAYED[name]
    commit(stage, mesh(), web())
    commit(stage, mesh("mesh:v2", partition=3), web())
    p = played(stage, verb, arguments)
    assert (p.updated_before, p.updated_after, p.hold) == wanted
    assert found_target(stage)[1].pods == 4


def test_a_set_that_updates_no_running_pod_returns_for_new_ones(staged: MakeStage) -> None:
    stage = staged()
    for image in ("mesh:v1", "mesh:v2", "mesh:v3"):
        commit(stage, mesh(image, type="NotUpdate"), web())
    assert played(stage, ActionVerb.ROLLBACK, ActionArgs()).hold == "NotUpdate"


@pytest.mark.slow
def test_a_sidecar_is_promoted_paused_resumed_held_and_rolled_back(staged: MakeStage) -> None:
    stage = staged()
    seen = []

    async def script() -> None:
        async with stage.running():
            for objects in ((mesh(), web()), (mesh("mesh:v2", partition=3), web())):
                await stage.push(*objects)
                await stage.rest(90)
            for verb, to in (
                (ActionVerb.PROMOTE, "2"), (ActionVerb.PAUSE, ""),
                (ActionVerb.PROMOTE, "1"), (ActionVerb.RESUME, ""),
                (ActionVerb.HOLD, "3"), (ActionVerb.ROLLBACK, ""),
            ):  # fmt: skip
                edit = compute(
                    verb, stage.repository, found_target(stage)[1], ActionArgs(partition=to)
                )
                await stage.push(app=edit.data.decode())
                await stage.rest(90)
                seen.append((stage.state, stage.images().count("mesh:v2")))

    stage.play(script)
    assert seen == [
        ("Held", 2), ("Paused", 2), ("Paused", 2), ("Held", 3), ("Held", 3), ("Done", 0),
    ]  # fmt: skip


@pytest.mark.slow
def test_the_rollback_takes_sidecars_and_partition_back_and_nothing_else(
    staged: MakeStage,
) -> None:
    stage = staged()
    old = documents(mesh(), web())
    new = documents(mesh("mesh:v2", args="-v", partition=3), web("app:v2"))
    stage.origin.commit({"app.yaml": f"# the mesh\n{old}"})
    stage.origin.commit({"app.yaml": f"# the mesh\n{new}"})
    edit = compute(ActionVerb.ROLLBACK, stage.repository, found_target(stage)[1], ActionArgs())
    wanted = documents(mesh(partition=0), web("app:v2"))
    assert edit.data.decode() == f"# the mesh\n{wanted}"
    assert edit.words.startswith("roll back to ")


def test_what_is_done_already_is_refused(staged: MakeStage) -> None:
    stage = staged()
    commit(stage, mesh(), web())
    for verb in (ActionVerb.PROMOTE, ActionVerb.RESUME, ActionVerb.ROLLBACK):
        with pytest.raises(UsageProblem, match="GK7041"):
            compute(verb, stage.repository, found_target(stage)[1], ActionArgs())


def test_updated_pods_of_a_sidecarset_are_named_by_their_share(staged: MakeStage) -> None:
    stage = staged()
    commit(stage, mesh(), web())
    commit(stage, mesh("mesh:v2", partition="80%"), web())
    edit = compute(
        ActionVerb.PROMOTE, stage.repository, found_target(stage)[1], ActionArgs(updated="50%")
    )
    assert edit.words == "promote to partition 50%"
    with pytest.raises(UsageProblem, match="GK7042"):
        compute(
            ActionVerb.PROMOTE, stage.repository, found_target(stage)[1], ActionArgs(updated="2")
        )
