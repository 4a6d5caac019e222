"""An object changes its unit by a handover that git states in both places, and by nothing else."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from gitkruise.app import controller
from gitkruise.errors import Finding
from gitkruise.gitops.reconcile.unit_reconciler import UnitReconciler
from gitkruise.gitops.status.unit_status import Reporter
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.workloads.pod import POD
from gitkruise.planner.sync.annotations import COMMIT, PATH, unit_label
from gitkruise.sandbox.controllers import alongside
from gitkruise.wire.primitives.requests import JSON_PATCH, ApiRequest
from tests.git.repos import run_git
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.reconcile.test_approval import agree
from tests.gitops.stage import WEB, MakeStage, Stage, config_map, documents, web
from tests.worlds import SPACE, cloneset

pytestmark = pytest.mark.slow

KEEP: Final = documents(config_map("keep", a="b"))
OTHERS: Final = documents(config_map("others", a="b"))
OWNED: Final = documents(config_map("keep", a="b"), web())
MOVED: Final = documents(config_map("others", a="b"), web())
OVERWRITING: Final = documents(config_map("others", a="b"), cloneset("web", 1, "app:v9"))
CLOSED: Final = [{"kind": "deny", "schedule": "* * * * *", "duration": "1h"}]
BROKEN: Final = KEEP + "---\n{broken"


def live(stage: Stage) -> Any:
    """The CloneSet's identity, marks and spec, and its pods."""
    found = stage.get("CloneSet", "web", "apps.kruise.io")
    meta = {name: found["metadata"].get(name) for name in ("uid", "labels")}
    pods = [p["metadata"]["uid"] for p in stage.world.objects(POD, SPACE)]
    return meta, found["spec"], sorted(pods)


def owner_of(stage: Stage) -> str:
    found = stage.get("CloneSet", "web", "apps.kruise.io")["metadata"]
    return str(found["annotations"]["gitkruise.io/unit-ref"])


class Pair:
    """Unit shop/web, which owns a CloneSet, and shop/other, which is to get it."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.late: list[UnitReconciler] = []  # they have not heard of the newest commit
        self.start_over()

    def start_over(self, **spec: Any) -> None:
        """A new process; `spec` are other settings of the owner."""
        stage = self.stage
        settings = {**msgspec.to_builtins(stage.spec), **spec}
        stage.spec = msgspec.convert(settings, type(stage.spec))
        stage.start_over()
        plain = msgspec.structs.replace(stage.spec, path="b", suspend=False, approval="never")
        self.other, self.reporter = stage.add_unit("shop/other", plain)

    @asynccontextmanager
    async def running(self, order: str) -> AsyncIterator[None]:
        """Both units, begun in an order: `web` first, `other` first, or both."""
        stage, units = self.stage, [self.stage.unit, self.other]
        units = units[::-1] if order == "other" else units
        await stage.live.discover()
        async with alongside(stage.live.run(), *(one.run() for one in units)):
            yield

    async def offer(self, commit: str, order: str, *, owner: bool = True) -> None:
        """Let the units see a commit, one after the other where the order says so."""
        units = [self.stage.unit, self.other]
        for one in units[::-1] if order == "other" else units:
            if one is self.stage.unit and owner:
                await self.stage.follower.check()
            elif one is self.other:
                one.offer(commit)
            await self.stage.rest(0 if order == "both" else 60)

    def commit(self, a: str, b: str) -> str:
        return self.stage.origin.commit({"a/app.yaml": a, "b/app.yaml": b})


async def settled(pair: Pair) -> Any:
    """Let the owner create its objects; how they are."""
    async with pair.running("both"):
        await pair.offer(pair.commit(OWNED, OTHERS), "both")
        await pair.stage.rest(120)
        assert (pair.stage.state, str(pair.reporter.record.state)) == ("Done", "Done")
    return live(pair.stage)


Step = Callable[[Pair, str], Awaitable[None]]


async def mend_commit(pair: Pair, order: str) -> None:
    await pair.offer(pair.commit(KEEP, MOVED), order)


async def resume(pair: Pair, order: str) -> None:
    del order  # a new process, in the test


async def check_source(pair: Pair, order: str) -> None:
    del order
    await pair.stage.follower.check()


async def source_back(pair: Pair, order: str) -> None:
    del order
    pair.stage.unit.source_problem(None)
    await pair.stage.follower.check()


async def approval(pair: Pair, order: str) -> None:
    del order
    await agree(pair.stage)
    pair.other.offer(run_git(pair.stage.origin.bare, "rev-parse", "main"))


DOWN: Final = Finding(code="GK3101", message="no answer")
HINDRANCES: dict[str, tuple[str, dict[str, Any], bool, Step]] = {
    # what keeps the owner: its git, its settings, whether it hears of the commit, what ends it
    "rejected": (BROKEN, {}, True, mend_commit),
    "suspended": (KEEP, {"suspend": True}, True, resume),
    "unread": (KEEP, {}, False, check_source),
    "source down": (KEEP, {}, False, source_back),
    "waiting for approval": (KEEP, {"approval": "always"}, True, approval),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "order"), [*product(HINDRANCES, ("web", "other", "both"))])
def test_nothing_changes_while_the_owner_has_not_let_go(
    staged: MakeStage, name: str, order: str
) -> None:
    git, spec, hears, end = HINDRANCES[name]
    pair = Pair(staged(path="a"))
    stage = pair.stage

    async def script() -> None:
        before = await settled(pair)
        commit = pair.commit(git, MOVED)
        for _ in range(2):  # a restart changes nothing
            pair.start_over(**spec)
            async with pair.running(order):
                if name == "source down":
                    stage.unit.source_problem(DOWN)
                await pair.offer(commit, order, owner=hears)
                await stage.rest(120)
                assert (live(stage), owner_of(stage)) == (before, "shop/web")
                assert_reported(pair.reporter)
        pair.start_over(**({"suspend": False} if "suspend" in spec else {}))
        async with pair.running(order):
            if name == "source down":
                stage.unit.source_problem(DOWN)
            await pair.offer(commit, order, owner=hears)
            await stage.rest(60)
            await end(pair, order)
            await stage.rest(120)
            assert owner_of(stage) == "shop/other"
            assert (stage.state, str(pair.reporter.record.state)) == ("Done", "Done")
            after = live(stage)
            assert (after[0]["uid"], *after[1:]) == (before[0]["uid"], *before[1:])  # pods stay

    stage.play(script)
    assert not any(w.startswith("delete") for w in stage.wire.writes())


@pytest.mark.parametrize("gate", [{"suspend": True}, {"windows": CLOSED}, {"approval": "always"}])
def test_a_commit_that_was_taken_does_not_wait_again_after_a_start(
    staged: MakeStage, gate: dict[str, Any]
) -> None:
    """The other unit is rejected: the handover is left, and this unit has nothing to do for it."""
    pair = Pair(staged(path="a"))
    stage, asks = pair.stage, "approval" in gate

    async def script() -> None:
        await settled(pair)
        pair.start_over(**(gate if asks else {}))
        async with pair.running("both"):
            await pair.offer(pair.commit(KEEP, BROKEN), "both")
            await stage.rest(60)
            if asks:  # the next commit carries the approval, and has the same effect
                assert stage.state == "Waiting"
                mark = re.findall(r"Gitkruise-Approve: \w+", stage.record.message)[0]
                more = {"a/app.yaml": "# as before\n" + KEEP}
                await pair.offer(stage.origin.commit(more, f"let go\n\n{mark}"), "both")
                await stage.rest(60)
            assert (stage.state, str(pair.reporter.record.state)) == ("Done", "Rejected")
        before, commit = live(stage), run_git(stage.origin.bare, "rev-parse", "main")
        for _ in range(2):
            record = stage.record
            assert record.causal is not None
            assert record.causal.id == commit
            pair.start_over(**gate)
            stage.reporter.resume(record, {})
            async with pair.running("both"):
                await pair.offer(commit, "web")
                await stage.rest(120)
                assert (stage.state, live(stage), owner_of(stage)) == ("Done", before, "shop/web")
                assert [o.key.name for o in stage.record.objects] == ["keep"]
                assert stage.unit.built is not None

    stage.play(script)


def assert_reported(reporter: Reporter) -> None:
    (finding,) = [f for f in reporter.record.findings if f.is_error]
    assert (str(reporter.record.state), finding.code) == ("Stuck", "GK2402")
    assert "unit shop/web" in finding.message
    notes = dict(finding.notes)
    assert notes["unchanged"] == "the live CloneSet shop/web"
    assert notes["next"]
    assert reporter.record.applied != reporter.record.causal  # it is not as git says
    (state,) = (str(o.state) for o in reporter.record.objects if o.key.kind == "CloneSet")
    assert state == "Waiting"


@pytest.mark.parametrize("order", ["web", "other", "both"])
def test_a_move_in_one_commit_keeps_the_object_and_its_pods(staged: MakeStage, order: str) -> None:
    pair = Pair(staged(path="a"))
    stage = pair.stage

    async def script() -> None:
        before = await settled(pair)
        pair.start_over()
        async with pair.running(order):
            commit = pair.commit(KEEP, MOVED)
            await pair.offer(commit, order)
            await stage.rest(120)
            after = live(stage)
            assert (after[0]["uid"], *after[1:]) == (before[0]["uid"], *before[1:])
            assert owner_of(stage) == "shop/other"
            moved = stage.world.get(WEB)
            assert moved is not None
            marks = moved["metadata"]["annotations"]
            assert marks[PATH].startswith("b/")  # its place and commit are those of its unit
            assert marks[COMMIT] == commit
            assert (stage.state, str(pair.reporter.record.state)) == ("Done", "Done")
            commits = [
                [step.commit.id for step in dict(one.record.steps).get(WEB, ())]
                for one in (stage.reporter, pair.reporter)
            ]
            assert (commit in commits[0], commits[1]) == (False, [commit])

    stage.play(script)
    assert not any(w.startswith("delete") for w in stage.wire.writes())


def test_the_owner_of_a_unit_that_is_unknown_is_named_with_the_way_on(staged: MakeStage) -> None:
    """The command of the message releases the object: without a mark, any unit may have it."""
    pair = Pair(staged(path="a"))
    stage = pair.stage

    async def script() -> None:
        before = await settled(pair)
        stage.start_over()
        stage.unit, stage.reporter = stage.add_unit(
            "shop/new", msgspec.structs.replace(stage.spec, path="c")
        )
        stage.around.claims.leave("shop/web")
        stage.around.claims.forget("shop/web")
        commit = stage.origin.commit({"c/app.yaml": documents(cloneset("web", 1, "app:v9"))})
        async with stage.running():
            stage.unit.offer(commit)
            await stage.rest(120)
            assert live(stage) == before
            (finding,) = (f for f in stage.record.findings if f.code == "GK2402")
            assert finding.message == (
                "CloneSet shop/web belongs to unit shop/web, which this gitkruise does not run"
            )
            command = dict(finding.notes)["or"].partition(": ")[2]
            assert command == "kubectl label cloneset.apps.kruise.io web -n shop gitkruise.io/unit-"
            release(stage)
            await stage.rest(120)
            assert (owner_of(stage), live(stage)[1]["replicas"]) == ("shop/new", 1)
            assert live(stage)[0]["uid"] == before[0]["uid"]

    stage.play(script)


def release(stage: Stage) -> None:
    """Run `kubectl label … gitkruise.io/unit-`."""
    gone = {"op": "remove", "path": "/metadata/labels/gitkruise.io~1unit"}
    ask_about_web(stage, "patch", body=[gone], content_type=JSON_PATCH)


def delete(stage: Stage) -> None:
    """Run `kubectl delete`."""
    ask_about_web(stage, "delete")


def ask_about_web(stage: Stage, verb: str, **more: Any) -> None:
    """Send a request about the CloneSet, as a user does."""
    kind = stage.world.catalog.by_kind("apps.kruise.io", "v1beta1", "CloneSet")
    assert kind is not None
    request = ApiRequest(verb=verb, resource=kind.ref, namespace=SPACE, name="web", **more)
    stage.world.handle(request, stage.clock.now())
    stage.cluster.publish()


@pytest.mark.parametrize("let_go", [release, delete])
def test_what_a_rejected_unit_has_no_more_is_of_the_unit_whose_git_is_known(
    staged: MakeStage, let_go: Callable[[Stage], None]
) -> None:
    """The live commit of the first unit still contains it: neither unit had it then."""
    pair = Pair(staged(path="a"))
    stage = pair.stage

    async def script() -> None:
        before = await settled(pair)
        pair.start_over()
        async with pair.running("both"):
            await pair.offer(pair.commit(OWNED, OTHERS), "both")
            await pair.offer(pair.commit(BROKEN, MOVED), "both")
            await stage.rest(120)
            assert live(stage) == before
            (finding,) = (f for f in pair.reporter.record.findings if f.code == "GK2402")
            assert "kubectl label" in dict(finding.notes)["or"]
            stage.meddle({**web(), "spec": {"replicas": 7}})
            await stage.rest(120)
            assert live(stage) == before, "its owner keeps it as it is until then"
            let_go(stage)
            await stage.rest(120)
            assert owner_of(stage) == "shop/other"
            assert (stage.state, str(pair.reporter.record.state)) == ("Rejected", "Done")
            await stage.rest(120)
            assert owner_of(stage) == "shop/other"

    stage.play(script)


@pytest.mark.parametrize("let_go", [release, delete])
def test_an_object_of_two_units_that_lost_its_mark_is_reported_in_both(
    staged: MakeStage, let_go: Callable[[Stage], None]
) -> None:
    pair = Pair(staged(path="a"))
    stage = pair.stage

    async def script() -> None:
        await settled(pair)
        pair.start_over()
        async with pair.running("both"):
            await pair.offer(pair.commit(OWNED, MOVED), "both")
            await stage.rest(120)
            let_go(stage)
            await stage.rest(120)
            (obj,) = [o for o in pair.reporter.record.objects if o.key.name == "web"]
            assert obj.message == "not applied: another unit owns it, or contains it too"

    stage.play(script)


# Whole programs ------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("one", "two"), ("two", "one")], ids="-".join)
def test_a_start_overwrites_nothing_of_a_unit_whose_commit_is_rejected(
    staged: MakeStage, tmp_path: Path, names: tuple[str, str]
) -> None:
    """Evidence 1 of issue 16: five pods of unit one became one of unit two."""
    stage, records = staged(), dict[str, UnitRecord]()

    def program(*some: str) -> Any:
        text = SOURCE + "".join(unit(name) for name in some)
        return options(stage, tmp_path, text, listeners=(lambda r: records.update({r.unit: r}),))

    async def script() -> None:
        stage.origin.commit({"one/app.yaml": OWNED, "two/app.yaml": OTHERS})
        async with controller(program(*names), stage.wire, stage.clock):
            await stage.rest(120)
        before = live(stage)
        stage.origin.commit({"one/app.yaml": OWNED + "---\n{broken", "two/app.yaml": OVERWRITING})
        for _ in range(3):
            async with controller(program(*names), stage.wire, stage.clock):
                await stage.rest(120)
            assert (live(stage), owner_of(stage)) == (before, "shop/one")
            assert records["shop/two"].findings[0].code == "GK2402"
            assert "unit shop/one" in records["shop/two"].findings[0].message
        stage.origin.commit({"one/app.yaml": KEEP, "two/app.yaml": MOVED})
        async with controller(program(*names), stage.wire, stage.clock):
            await stage.rest(120)
        assert (owner_of(stage), live(stage)[2]) == ("shop/two", before[2])
        assert {str(r.state) for r in records.values()} == {"Done"}

    stage.play(script)
    assert not any(w.startswith("delete") for w in stage.wire.writes())


def test_a_unit_that_reads_a_move_first_is_not_stuck_meanwhile(staged: MakeStage) -> None:
    """The owner has heard of the commit, and its dry run takes some time."""
    stage = staged(path="a")
    pair = Pair(stage)
    slow = documents(config_map("keep", a="c"))

    async def late(request: ApiRequest) -> None:
        if request.name == "keep":
            await stage.clock.sleep(5)

    async def script() -> None:
        await settled(pair)
        stage.wire.before = late
        stage.offered.clear()
        async with pair.running("both"):
            await pair.offer(pair.commit(slow, MOVED), "both")
            await stage.rest(120)
        assert owner_of(stage) == "shop/other"

    stage.play(script)
    states = {str(record.state) for record in stage.offered if record.unit == "shop/other"}
    assert "Waiting" in states
    assert "Stuck" not in states


SINK: Final = """---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {{name: out, namespace: shop}}
spec: {{git: {{sourceRef: {{name: src}}}}}}
"""
POLICIES: Final = ["MirrorPrune", "Delete", "WaitForTermination", "Orphan"]


def renamed(name: str, policy: str, more: str = "") -> str:
    """One unit that reads the folder `a` under any name."""
    prune = f", sinkRef: {{{{name: out}}}}, prune: {{{{deletionPolicy: {policy}}}}}{more}"
    return SOURCE + SINK + unit(name, prune).replace(f"path: {name}", "path: a")


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("suspended", [False, True])
def test_a_renamed_unit_hands_its_objects_over(
    staged: MakeStage, tmp_path: Path, policy: str, *, suspended: bool
) -> None:
    """The configuration says that the old unit is no more; the new one may also begin late."""
    stage = staged()

    async def run(text: str) -> None:
        async with controller(options(stage, tmp_path, text), stage.wire, stage.clock):
            await stage.rest(120)

    async def script() -> None:
        stage.origin.commit({"a/app.yaml": OWNED})
        await run(renamed("old", policy))
        before = live(stage)
        if suspended:
            await run(renamed("new", policy, ", suspend: true"))
            assert (live(stage)[1:], owner_of(stage)) == (before[1:], "shop/old")
        await run(renamed("new", policy))
        assert owner_of(stage) == "shop/new"
        after = live(stage)
        assert (after[0]["uid"], *after[1:]) == (before[0]["uid"], *before[1:])

    stage.play(script)
    assert not any(w.startswith("delete") for w in stage.wire.writes())


def test_a_unit_keeps_its_objects_under_another_cluster_name(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage, records = staged(), dict[str, UnitRecord]()

    async def script() -> None:
        stage.origin.commit({"web/app.yaml": OWNED})
        program = options(
            stage,
            tmp_path,
            SOURCE + unit("web"),
            listeners=(lambda r: records.update({r.unit: r}),),
        )
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(120)
        before = live(stage)
        other = replace(program, cluster="second", state_dir=tmp_path / "second")
        async with controller(other, stage.wire, stage.clock):
            await stage.rest(120)
        after = live(stage)
        assert (after[0]["uid"], *after[1:]) == (before[0]["uid"], *before[1:])
        assert after[0]["labels"] == {"gitkruise.io/unit": unit_label("second", "shop/web")}
        assert (str(records["shop/web"].state), records["shop/web"].findings) == ("Done", ())

    stage.play(script)
