"""What Prometheus and probes are told of a running controller, and who may ask."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Final

import aiohttp
import pytest

from gitkruise.app import RunOptions, controller
from gitkruise.errors import Unavailable
from gitkruise.gitops.cluster.write_authority import WriteAuthority
from gitkruise.gitops.source.follower import SourceFollower
from gitkruise.gitops.status.publisher import Outbox
from gitkruise.gitops.status.unit_status import Reporter
from gitkruise.gitops.telemetry.metrics import Metrics
from gitkruise.gitops.telemetry.server import Meter, metered
from gitkruise.kube.cache.leader_election import Lease
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.lease_terms import LeaseName
from gitkruise.model.gitops.config import Reference, Unit, UnitSpec
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.sandbox.server import SandboxOptions
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest
from tests.clock import ManualClock
from tests.gitops.source.test_repositories import configured, source, unit
from tests.gitops.stage import MakeStage, config_map, documents
from tests.gitops.status.test_records import RECORD
from tests.kube.server import connection_to
from tests.kube.toy import Fault, Toy
from tests.sandbox.served import served
from tests.worlds import START, empty_world

PATIENCE_S: Final = 60.0  # of a test that has failed; nothing is measured
OLD, NEW, FIX = (
    GitCommit(id=letter * 40, time=START + timedelta(minutes=at))
    for letter, at in (("a", -600), ("b", 1), ("c", 4))
)
Samples = dict[str, float]


def samples(text: bytes) -> Samples:
    """Every value, by the metric's name and labels as they are written."""
    lines = [line for line in text.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def samples_of(*records: tuple[int, State, GitCommit | None, GitCommit]) -> Samples:
    """What is told after records (minute, state, sent, causal) of one unit."""
    clock = ManualClock(START)
    metrics = Metrics(clock)
    for minute, state, sent, causal in records:
        clock.advance((START + timedelta(minutes=minute) - clock.now()).total_seconds())
        metrics.receive(
            UnitRecord(
                unit="shop/web", cluster="test", source="main", state=state, message="",
                since=START, sent=sent, causal=causal,
            )
        )  # fmt: skip
    return samples(metrics.text())


@pytest.mark.parametrize(
    ("records", "applied", "ready"),
    [
        pytest.param([(0, State.DONE, OLD, OLD)], [], [], id="found at its commit"),
        pytest.param(
            [(0, State.DONE, OLD, OLD), (2, State.ROLLING, OLD, NEW), (3, State.ROLLING, NEW, NEW),
             (5, State.ROLLING, NEW, NEW), (7, State.HELD, NEW, NEW), (9, State.DONE, NEW, NEW)],
            [120], [360], id="sent after two minutes, as asked after six",
        ),
        pytest.param(
            [(0, State.DONE, OLD, OLD), (3, State.ROLLING, NEW, NEW), (5, State.STUCK, NEW, NEW),
             (6, State.ROLLING, FIX, FIX), (8, State.DONE, FIX, FIX)],
            [120, 120], [240], id="a commit that was never ready is not counted as such",
        ),
        pytest.param(
            [(0, State.DONE, NEW, NEW), (1, State.DONE, FIX, FIX)],
            [0], [0], id="a committer's clock that is ahead",
        ),
    ],
)  # fmt: skip
def test_a_push_counts_from_its_commit(
    records: list[tuple[int, State, GitCommit | None, GitCommit]],
    applied: list[int],
    ready: list[int],
) -> None:
    found = samples_of(*records)
    for name, expected in (("applied", applied), ("ready", ready)):
        metric = f"gitkruise_push_to_{name}_seconds"
        assert found.get(f'{metric}_count{{unit="shop/web"}}', 0) == len(expected)
        assert found.get(f'{metric}_sum{{unit="shop/web"}}', 0) == sum(expected)


def test_a_commit_that_was_overtaken_counts_once() -> None:
    metrics = Metrics(ManualClock(START))
    record = UnitRecord(
        unit="shop/web", cluster="test", source="main", state=State.ROLLING, message="",
        since=START, superseded=((NEW, FIX.id),),
    )  # fmt: skip
    for news in (record, replace(record, message="on its way"), replace(record, superseded=())):
        metrics.receive(news)
    assert samples(metrics.text())['gitkruise_superseded_total{unit="shop/web"}'] == 1


class Nothing:
    """A controller that follows nothing yet."""

    reporters: Mapping[str, Reporter] = MappingProxyType({})
    outboxes: Mapping[str, Outbox] = MappingProxyType({})
    followers: Mapping[str, SourceFollower] = MappingProxyType({})
    reconciled: Mapping[str, datetime] = MappingProxyType({})
    leads = True


def test_how_things_stand(golden: Callable[[str, str], None]) -> None:
    clock = ManualClock(RECORD.since)
    unit = Unit(namespace="shop", name="web", spec=UnitSpec(source_ref=Reference(name="src")))
    reporter = Reporter(unit, "prod-eu", "main", clock, sinks=[])
    reporter.resume(RECORD, {})

    class Shop(Nothing):
        reporters = MappingProxyType({"shop/web": reporter})
        reconciled = MappingProxyType({"shop/web": START})

    metrics = Metrics(clock)
    metrics.of(Shop())
    restored = samples(metrics.text())
    assert restored['gitkruise_unit_state{state="Unknown",unit="shop/web"}'] == 1
    assert not any("rollout" in name for name in restored)
    reporter.looked = True
    golden("gitops/metrics.txt", metrics.text().decode())


def test_a_removed_unit_has_no_metrics() -> None:
    metrics, house = Metrics(ManualClock(START)), Nothing()
    record = UnitRecord(
        unit="shop/web", cluster="test", source="main", state=State.DONE, message="",
        since=START, sent=OLD, causal=OLD, superseded=((NEW, FIX.id),),
    )  # fmt: skip
    metrics.receive(record)
    metrics.receive(replace(record, sent=FIX, causal=FIX))
    assert any('unit="shop/web"' in name for name in samples(metrics.text()))
    metrics.of(house)
    assert not any('unit="shop/web"' in name for name in samples(metrics.text()))


def test_the_leader_is_the_process_that_has_the_lease() -> None:
    clock, toy = ManualClock(START), Toy()

    def process(who: str) -> tuple[WriteAuthority, Metrics]:
        name = LeaseName(namespace="ops", name="sync", identity=who)
        authority = WriteAuthority(Lease(name, toy, clock))

        class Ownership(Nothing):
            leads = property(lambda _: authority.leads)

        metrics = Metrics(clock)
        metrics.of(Ownership())
        return authority, metrics

    (a, of_a), (b, of_b) = process("a"), process("b")

    def leaders() -> list[float]:
        return [samples(one.text())["gitkruise_leader"] for one in (of_a, of_b)]

    async def main() -> list[list[float]]:
        seen = [leaders()]
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(a.run(clock))]
            await a.leading()
            running.append(tasks.create_task(b.run(clock)))
            await clock.sleep(30)
            seen.append(leaders())
            toy.faults = [Fault("update", Unavailable("down")) for _ in range(1000)]
            await clock.sleep(60)
            seen.append(leaders())
            for task in running:
                task.cancel()
        return seen

    assert clock.run(main()) == [[0, 0], [1, 0], [0, 0]]


async def got(session: aiohttp.ClientSession, url: str, **more: str) -> tuple[int, bytes]:
    async with session.get(url, headers=more) as answer:
        return answer.status, await answer.read()


def test_a_controller_reports_the_states_of_its_units(staged: MakeStage, tmp_path: Path) -> None:
    stage, done = staged(), asyncio.Queue[str]()
    begun = SystemClock().now().timestamp()

    def report(record: UnitRecord) -> None:
        if record.state is State.DONE and record.applied is not None:
            done.put_nowait(record.applied.id)

    def push(mode: str) -> str:
        return stage.origin.commit({"app.yaml": documents(config_map("settings", mode=mode))}, mode)

    async def main() -> Samples:
        options = RunOptions(
            config=configured(tmp_path, source("src", url=str(stage.origin.bare)),
                              unit("web", "src")),
            cluster="test", state_dir=tmp_path / "state",
            identity="me", listeners=(report,), metrics=Listen(port=0),
        )  # fmt: skip
        await asyncio.to_thread(push, "slow")
        async with (
            asyncio.timeout(PATIENCE_S),
            controller(options, stage.wire, SystemClock()) as running,
            aiohttp.ClientSession() as session,
        ):
            await done.get()
            second = await asyncio.to_thread(push, "fast")
            while await done.get() != second:
                continue
            status, text = await got(session, running.metrics)
            assert status == 200
            return samples(text)

    found = asyncio.run(main())
    for line in (
        'gitkruise_push_to_applied_seconds_count{unit="shop/web"}',
        'gitkruise_push_to_ready_seconds_count{unit="shop/web"}',
        'gitkruise_unit_condition{status="True",type="Ready",unit="shop/web"}',
        'gitkruise_unit_state{state="Done",unit="shop/web"}',
        "gitkruise_leader",
    ):
        assert found[line] == 1
    assert found['gitkruise_source_failing{source="shop/src"}'] == 0
    assert found['gitkruise_source_read_timestamp_seconds{source="shop/src"}'] > begun
    assert found['gitkruise_unit_reconciled_timestamp_seconds{unit="shop/web"}'] > begun
    assert found["process_resident_memory_bytes"] > 0
    written = 'gitkruise_api_requests_total{code="200",resource="configmaps",verb="patch"}'
    assert found[written] >= 1


Script = Callable[[aiohttp.ClientSession, Meter, str], Awaitable[None]]


class Cut(WorldTransport):
    """A cluster that does not answer."""

    async def send(self, request: ApiRequest) -> ApiReply:
        raise Unavailable("connection refused")


def serving(script: Script, *, public: bool, transport: Transport | None = None) -> None:
    """Run `script` beside a meter on a real socket, with the address that it serves below."""

    async def main() -> None:
        carrier = transport or WorldTransport(Cluster(empty_world(), SystemClock().now))
        async with (
            asyncio.timeout(PATIENCE_S),
            metered(Listen(port=0), carrier, SystemClock(), public=public) as meter,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
        ):
            await script(session, meter, meter.url.removesuffix("/metrics"))
            await carrier.close()

    asyncio.run(main())


def test_probes_distinguish_a_start_that_takes_long_from_an_end() -> None:
    async def script(session: aiohttp.ClientSession, meter: Meter, base: str) -> None:
        assert await got(session, f"{base}/healthz") == (200, b"ok")
        assert await got(session, f"{base}/readyz") == (503, b"not ready")
        assert samples(meter.metrics.text())["gitkruise_leader"] == 0
        meter.started(Nothing())
        assert await got(session, f"{base}/readyz") == (200, b"ok")
        assert samples(meter.metrics.text())["gitkruise_leader"] == 1

    serving(script, public=False)


def test_what_is_not_asked_by_this_machine_for_what_there_is_gets_a_status_alone() -> None:
    async def script(session: aiohttp.ClientSession, _: Meter, base: str) -> None:
        assert (await got(session, f"{base}/metrics", Host="evil.example.com"))[0] == 421
        assert await got(session, f"{base}/debug") == (404, b"")
        async with session.post(f"{base}/metrics") as answer:
            assert answer.status == 405

    serving(script, public=False)


def test_others_need_the_token_of_somebody_the_cluster_knows() -> None:
    async def script(session: aiohttp.ClientSession, meter: Meter, base: str) -> None:
        assert base.startswith("https://")
        assert await got(session, meter.url) == (401, b"")
        assert await got(session, meter.url, Authorization="Bearer wrong") == (401, b"")
        assert await got(session, meter.url, Authorization=f"Basic {token}") == (401, b"")
        status, text = await got(session, meter.url, Authorization=f"Bearer {token}")
        assert status == 200
        assert b"gitkruise_api_requests_total" in text
        assert token.encode() not in text
        assert await got(session, f"{base}/healthz") == (200, b"ok")

    with served(SandboxOptions(ephemeral=True, nodes=1, controllers=False)) as running:
        client = running.client
        token = client.token
        connection = connection_to(client.url, token=token, ca_pem=client.ca)
        serving(script, public=True, transport=HttpTransport(connection, SystemClock()))


def test_without_the_api_server_nobody_is_known() -> None:
    async def script(session: aiohttp.ClientSession, meter: Meter, _: str) -> None:
        assert await got(session, meter.url, Authorization="Bearer some") == (503, b"")

    serving(script, public=True, transport=Cut(Cluster(empty_world(), SystemClock().now)))


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("10.0.0.7", False), ("metrics.example.com", False)],
)  # fmt: skip
def test_only_this_machine_is_let_in_without_a_token(host: str, *, loopback: bool) -> None:
    assert Listen(host).loopback is loopback
