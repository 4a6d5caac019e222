"""An unexpected exception stops the one thing that it concerns, and that only for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from gitkruise.app import RunningController, controller
from gitkruise.errors import CRASHED, ApiError, Finding
from gitkruise.gitops.containment import Containment
from gitkruise.gitops.receiver.endpoints import WebhookEndpoint, WebhookEndpoints
from gitkruise.gitops.receiver.server import HookAddress
from gitkruise.gitops.source.follower import FollowPolicy, SourceFollower
from gitkruise.gitops.source.poller import Polling
from gitkruise.gitops.status.publisher import Outbox
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.crash_reports import CrashReports
from gitkruise.model.gitops.config import GitRef, GitSource, GitSourceSpec
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.sandbox.controllers import alongside
from gitkruise.wire.primitives.requests import ApiRequest
from tests.clock import ManualClock
from tests.git.repos import run_git
from tests.gitops.deliveries import BODIES, KEY, signed, text
from tests.gitops.notify.harness import ForgeHarness
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.promoted import promoting, promotion, standing, written
from tests.gitops.receiver.test_receiver import knock
from tests.gitops.stage import STATUS, MakeStage, Stage, config_map, documents, web

pytestmark = pytest.mark.slow
SINK = """---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {{name: git, namespace: shop}}
spec: {{git: {{sourceRef: {{name: src}}}}}}
"""
TWO = SOURCE + SINK + unit("a", ", sinkRef: {{name: git}}") + unit("b", ", sinkRef: {{name: git}}")


class Faulty:
    """Stands for `value`, one of whose methods fails in a way nobody expects while `broken`."""

    def __init__(self, value: Any, method: str) -> None:
        self.value, self.method, self.broken = value, method, True
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        if name != self.method:
            return getattr(self.value, name)
        self.calls += 1
        if self.broken:
            raise KeyError(name)
        return getattr(self.value, name)


class Line:
    """Requests that a name concerns fail in a way nobody expects, while `broken`."""

    def __init__(self, name: str, *, dry: bool = True) -> None:
        self.name, self.dry, self.broken, self.times = name, dry, True, list[float]()
        self.clock = ManualClock()

    def __call__(self, request: ApiRequest) -> ApiError | None:
        concerned = request.name == self.name and ("dryRun" in request.params) == self.dry
        if self.broken and concerned and request.verb not in {"get", "list", "watch"}:
            self.times.append(self.clock.monotonic())
            raise KeyError(self.name)
        return None


def report_of(finding: Finding) -> Path:
    """The report that a finding names; it is there and private."""
    path = Path(dict(finding.notes)["report"])
    assert str(path) in finding.message
    assert path.stat().st_mode & 0o777 == 0o600
    return path


def stuck(record: UnitRecord) -> bool:
    """Whether the record says GK9000 with a report that is there."""
    found = [f for f in record.findings if f.code == CRASHED and f.is_error]
    assert (record.state == "Stuck") == bool(found)
    return bool(found) and report_of(found[0]).exists() and record.message.startswith(CRASHED)


@asynccontextmanager
async def two(stage: Stage, folder: Path, text: str = TWO) -> AsyncIterator[RunningController]:
    """A program with the units shop/a and shop/b."""
    program = options(stage, folder, text)
    async with controller(program, stage.wire, stage.clock) as running:
        await stage.rest(20)
        yield running


def push(stage: Stage, value: str) -> str:
    files = {f"{name}/x.yaml": documents(config_map(name, x=value)) for name in "ab"}
    return stage.origin.commit(files, value)


@pytest.mark.parametrize("dry", [True, False], ids=["judging a commit", "applying it"])
def test_a_unit(staged: MakeStage, tmp_path: Path, *, dry: bool) -> None:
    stage = staged()
    push(stage, "1")
    line = Line("a", dry=dry)
    line.clock = stage.clock

    async def script() -> None:
        async with two(stage, tmp_path) as running:
            record = dict(running.reporters)
            stage.wire.refuse = line
            push(stage, "2")
            await stage.rest(300)
            assert stuck(record["shop/a"].record)
            assert "state: Stuck" in stage.status_file("units/shop/a/status.yaml")
            assert record["shop/b"].record.state == "Done"
            assert stage.get("ConfigMap", "b")["data"] == {"x": "2"}
            assert 3 < len(line.times) < 40
            line.times.clear()
            push(stage, "3")  # wakes it
            await stage.rest(5)
            assert line.times
            assert stage.get("ConfigMap", "b")["data"] == {"x": "3"}
            line.broken = False
            await stage.rest(60)
            assert [r.record.state for r in record.values()] == ["Done", "Done"]
            assert stage.get("ConfigMap", "a")["data"] == {"x": "3"}
            assert not any(f.code == CRASHED for f in record["shop/a"].record.findings)

    stage.play(script)


def test_a_unit_after_a_start_keeps_what_was_live(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    push(stage, "1")
    line = Line("a")

    async def script() -> None:
        async with two(stage, tmp_path) as running:
            stage.wire.refuse = line
            push(stage, "2")
            await stage.rest(60)
            assert stuck(running.reporters["shop/a"].record)
        line.dry = True
        async with two(stage, tmp_path) as running:
            await stage.rest(30)
            assert stuck(running.reporters["shop/a"].record)
            line.broken = False  # drift is put back by a dry run and a write
            stage.meddle(config_map("a", x="drift"))
            await stage.rest(60)
            assert running.reporters["shop/a"].record.state == "Done"

    stage.play(script)


def test_a_source(staged: MakeStage) -> None:
    """Two sources of one repository; what judges the commits of one fails."""
    stage = staged()
    clock, commits = stage.clock, dict[str, list[str]](a=[], b=[])
    problems = dict[str, Finding | None](a=None, b=None)
    edge = Containment(CrashReports(stage.mirrors / "crashes"))
    broken = True

    def trusted(commit: str, ref: str = "") -> Finding | None:
        del commit, ref
        if broken:
            raise KeyError("signer")
        return None

    def follower(name: str, policy: FollowPolicy) -> SourceFollower:
        spec = GitSourceSpec(url=str(stage.origin.bare), ref=GitRef(branch="main"), interval="20s")
        return SourceFollower(
            GitSource("shop", name, spec), stage.repository, on_commit=commits[name].append,
            on_problem=lambda found, _: problems.update({name: found}), live=tuple, policy=policy,
        )  # fmt: skip

    async def script() -> None:
        nonlocal broken
        first = push(stage, "1")
        both = [
            follower("a", FollowPolicy(trusted, containment=edge)),
            follower("b", FollowPolicy(containment=edge)),
        ]
        async with alongside(Polling(stage.repository, both, clock, containment=edge).run()):
            await stage.rest(60)
            assert commits == {"a": [], "b": [first]}
            assert problems["a"] is not None
            assert report_of(problems["a"]).exists()
            assert problems["b"] is None
            broken = False
            await stage.rest(120)
            assert commits["a"] == [first]
            assert not any(problems.values())

    stage.play(script)


def test_a_source_of_a_program_makes_its_units_stuck(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    push(stage, "1")
    other = SOURCE.replace("name: src", "name: other").replace("{{branch: main}}",
        "{{branch: main}}, secretRef: {{name: key}}")  # fmt: skip
    line = Line("key")

    def refuse(request: ApiRequest) -> ApiError | None:
        if line.broken and request.name == "key":
            raise KeyError("key")
        return ApiError("no such secret") if request.name == "key" else None

    text = TWO + "---\n" + other + unit("c", ", sinkRef: {{name: git}}").replace("src", "other")
    stage.wire.refuse = refuse

    async def script() -> None:
        async with two(stage, tmp_path, text) as running:
            assert running.reporters["shop/b"].record.state == "Done"
            assert "GK9000" in stage.status_file("units/shop/c/status.yaml")
            assert "state: Stuck" in stage.status_file("units/shop/c/status.yaml")
            assert running.fleet.errors["GitSource", "shop/other"].code == CRASHED
            line.broken = False
            await stage.rest(60)
            assert running.fleet.errors["GitSource", "shop/other"].code != CRASHED

    stage.play(script)


def test_a_sink(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    push(stage, "1")

    async def script() -> None:
        async with two(stage, tmp_path) as running:
            outbox: Outbox = running.outboxes["shop/git"]
            faulty = Faulty(outbox._branch, "publish")
            vars(outbox)["_branch"] = faulty
            push(stage, "2")
            await stage.rest(120)
            finding = running.fleet.crashes["Sink", "shop/git"]
            assert report_of(finding).exists()
            for name in "ab":
                record = running.reporters[f"shop/{name}"].record
                assert record.state == "Done"  # the units are as git asks
                assert [(f.code, f.severity) for f in record.findings] == [(CRASHED, "warning")]
                assert stage.get("ConfigMap", name)["data"] == {"x": "2"}
            assert faulty.calls < 40
            faulty.broken = False
            await stage.rest(60)
            assert not running.fleet.crashes
            assert running.reporters["shop/a"].record.findings == ()
            assert "2" in run_git(stage.origin.bare, "log", "--format=%s%b", STATUS)

    stage.play(script)


def test_one_record_that_cannot_be_written_keeps_no_other_from_git(staged: MakeStage) -> None:
    stage = staged()
    clock = stage.clock
    outbox = Outbox(stage.branch, None, clock, coalesce=timedelta(seconds=5))
    good = stage.record
    bad = Faulty(good, "objects")

    async def script() -> None:
        async with alongside(outbox.run()):
            bad.broken = False
            outbox.offer(good)
            vars(outbox)["_latest"]["shop/bad"] = bad
            vars(outbox)["_urgent"]["shop/bad"] = "now"
            bad.broken = True
            await clock.sleep(120)
            assert "GK9000" in outbox.problem
            assert "shop/web" in " ".join(stage.diary())

    stage.play(script)


class Ring:
    """A source that a push concerns, and whose look may fail."""

    def __init__(self) -> None:
        self.broken = True

    def receive(self, *_: Any, **__: Any) -> bool:
        if self.broken:
            raise KeyError("look")
        return True


def test_a_receiver(tmp_path: Path) -> None:
    clock, body = SystemClock(), text(BODIES["github"])
    bad, good = Ring(), Ring()
    good.broken = False
    doors = {
        f"/{name}": WebhookEndpoint(
            f"shop/{name}", "github", (KEY,), [cast("Any", ring)], clock, named=True
        )
        for name, ring in (("a", bad), ("b", good))
    }
    problems: dict[str, Finding | None] = {}
    edge = Containment(CrashReports(tmp_path)), problems.__setitem__

    async def script() -> None:
        async with AsyncExitStack() as stack:
            address = HookAddress(Listen(port=0))
            endpoints = WebhookEndpoints(doors, edge)
            url = await stack.enter_async_context(address.serving(endpoints))
            session = await stack.enter_async_context(aiohttp.ClientSession())

            async def knocked(name: str, delivery: str) -> int:
                headers = {**signed("github", body), "X-GitHub-Delivery": delivery}
                return await knock(session, f"{url}/{name}", body, **headers)

            assert (await knocked("a", "1"), await knocked("b", "2")) == (500, 202)
            finding = problems["shop/a"]
            assert finding is not None
            assert report_of(finding).exists()
            assert problems["shop/b"] is None
            bad.broken = False
            assert await knocked("a", "3") == 202
            assert problems["shop/a"] is None

    asyncio.run(script())


def test_a_pull_request(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    harness = ForgeHarness(stage, tmp_path)

    async def script() -> None:
        async with harness.open():
            await harness.push(web(), message="first")
            await stage.rest()
            teller = harness.pulls.planners["main"]
            faulty = Faulty(teller, "plan")
            vars(harness.pulls)["planners"] = {"main": faulty}
            head = harness.branch(1, web("app:v2"), repo=2)
            await stage.rest(100)
            assert "GK9000" in harness.comment(1)
            assert "report" not in harness.comment(1)
            assert str(tmp_path) not in harness.comment(1)
            assert harness.status(head, "gitkruise/plan")[0] == "error"
            assert faulty.calls < 10
            await harness.push(web("app:v3"), message="goes on")
            await stage.rest()
            assert stage.images() == ["app:v3"] * 4
            await harness.push(web(), message="back, so that the branch can be merged")
            faulty.broken = False
            await stage.rest(600)
            assert "✅ current" in harness.comment(1)
            assert "GK9000" not in harness.comment(1)
            assert harness.status(head, "gitkruise/plan")[0] == "success"

    stage.play(script)


def test_a_promotion(staged: MakeStage) -> None:
    stage = staged(promotion=promotion())
    faulty = Faulty(stage.repository, "push_ref")
    stage.repository = faulty  # type: ignore[assignment]

    async def script() -> None:
        async with promoting(stage):
            await stage.push(web(), message="first")
            await stage.rest()
            await stage.push(web("app:v2", partition="75%"), message="canary")
            await stage.rest(400)
            progress = standing(stage)
            assert CRASHED in progress.why
            assert stage.state == "Held"  # the unit is as git asks, and its promotion is not
            (finding,) = stage.record.findings
            assert (finding.code, finding.severity) == (CRASHED, "warning")
            assert faulty.calls < 20
            stage.meddle(web("app:v9", partition="75%"))
            await stage.rest(60)
            assert "app:v9" not in stage.images()  # drift is looked after
            faulty.broken = False
            await stage.rest(900)
            assert standing(stage).why == ""
            assert "web: promote to partition 50%" in written(stage)

    stage.play(script)
