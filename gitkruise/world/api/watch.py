"""Watches over the journal: start versions, the event of each change, and bookmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gitkruise.errors import Unreasoned
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiRequest, WatchEvent
from gitkruise.world.api.reads import (
    Query,
    asked_version,
    match_of,
    read_query,
    select,
    unreadable_version,
)
from gitkruise.world.store.api_errors import bad_options, no_such_method, no_such_resource
from gitkruise.world.store.request_context import flag, shown_as
from gitkruise.world.store.store import CommittedChange, ObjectStore

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


def watch(
    state: ObjectStore, request: ApiRequest, since: int, *, until: int | None = None
) -> tuple[list[WatchEvent], int]:
    """See World.watch."""
    kind = state.catalog.by_ref(request.resource)
    if kind is None:
        raise no_such_resource()
    if "watch" not in kind.verbs:
        raise no_such_method()
    if since == 0:
        initial, since = _start(state, kind, read_query(kind, request), request.params)
        if initial:
            return initial, since
    end = state.version if until is None else min(until, state.version)
    if since >= end:
        return [], since
    records = state.journal.since(since)[: end - since]
    ours = [record for record in records if record.key.group_kind == kind.home]
    if not ours:
        return [], end
    query, shown = read_query(kind, request), _shower(kind)
    seen = (_seen(record, query, shown) for record in ours)
    return [event for event in seen if event is not None], end


def _start(
    state: ObjectStore, kind: Kind, query: Query, params: Mapping[str, str]
) -> tuple[list[WatchEvent], int]:
    """The initial events, and the version the watch goes on from."""
    text = params.get("resourceVersion") or ""
    initial = _initial_wanted(params)
    if initial is None and text not in ("", "0"):
        return [], _past_or_future(state, text)
    if text:
        asked_version(state, params)
    if initial is False:
        return [], state.version if text in ("", "0") else int(text)
    shown = _shower(kind)
    events = [WatchEvent(type="ADDED", object=shown(obj)) for obj in select(state, query)]
    if initial and flag(params, "allowWatchBookmarks"):
        events.append(bookmark(kind, state.version, initial_end=True))
    return events, state.version


def _past_or_future(state: ObjectStore, text: str) -> int:
    """A watch from a version to come waits for it; from one long gone it expires on reading."""
    if why := unreadable_version(text, 63):
        raise Unreasoned(why)
    del state
    return int(text)


def _initial_wanted(params: Mapping[str, str]) -> bool | None:
    """sendInitialEvents, None when not given. Raises InvalidObject for a wrong combination."""
    given = params.get("sendInitialEvents")
    match = match_of(params)
    why = ""
    if given is None and match:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    elif given is not None and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    if why:
        text = f"Forbidden: {why}"
        raise bad_options("ListOptions", "resourceVersionMatch", "FieldValueForbidden", text)
    return None if given is None else flag(params, "sendInitialEvents")


def _seen(record: CommittedChange, query: Query, shown: Callable[[Obj], Obj]) -> WatchEvent | None:
    """The event a change is to a watcher: entering its selection is ADDED, leaving it DELETED."""
    before, after = record.before, record.after
    was = before is not None and query.matches(before)
    is_now = after is not None and query.matches(after)
    if is_now:
        assert after is not None
        return WatchEvent(type="MODIFIED" if was else "ADDED", object=shown(after))
    if not was:
        return None
    assert before is not None
    meta = {**before["metadata"], "resourceVersion": str(record.version)}
    return WatchEvent(type="DELETED", object=shown({**before, "metadata": meta}))


def bookmark(kind: Kind, version: int, *, initial_end: bool = False) -> WatchEvent:
    """A BOOKMARK: every event up to `version` has been sent."""
    meta: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
    if initial_end:
        meta["annotations"] = {INITIAL_EVENTS_END: "true"}
    return WatchEvent(
        type="BOOKMARK",
        object={"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta},
    )


def _shower(kind: Kind) -> Callable[[Obj], Obj]:
    def converted(obj: Obj) -> Obj:
        return shown_as(kind, obj)

    def same(obj: Obj) -> Obj:
        return obj

    return converted if kind.moves else same
