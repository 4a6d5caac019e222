"""Actions on Deployments: edits of the canary, of `paused` and of the template, and their proof."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gitkruise.errors import NothingToDo, UsageProblem
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.actions import ActionArgs, ActionVerb, FileEdit, compute
from gitkruise.gitops.actions.proposals import ActionRequest, Proposer
from gitkruise.gitops.preview.inputs import read_side
from gitkruise.gitops.preview.preview import live_preview
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import DEPLOYMENT
from gitkruise.wire.primitives.names import ObjectKey
from tests.cli.deployments import web
from tests.cli.shop import nowhere
from tests.git.repos import Origin, make_origin
from tests.gitops.actions.test_actions import found_target, played
from tests.gitops.promoted import configured
from tests.gitops.stage import BOT, MakeStage
from tests.worlds import SPACE

RULES = (load_catalog(), Gates())
RECREATE = "type: Recreate"


@pytest.fixture
def origin(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    return make_origin(tmp_path_factory.mktemp("git"))


def computed(origin: Origin, verb: ActionVerb, **args: Any) -> FileEdit:
    with Repository.open(str(origin.bare)) as repository:
        return compute(
            verb, repository, found_target(repository, DEPLOYMENT)[1], ActionArgs(**args)
        )


def live(edit: FileEdit) -> Any:
    return yaml.safe_load(edit.data)


def canary(edit: FileEdit) -> str | None:
    notes = live(edit)["metadata"].get("annotations") or {}
    found: str | None = notes.get("gitkruise.io/canary", notes.get("canary"))
    return found


# what is promoted from canary 3 of 10, and the canary in the file afterwards
PROMOTIONS: dict[str, tuple[dict[str, str], str, str]] = {
    "share": ({"updated": "50%"}, "50%", "promote to canary 50%"),
    "number": ({"updated": "5"}, "5", "promote to canary 5"),
    "all": ({}, "100%", "promote to all"),
    "all-as-a-share": ({"updated": "100%"}, "100%", "promote to all"),
    "all-as-a-number": ({"updated": "10"}, "10", "promote to all"),
    "pods-that-stay": ({"partition": "4"}, "6", "promote to canary 6"),
    "share-that-stays": ({"partition": "45%"}, "5", "promote to canary 5"),
    "none-stays": ({"partition": "0"}, "100%", "promote to all"),
}


@pytest.mark.parametrize("name", PROMOTIONS)
def test_can_35_promote_raises_the_canary(origin: Origin, name: str) -> None:
    args, value, words = PROMOTIONS[name]
    origin.commit({"web.yaml": web("v1", "3")})
    edit = computed(origin, ActionVerb.PROMOTE, **args)
    assert (canary(edit), edit.words) == (value, words)
    before = web("v1", "3")
    assert edit.data.decode() == before.replace('canary: "3"', f'canary: "{value}"')


def test_a_plain_key_is_edited_where_it_is_the_one_in_use(origin: Origin) -> None:
    text = web("v1", "3").replace("gitkruise.io/canary", "canary")
    origin.commit({"web.yaml": text})
    edit = computed(origin, ActionVerb.PROMOTE, updated="60%")
    assert edit.data.decode() == text.replace('"3"', '"60%"')


REFUSED: dict[str, tuple[str, ActionVerb, dict[str, Any], str, str]] = {
    "lower": (web("v1", "50%"), ActionVerb.PROMOTE, {"updated": "3"}, "GK7042",
              "canary 3 lets fewer pods through than canary 50% does"),
    "recreate": (web("v1", strategy=RECREATE), ActionVerb.PROMOTE, {}, "GK7042",
                 "strategy Recreate replaces all pods"),
    "hold-recreate": (web("v1", strategy=RECREATE), ActionVerb.HOLD, {"keep": 3}, "GK7042",
                      "strategy Recreate replaces all pods"),
    "hold-without-a-canary": (web("v1"), ActionVerb.HOLD, {"keep": 6}, "GK7042",
                              "began without a canary"),
    "hold-unknown": (web("v1", "3"), ActionVerb.HOLD, {}, "GK7047", "is not known here"),
    "unhold": (web("v1", "3"), ActionVerb.HOLD, {"updated": "5"}, "GK7042",
               "canary 5 would let more pods through than canary 3 does"),
    "too-many": (web("v1", "3"), ActionVerb.PROMOTE, {"updated": "101%"}, "GK7042",
                 "more than all"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_can_36_what_makes_no_sense_is_refused(origin: Origin, name: str) -> None:
    text, verb, args, code, words = REFUSED[name]
    origin.commit({"web.yaml": text})
    with pytest.raises(UsageProblem) as error:
        computed(origin, verb, **args)
    (finding,) = error.value.findings
    assert finding.code == code
    assert words in finding.message


NOTHING: dict[str, tuple[str, ActionVerb, dict[str, Any], str]] = {
    "promoted": (web("v1", "100%"), ActionVerb.PROMOTE, {}, "canary 100% lets all pods through"),
    "no-canary": (web("v1"), ActionVerb.PROMOTE, {}, "its rollout has no canary"),
    "held": (web("v1", "3"), ActionVerb.HOLD, {"keep": 7}, "canary 3 holds it there already"),
    "held-before": (web("v1", "3"), ActionVerb.HOLD, {"keep": 9}, ""),
    "paused": (web("v1", paused=True), ActionVerb.PAUSE, {}, "it is paused already"),
    "not-paused": (web("v1", "3"), ActionVerb.RESUME, {}, "git does not pause it"),
    "rest": (web("v1"), ActionVerb.HOLD, {"keep": 0}, "all its pods are updated"),
}


@pytest.mark.parametrize("name", NOTHING)
def test_what_git_asks_for_already_is_nothing_to_do(origin: Origin, name: str) -> None:
    text, verb, args, words = NOTHING[name]
    origin.commit({"web.yaml": text})
    if not words:
        assert canary(computed(origin, verb, **args)) == "1"
        return
    with pytest.raises(NothingToDo) as error:
        computed(origin, verb, **args)
    assert words in error.value.findings[0].message


def test_hold_sets_the_canary_to_the_pods_that_are_updated(origin: Origin) -> None:
    origin.commit({"web.yaml": web("v1", "80%")})
    assert canary(computed(origin, ActionVerb.HOLD, keep=6, pods=10)) == "4"
    assert canary(computed(origin, ActionVerb.HOLD, keep=16, pods=20)) == "4"
    assert canary(computed(origin, ActionVerb.HOLD, updated="20%")) == "20%"


def test_pause_and_resume_edit_spec_paused(origin: Origin) -> None:
    origin.commit({"web.yaml": web("v1", "3")})
    edit = computed(origin, ActionVerb.PAUSE)
    assert live(edit)["spec"]["paused"] is True
    origin.commit({"web.yaml": edit.data})
    edit = computed(origin, ActionVerb.RESUME)
    assert live(edit)["spec"]["paused"] is False


def test_rollback_puts_the_template_back_and_opens_the_gate(origin: Origin) -> None:
    origin.commit({"web.yaml": web("v1")})
    origin.commit({"web.yaml": web("v2", "3", replicas=12, paused=True)})
    edit = computed(origin, ActionVerb.ROLLBACK)
    assert edit.data.decode() == web("v1", "100%", replicas=12, paused=False)
    assert edit.why == 'Back to "change". Template and canary together, so that every pod returns.'


def test_rollback_goes_to_the_template_that_all_pods_had(origin: Origin) -> None:
    for text in (web("v1"), web("v2", "3"), web("v3", "3")):
        origin.commit({"web.yaml": text})
    assert "web:v1" in computed(origin, ActionVerb.ROLLBACK).data.decode()


def test_a_new_annotation_gets_a_line_of_its_own(origin: Origin) -> None:
    text = web("v1").replace("  labels: {}\n", "  annotations:\n    owner: shop\n")
    origin.commit({"web.yaml": text})
    edit = computed(origin, ActionVerb.HOLD, updated="3")
    line = '    gitkruise.io/canary: "3"\n'
    assert edit.data.decode() == text.replace("    owner", f"{line}    owner")


# verb, its arguments, updated pods before and after, and what holds; at v2 with canary 3 of 10
PLAYED: dict[str, tuple[ActionVerb, dict[str, Any], int, int, str]] = {
    "promote": (ActionVerb.PROMOTE, {"updated": "50%"}, 3, 5, "CanaryReached"),
    "promote-all": (ActionVerb.PROMOTE, {}, 3, 10, ""),
    "hold": (ActionVerb.HOLD, {"updated": "2"}, 3, 3, "CanaryReached"),
    "rollback": (ActionVerb.ROLLBACK, {}, 7, 10, ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYED)
def test_pods_move_as_asked_in_the_simulation(origin: Origin, name: str) -> None:
    verb, args, before, after, hold = PLAYED[name]
    origin.commit({"web.yaml": web("v1")})
    origin.commit({"web.yaml": web("v2", "3")})
    found = played(origin, verb, ActionArgs(**args), DEPLOYMENT)
    assert (found.updated_before, found.updated_after, found.hold) == (before, after, hold)


@pytest.mark.slow
def test_a_promotion_of_a_paused_rollout_waits_for_resume(origin: Origin) -> None:
    for text in (web("v1"), web("v2", "3"), web("v2", "3", paused=True)):
        origin.commit({"web.yaml": text})
    found = played(origin, ActionVerb.PROMOTE, ActionArgs(updated="50%"), DEPLOYMENT)
    assert (found.updated_after, found.hold) == (0, "Paused")
    origin.commit({"web.yaml": web("v2", "50%", paused=True)})
    found = played(origin, ActionVerb.RESUME, ActionArgs(), DEPLOYMENT)
    assert (found.updated_after, found.hold) == (5, "CanaryReached")


@pytest.mark.slow
def test_a_rollback_that_gets_stuck_is_refused(origin: Origin) -> None:
    origin.commit({"web.yaml": nowhere(web("v1"))})
    origin.commit({"web.yaml": web("v2")})
    with pytest.raises(UsageProblem) as error:
        played(origin, ActionVerb.ROLLBACK, ActionArgs(), DEPLOYMENT)
    (found,) = error.value.findings
    next_ = dict(found.notes)["next"]
    assert (found.code, next_.partition(",")[0]) == (
        "GK7043", "gitkruise rollback deployment/web -n shop --to COMMIT",
    )  # fmt: skip


@pytest.mark.slow
def test_can_33_a_cluster_that_does_not_pause_gets_no_hold(staged: MakeStage) -> None:
    """Nothing is committed; a commit with it is rejected, so that its plan plays no rollout."""
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(message="first", app=web("v1"))
            await stage.rest()
            assert stage.state == "Done"
            proposer = Proposer(
                repository=stage.repository, branch="main", config=configured(stage),
                live=stage.live, gates=Gates(), clock=stage.clock, identity=BOT,
            )  # fmt: skip
            key = ObjectKey(*DEPLOYMENT, SPACE, "web")
            hold = ActionRequest(verb=ActionVerb.HOLD, key=key, args=ActionArgs(updated="3"))
            with pytest.raises(UsageProblem) as error:
                await proposer.propose(hold, stage.unit.live_commit)
            (finding,) = error.value.findings
            assert finding.code == "GK2404"
            assert ("unchanged", "nothing was committed or pushed") in finding.notes
            commit = stage.origin.commit({"app.yaml": web("v2", "3")}, branch="proposed")
            rules = (stage.world.catalog, Gates())
            after = read_side(stage.repository, commit, configured(stage), *rules)
            preview = await live_preview(
                None, after, *rules, transport=stage.wire, now=stage.clock.now()
            )
            assert [f.code for f in preview.unplayed] == ["GK2404"]
            assert preview.forecast is None

    stage.play(script)


PATCH = 'metadata:\n  name: web\n  namespace: shop\n  annotations: {gitkruise.io/canary: "3"}\n'
HEAD = "resources: [web.yaml]\n"
# where kustomize sets the canary: the files, the one that is edited
KUSTOMIZED: dict[str, tuple[dict[str, str], str]] = {
    "the manifest": ({"kustomization.yaml": HEAD, "web.yaml": web("v1", "3")}, "web.yaml"),
    "a patch": (
        {
            "kustomization.yaml": HEAD + "patches: [{path: patch.yaml}]\n",
            "web.yaml": web("v1"),
            "patch.yaml": "apiVersion: apps/v1\nkind: Deployment\n" + PATCH,
        },
        "patch.yaml",
    ),
    "a patch over the manifest": (
        {
            "kustomization.yaml": HEAD + "patches: [{path: patch.yaml}]\n",
            "web.yaml": web("v1", "1"),
            "patch.yaml": "apiVersion: apps/v1\nkind: Deployment\n" + PATCH,
        },
        "patch.yaml",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KUSTOMIZED)
@pytest.mark.usefixtures("kubectl")
def test_the_canary_is_edited_where_kustomize_sets_it(origin: Origin, name: str) -> None:
    files, edited = KUSTOMIZED[name]
    origin.commit(files)
    edit = computed(origin, ActionVerb.PROMOTE, updated="50%")
    assert set(edit.files) == {edited}
    assert edit.files[edited].decode() == files[edited].replace('"3"', '"50%"')
