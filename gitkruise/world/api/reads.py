"""get and list: selectors, pages of one snapshot, and the meaning of resourceVersion."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.errors import (
    BadRequest,
    Cause,
    GatewayTimeout,
    StatusDetails,
    Unreasoned,
    WatchExpired,
)
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.integers import parse_int
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, key_of
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest
from gitkruise.wire.values.selectors import (
    FieldSelector,
    Selector,
    parse_field_selector,
    parse_label_selector,
)
from gitkruise.world.store.api_errors import bad_options
from gitkruise.world.store.request_context import RequestContext
from gitkruise.world.store.store import ObjectStore

_MATCHES: Final = ("Exact", "NotOlderThan", "")
TOO_OLD_TO_CONTINUE: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start"
    " a new list without the continue parameter."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Scope and selectors of a list or watch."""

    group_kind: GroupKind
    namespace: str
    labels: Selector
    fields: FieldSelector

    @property
    def selects(self) -> bool:
        return bool(self.labels) or bool(self.fields.terms)

    def matches(self, obj: Obj) -> bool:
        """Return whether the query selects an object of the kind."""
        meta = obj["metadata"]
        if self.namespace and meta.get("namespace") != self.namespace:
            return False
        if self.labels and not self.labels.matches(meta.get("labels")):
            return False
        return not self.fields.terms or self.fields.matches(obj)


def read_query(kind: Kind, request: ApiRequest) -> Query:
    """Raises BadRequest for selectors that do not parse or do not fit the kind."""
    params = request.params
    fields = parse_field_selector(params.get("fieldSelector", "")).stored(kind.group_kind)
    if request.name:
        by_name = parse_field_selector(f"metadata.name={request.name}")
        fields = FieldSelector((*fields.terms, *by_name.terms))
    return Query(
        group_kind=kind.home,
        namespace=request.namespace if kind.namespaced else "",
        labels=parse_label_selector(params.get("labelSelector", "")),
        fields=fields,
    )


def get_object(call: RequestContext) -> ApiReply:
    """GET of one object. Raises Unreasoned for a version that is none."""
    if why := unreadable_version(call.request.params.get("resourceVersion") or "0", 64):
        raise Unreasoned(why)
    asked_version(call.state, call.request.params)
    return ApiReply(status=200, body=call.shown(call.stored()))


def list_objects(call: RequestContext) -> ApiReply:
    """GET of a list: one page (`limit`, `continue`) of one snapshot.

    Raises BadRequest for bad parameters, WatchExpired (410) for a page of a forgotten snapshot,
    GatewayTimeout for a version that does not exist yet.
    """
    page, version, more, left = read_page(call)
    return ApiReply(status=200, body=list_reply(call, page, version, more=more, left=left))


def read_page(call: RequestContext) -> tuple[list[Obj], int, str, int | None]:
    """Return (objects, version, continue token, number of remaining objects if reported)."""
    query = read_query(call.kind, call.request)
    params = call.request.params
    limit = _limit(params)
    token = params.get("continue", "")
    if token and params.get("resourceVersion", "0") != "0":
        raise BadRequest("specifying resource version is not allowed when using continue")
    _check_match(params)
    if params.get("sendInitialEvents"):
        why = "Forbidden: sendInitialEvents is forbidden for list"
        raise bad_options("ListOptions", "sendInitialEvents", "FieldValueForbidden", why)
    if token:
        version, after = _read_token(call, query, token)
    else:
        version, after = _snapshot_version(call.state, params), ""
    found = _found_at(call.state, query, version)
    if after:
        found = [obj for obj in found if _position(obj) > after]
    page = found[:limit] if limit else found
    rest = len(found) - len(page)
    more = _token(call, query, version, _position(page[-1])) if rest else ""
    left = rest if rest and not query.selects else None
    return page, version, more, left


def select(state: ObjectStore, query: Query) -> list[Obj]:
    """The objects a query asks for now, in the order of lists."""
    name = query.fields.required("metadata.name")
    if name is not None and query.namespace:
        key = ObjectKey(query.group_kind.group, query.group_kind.kind, query.namespace, name)
        one = state.get(key)
        return [one] if one is not None and query.matches(one) else []
    objects = state.objects(query.group_kind, query.namespace)
    return [obj for obj in objects if query.matches(obj)] if query.selects else objects


def _found_at(state: ObjectStore, query: Query, version: int) -> list[Obj]:
    """The objects as they were at `version`, by undoing what came later."""
    if version == state.version:
        return select(state, query)
    try:
        later = state.journal.since(version)
    except WatchExpired:
        raise WatchExpired(TOO_OLD_TO_CONTINUE) from None
    objects = {key_of(obj): obj for obj in state.objects(query.group_kind, query.namespace)}
    for record in reversed(later):
        if record.key.group_kind != query.group_kind:
            continue
        if record.before is None:
            objects.pop(record.key, None)
        else:
            objects[record.key] = record.before
    found = [obj for obj in objects.values() if query.matches(obj)]
    return sorted(found, key=_position)


def list_reply(
    call: RequestContext,
    items: Sequence[Obj],
    version: int,
    *,
    more: str = "",
    left: int | None = None,
) -> dict[str, Any]:
    """The list document; items of built-in kinds go without apiVersion and kind, as on the wire."""
    kind = call.kind
    meta: dict[str, Any] = {"resourceVersion": str(version)}
    if more or kind.crd:
        meta["continue"] = more
    if left is not None:
        meta["remainingItemCount"] = left
    shown: Callable[[Obj], Obj] = call.shown if kind.crd else _bare
    if kind.moves and not kind.crd:
        items = [call.shown(obj) for obj in items]
    return {
        "kind": kind.list_kind,
        "apiVersion": kind.api_version,
        "metadata": meta,
        "items": [shown(obj) for obj in items],
    }


def _bare(obj: Obj) -> Obj:
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}


def _position(obj: Obj) -> str:
    """Return the list position of an object: its storage path below the kind."""
    meta = obj["metadata"]
    namespace = meta.get("namespace")
    return f"{namespace}/{meta['name']}" if namespace else str(meta["name"])


def _limit(params: Mapping[str, str]) -> int:
    text = params.get("limit") or "0"
    try:
        return max(parse_int(text), 0)
    except ValueError:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def match_of(params: Mapping[str, str]) -> str:
    """The resourceVersionMatch of a list or watch. Raises InvalidObject for one that is unknown."""
    match = params.get("resourceVersionMatch", "")
    if match not in _MATCHES:
        words = ", ".join(f'"{word}"' for word in _MATCHES)
        text = f'Unsupported value: "{match}": supported values: {words}'
        raise bad_options("ListOptions", "resourceVersionMatch", "FieldValueNotSupported", text)
    return match


def _check_match(params: Mapping[str, str]) -> None:
    match = match_of(params)
    version = params.get("resourceVersion", "")
    why = ""
    if match and not version:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif match and params.get("continue"):
        why = "resourceVersionMatch is forbidden with continue"
    elif match == "Exact" and version == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    if why:
        text = f"Forbidden: {why}"
        raise bad_options("ListOptions", "resourceVersionMatch", "FieldValueForbidden", text)


def unreadable_version(text: str, bits: int) -> str:
    """Return the server's sentence about a version that is no number of so many bits, or ""."""
    if text.isascii() and text.isdecimal() and int(text) < 1 << bits:
        return ""
    return (
        f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}":'
        " invalid syntax"
    )


def asked_version(state: ObjectStore, params: Mapping[str, str]) -> int:
    """`resourceVersion` of a read, 0 without one. Raises BadRequest, GatewayTimeout (future)."""
    text = params.get("resourceVersion") or "0"
    if why := unreadable_version(text, 64):
        raise BadRequest(f"invalid resource version: {why}")
    version = int(text)
    if version > state.version:
        raise GatewayTimeout(
            f"Timeout: Too large resource version: {version}, current: {state.version}",
            StatusDetails(
                causes=(Cause("", "ResourceVersionTooLarge", "Too large resource version"),),
                retry_after_s=1,
            ),
        )
    return version


def _snapshot_version(state: ObjectStore, params: Mapping[str, str]) -> int:
    """Return the version that a list shows: the newest, unless the match is Exact."""
    version = asked_version(state, params)
    exact = params.get("resourceVersionMatch") == "Exact"
    return version if exact else state.version


def _token(call: RequestContext, query: Query, version: int, after: str) -> str:
    content = {"v": "meta.k8s.io/v1", "rv": version, "start": after}
    content["sum"] = _signature(call.state, query, version, after)
    text = json.dumps(content, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _read_token(call: RequestContext, query: Query, token: str) -> tuple[int, str]:
    """(version, position) of a continue token made for the same query."""
    try:
        raw = base64.urlsafe_b64decode(token.encode() + b"=" * (-len(token) % 4))
        content = json.loads(raw)
        version, after, mark = int(content["rv"]), str(content["start"]), content["sum"]
    except (binascii.Error, ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"invalid continue token: continue key is not valid: {error}") from None
    if mark != _signature(call.state, query, version, after) or version > call.state.version:
        raise BadRequest(
            "invalid continue token: continue key is not valid: it belongs to another list"
        )
    return version, after


def _signature(state: ObjectStore, query: Query, version: int, after: str) -> str:
    parts = (
        state.seed,
        *query.group_kind,
        query.namespace,
        query.labels,
        query.fields,
        version,
        after,
    )
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]
