"""Acts on SidecarSets: partition and pause, and a rollback of sidecars and partition together."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.errors import UsageProblem
from gitkruise.gitops.acting import Aim, Verb, Wish, check_outcome, compute, earlier_stages
from gitkruise.gitops.aiming import Sought, Stand, find_aim, read_stand
from gitkruise.gitops.planning import whole_repository
from gitkruise.gitops.prospect import offline_preview
from gitkruise.kube.data import load_catalog
from gitkruise.model.forecast import Prediction
from gitkruise.model.labels import SIDECARSET
from gitkruise.model.settings import Gates
from tests.git.repos import run_git
from tests.gitops.stage import MakeStage, Stage, documents, web
from tests.gitops.test_sidecars import mesh

RULES = (load_catalog(), Gates())


def aim(stage: Stage) -> tuple[Stand, Aim]:
    tip = stage.repository.resolve("main")
    stand = read_stand(stage.repository, "main", tip, whole_repository(), RULES)
    return find_aim([stand], Sought(kind=SIDECARSET, name="mesh", namespace="shop"))


def commit(stage: Stage, *objects: Any) -> None:
    stage.origin.commit({"app.yaml": documents(*objects)})


def played(stage: Stage, verb: Verb, wish: Wish) -> Prediction:
    """The prediction of an act, without a cluster, after it has passed its own check."""
    stand, target = aim(stage)
    edit = compute(verb, stage.repository, target, wish)
    proposed = stage.origin.commit({edit.file: edit.data}, branch="proposed")
    run_git(stage.origin.work, "reset", "-q", "--hard", "HEAD~1")
    after = read_stand(stage.repository, "proposed", proposed, stand.config, RULES)
    stages = earlier_stages(stage.repository, target, stand.side.objects)
    preview = offline_preview(stand.side, after.side, *RULES, earlier=stages)
    check_outcome(edit, target, preview)
    assert preview.forecast is not None
    return next(p for p in preview.forecast.predictions if p.key.kind == "SidecarSet")


PLAYED = {
    "promote": (Verb.PROMOTE, Wish(to="1"), (1, 3, "PartitionReached")),
    "promote-all": (Verb.PROMOTE, Wish(), (1, 4, "")),
    "promote-by-share": (Verb.PROMOTE, Wish(to="50%"), (1, 2, "PartitionReached")),
    "hold": (Verb.HOLD, Wish(to="100%"), (1, 1, "PartitionReached")),
    "rollback": (Verb.ROLLBACK, Wish(), (3, 4, "")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYED)
def test_pods_move_as_asked_in_the_simulation(name: str, staged: MakeStage) -> None:
    stage = staged()
    verb, wish, wanted = PLAYED[name]
    commit(stage, mesh(), web())
    commit(stage, mesh("mesh:v2", partition=3), web())
    p = played(stage, verb, wish)
    assert (p.updated_before, p.updated_after, p.hold) == wanted
    assert aim(stage)[1].pods == 4


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
                (Verb.PROMOTE, "2"), (Verb.PAUSE, ""), (Verb.PROMOTE, "1"), (Verb.RESUME, ""),
                (Verb.HOLD, "3"), (Verb.ROLLBACK, ""),
            ):  # fmt: skip
                edit = compute(verb, stage.repository, aim(stage)[1], Wish(to=to))
                await stage.push(app=edit.data.decode())
                await stage.rest(90)
                seen.append((stage.state, stage.images().count("mesh:v2")))

    stage.play(script)
    assert seen == [
        ("Held", 2), ("Held", 2), ("Paused", 2), ("Held", 3), ("Held", 3), ("Done", 0),
    ]  # fmt: skip


def test_the_rollback_takes_sidecars_and_partition_back_and_nothing_else(
    staged: MakeStage,
) -> None:
    stage = staged()
    old = documents(mesh(), web())
    new = documents(mesh("mesh:v2", args="-v", partition=3), web("app:v2"))
    stage.origin.commit({"app.yaml": f"# the mesh\n{old}"})
    stage.origin.commit({"app.yaml": f"# the mesh\n{new}"})
    edit = compute(Verb.ROLLBACK, stage.repository, aim(stage)[1], Wish())
    wanted = documents(mesh(partition=0), web("app:v2"))
    assert edit.data.decode() == f"# the mesh\n{wanted}"
    assert edit.words.startswith("roll back to ")


def test_what_is_done_already_is_refused(staged: MakeStage) -> None:
    stage = staged()
    commit(stage, mesh(), web())
    for verb in (Verb.PROMOTE, Verb.RESUME, Verb.ROLLBACK):
        with pytest.raises(UsageProblem, match="GK7041"):
            compute(verb, stage.repository, aim(stage)[1], Wish())
