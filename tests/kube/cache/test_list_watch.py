"""The list-and-watch machine: every answer in every state."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.errors import ApiError, Forbidden, Unavailable, WatchExpired
from gitkruise.kube.cache.list_watch import (
    Doubted,
    Empty,
    Ended,
    Failed,
    Feed,
    Got,
    Init,
    InitApply,
    InitDone,
    ListPage,
    ObjectGone,
    ObjectSeen,
    Paging,
    Silent,
    StoreEvent,
    Watching,
    WatchReply,
    WatchState,
    number_of,
    pause,
    step,
    wanted,
)
from gitkruise.wire.primitives.requests import WatchEvent
from tests.kube.toy import PODS

FEED = Feed(ref=PODS, kind="Pod", namespace="shop")
DOWN: ApiError = Unavailable("down")
EXPIRED: ApiError = WatchExpired("too old")


def pod(name: str, version: int) -> dict[str, Any]:
    meta = {"name": name, "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}


def page(*items: Any, version: str = "", token: str = "") -> ListPage:
    return ListPage({"metadata": {"resourceVersion": version, "continue": token}, "items": items})


def got(type_: str, obj: Any) -> Got:
    return Got(WatchEvent(type=type_, object=obj))


A, B = pod("a", 5), pod("b", 6)
GONE = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
BUSY = {"kind": "Status", "code": 500, "reason": "InternalError", "message": "busy"}

ROWS: list[tuple[str, WatchState, WatchReply, WatchState, list[StoreEvent]]] = [
    (
        "one page",
        Empty(),
        page(A, version="9"),
        Watching("9"),
        [Init(), InitApply(A), InitDone("9")],
    ),
    ("empty list", Empty(3), page(version="9"), Watching("9"), [Init(), InitDone("9")]),
    ("first page", Empty(), page(A, token="t"), Paging("t"), [Init(), InitApply(A)]),
    (
        "last page",
        Paging("t"),
        page(B, version="9"),
        Watching("9"),
        [InitApply(B), InitDone("9")],
    ),
    ("list fails", Empty(1), Failed(DOWN), Empty(2), []),
    ("page fails", Paging("t"), Failed(DOWN), Paging("t", 1), []),
    ("page expires", Paging("t", 1), Failed(EXPIRED), Empty(1, paged=False), []),
    ("whole list fails", Empty(paged=False), Failed(DOWN), Empty(1, paged=False), []),
    ("list forbidden", Empty(), Failed(Forbidden("no")), Empty(1), []),
    ("added", Watching("4"), got("ADDED", A), Watching("5"), [ObjectSeen(A)]),
    (
        "modified after failures",
        Watching("4", 2),
        got("MODIFIED", A),
        Watching("5"),
        [ObjectSeen(A)],
    ),
    ("deleted", Watching("5"), got("DELETED", B), Watching("6"), [ObjectGone(B)]),
    ("bookmark", Watching("5"), got("BOOKMARK", pod("", 8)), Watching("8"), []),
    ("expired status", Watching("5"), Failed(EXPIRED), Empty(), []),
    ("expired event", Watching("5", 1), got("ERROR", GONE), Empty(1), []),
    ("error event", Watching("5"), got("ERROR", BUSY), Doubted("5", 1), []),
    ("watch fails", Watching("5", 1), Failed(DOWN), Doubted("5", 2), []),
    ("still there", Doubted("5", 2), page(A, version="5"), Watching("5", 2), []),
    ("went on", Doubted("5", 2), page(A, version="9"), Watching("5", 2), []),
    ("restored", Doubted("5", 2), page(A, version="4"), Empty(), []),
    ("no version", Doubted("5", 2), page(A), Watching("5", 2), []),
    ("still away", Doubted("5", 2), Failed(DOWN), Doubted("5", 3), []),
    ("expired while away", Doubted("5", 2), Failed(EXPIRED), Empty(2), []),
    ("ends in time", Watching("5", 1), Ended(300, 0), Watching("5"), []),
    ("ends early with news", Watching("5", 1), Ended(0.1, 2), Watching("5"), []),
    ("opened", Watching("5", 1), got("OPENED", {}), Watching("5", 1), []),
    ("silent", Watching("5", 1), Silent(), Empty(), []),
    ("ends early and dull", Watching("5", 1), Ended(0.1, 0), Doubted("5", 2), []),
]


@pytest.mark.parametrize(
    ("state", "reply", "after", "events"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_step(
    state: WatchState, reply: WatchReply, after: WatchState, events: list[StoreEvent]
) -> None:
    assert step(state, reply, FEED) == (after, events)


def test_items_of_typed_lists_get_their_kind_back() -> None:
    bare = {"metadata": {"name": "a", "resourceVersion": "5"}}
    _, events = step(Empty(), page(bare, version="9"), FEED)
    assert events[1] == InitApply({"apiVersion": "v1", "kind": "Pod", **bare})


@pytest.mark.parametrize(
    ("state", "reply"), [(Watching("1"), page()), (Empty(), got("ADDED", A))], ids=["page", "event"]
)
def test_answers_that_nobody_asked_for_are_bugs(state: WatchState, reply: WatchReply) -> None:
    with pytest.raises(AssertionError):
        step(state, reply, FEED)


def test_what_is_asked() -> None:
    feed = Feed(ref=PODS, kind="Pod", label_selector="app=web", field_selector="spec.nodeName=n1")
    assert wanted(Empty(), feed).params == {
        "labelSelector": "app=web",
        "fieldSelector": "spec.nodeName=n1",
        "limit": "500",
    }
    assert wanted(Paging("t"), FEED).params == {"limit": "500", "continue": "t"}
    assert wanted(Empty(paged=False), FEED).params == {}
    assert wanted(Doubted("7", 1), FEED).params == {"limit": "1"}
    watch = wanted(Watching("7"), FEED)
    assert (watch.verb, watch.path) == ("watch", "/api/v1/namespaces/shop/pods")
    assert watch.params["resourceVersion"] == "7"
    assert watch.params["allowWatchBookmarks"] == "true"


def test_pauses_follow_failures() -> None:
    assert pause(Watching("1", 9), FEED) == 0, "it was waited for when it failed"
    assert 0.25 <= pause(Doubted("1", 1), FEED) <= 0.5
    assert 0.25 <= pause(Empty(1), FEED) <= 0.5
    assert 15 <= pause(Paging("t", 50), FEED) <= 30


def test_versions_are_numbers() -> None:
    assert [number_of(v) for v in ("", "x", "0", "9007199254740993")] == [-1, -1, 0, 2**53 + 1]
