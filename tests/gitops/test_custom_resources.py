"""Sources and units that are objects of the cluster: driven as a file's are, and answered there."""

from __future__ import annotations

import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Protocol

import pytest

from gitkruise.app import RunOptions, controller
from gitkruise.errors import NotFound
from gitkruise.gitops.custom.declared import FINALIZER, Rules
from gitkruise.model.config import Config
from gitkruise.sandbox.inprocess import WorldTransport
from gitkruise.wire.names import Obj, ObjectKey
from gitkruise.wire.request import APPLY_PATCH, MERGE_PATCH, ApiRequest, ResourceRef
from tests.git.repos import run_git
from tests.gitops.programs import SOURCE, options
from tests.gitops.programs import unit as file_unit
from tests.gitops.stage import STATUS, MakeStage, Stage, config_map, documents, web

READS = frozenset({"get", "list", "watch"})
GROUP, VERSION = "gitkruise.io", "v1alpha1"


class House:
    """A program without a file, and the hands of somebody with kubectl."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.stage, self.folder = stage, folder
        self.hands = WorldTransport(stage.cluster)

    def program(self, **rules: Any) -> RunOptions:
        return RunOptions(
            config=Config(), cluster="test", state_dir=self.folder / "state", identity="one",
            custom=Rules(**rules),
        )  # fmt: skip

    async def ask(self, verb: str, kind: str, name: str, body: Any = None, **more: Any) -> Obj:
        namespace, _, short = name.rpartition("/")
        request = ApiRequest(
            verb=verb,
            resource=ResourceRef(GROUP, VERSION, f"{kind.lower()}s"),
            namespace=namespace or "shop",
            name=short,
            body=body,
            **more,
        )
        return (await self.hands.send(request)).body

    async def apply(self, kind: str, name: str, **spec: Any) -> None:
        namespace, _, short = name.rpartition("/")
        meta = {"name": short, "namespace": namespace or "shop"}
        body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": meta, "spec": spec}
        params = {"fieldManager": "kubectl", "force": "true"}
        await self.ask("patch", kind, name, body, content_type=APPLY_PATCH, params=params)

    async def note(self, name: str, **annotations: str) -> None:
        body = {"metadata": {"annotations": annotations}}
        await self.ask("patch", "Unit", name, body, content_type=MERGE_PATCH)

    async def source(self, name: str = "src", **more: Any) -> None:
        url = str(self.stage.origin.bare)
        await self.apply("GitSource", name, url=url, ref={"branch": "main"}, **more)

    async def unit(self, name: str, **more: Any) -> None:
        spec = {"sourceRef": {"name": "src"}, "path": name.rpartition("/")[2], **more}
        await self.apply("Unit", name, **spec)

    def push(self, **folders: list[Obj]) -> str:
        files = {f"{folder}/a.yaml": documents(*objects) for folder, objects in folders.items()}
        return self.stage.origin.commit(files, "change")

    def get(self, kind: str, name: str) -> Any:
        return self.stage.world.get(ObjectKey(GROUP, kind, "shop", name))

    def status(self, kind: str, name: str) -> Any:
        return self.get(kind, name).get("status") or {}

    def says(self, kind: str, name: str, condition: str = "Ready") -> tuple[str, str]:
        """(status, reason) of a condition; ("", "") where there is none."""
        found = [c for c in self.status(kind, name).get("conditions", ()) if c["type"] == condition]
        return (found[0]["status"], found[0]["reason"]) if found else ("", "")

    def message(self, kind: str, name: str) -> str:
        return next(
            str(c["message"]) for c in self.status(kind, name)["conditions"] if c["type"] == "Ready"
        )

    def has(self, *names: str) -> list[bool]:
        return [self.stage.get("ConfigMap", name) is not None for name in names]

    async def rest(self, seconds: float = 20) -> None:
        await self.stage.rest(seconds)


class Script(Protocol):
    def __call__(self, house: House) -> Coroutine[Any, Any, None]: ...


@pytest.fixture
def house(staged: MakeStage, tmp_path: Path) -> House:
    return House(staged(), tmp_path)


def play(house: House, script: Script, program: RunOptions | None = None) -> None:
    """Run `script` beside the program."""
    chosen = program or house.program()

    async def main() -> None:
        async with controller(chosen, house.stage.wire, house.stage.clock):
            await script(house)

    house.stage.play(main)


def test_a_unit_is_driven_and_answered_in_its_status(house: House) -> None:
    commit = house.push(web=[web(), config_map("conf", a="1")])

    async def script(house: House) -> None:
        await house.source()
        await house.unit("web")
        await house.rest(60)
        status = house.status("Unit", "web")
        assert (status["phase"], status["appliedCommit"]) == ("Done", commit[:7])
        assert status["lastAppliedRevision"] == f"main@sha1:{commit}"
        assert status["pods"] == {"updated": 4, "total": 4, "ready": 4, "summary": "4/4"}
        assert status["inventory"]["count"] == 2
        assert {"id": "shop_conf__ConfigMap"} in status["inventory"]["entries"]
        assert status["observedGeneration"] == house.get("Unit", "web")["metadata"]["generation"]
        assert house.says("Unit", "web") == ("True", "Succeeded")
        assert house.says("Unit", "web", "Healthy") == ("True", "Succeeded")
        assert house.says("Unit", "web", "Reconciling") == ("", "")
        assert house.says("GitSource", "src") == ("True", "Succeeded")
        assert house.status("GitSource", "src")["commit"] == commit[:7]
        assert house.get("Unit", "web")["metadata"]["finalizers"] == [FINALIZER]
        house.stage.wire.requests.clear()
        await house.rest(600)
        written = {r.resource.plural for r in house.stage.wire.requests if r.verb not in READS}
        assert written == {"leases"}  # nothing is written while nothing happens

    play(house, script)


def test_a_held_rollout_is_ready_and_a_moving_one_is_not(house: House) -> None:
    house.push(web=[web("app:v1")])

    async def script(house: House) -> None:
        await house.source()
        await house.unit("web")
        await house.rest(60)
        held = house.push(web=[web("app:v2", partition=3)])
        seen = set()
        for _ in range(60):
            await house.rest(0.5)
            seen.add((*house.says("Unit", "web"), house.says("Unit", "web", "Reconciling")))
        assert ("Unknown", "Progressing", ("True", "RolloutInProgress")) in seen
        assert house.says("Unit", "web") == ("True", "Held")
        assert house.says("Unit", "web", "RolloutHeld") == ("True", "PartitionReached")
        status = house.status("Unit", "web")
        assert (status["phase"], status["pods"]["summary"]) == ("Held", "1/4")
        first, _ = status["history"]
        assert first["revision"] == f"main@sha1:{held}"

    play(house, script)


def test_a_broken_object_is_told_and_leaves_the_others_alone(house: House) -> None:
    house.push(**{name: [config_map(name, a="1")] for name in ("good", "bad", "lost")})

    async def script(house: House) -> None:
        await house.source()
        await house.unit("good")
        await house.unit("bad", approval="always")
        await house.unit("lost", sourceRef={"name": "nowhere"})
        await house.rest()
        assert house.has("good", "bad", "lost") == [True, False, False]
        assert house.says("Unit", "bad") == ("False", "InvalidSpec")
        assert house.says("Unit", "bad", "Stalled") == ("True", "InvalidSpec")
        assert "GK7006: spec.approval is not acted on" in house.message("Unit", "bad")
        assert house.says("Unit", "lost") == ("False", "SourceFailed")
        assert "names shop/nowhere, which is not configured" in house.message("Unit", "lost")
        assert house.says("Unit", "good") == ("True", "Succeeded")
        await house.unit("bad", approval="never")
        await house.source("nowhere")
        await house.rest()
        assert house.has("bad") == [True]
        assert house.says("Unit", "bad") == ("True", "Succeeded")
        assert house.says("Unit", "bad", "Stalled") == ("", "")
        assert house.says("Unit", "lost") == ("True", "Succeeded")

    play(house, script)


def test_settings_change_while_everything_runs(house: House) -> None:
    house.push(a=[config_map("a", x="1")], b=[config_map("b", x="1")])

    async def script(house: House) -> None:
        await house.source()
        await house.unit("a")
        await house.unit("b")
        await house.rest()
        await house.unit("a", suspend={"by": "dana", "reason": "freeze"})
        await house.rest()
        house.push(a=[config_map("a", x="2")], b=[config_map("b", x="2")])
        await house.rest()
        assert house.stage.get("ConfigMap", "a")["data"] == {"x": "1"}
        assert house.stage.get("ConfigMap", "b")["data"] == {"x": "2"}
        assert house.says("Unit", "a")[1] == "Suspended"
        assert house.status("Unit", "a")["suspendedBy"] == {"by": "dana", "reason": "freeze"}
        await house.unit("a", suspend=False)
        await house.rest()
        assert house.stage.get("ConfigMap", "a")["data"] == {"x": "2"}
        assert "suspendedBy" not in house.status("Unit", "a")
        house.stage.wire.requests.clear()
        await house.unit("b", interval="20m")
        await house.rest()
        done = {*house.stage.wire.writes(), *house.stage.wire.writes(dry=True)}
        assert done == {"update gitkruise-workloads"}  # the lease; no object is touched

    play(house, script)


ENDS: list[tuple[str, dict[str, Any], bool]] = [
    ("MirrorPrune", {}, False),
    ("MirrorPrune of what prunes nothing", {"prune": {"enabled": False}}, True),
    ("Delete", {"prune": {"enabled": False, "deletionPolicy": "Delete"}}, False),
    ("WaitForTermination", {"prune": {"deletionPolicy": "WaitForTermination"}}, False),
    ("Orphan", {"prune": {"deletionPolicy": "Orphan"}}, True),
    ("suspended", {"suspend": True}, True),
]


@pytest.mark.parametrize(
    "row",
    [ENDS[0], *(pytest.param(row, marks=pytest.mark.slow) for row in ENDS[1:])],
    ids=[row[0] for row in ENDS],
)
def test_a_deleted_unit_ends_as_it_says(
    house: House, row: tuple[str, dict[str, Any], bool]
) -> None:
    _, spec, stays = row
    house.push(web=[config_map("a", x="1"), config_map("b", x="1")], other=[config_map("c", x="1")])

    async def script(house: House) -> None:
        await house.source()
        await house.unit("web")
        await house.unit("other")
        await house.rest()
        await house.unit("web", **spec)
        await house.rest()
        await house.ask("delete", "Unit", "web")
        await house.rest()
        assert house.get("Unit", "web") is None
        assert house.has("a", "b", "c") == [stays, stays, True]
        await house.unit("web")  # and it may come back
        await house.rest()
        assert house.says("Unit", "web") == ("True", "Succeeded")

    play(house, script)


def test_a_unit_deleted_while_nobody_ran_is_ended_at_the_next_start(house: House) -> None:
    house.push(web=[config_map("a", x="1")])

    async def script(house: House) -> None:
        await house.source()
        await house.unit("web")
        await house.rest()

    async def later(house: House) -> None:
        await house.rest()
        assert house.get("Unit", "web") is None
        assert house.has("a") == [False]

    play(house, script)
    assert house.has("a") == [True]  # the end of a process is not the end of its units

    async def delete() -> None:
        await house.ask("delete", "Unit", "web")

    house.stage.play(delete)
    assert house.get("Unit", "web")["metadata"]["deletionTimestamp"]
    play(house, later)


def test_objects_and_a_file_are_one_configuration(house: House, tmp_path: Path) -> None:
    house.push(file=[config_map("f", x="1")], live=[config_map("l", x="1")])
    program = options(house.stage, tmp_path, SOURCE + file_unit("file"), custom=Rules())

    async def script(house: House) -> None:
        await house.source()
        await house.unit("live")
        await house.unit("file", path="live")
        await house.rest()
        assert house.has("f", "l") == [True, True]
        assert house.says("Unit", "live") == ("True", "Succeeded")
        for kind, name in (("GitSource", "src"), ("Unit", "file")):
            assert "GK7008" in house.message(kind, name)
        await house.ask("delete", "Unit", "file")
        await house.rest()
        assert house.has("f", "l") == [True, True]

    play(house, script, program)


REFERENCES: list[tuple[str, dict[str, Any]]] = [
    ("sourceRef", {"sourceRef": {"name": "src", "namespace": "default"}}),
    ("decryption", {"render": {"decryption": {
        "provider": "sops", "secretRef": {"name": "keys", "namespace": "default"}}}}),
    ("dependsOn", {"dependsOn": [{"name": "other", "namespace": "default"}]}),
]  # fmt: skip


@pytest.mark.parametrize("row", REFERENCES, ids=[row[0] for row in REFERENCES])
def test_other_namespaces_are_out_of_reach(house: House, row: tuple[str, dict[str, Any]]) -> None:
    house.push(web=[config_map("a", x="1")])

    async def script(house: House) -> None:
        await house.source()
        await house.source("default/src")
        await house.unit("web", **row[1])
        await house.rest()
        assert house.has("a") == [False]
        assert house.says("Unit", "web") == ("False", "InvalidSpec")
        assert "namespace default; next: refer to the own" in house.message("Unit", "web")

    play(house, script)


def test_other_namespaces_are_in_reach_when_that_is_allowed(house: House) -> None:
    house.push(web=[config_map("a", x="1")])

    async def script(house: House) -> None:
        await house.source("default/src")
        await house.unit("web", **REFERENCES[0][1])
        await house.rest()
        assert house.has("a") == [True]

    play(house, script, house.program(cross_namespace=True))


def test_inside_a_cluster_units_of_others_name_an_account(house: House) -> None:
    house.push(web=[config_map("a", x="1")])

    async def script(house: House) -> None:
        await house.source()
        await house.unit("web")
        await house.rest()
        assert "GK7051" in house.message("Unit", "web")
        assert "a folder of gitkruise's own machine" in house.message("GitSource", "src")

    play(house, script, house.program(home="gitkruise-system"))


def test_the_default_account_counts_for_units_without_one(house: House) -> None:
    house.push(web=[config_map("a", x="1")])

    async def script(house: House) -> None:
        await house.source()
        await house.unit("web")
        await house.rest()
        assert house.has("a") == [True]
        users = {r.user for r in house.stage.wire.requests if r.resource.plural == "configmaps"}
        assert "system:serviceaccount:shop:standard" in users

    play(house, script, house.program(default_account="standard"))


def test_somebody_asks_to_look_again(house: House) -> None:
    house.push(web=[config_map("a", x="1")])

    async def script(house: House) -> None:
        await house.source(interval="1h")
        await house.unit("web")
        await house.rest()
        await house.note("web", **{"gitkruise.io/reconcile-at": "now"})
        await house.rest()
        assert house.status("Unit", "web")["lastHandledReconcileAt"] == "now"

    play(house, script)


def test_a_secret_that_comes_later_is_found(house: House) -> None:
    house.push(web=[config_map("a", x="1")])
    secret = {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"},
        "stringData": {"username": "u", "password": "p"},
    }  # fmt: skip

    async def script(house: House) -> None:
        await house.source(secretRef={"name": "login"})
        await house.unit("web")
        await house.rest()
        assert 'secrets "login" not found' in house.message("GitSource", "src")
        assert "GitSource shop/src: " in house.message("Unit", "web")
        house.stage.meddle(secret)
        await house.rest(60)
        assert house.says("GitSource", "src") == ("True", "Succeeded")
        assert house.has("a") == [True]

    play(house, script)


def test_the_status_branch_of_a_sink_is_written_and_its_state_told(house: House) -> None:
    house.push(web=[config_map("a", x="1")])

    async def script(house: House) -> None:
        await house.source()
        await house.apply("Sink", "out", git={"sourceRef": {"name": "src"}})
        await house.unit("web", sinkRef={"name": "out"})
        await house.rest(60)
        assert house.says("Sink", "out") == ("True", "Succeeded")
        assert house.says("Unit", "web", "StatusPublished") == ("True", "Published")
        told = run_git(house.stage.origin.bare, "show", f"{STATUS}:units/shop/web/status.yaml")
        assert "state: Done" in told
        assert "removal" not in told  # the object itself remembers how it ends
        await house.ask("delete", "Unit", "web")
        await house.rest()
        names = run_git(house.stage.origin.bare, "ls-tree", "-r", "--name-only", STATUS)
        assert "units/shop/web" not in names

    play(house, script)


def test_an_object_without_a_program_is_refused_by_its_schema(house: House) -> None:
    async def script() -> None:
        with pytest.raises(NotFound):
            await house.ask("get", "Unit", "web")
        await house.unit("web", prune={"maxDelete": 3})
        stored = await house.ask("get", "Unit", "web")
        assert stored["spec"]["prune"]["deletionPolicy"] == "MirrorPrune"
        assert json.dumps(stored["spec"])

    house.stage.play(script)
