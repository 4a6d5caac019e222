"""Controllers run rounds: woken by changes, fresh, isolated, retried, stopped in order."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gitkruise.controller.controllers import (
    RECREATE,
    ControllerOptions,
    Controllers,
    feeds,
    possible,
)
from gitkruise.errors import ClusterFailed, Forbidden, Unavailable
from gitkruise.kube.cache.leader_election import FencedTransport, Lease
from gitkruise.kube.system.lease_terms import LeaseName
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.planning.workload import Workload
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import GroupKind, ObjectKey
from tests.controller.scenes import (
    FLEET,
    WORKLOAD,
    Snapshot,
    Stage,
    decide,
    observe,
    without,
)
from tests.kube.toy import CONFIG_MAPS, PODS, Fault, lost


def test_what_is_wanted_comes_about_and_then_nothing_is_written() -> None:
    stage = Stage()
    stage.fleet("web", 3)

    async def script(_: Controllers) -> None:
        await stage.clock.sleep(5)
        before = len(stage.toy.requests)
        await stage.clock.sleep(3600)
        assert len(stage.toy.requests) == before

    stage.play(script)
    assert stage.pods() == ["web-0", "web-1", "web-2"]
    assert stage.status("web") == {"pods": 3}


def test_a_change_of_the_owner_or_of_what_it_owns_wakes_it() -> None:
    stage = Stage()
    stage.fleet("web", 2)

    async def script(_: Controllers) -> None:
        await stage.clock.sleep(5)
        stage.toy.remove(PODS, "web-0")
        await stage.clock.sleep(1)
        assert stage.pods() == ["web-0", "web-1"]
        stage.scale("web", pods="1")
        await stage.clock.sleep(1)
        assert stage.pods() == ["web-0"]

    stage.play(script)


def test_a_change_of_a_pod_wakes_those_its_annotations_name() -> None:
    def named(annotations: Mapping[str, str]) -> list[ObjectKey]:
        return [ObjectKey(*FLEET, "default", name) for name in annotations if name != "other"]

    stage = Stage(workload=replace(WORKLOAD, named_by=named))
    stage.fleet("web", 0)
    stage.toy.make(PODS, "p", metadata={"annotations": {"web": "1"}}, spec={})
    rounds = []

    async def script(controllers: Controllers) -> None:
        for notes in ({"other": "1"}, {"web": "2"}, {"web": None}, {"other": "2"}):
            await stage.clock.sleep(5)
            rounds.append(controllers.runners[0].rounds)
            stage.toy.change(PODS, "p", {"metadata": {"annotations": notes}})
        await stage.clock.sleep(5)
        rounds.append(controllers.runners[0].rounds)

    stage.play(script)
    steps = [after - before for before, after in itertools.pairwise(rounds)]
    assert steps == [1, 1, 1, 0], "it is named before, at and until the third change"


def test_what_concerns_nobody_gets_no_round() -> None:
    """Neither at the start, nor when it or what it owns changes."""

    def concerns(_: ClusterView, key: ObjectKey) -> bool:
        return key.name == "web"

    stage = Stage(workload=replace(WORKLOAD, concerns=concerns))
    for name in ("web", "other"):
        stage.fleet(name, 1)

    async def script(_: Controllers) -> None:
        await stage.clock.sleep(5)
        for name in ("web", "other"):
            stage.scale(name, pods="2")
        await stage.clock.sleep(5)

    stage.play(script)
    assert stage.pods() == ["web-0", "web-1"]


@pytest.mark.parametrize("served", [True, False])
def test_sidecars_are_ended_only_where_recreate_requests_are_served(*, served: bool) -> None:
    catalog, wished = load_catalog(), Gates(sidecar_terminator=True)
    if not served:
        catalog = catalog.without_crd("containerrecreaterequests.apps.kruise.io")
    assert possible(wished, catalog).sidecar_terminator is served
    followed = {
        f.group_kind for f in feeds([], catalog, ControllerOptions(gates=possible(wished, catalog)))
    }
    assert (RECREATE in followed) is served


def test_a_round_reads_its_own_writes_however_late_the_watch_is() -> None:
    """With a watch that never reports anything, no pod is created twice and none is missed."""
    stage = Stage()
    stage.fleet("web", 5)
    stage.toy.mute = True
    stage.settled()
    assert stage.pods() == [f"web-{n}" for n in range(5)]
    assert stage.writes().count("create web-0") == 1
    assert stage.status("web") == {"pods": 5}


@pytest.mark.parametrize("verb", ["create", "delete", "patch"])
def test_a_lost_answer_is_followed_by_a_live_read_and_not_repeated(verb: str) -> None:
    """Replaces the expectations of FLOW-2 to FLOW-6, which may hang (QUIRK-4)."""
    stage = Stage()
    stage.fleet("web", 2)
    stage.toy.faults = [lost(verb)]

    async def script(_: Controllers) -> None:
        await stage.clock.sleep(30)
        stage.scale("web", pods="1")
        await stage.clock.sleep(30)

    stage.play(script)
    writes = stage.writes()
    assert stage.pods() == ["web-0"]
    assert (writes.count("create web-0"), writes.count("delete web-1")) == (1, 1)
    assert any(r.verb == "get" for r in stage.toy.requests)
    assert stage.status("web") == {"pods": 1}


def test_failures_are_retried_with_growing_pauses_and_reported() -> None:
    stage = Stage()
    stage.fleet("web", 1)
    stage.toy.faults = [Fault("create", Unavailable("down")) for _ in range(4)]
    stage.settled()
    assert stage.pods() == ["web-0"]
    events = [obj for (ref, _, _), obj in stage.toy.objects.items() if ref.plural == "events"]
    by_reason = {event["reason"]: event for event in events}
    assert by_reason["SuccessfulCreate"]["message"] == "created pod web-0"


def test_a_lasting_refusal_is_a_warning_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Without the right to write Events, the log is the only place that names the cause."""
    stage = Stage()
    stage.fleet("web", 1)
    stage.toy.faults = [Fault("create", Forbidden("no right"))]

    async def script(_: Controllers) -> None:
        await stage.clock.sleep(60)

    stage.play(script)
    (record,) = [r for r in caplog.records if "round-failed" in r.getMessage()]
    assert (record.levelname, 'error="no right"' in record.getMessage()) == ("WARNING", True)


def test_a_refusal_that_mends_is_noticed_soon(caplog: pytest.LogCaptureFixture) -> None:
    """No event reports that a quota has room again."""
    stage = Stage()
    stage.fleet("web", 1)
    refused = stage.toy.faults = [Fault("create", Forbidden("quota")) for _ in range(1000)]

    async def script(_: Controllers) -> None:
        await stage.clock.sleep(4 * 3600)
        tries = 1000 - len(refused)
        assert 300 < tries < 1000
        refused.clear()
        await stage.clock.sleep(31)

    stage.play(script)
    assert stage.pods() == ["web-0"]
    assert caplog.text.count("round-failed") == 10  # rarer each time


def test_a_clock_that_is_set_back_holds_no_round_up() -> None:
    stage = Stage()
    stage.fleet("web", 1)
    stage.toy.faults = [Fault("create", Forbidden("quota")) for _ in range(5)]

    async def script(_: Controllers) -> None:
        await stage.clock.sleep(20)
        stage.toy.faults.clear()
        stage.clock.step(-6 * 3600)
        await stage.clock.sleep(60)

    stage.play(script)
    assert stage.pods() == ["web-0"]


def test_a_crash_parks_its_key_and_nobody_else() -> None:
    stage = Stage()
    stage.fleet("bad", 1, crash="boom")
    stage.fleet("good", 1)

    async def script(controllers: Controllers) -> None:
        await stage.clock.sleep(5)
        assert stage.pods() == ["good-0"]
        rounds = controllers.runners[0].rounds
        for n in range(100):
            stage.scale("bad", noise=str(n))
        await stage.clock.sleep(60)
        assert controllers.runners[0].rounds == rounds
        stage.toy.do(mended)
        await stage.clock.sleep(300)

    mended = without("bad", "crash")
    stage.play(script)
    assert stage.pods() == ["bad-0", "good-0"]
    events = [obj for (ref, _, _), obj in stage.toy.objects.items() if ref.plural == "events"]
    crash = next(event for event in events if event["reason"] == "InternalError")
    message = "a round of this controller crashed: ZeroDivisionError in controller/runner.py:"
    assert crash["message"].startswith(message)
    assert "boom" not in crash["message"], "the text of an exception may quote a Secret"


def test_requests_to_look_again_are_honoured() -> None:
    stage = Stage()
    stage.fleet("web", 0, wake="600")

    async def script(controllers: Controllers) -> None:
        runner = controllers.runners[0]
        await stage.clock.sleep(10)
        rounds = runner.rounds
        await stage.clock.sleep(6000)
        assert runner.rounds - rounds == 10
        assert controllers.idle

    stage.play(script)


def written(stage: Stage) -> list[dict[str, int]]:
    """The statuses written, in their order."""
    return [r.body["status"] for r in stage.toy.requests if r.verb == "patch" and r.subresource]


@pytest.mark.parametrize(("even", "statuses"), [(True, [0, 3, 5]), (False, [0, 1, 2, 3, 4, 5])])
def test_news_that_may_be_late_are_written_once_a_second(even: bool, statuses: list[int]) -> None:
    """Five pods, one after the other within a second and a half; then nothing happens."""

    def later(known: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
        return even and bool(known)

    stage = Stage(workload=replace(WORKLOAD, later=later))
    stage.fleet("web", 1)

    async def script(_: Controllers) -> None:
        for number in range(2, 6):
            await stage.clock.sleep(0.45)
            stage.scale("web", pods=str(number))
        await stage.clock.sleep(5)

    stage.play(script)
    assert [status["pods"] for status in written(stage)] == statuses
    assert stage.status("web") == {"pods": 5}


def test_a_request_for_the_past_does_not_spin() -> None:
    stage = Stage()
    stage.fleet("web", 0, wake="-5")
    controllers = stage.settled(1)
    assert controllers.runners[0].rounds <= 110


def test_stopping_lets_running_rounds_finish() -> None:
    stage = Stage()
    stage.toy.latency_s = 1.0
    stage.fleet("web", 3)

    async def script(controllers: Controllers) -> None:
        await stage.clock.sleep(3.5)
        assert stage.pods() != ["web-0", "web-1", "web-2"]
        assert not controllers.idle

    stage.play(script)
    assert stage.pods() == ["web-0", "web-1", "web-2"]


def test_no_round_before_everything_is_listed() -> None:
    stage = Stage()
    stage.fleet("web", 1)
    stage.toy.faults = [Fault("list", Unavailable("down")) for _ in range(100)]
    controllers = stage.settled(20)
    assert controllers.runners[0].rounds == 0
    assert stage.writes() == []


def test_waiting_for_a_list_that_fails_does_not_spin() -> None:
    """Due keys cannot run before all is listed; virtual time must be let pass meanwhile."""
    stage = Stage()
    stage.fleet("web", 1)
    stage.toy.faults = [Fault("list", Unavailable("try again"))]  # of pods
    stage.settled()
    assert stage.pods() == ["web-0"]


def test_without_the_lease_nothing_is_written() -> None:
    stage = Stage()
    name = LeaseName(namespace="kube-system", name="gitkruise-workloads", identity="a")
    stage.fence = FencedTransport(stage.toy, Lease(name, stage.toy, stage.clock))
    stage.fleet("web", 3)
    stage.settled()
    assert stage.writes() == []


def test_a_deleted_owner_is_forgotten() -> None:
    stage = Stage()
    stage.fleet("web", 1)

    async def script(controllers: Controllers) -> None:
        await stage.clock.sleep(5)
        stage.toy.remove(CONFIG_MAPS, "web")
        await stage.clock.sleep(5)
        runner = controllers.runners[0]
        assert (len(runner._queue), runner._backoff._failures, runner._parked) == (0, {}, {})

    stage.play(script)


def test_a_kind_the_cluster_does_not_know_is_named() -> None:
    unknown: Workload[Snapshot] = Workload(
        kind=GroupKind("apps.kruise.io", "CloneSet"),
        version="v9",
        owns=WORKLOAD.owns,
        observe=observe,
        decide=decide,
    )
    stage = Stage()
    with pytest.raises(ClusterFailed) as caught:
        Controllers([unknown], stage.toy, load_catalog(), stage.clock)
    finding = caught.value.findings[0]
    assert (finding.code, finding.message) == (
        "GK4201",
        "this cluster does not know kind CloneSet (apps.kruise.io/v9)",
    )
