"""Complaints about other GitOps tools that do not apply here; each test is named after one."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gitkruise.app import controller
from gitkruise.errors import ApiError, Forbidden, InternalError
from gitkruise.model.gitops.config import UnitSpec
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiRequest
from gitkruise.wire.primitives.times import format_time
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.stage import MakeStage, config_map, documents, web
from tests.worlds import START

pytestmark = pytest.mark.slow

SERVICE: Obj = {
    "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
}  # fmt: skip
DEPLOYMENT: Obj = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api"},
    "spec": {
        "selector": {"matchLabels": {"app": "api"}},
        "template": {
            "metadata": {"labels": {"app": "api"}},
            "spec": {"containers": [{
                "name": "api", "image": "api:v1", "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}},
            }]},
        },
    },
}  # fmt: skip

BROKEN: list[tuple[str, ApiError]] = [
    ("tried again", InternalError("etcd leader changed")),
    ("refused", Forbidden("quota")),
]


@pytest.mark.parametrize(
    "row",
    [pytest.param(BROKEN[0], marks=pytest.mark.slow), BROKEN[1]],
    ids=[row[0] for row in BROKEN],
)
def test_a_sync_that_is_retried_does_not_block_its_fix(
    staged: MakeStage, row: tuple[str, ApiError]
) -> None:
    stage = staged()

    def broken(request: ApiRequest) -> ApiError | None:
        bad = "broken" in str(request.body) and "dryRun" not in request.params
        return row[1] if bad and request.verb == "patch" else None

    async def script() -> None:
        stage.wire.refuse = broken
        async with stage.running():
            await stage.push(config_map("a", mode="broken"), web())
            await stage.rest(300)  # retries have long pauses by now
            assert stage.state != "Done"
            fix = await stage.push(config_map("a", mode="good"), web())
            await stage.rest(10)
            assert stage.get("ConfigMap", "a")["data"] == {"mode": "good"}
            await stage.rest(20)
            assert stage.state == "Done"
            assert stage.record.applied is not None
            assert stage.record.applied.id == fix

    stage.play(script)


@pytest.mark.slow
def test_a_commit_with_a_wait_that_never_ends_does_not_block_its_fix(staged: MakeStage) -> None:
    stage = staged()
    later = config_map("z", {"gitkruise.io/wave": "1"})

    async def script() -> None:
        async with stage.running():
            await stage.push(web("app:bad"), later)
            await stage.rest(120)
            assert stage.state != "Done"
            await stage.push(web("app:v2"), later)
            await stage.rest(60)
            assert (stage.state, stage.images()) == ("Done", ["app:v2"] * 4)

    stage.play(script)


def test_in_a_monorepo_each_unit_names_the_commit_that_changed_it_and_only_that_one_works(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage = staged()
    program = options(stage, tmp_path, SOURCE + unit("a") + unit("b"))

    def commit(name: str, value: str) -> str:
        made: str = stage.origin.commit({f"{name}/x.yaml": documents(config_map(name, v=value))})
        return made

    async def script() -> None:
        commit("a", "1")
        first = commit("b", "1")
        async with controller(program, stage.wire, stage.clock) as running:
            await stage.rest(20)
            stage.wire.requests.clear()
            second = commit("a", "2")
            await stage.rest(20)
            leases = ("gitkruise-workloads", "gitkruise-sync")
            assert [w for w in stage.wire.writes() if not w.endswith(leases)] == ["patch a"]
            causal = {name: r.record.causal for name, r in running.reporters.items()}
            assert {name: c.id for name, c in causal.items() if c} == {
                "shop/a": second,
                "shop/b": first,
            }

    stage.play(script)


def test_what_the_server_fills_in_is_never_out_of_sync(staged: MakeStage) -> None:
    stage = staged()
    bare = web()
    del bare["spec"]["updateStrategy"]  # OpenKruise's webhook fills in all of it

    async def script() -> None:
        async with stage.running():
            await stage.push(SERVICE, DEPLOYMENT, bare)
            await stage.rest(60)
            assert (stage.state, stage.record.drift) == ("Done", ())
            stage.wire.requests.clear()
            await stage.rest(1_800)
            assert (stage.state, stage.record.drift) == ("Done", ())
            assert stage.wire.writes() == []
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest(120)
            assert stage.wire.writes() == []

    stage.play(script)


def test_an_emergency_change_is_not_forgotten_in_suspension(staged: MakeStage) -> None:
    until = START + timedelta(hours=1)
    asked: dict[str, Any] = {"by": "dana", "reason": "fire", "until": format_time(until)}
    stage = staged()
    good, changed = config_map("a", mode="git"), config_map("a", mode="by hand")

    async def script() -> None:
        async with stage.running():
            await stage.push(good)
            await stage.rest()
        raw = {"sourceRef": {"name": "src"}, "suspend": asked}
        stage.spec = msgspec.convert(raw, UnitSpec)
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest(5)
            stage.meddle(changed)
            await stage.rest(1_800)
            assert stage.get("ConfigMap", "a")["data"] == {"mode": "by hand"}
            message = f"suspended by dana until {format_time(until)} (fire): "
            differs = "ConfigMap shop/a: differs from git in data.mode, changed by kubectl-edit"
            assert (stage.state, stage.record.message) == ("Drifted", message + differs)
            await stage.rest(1_800)
            assert stage.get("ConfigMap", "a")["data"] == {"mode": "git"}
            assert not stage.record.message.startswith("suspended")

    stage.play(script)


@pytest.mark.parametrize("where", ["live", pytest.param("git", marks=pytest.mark.slow)])
def test_one_object_rests_while_the_others_are_kept_in_order(staged: MakeStage, where: str) -> None:
    stage = staged()
    rest = {"gitkruise.io/hold": f"{format_time(START + timedelta(hours=1))} fire"}
    noted = config_map("a", rest, mode="by hand")
    others = config_map("b", mode="git")

    async def script() -> None:
        async with stage.running():
            await stage.push(config_map("a", mode="git"), others)
            await stage.rest()
            stage.meddle(noted)
            if where == "git":
                await stage.push(config_map("a", rest, mode="git2"), others)
            else:
                await stage.push(config_map("a", mode="git2"), others)
            stage.meddle(config_map("b", mode="by hand"))
            await stage.rest(1_800)
            assert stage.get("ConfigMap", "a")["data"] == {"mode": "by hand"}
            assert stage.get("ConfigMap", "b")["data"] == {"mode": "git"}
            assert stage.state == "Done"
            (message,) = [o.message for o in stage.record.objects if o.key.name == "a"]
            assert message == f"left alone until {format_time(START + timedelta(hours=1))} (fire)"
            await stage.push(others)  # and it is not deleted either
            await stage.rest(600)
            assert stage.get("ConfigMap", "a") is not None
            await stage.rest(1_800)
            assert stage.get("ConfigMap", "a") is None

    stage.play(script)


def test_a_rest_without_an_end_is_none(staged: MakeStage) -> None:
    stage = staged()
    for_ever = config_map("a", {"gitkruise.io/hold": "until I am back"}, mode="git")

    async def script() -> None:
        async with stage.running():
            await stage.push(for_ever)
            await stage.rest(5)
            (finding,) = stage.record.findings
            assert (stage.state, finding.code) == ("Rejected", "GK2018")
            assert finding.places[0].line == 6
            await stage.push(config_map("a", mode="git"))
            await stage.rest(5)
            stage.meddle(config_map("a", {"gitkruise.io/hold": "a while"}, mode="by hand"))
            await stage.rest(30)
            assert stage.get("ConfigMap", "a")["data"] == {"mode": "git"}
            assert [f.code for f in stage.record.findings] == ["GK2018"]

    stage.play(script)


@pytest.mark.parametrize(
    ("name", "value"), [("reconcile", "Disabled"), ("apply", "IfNotPresent"), ("apply", "Ignore")]
)
def test_what_opted_out_is_not_counted_as_git_asks(
    staged: MakeStage, name: str, value: str
) -> None:
    stage, noted = staged(), {f"gitkruise.io/{name}": value}

    async def script() -> None:
        async with stage.running():
            await stage.push(config_map("a", mode="git"), config_map("b", mode="git"))
            await stage.rest()
            await stage.push(config_map("a", noted, mode="git2"), config_map("b", mode="git"))
            await stage.rest(600)
            assert stage.get("ConfigMap", "a")["data"] == {"mode": "git"}
            (message,) = [o.message for o in stage.record.objects if o.key.name == "a"]
            assert message == f"left alone: annotation gitkruise.io/{name}: {value}"
            assert stage.state == "Done"
            assert stage.record.message == "1 object as git asks, 1 left alone"

    stage.play(script)
