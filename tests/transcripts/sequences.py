"""Random conversations with an API server: what clients do to few objects, and what they watch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hypothesis import strategies as st

from tests.transcripts.bodies import (
    CONTAINERS,
    HOLDS,
    KINDS,
    LABELS,
    NAMES,
    SURPLUS,
    Talked,
    metas,
)
from tests.transcripts.script import TYPES, Step

MANAGERS: Final = st.sampled_from(["one", "two"])
FORCES: Final = st.sampled_from(["", "force=true"])
SELECTIONS: Final = (
    "",
    "labelSelector=tier",
    "labelSelector=tier%3Dv",
    "labelSelector=tier%20in%20%28v%2Cw%29",
    "labelSelector=tier%21%3Dw",
    "labelSelector=tier,zone%21%3Dp",
    "fieldSelector=metadata.name%21%3Db",
    "fieldSelector=metadata.name%3Da",
    "fieldSelector=metadata.namespace%3D${ns}&labelSelector=tier",
)
OPS: Final = (
    [{"op": "add", "path": "/metadata/labels", "value": {"zone": "p"}}],
    [{"op": "remove", "path": "/metadata/labels"}],
    [{"op": "replace", "path": "/metadata/labels/tier", "value": "q"}],
    [{"op": "add", "path": "/metadata/labels/tier", "value": "v"}],
    [{"op": "remove", "path": "/metadata/finalizers"}],
    [{"op": "test", "path": "/metadata/name", "value": "a"}],
)


def page_of(plural: str, selection: str) -> str:
    """The name under which the next page of a list is kept."""
    return f"page_{plural}_{SELECTIONS.index(selection)}"


def _query(draw: st.DrawFn, *more: str) -> str:
    dry = draw(st.sampled_from(["", "", "", "", "dryRun=All"]))
    care = draw(st.sampled_from(["", "", "", "Strict", "Warn", "Ignore"]))
    terms = [f"fieldManager={draw(MANAGERS)}", dry, care and f"fieldValidation={care}", *more]
    return "?" + "&".join(filter(None, terms))


def _whole(draw: st.DrawFn, talked: Talked, *, made_up: bool = False) -> dict[str, Any]:
    return talked.whole(draw(metas(made_up=made_up)), draw(talked.specs), draw(SURPLUS))


def _post(draw: st.DrawFn, talked: Talked) -> Step:
    body = _whole(draw, talked, made_up=True)
    return Step("POST", talked.path + _query(draw), body, TYPES["json"])


def _put(draw: st.DrawFn, talked: Talked) -> Step:
    body = _whole(draw, talked)
    at, version = f"{talked.path}/{body['metadata']['name']}", draw(st.booleans())
    if not version:
        return Step("PUT", at + _query(draw), body, TYPES["json"])
    # A dry run that would create an object answers with the version it was sent.
    query = _query(draw).replace("&dryRun=All", "")
    body = {**body, "metadata": {**body["metadata"], "resourceVersion": "${version}"}}
    return Step("PUT", at + query, body, TYPES["json"])


def _apply(draw: st.DrawFn, talked: Talked) -> Step:
    body = _whole(draw, talked)
    at, force = f"{talked.path}/{body['metadata']['name']}", draw(FORCES)
    return Step("PATCH", at + _query(draw, force), body, TYPES["apply"])


def _patch(draw: st.DrawFn, talked: Talked) -> Step:
    at, flavour = f"{talked.path}/{draw(NAMES)}", draw(st.sampled_from(talked.flavours))
    return Step("PATCH", at + _query(draw), _patch_body(draw, talked, flavour), TYPES[flavour])


def _get(draw: st.DrawFn, talked: Talked) -> Step:
    return Step("GET", f"{talked.path}/{draw(NAMES)}")


def _patch_body(draw: st.DrawFn, talked: Talked, flavour: str) -> Any:
    if flavour == "ops":
        return draw(st.sampled_from(OPS))
    body: dict[str, Any] = {}
    if draw(st.booleans()):
        body["metadata"] = {"labels": draw(st.none() | LABELS)}
    if draw(st.sampled_from([False, False, True])):
        body.setdefault("metadata", {})["finalizers"] = draw(st.none() | HOLDS)
    if draw(st.booleans()):
        body |= draw(SURPLUS)
    if flavour == "strategic" and talked.kind == "Deployment":
        body["spec"] = {"template": {"spec": {"containers": draw(CONTAINERS)}}}
    else:
        body[talked.field] = draw(talked.changes)
    return body


def _status(draw: st.DrawFn, talked: Talked) -> Step:
    if talked.statuses is None:
        return _patch(draw, talked)
    at = f"{talked.path}/{draw(NAMES)}/status"
    how = draw(st.sampled_from(["GET", "merge", "merge", "apply", "json"]))
    if how == "GET":
        return Step("GET", at)
    status = draw(talked.statuses)
    if how == "merge":
        meta = {"metadata": {"labels": draw(LABELS)}} if draw(st.booleans()) else {}
        body: Mapping[str, Any] = {"status": status, **meta}
        return Step("PATCH", at + _query(draw), body, TYPES["merge"])
    body = {**_whole(draw, talked), "status": status}
    at = f"{talked.path}/{body['metadata']['name']}/status"
    if how == "apply":
        body = {key: value for key, value in body.items() if key != talked.field}
        return Step("PATCH", at + _query(draw, draw(FORCES)), body, TYPES["apply"])
    return Step("PUT", at + _query(draw), body, TYPES["json"])


def _scale(draw: st.DrawFn, talked: Talked) -> Step:
    if not talked.scale:
        return _apply(draw, talked)
    name = draw(NAMES)
    at = f"{talked.path}/{name}/scale"
    how = draw(st.sampled_from(["GET", "merge", "json"]))
    if how == "GET":
        return Step("GET", at)
    spec = {"spec": {"replicas": draw(st.integers(-1, 3))}}
    if how == "merge":
        return Step("PATCH", at + _query(draw), spec, TYPES["merge"])
    meta = {"name": name, "namespace": "${ns}"}
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": meta, **spec}
    return Step("PUT", at + _query(draw), body, TYPES["json"])


def _list(draw: st.DrawFn, talked: Talked) -> Step:
    selection = draw(st.sampled_from(SELECTIONS))
    terms, page = [selection], page_of(talked.plural, selection)
    if draw(st.booleans()):
        terms += ["limit=1", draw(st.sampled_from(["", f"continue=${{{page}}}"]))]
    path = f"{talked.path}?" + "&".join(filter(None, terms))
    return Step("GET", path, keep={page: "metadata.continue"})


def _watch(draw: st.DrawFn, talked: Talked) -> Step:
    """A watch that is read at the end of the conversation; see conversation.py."""
    start = draw(
        st.sampled_from(
            [
                "resourceVersion=${start}",
                "resourceVersion=${start}",
                "resourceVersion=${version}",
                "resourceVersion=0",
                "sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
                "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0",
            ]
        )
    )
    terms = ["watch=1", start, draw(st.sampled_from(SELECTIONS))]
    if "${" in start:  # a list by a watch is what the etcd beside the real server cannot do
        terms.append(draw(st.sampled_from(["", "allowWatchBookmarks=true"])))
    return Step("WATCH", f"{talked.path}?" + "&".join(filter(None, terms)))


def _deletion(draw: st.DrawFn, talked: Talked, *, every: bool) -> Step:
    options: dict[str, Any] = {}
    if policy := draw(st.sampled_from(["", "Background", "Foreground", "Orphan"])):
        options["propagationPolicy"] = policy
    if draw(st.sampled_from([False, False, False, True])):
        options["dryRun"] = ["All"]
    which = draw(st.sampled_from(["", "", "uid", "resourceVersion"]))
    if which:
        kept = {"uid": "${uid}", "resourceVersion": "${version}"}[which]
        options["preconditions"] = {which: kept}
    some = f"?{draw(st.sampled_from(SELECTIONS))}" if every else f"/{draw(NAMES)}"
    return Step("DELETE", talked.path + some, options, TYPES["json"])


def _delete(draw: st.DrawFn, talked: Talked) -> Step:
    return _deletion(draw, talked, every=False)


def _clear(draw: st.DrawFn, talked: Talked) -> Step:
    return _deletion(draw, talked, every=True)


_VERBS: Final[Mapping[str, Callable[[st.DrawFn, Talked], Step]]] = {
    "post": _post,
    "post again": _post,
    "put": _put,
    "patch": _patch,
    "patch again": _patch,
    "apply": _apply,
    "apply again": _apply,
    "delete": _delete,
    "clear": _clear,
    "get": _get,
    "list": _list,
    "watch": _watch,
    "watch again": _watch,
    "status": _status,
    "scale": _scale,
}


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """One request; `${version}` and `${uid}` are of the last reply that had one."""
    talked = draw(st.sampled_from(KINDS))
    return _VERBS[draw(st.sampled_from(sorted(_VERBS)))](draw, talked)


CONVERSATIONS: Final = st.lists(steps(), min_size=2, max_size=10)
