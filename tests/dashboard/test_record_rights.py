"""Records of commits and drift for a viewer of one namespace, down to the bytes of every frame."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from gitkruise.dashboard.board import Board
from gitkruise.dashboard.gate import RightsUnknown
from gitkruise.dashboard.record_rights import REASON
from gitkruise.dashboard.stream import Streams
from gitkruise.dashboard.viewers import REVIEW_S, ClusterGate
from gitkruise.wire.primitives.names import ObjectKey
from tests.clock import ManualClock
from tests.dashboard.cluster import JANE, ROOT, RULES, STRANGER, Reviewing
from tests.dashboard.record_scenes import (
    OLDER,
    WRITTEN,
    drift_item,
    intervention,
    lane,
    record,
)
from tests.dashboard.scenes import COMMIT
from tests.dashboard.table import Table

BANKS = "c0ffee1" + "0" * 33
RECORD = f"commit/{COMMIT}"
TOPICS = ("commits", RECORD, f"commit/{BANKS}", "drift", "proposed")
# What only those who may read the namespace bank, or another cluster, may learn.
FOREIGN = (b"bank", b"ledger", b"Bo L", b"prod", b"vault")


def commit_row(id_: str, subject: str, **lanes: Any) -> dict[str, Any]:
    return {
        "id": id_, "subject": subject, "author": "Bo L" if "ledger" in subject else "Dana K",
        "time": "2026-11-25T10:00:00Z", "started": "2026-11-25T10:00:05Z", "lanes": lanes,
    }  # fmt: skip


def records() -> Table:
    """A repository of two namespaces and two clusters, of which Jane may read one and one."""
    table = Table()
    mine, banks, prod = "sandbox shop/shop", "sandbox bank/bank", "prod shop/shop"
    at = lane(objects=0, named=["attempted", "applied"])
    table.topics["commits"] = {
        "": {"lanes": [prod, banks, mine], "commits": 3, "written": {**WRITTEN, "prod": ""},
             "stale": []},
        COMMIT: commit_row(COMMIT, "cart v2", **{mine: lane(), prod: lane()}),
        BANKS: commit_row(BANKS, "ledger v7", **{mine: at, banks: lane()}),
        OLDER: commit_row(OLDER, "ledger v6", **{banks: lane()}),
    }  # fmt: skip
    other = {"namespace": "bank", "name": "ledger"}
    shops, step = record(), record()["step/sandbox shop/shop/cart/0"]
    unit = shops["unit/sandbox shop/shop"]
    head = {**shops[""], "written": {**WRITTEN, "prod": ""}}
    bank = {
        "unit/sandbox bank/bank": {**unit, "unit": "bank/bank"},
        "step/sandbox bank/bank/ledger/0": {**step, **other},
        "intervention/sandbox bank/bank/0": {**intervention("of ledger"), **other},
    }
    vault = {"group": "", "kind": "Secret", "name": "vault"}
    table.topics[RECORD] = {
        **shops, **bank, "": head,
        "step/prod shop/shop/cart/0": {**step, "cluster": "prod"},
        "intervention/sandbox shop/shop/1": {**intervention("of vault"), **vault},
    }  # fmt: skip
    table.topics[f"commit/{BANKS}"] = {
        **bank, "": {**head, "id": BANKS, "subject": "ledger v7", "author": "Bo L"},
        "unit/sandbox shop/shop": {**unit, "named": ["applied"]},
    }  # fmt: skip
    pull = {"owner": "shop/forge", "into": "main"}
    table.topics["proposed"] = {
        "pr/shop/forge/1": {**pull, "number": 1, "title": "cart", "units": ["shop/shop"]},
        "pr/shop/forge/2": {**pull, "title": "ledger", "units": ["bank/bank", "shop/shop"]},
        "branch/": {"owner": "", "into": "", "units": []},
    }
    item = drift_item()
    object_ = item["object"]
    table.topics["drift"] = {
        "": {"written": {**WRITTEN, "prod": ""}, "stale": []},
        "drift/sandbox/shop/shop/cart/spec.replicas": item,
        "drift/sandbox/shop/shop/vault/data": {**item, "object": {**object_, **vault}},
        "drift/sandbox/bank/bank/ledger/spec.replicas": {**item, "object": {**object_, **other}},
        "drift/sandbox/bank/bank/ledger/spec.paused": {**item, "object": {**object_, **other}},
        "drift/prod/shop/shop/cart/spec.replicas": {**item, "cluster": "prod"},
        "intervention/sandbox/0": intervention(),
        "intervention/sandbox/1": {**intervention(), **other},
    }
    return table


Body = Callable[[ClusterGate, Reviewing, ManualClock], Coroutine[Any, Any, None]]


def play(body: Body) -> None:
    clock, cluster = ManualClock(), Reviewing()
    clock.run(body(ClusterGate(cluster, RULES, clock), cluster, clock))


async def seen(gate: ClusterGate, token: str, topic: str) -> dict[str, Any]:
    viewer = await gate.viewer({"Authorization": f"Bearer {token}"}, 0)
    assert viewer is not None
    assert await viewer.denied(topic) == ""
    rows = {k: msgspec.json.encode(r) for k, r in records().topics[topic].items()}
    return {k: msgspec.json.decode(r) for k, r in (await viewer.see(topic, rows)).items()}


def test_a_viewer_sees_the_lanes_of_their_units() -> None:
    async def body(gate: ClusterGate, _: Reviewing, __: ManualClock) -> None:
        rows = await seen(gate, JANE, "commits")
        head = rows.pop("")
        assert head["lanes"] == ["sandbox shop/shop"]
        assert (head["commits"], head["written"]) == (2, WRITTEN)
        assert head["hidden"] == f"1 commit and 2 units are not shown: {REASON}"
        assert list(rows) == [COMMIT, BANKS]
        assert (rows[COMMIT]["subject"], rows[COMMIT]["author"]) == ("cart v2", "Dana K")

    play(body)


def test_a_pull_request_is_listed_for_those_who_may_list_all_its_units() -> None:
    async def body(gate: ClusterGate, _: Reviewing, __: ManualClock) -> None:
        assert set(await seen(gate, JANE, "proposed")) == {"pr/shop/forge/1", "branch/"}
        assert set(await seen(gate, STRANGER, "proposed")) == {"branch/"}
        assert len(await seen(gate, ROOT, "proposed")) == 3

    play(body)


def test_a_commit_of_others_that_a_unit_is_at_has_no_subject() -> None:
    async def body(gate: ClusterGate, _: Reviewing, __: ManualClock) -> None:
        row = (await seen(gate, JANE, "commits"))[BANKS]
        assert (row["id"], row["subject"], row["author"]) == (BANKS, "", "")
        assert row["lanes"]["sandbox shop/shop"]["named"] == ["attempted", "applied"]
        rows = await seen(gate, JANE, f"commit/{BANKS}")
        assert set(rows) == {"", "unit/sandbox shop/shop"}
        assert "subject" not in rows[""]
        assert rows[""]["hidden"] == f"1 object and 1 unit are not shown: {REASON}"

    play(body)


def test_the_record_of_a_commit_has_the_objects_that_a_viewer_may_list() -> None:
    async def body(gate: ClusterGate, cluster: Reviewing, clock: ManualClock) -> None:
        rows = await seen(gate, JANE, RECORD)
        assert set(rows) == {
            "", "unit/sandbox shop/shop", "step/sandbox shop/shop/cart/0",
            "intervention/sandbox shop/shop/0",
        }  # fmt: skip
        assert rows[""]["subject"] == "cart v2"
        # The CloneSet in bank, that of the other cluster, and a Secret, which Jane may list.
        assert rows[""]["hidden"] == f"3 objects and 1 unit are not shown: {REASON}"
        cluster.rights.discard(("jane", "units.gitkruise.io", "shop"))
        await clock.sleep(REVIEW_S + 1)
        assert "unit/sandbox shop/shop" not in await seen(gate, JANE, RECORD)

    play(body)


def test_recorded_drift_is_shown_object_by_object() -> None:
    async def body(gate: ClusterGate, _: Reviewing, __: ManualClock) -> None:
        rows = await seen(gate, JANE, "drift")
        assert set(rows) == {
            "", "drift/sandbox/shop/shop/cart/spec.replicas", "intervention/sandbox/0",
        }  # fmt: skip
        assert rows[""]["hidden"] == f"3 objects are not shown: {REASON}"
        assert rows[""]["written"] == WRITTEN

    play(body)


def test_who_may_list_nothing_learns_numbers_only_and_root_sees_all() -> None:
    async def body(gate: ClusterGate, _: Reviewing, __: ManualClock) -> None:
        for topic in TOPICS:
            free = {"branch/"} if topic == "proposed" else {""}  # of a clone: it names nothing
            assert set(await seen(gate, STRANGER, topic)) == free
            assert await seen(gate, ROOT, topic) == records().topics[topic]

    play(body)


def test_no_byte_of_a_stream_names_what_its_viewer_may_not_see() -> None:
    """Not in the first frame, nor in those of rows that change or go."""
    clock, cluster, table = ManualClock(), Reviewing(), records()
    gate = ClusterGate(cluster, RULES, clock)
    board = Board(table, clock)
    streams, got = Streams(board, clock), bytearray()

    async def watch() -> None:
        viewer = await gate.viewer({"Authorization": f"Bearer {JANE}"}, 0)
        async for event in streams.events(frozenset(TOPICS), viewer):
            got.extend(event)

    async def body() -> None:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(board.run()), tasks.create_task(watch())]
            await clock.sleep(2)
            first = len(got)
            for topic in TOPICS:
                gone = [key for key in table.topics[topic] if "bank" in key or key == OLDER]
                table.topics[topic] = {
                    k: {**r, "more": 1} for k, r in table.topics[topic].items() if k not in gone
                }
            table.changed.set()
            await clock.sleep(2)
            assert len(got) > first
            for task in running:
                task.cancel()

    clock.run(body())
    assert got.count(b"event: rows") >= 2 * len(TOPICS) - 1
    assert b"cart v2" in got
    assert [word for word in FOREIGN if word in got] == []


def test_objects_of_a_question_are_shown_like_those_of_a_record() -> None:
    cart = ObjectKey("apps.kruise.io", "CloneSet", "shop", "cart")
    flags = ObjectKey("", "ConfigMap", "shop", "flags")
    hidden = {
        ObjectKey("", "Secret", "shop", "vault"),
        ObjectKey("apps.kruise.io", "CloneSet", "bank", "ledger"),
        ObjectKey("example.com", "Unknown", "shop", "x"),
    }

    async def body(gate: ClusterGate, cluster: Reviewing, clock: ManualClock) -> None:
        async def shown(token: str) -> frozenset[ObjectKey]:
            viewer = await gate.viewer({"Authorization": f"Bearer {token}"}, 0)
            assert viewer is not None
            assert await viewer.everything() == (token == ROOT)
            return await viewer.shown({cart, flags, *hidden})

        assert await shown(JANE) == {cart, flags}
        assert await shown(STRANGER) == frozenset()
        assert await shown(ROOT) == {cart, flags, *hidden}
        cluster.rights.discard(("jane", "pods", "shop"))
        await clock.sleep(REVIEW_S + 1)
        assert await shown(JANE) == {flags}
        viewer = await gate.viewer({"Authorization": f"Bearer {JANE}"}, 0)
        assert viewer is not None
        await clock.sleep(REVIEW_S + 1)
        cluster.away = True
        with pytest.raises(RightsUnknown):
            await viewer.shown({cart})

    play(body)
