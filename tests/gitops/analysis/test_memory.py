"""Runs of measurements are remembered in the cluster, as many as fit, and never by others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gitkruise.errors import Forbidden
from gitkruise.gitops.analysis.memory import ANALYSIS, BYTES_MAX, AnalysisMemory
from gitkruise.gitops.cluster.lease_annotation import LeaseAnnotation
from gitkruise.gitops.cluster.write_authority import WriteAuthority
from gitkruise.kube.cache.leader_election import LEASES
from gitkruise.model.gitops.analysis import AnalysisPhase, AnalysisRun, Measurement, MetricResult
from gitkruise.wire.primitives.paths import get
from tests.kube.toy import Fault, Toy
from tests.worlds import START

A, B = "shop/a", "shop/b"
LEASE = "gitkruise-sync-analysis"


def run(number: int = 5, *, text: str = "", finished: bool = False) -> AnalysisRun:
    taken = tuple(
        Measurement(
            at=START + timedelta(seconds=n), phase=AnalysisPhase.SUCCESSFUL, value=str(n) + text
        )
        for n in range(number)
    )
    result = MetricResult(
        name="errors", phase=AnalysisPhase.RUNNING, successful=number, measurements=taken
    )
    return AnalysisRun(
        mark="u/abc/1/x", revision="abc", step=1, started=START, phase=AnalysisPhase.RUNNING,
        pods=2, metrics=(result,), finished=START if finished else None,
    )  # fmt: skip


def memory(toy: Toy, authority: WriteAuthority | None = None) -> AnalysisMemory:
    lease = LeaseAnnotation(
        transport=toy, namespace="kube-system", name=LEASE, annotation=ANALYSIS, cluster="test"
    )
    return AnalysisMemory(lease, authority or WriteAuthority())


def play(work: Awaitable[Any]) -> Any:
    async def main() -> Any:
        return await work

    return asyncio.run(main())


def test_a_later_process_knows_the_counts_and_the_last_measurements() -> None:
    toy = Toy()
    first = memory(toy)
    assert play(first.read(A)) is None
    play(first.write(A, run()))
    play(first.write(B, run(2)))
    found = play(memory(toy).read(A))
    kept = found.metrics[0].measurements
    assert [one.value for one in kept] == ["2", "3", "4"]
    (metric,) = run().metrics
    assert found == replace(run(), metrics=(replace(metric, measurements=kept),))
    later = memory(toy)
    play(later.forget(A))
    assert play(memory(toy).read(A)) is None
    assert play(memory(toy).read(B)) == run(2)


def test_each_term_reads_what_another_process_wrote() -> None:
    toy, authority = Toy(), WriteAuthority()
    mine = memory(toy, authority)
    play(mine.write(A, run(1)))
    play(memory(toy).write(A, run(3)))
    assert play(mine.read(A)) == run(1)
    authority.term += 1
    assert play(mine.read(A)) == run(3)


def test_without_the_right_it_lasts_as_long_as_the_process_and_says_so() -> None:
    toy = Toy(faults=[Fault("get", Forbidden("no"))] * 2)
    mine = memory(toy)
    play(mine.write(A, run(1)))
    assert play(mine.read(A)) == run(1)
    assert mine.problem == "a restart of gitkruise begins it again: it may not write its Lease"
    assert play(memory(toy).read(A)) is None


def test_finished_runs_give_way_when_there_is_no_room() -> None:
    toy = Toy()
    mine = memory(toy)
    text = "x" * (BYTES_MAX // 12)
    for number in range(6):
        play(mine.write(f"shop/{number}", run(1, text=text, finished=number % 2 == 0)))
        play(mine.write(f"more/{number}", run(1, text=text, finished=number % 2 == 0)))
    lease = toy.objects[LEASES, "kube-system", LEASE]
    runs = json.loads(get(lease, "metadata", "annotations", ANALYSIS))["test"]
    assert len(json.dumps(runs)) <= BYTES_MAX * 1.01
    assert {f"shop/{n}" for n in (1, 3, 5)} | {f"more/{n}" for n in (1, 3, 5)} <= runs.keys()


@pytest.mark.parametrize("value", ["x", [], {A: 1}, {A: {"mark": 1}}], ids=str)
def test_what_is_no_run_is_none(value: Any) -> None:
    toy = Toy()
    lease = LeaseAnnotation(
        transport=toy, namespace="kube-system", name=LEASE, annotation=ANALYSIS, cluster="test"
    )
    play(lease.change(lambda _: value))
    assert play(memory(toy).read(A)) is None
    play(memory(toy).write(A, run(1)))
    assert play(memory(toy).read(A)) == run(1)
