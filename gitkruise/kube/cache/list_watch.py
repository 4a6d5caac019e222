"""List and watch as a state machine without I/O: what to ask next, and what an answer means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from gitkruise.errors import ApiError, WatchExpired, api_error
from gitkruise.kube.client.limits import pause_s
from gitkruise.kube.client.rawobject import RawObject, meta_of
from gitkruise.wire.primitives.names import GroupKind, Obj, join_api_version
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import OPENED, ApiRequest, ResourceRef, WatchEvent

PAGE: Final = 500
WATCH_S: Final = 300  # asked of the server; it may end a watch earlier
SILENCE_S: Final = 190.0  # three times the server's bookmark period: then the stream is dead
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
SHORT_S: Final = 1.0  # a watch that ends sooner without one event counts as a failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """One list-and-watch: a kind as served, and the part of it that is wanted."""

    ref: ResourceRef
    kind: str
    namespace: str = ""  # "" for all namespaces and for cluster-scoped kinds
    label_selector: str = ""
    field_selector: str = ""
    name_ends: str = ""  # others are seen and not kept; "" keeps all

    group_kind: GroupKind = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "group_kind", GroupKind(self.ref.group, self.kind))

    @property
    def api_version(self) -> str:
        return join_api_version(self.ref.group, self.ref.version)

    def __str__(self) -> str:
        return f"{self.group_kind} in {self.namespace}" if self.namespace else str(self.group_kind)


# What to do next --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Empty:
    """Nothing is known: list from the start, in pages unless their tokens do not last."""

    failures: int = 0
    paged: bool = True


@dataclass(frozen=True, slots=True)
class Paging:
    """A list has begun; `token` continues it."""

    token: str
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Watching:
    """Everything up to `version` is known: watch from there."""

    version: str
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Doubted:
    """The watch from `version` failed: ask first whether the cluster is still as far as that. One
    that was restored from a backup would be silent until then, and never show what it lost."""

    version: str
    failures: int


WatchState: TypeAlias = Empty | Paging | Watching | Doubted


# What came back ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page of a list: a `…List` object."""

    body: Obj


@dataclass(frozen=True, slots=True)
class Got:
    """One event of the watch."""

    event: WatchEvent


@dataclass(frozen=True, slots=True)
class Ended:
    """The watch is over without an error; it had lasted `after_s` and brought `events`."""

    after_s: float
    events: int


@dataclass(frozen=True, slots=True)
class Silent:
    """Not even a bookmark came for SILENCE_S: events may be lost, or the server went back to an
    older state, where it sends nothing until it is as far as the watch again."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The list or the watch failed."""

    error: ApiError


WatchReply: TypeAlias = ListPage | Got | Ended | Silent | Failed


# Notices to the store ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Init:
    """A complete list begins; until InitDone the old content stays readable."""


@dataclass(frozen=True, slots=True)
class InitApply:
    obj: Obj


@dataclass(frozen=True, slots=True)
class InitDone:
    """The list is complete as of `version`: what it did not name and is not newer is gone."""

    version: str


@dataclass(frozen=True, slots=True)
class ObjectSeen:
    obj: Obj


@dataclass(frozen=True, slots=True)
class ObjectGone:
    """Gone; `obj` is its last state and carries the version of the deletion."""

    obj: Obj


StoreEvent: TypeAlias = Init | InitApply | InitDone | ObjectSeen | ObjectGone


def wanted(state: WatchState, feed: Feed) -> ApiRequest:
    """The request that brings `state` forward: a list (page) or a watch.

    Lists ask for the present (no resourceVersion), never for a cached past.
    """
    params: dict[str, str] = {}
    if feed.label_selector:
        params["labelSelector"] = feed.label_selector
    if feed.field_selector:
        params["fieldSelector"] = feed.field_selector
    match state:
        case Empty(paged=paged):
            params |= {"limit": str(PAGE)} if paged else {}
        case Paging(token=token):
            params |= {"limit": str(PAGE), "continue": token}
        case Doubted():
            params |= {"limit": "1"}
        case Watching(version=version):
            params |= {
                "resourceVersion": version,
                "allowWatchBookmarks": "true",
                "timeoutSeconds": str(WATCH_S),
            }
    verb = "watch" if isinstance(state, Watching) else "list"
    return ApiRequest(verb=verb, resource=feed.ref, namespace=feed.namespace, params=params)


def pause(state: WatchState, feed: Feed) -> float:
    """Seconds to wait before `wanted`: 0, or a growing, jittered pause after failures."""
    if isinstance(state, Watching):  # Doubted has waited
        return 0.0
    return pause_s(state.failures, first_s=_FIRST_PAUSE_S, cap_s=_LONGEST_PAUSE_S, seed=str(feed))


def step(state: WatchState, reply: WatchReply, feed: Feed) -> tuple[WatchState, list[StoreEvent]]:
    """Return the state after `reply` to `wanted(state)`, and the notices for the store."""
    match reply, state:
        case Failed(error=error), _:
            return _failed(state, error), []
        case ListPage(body=body), Empty() | Paging():
            return _listed(state, body, feed)
        case ListPage(body=body), Doubted(version=version, failures=failures):
            now = number_of(version_of(body))
            restored = 0 <= now < number_of(version)
            return Empty() if restored else Watching(version, failures), []
        case Got(event=event), Watching():
            return _changed(state, event, feed)
        case Ended(after_s=after_s, events=events), Watching(version=version, failures=failures):
            dull = after_s < SHORT_S and not events
            return Doubted(version, failures + 1) if dull else Watching(version), []
        case Silent(), Watching():
            return Empty(), []
        case _:
            raise AssertionError(f"{type(reply).__name__} answers nothing {state} asked for")


def error_in(reply: WatchReply) -> ApiError | None:
    """Return the error of a failed request, or of an event of a watch; None without one."""
    match reply:
        case Failed(error=error):
            return error
        case Got(event=event) if event.type == "ERROR":
            return api_error(event.object, int(event.object.get("code") or 500))
        case _:
            return None


def version_of(obj: Obj) -> str:
    if isinstance(obj, RawObject):
        return meta_of(obj).resource_version
    return str(get(obj, "metadata", "resourceVersion", default=""))


def number_of(version: str) -> int:
    """Order of a resourceVersion; -1 for none. Kubernetes guarantees decimal numbers since 1.35,
    and etcd revisions always were."""
    return int(version) if version.isdecimal() else -1


def _failed(state: WatchState, error: ApiError) -> WatchState:
    if isinstance(error, WatchExpired) and not isinstance(state, Empty):
        # Listed again immediately; a second failure waits. A list that is slower than its token
        # lives would expire for ever.
        return Empty(state.failures, paged=not isinstance(state, Paging))
    match state:
        case Watching(version, failures) | Doubted(version, failures):
            return Doubted(version, failures + 1)
        case Paging(token=token, failures=failures):
            return Paging(token, failures + 1)
        case Empty(failures=failures, paged=paged):
            return Empty(failures + 1, paged)


def _listed(state: Empty | Paging, body: Obj, feed: Feed) -> tuple[WatchState, list[StoreEvent]]:
    items: Sequence[Obj] = body.get("items") or ()
    events: list[StoreEvent] = [Init()] if isinstance(state, Empty) else []
    events += [InitApply(_typed(item, feed)) for item in items]
    token = get(body, "metadata", "continue", default="")
    if token:
        return Paging(token), events
    version = version_of(body)
    return Watching(version), [*events, InitDone(version)]


def _changed(state: Watching, event: WatchEvent, feed: Feed) -> tuple[WatchState, list[StoreEvent]]:
    if error := error_in(Got(event)):
        return _failed(state, error), []
    if event.type == OPENED:
        return state, []
    after = Watching(version_of(event.object) or state.version)
    if event.type == "BOOKMARK":
        return after, []
    obj = _typed(event.object, feed)
    return after, [ObjectGone(obj) if event.type == "DELETED" else ObjectSeen(obj)]


def _typed(obj: Obj, feed: Feed) -> Obj:
    """Items of typed lists come without apiVersion and kind; give them back."""
    if not isinstance(obj, dict) or "kind" in obj:
        return obj
    named: Mapping[str, Any] = {"apiVersion": feed.api_version, "kind": feed.kind}
    return {**named, **obj}
