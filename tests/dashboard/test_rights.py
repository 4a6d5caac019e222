"""Rights: what each topic and row needs, how long answers count, and how few reviews they take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from gitkruise.dashboard.rights import ALL, FREE, Need
from gitkruise.dashboard.viewers import REVIEW_S, SESSION_S, ClusterGate
from tests.clock import ManualClock
from tests.dashboard.cluster import JANE, ROOT, RULES, STRANGER, Reviewing, guarded_shop

TOPICS: dict[str, tuple[str, str | None]] = {
    "the fleet has rows with needs of their own": ("fleet", ""),
    "events too": ("events", ""),
    "the name of the cluster": ("cluster", ""),
    "pods of an object": ("pods/cloneset/shop/cart", "clonesets.apps.kruise.io pods shop"),
    "pods of one without a namespace": ("pods/sidecarset/mesh", "sidecarsets.apps.kruise.io pods"),
    "an explanation": ("why/cloneset/shop/cart", "clonesets.apps.kruise.io pods events shop"),
    "the forecast of an edit": (
        "forecast/hold/cloneset/shop/cart",
        "clonesets.apps.kruise.io pods shop",
    ),
    "nodes, which carry pods of every workload": (
        "nodes",
        "clonesets.apps.kruise.io sidecarsets.apps.kruise.io pods",
    ),
    "an unknown noun": ("pods/secret/shop/key", None),
    "too many parts": ("pods/cloneset/a/b/c", None),
    "a topic without a rule": ("later", None),
    "nothing": ("", None),
}


@pytest.mark.parametrize("row", TOPICS)
def test_a_topic_needs_what_it_shows(row: str) -> None:
    topic, words = TOPICS[row]
    found = RULES.of_topic(topic)
    if words is None:
        assert found == ALL
        return
    *names, space = (words if "shop" in words else f"{words} ").split(" ") if words else ["", ""]
    wanted = {Need(n.partition(".")[2], n.partition(".")[0], space) for n in names if n}
    assert found == (wanted or FREE)


def test_a_row_needs_its_own_namespace() -> None:
    assert RULES.of_row("events", "bank/b") == {Need("", "events", "bank")}
    assert Need("", "pods", "bank") in RULES.of_row("fleet", "cloneset/bank/ledger")
    assert RULES.of_row("fleet", "strange") == ALL
    assert RULES.of_row("pods/cloneset/shop/cart", "cart-1") == FREE


Body = Callable[[ClusterGate, Reviewing, ManualClock], Coroutine[Any, Any, None]]


def play(body: Body) -> None:
    clock, cluster = ManualClock(), Reviewing()
    clock.run(body(ClusterGate(cluster, RULES, clock), cluster, clock))


async def seen(gate: ClusterGate, token: str, topic: str = "fleet") -> dict[str, Any]:
    """The rows that the owner of a token sees of the shop."""
    viewer = await gate.viewer({"Authorization": f"Bearer {token}"}, 0)
    assert viewer is not None
    rows = {k: msgspec.json.encode(r) for k, r in guarded_shop().topics[topic].items()}
    return {k: msgspec.json.decode(r) for k, r in (await viewer.see(topic, rows)).items()}


def test_everybody_sees_what_the_cluster_lets_them_list() -> None:
    async def body(gate: ClusterGate, cluster: Reviewing, _: ManualClock) -> None:
        assert len(await seen(gate, ROOT)) == 4
        mine = await seen(gate, JANE)
        assert set(mine) == {"", "cloneset/shop/cart"}
        assert [unit["unit"] for unit in mine[""]["units"]] == ["shop/web"]
        assert "later" not in mine[""]
        assert mine[""]["limited"] is True
        assert set(await seen(gate, JANE, "events")) == {"shop/a"}
        assert set(await seen(gate, STRANGER)) == {""}
        assert (await seen(gate, STRANGER))[""]["units"] == []
        cluster.rights.add(("stranger", "events", ""))
        gate.reviews._accounts.clear()
        assert set(await seen(gate, STRANGER, "events")) == {"shop/a", "bank/b"}

    play(body)


def test_who_may_list_but_not_watch_sees_nothing() -> None:
    async def body(gate: ClusterGate, cluster: Reviewing, _: ManualClock) -> None:
        cluster.verbs = {"list"}
        assert set(await seen(gate, JANE)) == {""}

    play(body)


def test_an_object_without_its_pods_is_not_shown() -> None:
    async def body(gate: ClusterGate, cluster: Reviewing, _: ManualClock) -> None:
        cluster.rights.discard(("jane", "pods", "shop"))
        assert set(await seen(gate, JANE)) == {""}
        viewer = await gate.viewer({"Authorization": f"Bearer {JANE}"}, 0)
        assert viewer is not None
        assert await viewer.denied("pods/cloneset/shop/cart") == (
            "jane may not list pods in namespace shop"
        )

    play(body)


def test_answers_count_for_a_minute() -> None:
    async def body(gate: ClusterGate, cluster: Reviewing, clock: ManualClock) -> None:
        assert "cloneset/shop/cart" in await seen(gate, JANE)
        asked = cluster.asked.total()
        cluster.rights.clear()
        await clock.sleep(REVIEW_S - 1)
        assert "cloneset/shop/cart" in await seen(gate, JANE)
        assert cluster.asked.total() == asked
        await clock.sleep(2)
        assert "cloneset/shop/cart" not in await seen(gate, JANE)

    play(body)


def test_users_of_one_name_share_their_reviews() -> None:
    async def body(gate: ClusterGate, cluster: Reviewing, _: ManualClock) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _number in range(1_000):
                tasks.create_task(seen(gate, JANE))
        assert cluster.asked["tokenreviews"] == 1
        assert cluster.asked["subjectaccessreviews"] < 30

    play(body)


def test_a_session_ends_with_its_token_its_time_or_its_viewer() -> None:
    async def body(gate: ClusterGate, cluster: Reviewing, clock: ManualClock) -> None:
        async def entered() -> dict[str, str]:
            cookie = await gate.enter(JANE, 0)
            assert cookie.endswith("; Path=/; Secure; HttpOnly; SameSite=Strict")
            assert JANE not in cookie
            return {"Cookie": cookie.partition(";")[0]}

        assert await gate.enter("wrong", 0) == ""
        assert await gate.enter("", 0) == ""
        assert await gate.enter("x" * 100_000, 0) == ""
        left, aged = await entered(), await entered()
        assert await gate.viewer({"Cookie": aged["Cookie"][:-1]}, 0) is None
        assert await gate.viewer(left, 0) is not None
        gate.leave(left)
        assert await gate.viewer(left, 0) is None
        await clock.sleep(SESSION_S + 1)
        assert await gate.viewer(aged, 0) is None
        expired = await entered()
        viewer = await gate.viewer(expired, 0)
        assert viewer is not None
        assert await viewer.valid()
        del cluster.users[JANE]
        await clock.sleep(REVIEW_S + 1)
        assert not await viewer.valid()
        assert await gate.viewer(expired, 0) is None

    play(body)


def test_a_proxy_says_who_asks_whatever_the_cookie_says() -> None:
    async def body(gate: ClusterGate, _: Reviewing, __: ManualClock) -> None:
        cookie = (await gate.enter(ROOT, 0)).partition(";")[0]
        for value in ("Bearer wrong", "Basic cm9vdDpyb290", ""):
            assert await gate.viewer({"Cookie": cookie, "Authorization": value}, 0) is None
        viewer = await gate.viewer({"Cookie": cookie, "Authorization": f"Bearer {JANE}"}, 0)
        assert viewer is not None
        assert viewer.name == "jane"
        assert JANE not in repr(viewer)

    play(body)


ORIGINS: dict[str, tuple[dict[str, str], int]] = {
    "no page": ({"Host": "dash.example.com"}, 0),
    "its own page": ({"Host": "dash.example.com", "Origin": "https://dash.example.com"}, 0),
    "behind a proxy that changes the Host": (
        {"Host": "gitkruise.svc", "Origin": "https://dash.example.com",
         "Sec-Fetch-Site": "same-origin"}, 0),
    "another site": ({"Host": "dash.example.com", "Origin": "https://evil.example.com"}, 403),
    "another site, as the browser says": (
        {"Host": "dash.example.com", "Origin": "https://evil.example.com",
         "Sec-Fetch-Site": "cross-site"}, 403),
    "the same name without TLS": (
        {"Host": "dash.example.com", "Origin": "http://dash.example.com"}, 403),
    "a sandboxed frame": ({"Host": "dash.example.com", "Origin": "null"}, 403),
}  # fmt: skip


@pytest.mark.parametrize("row", ORIGINS)
def test_only_pages_of_the_same_origin_ask(row: str) -> None:
    headers, status = ORIGINS[row]
    assert ClusterGate(Reviewing(), RULES, ManualClock()).refusal(headers, 0) == status
