"""Sources and units that are objects of the cluster: driven as a file's are, and answered there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gitkruise.errors import ApiError, Forbidden, NotFound
from gitkruise.gitops.resources.declared import FINALIZER, ResourceRules
from gitkruise.wire.primitives.requests import ApiRequest
from tests.git.repos import run_git
from tests.gitops.objects import READS, House, play
from tests.gitops.programs import SOURCE, options
from tests.gitops.programs import unit as file_unit
from tests.gitops.stage import STATUS, config_map, web

pytestmark = pytest.mark.slow


def test_a_unit_is_driven_and_answered_in_its_status(hands: House) -> None:
    commit = hands.push(web=[web(), config_map("conf", a="1")])

    async def script(hands: House) -> None:
        await hands.source()
        await hands.unit("web")
        await hands.rest(60)
        status = hands.status("Unit", "web")
        assert (status["phase"], status["appliedCommit"]) == ("Done", commit[:7])
        assert status["lastAppliedRevision"] == f"main@sha1:{commit}"
        assert status["pods"] == {"updated": 4, "total": 4, "ready": 4, "summary": "4/4"}
        assert status["inventory"]["count"] == 2
        assert {"id": "shop_conf__ConfigMap"} in status["inventory"]["entries"]
        assert status["observedGeneration"] == hands.get("Unit", "web")["metadata"]["generation"]
        assert hands.says("Unit", "web") == ("True", "Succeeded")
        assert hands.says("Unit", "web", "Healthy") == ("True", "Succeeded")
        assert hands.says("Unit", "web", "Reconciling") == ("", "")
        assert hands.says("GitSource", "src") == ("True", "Succeeded")
        assert hands.status("GitSource", "src")["commit"] == commit[:7]
        assert hands.get("Unit", "web")["metadata"]["finalizers"] == [FINALIZER]
        hands.stage.wire.requests.clear()
        await hands.rest(600)
        written = {r.resource.plural for r in hands.stage.wire.requests if r.verb not in READS}
        assert written == {"leases"}  # nothing is written while nothing happens

    play(hands, script)


@pytest.mark.slow
def test_a_held_rollout_is_ready_and_a_moving_one_is_not(hands: House) -> None:
    hands.push(web=[web("app:v1")])

    async def script(hands: House) -> None:
        await hands.source()
        await hands.unit("web")
        await hands.rest(60)
        held = hands.push(web=[web("app:v2", partition=3)])
        seen = set()
        for _ in range(60):
            await hands.rest(0.5)
            seen.add((*hands.says("Unit", "web"), hands.says("Unit", "web", "Reconciling")))
        assert ("Unknown", "Progressing", ("True", "RolloutInProgress")) in seen
        assert hands.says("Unit", "web") == ("True", "Held")
        assert hands.says("Unit", "web", "RolloutHeld") == ("True", "PartitionReached")
        status = hands.status("Unit", "web")
        assert (status["phase"], status["pods"]["summary"]) == ("Held", "1/4")
        first, _ = status["history"]
        assert first["revision"] == f"main@sha1:{held}"

    play(hands, script)


def test_an_object_reports_why_what_it_names_does_not_serve(hands: House) -> None:
    hands.push(web=[config_map("web", a="1")])

    async def script(hands: House) -> None:
        await hands.apply("GitSource", "plain", url="http://a.example/x", ref={"branch": "main"})
        await hands.apply("GitSource", "charts", url="oci://a.example/x", ref={"tag": "v1"})
        await hands.apply("Sink", "charts", git={"sourceRef": {"name": "charts"}})
        await hands.apply("Sink", "none", git={"sourceRef": {"name": "none"}})
        await hands.unit("web", sourceRef={"name": "plain"}, sinkRef={"name": "none"})
        await hands.rest()
        assert "next: name a GitSource of a git repository" in hands.message("Sink", "charts")
        assert "next: create it, or correct" in hands.message("Sink", "none")
        message = hands.message("Unit", "web")
        assert "spec.sourceRef names shop/plain, which is broken: " in message
        assert "GK7007" in message

    play(hands, script)


def test_a_broken_object_is_reported_and_leaves_the_others_alone(hands: House) -> None:
    hands.push(**{name: [config_map(name, a="1")] for name in ("good", "bad", "lost")})

    async def script(hands: House) -> None:
        await hands.source()
        await hands.unit("good")
        await hands.unit("bad", health={"noProgressTimeout": "0s"})
        await hands.unit("lost", sourceRef={"name": "nowhere"})
        await hands.rest()
        assert hands.has("good", "bad", "lost") == [True, False, False]
        assert hands.says("Unit", "bad") == ("False", "InvalidSpec")
        assert hands.says("Unit", "bad", "Stalled") == ("True", "InvalidSpec")
        assert "GK7005: spec.health.noProgressTimeout: 0s is less" in hands.message("Unit", "bad")
        assert hands.says("Unit", "lost") == ("False", "SourceFailed")
        assert "names shop/nowhere, which is not configured" in hands.message("Unit", "lost")
        assert hands.says("Unit", "good") == ("True", "Succeeded")
        await hands.unit("bad", health={"noProgressTimeout": "1m"})
        await hands.source("nowhere")
        await hands.rest()
        assert hands.has("bad") == [True]
        assert hands.says("Unit", "bad") == ("True", "Succeeded")
        assert hands.says("Unit", "bad", "Stalled") == ("", "")
        assert hands.says("Unit", "lost") == ("True", "Succeeded")

    play(hands, script)


@pytest.mark.slow
def test_settings_change_while_everything_runs(hands: House) -> None:
    hands.push(a=[config_map("a", x="1")], b=[config_map("b", x="1")])

    async def script(hands: House) -> None:
        await hands.source()
        await hands.unit("a")
        await hands.unit("b")
        await hands.rest()
        await hands.unit("a", suspend={"by": "dana", "reason": "freeze"})
        await hands.rest()
        hands.push(a=[config_map("a", x="2")], b=[config_map("b", x="2")])
        await hands.rest()
        assert hands.stage.get("ConfigMap", "a")["data"] == {"x": "1"}
        assert hands.stage.get("ConfigMap", "b")["data"] == {"x": "2"}
        assert hands.says("Unit", "a")[1] == "Suspended"
        assert hands.status("Unit", "a")["suspendedBy"] == {"by": "dana", "reason": "freeze"}
        await hands.unit("a", suspend=False)
        await hands.rest()
        assert hands.stage.get("ConfigMap", "a")["data"] == {"x": "2"}
        assert "suspendedBy" not in hands.status("Unit", "a")
        hands.stage.wire.requests.clear()
        await hands.unit("b", interval="20m")
        await hands.rest()
        done = {*hands.stage.wire.writes(), *hands.stage.wire.writes(dry=True)}
        leases = {"update gitkruise-workloads", "update gitkruise-sync"}
        assert done == leases  # no object is touched
        searched = [r for r in hands.stage.wire.requests if "labelSelector" in r.params]
        assert searched == []  # what is the unit's is known

    play(hands, script)


def test_objects_and_a_file_are_one_configuration(hands: House, tmp_path: Path) -> None:
    hands.push(file=[config_map("f", x="1")], live=[config_map("l", x="1")])
    program = options(
        hands.stage, tmp_path, SOURCE + file_unit("file"), custom=ResourceRules(local_sources=True)
    )

    async def script(hands: House) -> None:
        await hands.source()
        await hands.unit("live")
        await hands.unit("file", path="live")
        await hands.rest()
        assert hands.has("f", "l") == [True, True]
        assert hands.says("Unit", "live") == ("True", "Succeeded")
        for kind, name in (("GitSource", "src"), ("Unit", "file")):
            assert "GK7008" in hands.message(kind, name)
        await hands.ask("delete", "Unit", "file")
        await hands.rest()
        assert hands.has("f", "l") == [True, True]

    play(hands, script, program)


@pytest.mark.slow
def test_somebody_asks_to_look_again(hands: House) -> None:
    hands.push(web=[config_map("a", x="1")])

    async def script(hands: House) -> None:
        await hands.source(interval="1h")
        await hands.unit("web")
        await hands.rest()
        for name in ("gitkruise.io/reconcile-at", "reconcile.fluxcd.io/requestedAt"):
            hands.push(web=[config_map("a", x=name)])
            hands.stage.wire.requests.clear()
            await hands.note("web", **{"gitkruise.io/reconcile-at": "", name: f"now {name}"})
            await hands.rest()
            assert hands.status("Unit", "web")["lastHandledReconcileAt"] == f"now {name}"
            assert hands.stage.get("ConfigMap", "a")["data"] == {"x": name}

    play(hands, script)


@pytest.mark.slow
def test_a_secret_that_comes_later_is_found(hands: House) -> None:
    hands.push(web=[config_map("a", x="1")])
    secret = {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"},
        "stringData": {"username": "u", "password": "p"},
    }  # fmt: skip

    async def script(hands: House) -> None:
        await hands.source(secretRef={"name": "login"})
        await hands.unit("web")
        await hands.rest()
        assert 'secrets "login" not found' in hands.message("GitSource", "src")
        assert "GitSource shop/src: " in hands.message("Unit", "web")
        hands.stage.meddle(secret)
        await hands.rest(60)
        assert hands.says("GitSource", "src") == ("True", "Succeeded")
        assert hands.has("a") == [True]

    play(hands, script)


@pytest.mark.slow
def test_the_status_branch_of_a_sink_is_written_and_its_state_reported(hands: House) -> None:
    hands.push(web=[config_map("a", x="1")])

    async def script(hands: House) -> None:
        await hands.source()
        await hands.apply("Sink", "out", git={"sourceRef": {"name": "src"}})
        await hands.unit("web", sinkRef={"name": "out"})
        await hands.rest(60)
        assert hands.says("Sink", "out") == ("True", "Succeeded")
        assert hands.says("Unit", "web", "StatusPublished") == ("True", "Published")
        status = run_git(hands.stage.origin.bare, "show", f"{STATUS}:units/shop/web/status.yaml")
        assert "state: Done" in status
        assert "removal" not in status  # the object itself remembers how it ends
        await hands.ask("delete", "Unit", "web")
        await hands.rest()
        names = run_git(hands.stage.origin.bare, "ls-tree", "-r", "--name-only", STATUS)
        assert "units/shop/web" not in names

    play(hands, script)


@pytest.mark.slow
def test_a_sink_whose_branch_cannot_be_written_is_not_ready(hands: House) -> None:
    hands.push(web=[config_map("a", x="1")])
    bare = hands.stage.origin.bare
    run_git(bare, "branch", "gitkruise", "main")  # where refs of this name would be a folder

    async def script(hands: House) -> None:
        await hands.source()
        await hands.apply("Sink", "out", git={"sourceRef": {"name": "src"}})
        await hands.unit("web", sinkRef={"name": "out"})
        await hands.rest(60)
        assert hands.has("a") == [True]
        assert hands.says("Sink", "out") == ("False", "PushRejected")
        assert "GK3106" in hands.message("Sink", "out")
        assert hands.says("Unit", "web", "StatusPublished") == ("False", "PushRejected")
        run_git(bare, "branch", "-D", "gitkruise")
        await hands.rest(360)
        assert hands.says("Unit", "web", "StatusPublished") == ("True", "Published")
        assert hands.says("Sink", "out") == ("True", "Succeeded")

    play(hands, script)


def test_an_object_without_a_program_is_refused_by_its_schema(hands: House) -> None:
    async def script() -> None:
        with pytest.raises(NotFound):
            await hands.ask("get", "Unit", "web")
        await hands.unit("web", prune={"maxDelete": 3})
        stored = await hands.ask("get", "Unit", "web")
        assert stored["spec"]["prune"]["deletionPolicy"] == "MirrorPrune"
        assert json.dumps(stored["spec"])

    hands.stage.play(script)


@pytest.mark.slow
def test_a_status_that_is_refused_is_written_later_and_not_all_the_time(hands: House) -> None:
    hands.push(web=[config_map("a", x="1")])

    def refuse(request: ApiRequest) -> ApiError | None:
        return Forbidden("not you") if request.subresource == "status" else None

    async def script(hands: House) -> None:
        hands.stage.wire.refuse = refuse
        await hands.source()
        await hands.unit("web")
        await hands.rest(60)
        tries = [r for r in hands.stage.wire.requests if r.subresource == "status"]
        assert 10 < len(tries) < 30
        assert hands.has("a") == [True]
        hands.stage.wire.refuse = lambda _: None
        await hands.rest(10)
        assert hands.says("Unit", "web") == ("True", "Succeeded")

    play(hands, script)
