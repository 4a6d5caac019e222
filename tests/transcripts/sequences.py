"""Random conversations with an API server: what clients do to a ConfigMap and a Deployment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hypothesis import strategies as st

from tests.transcripts.script import TYPES, Step

NAMES: Final = st.sampled_from(["a", "b"])
MANAGERS: Final = st.sampled_from(["one", "two"])
TEXTS: Final = st.sampled_from(["", "v", "w"])
KEYS: Final = st.sampled_from(["k", "l", "m"])
TEXT_MAPS: Final = st.dictionaries(KEYS, TEXTS, max_size=3)
LABELS: Final = st.dictionaries(st.sampled_from(["tier", "zone"]), TEXTS, max_size=2)
CONTAINERS: Final = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["c", "d"]), "image": st.sampled_from(["x:1", "x:2"])},
        optional={
            "env": st.lists(
                st.fixed_dictionaries({"name": st.sampled_from(["A", "B"]), "value": TEXTS}),
                max_size=2,
                unique_by=lambda one: one["name"],
            ),
            "args": st.lists(TEXTS, max_size=2),
            "ports": st.just([{"containerPort": 80, "protocol": "TCP"}]),
        },
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda one: one["name"],
)
Drawn = Mapping[str, Any]


def _meta(name: str, labels: Drawn, finalizers: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        **({"labels": labels} if labels else {}),
        **({"finalizers": finalizers} if finalizers else {}),
    }


FINALIZERS: Final = st.sampled_from([[], [], [], ["example.com/hold"]])


@st.composite
def config_maps(draw: st.DrawFn) -> dict[str, Any]:
    meta = _meta(draw(NAMES), draw(LABELS), draw(FINALIZERS))
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    data = draw(st.none() | TEXT_MAPS)
    return body if data is None else {**body, "data": data}


@st.composite
def deployments(draw: st.DrawFn) -> dict[str, Any]:
    meta = _meta(draw(NAMES), draw(LABELS), draw(FINALIZERS))
    spec: dict[str, Any] = {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": draw(CONTAINERS)},
        },
    }
    if draw(st.booleans()):
        spec["replicas"] = draw(st.integers(0, 3))
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


KINDS: Final = {
    "/api/v1/namespaces/${ns}/configmaps": config_maps(),
    "/apis/apps/v1/namespaces/${ns}/deployments": deployments(),
}


def _patch_body(draw: st.DrawFn, path: str, flavour: str) -> Any:
    if flavour == "ops":
        return draw(
            st.sampled_from(
                [
                    [{"op": "add", "path": "/metadata/labels", "value": {"zone": "p"}}],
                    [{"op": "remove", "path": "/metadata/labels"}],
                    [{"op": "replace", "path": "/metadata/labels/tier", "value": "q"}],
                    [{"op": "test", "path": "/metadata/name", "value": "a"}],
                ]
            )
        )
    body: dict[str, Any] = {}
    if draw(st.booleans()):
        body["metadata"] = {"labels": draw(st.none() | LABELS)}
    if draw(st.sampled_from([False, False, True])):
        body.setdefault("metadata", {})["finalizers"] = draw(st.none() | FINALIZERS)
    if path.endswith("configmaps"):
        body["data"] = draw(st.none() | st.dictionaries(KEYS, st.none() | TEXTS, max_size=2))
    elif flavour == "strategic":
        body["spec"] = {"template": {"spec": {"containers": draw(CONTAINERS)}}}
    else:
        body["spec"] = {"replicas": draw(st.none() | st.integers(-1, 3))}
    return body


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """One request; `${version}`, `${uid}` and `${page}` are of the last reply that had one."""
    path = draw(st.sampled_from(sorted(KINDS)))
    verb = draw(
        st.sampled_from(["POST", "POST", "PUT", "PATCH", "APPLY", "APPLY", "DELETE", "GET"])
    )
    dry = draw(st.sampled_from(["", "", "", "&dryRun=All"]))
    query = f"?fieldManager={draw(MANAGERS)}{dry}"
    if verb == "GET":
        tail = draw(
            st.sampled_from(
                ["", "/a", "?limit=1", "?labelSelector=tier", "?labelSelector=tier%3Dv"]
            )
        )
        return Step("GET", path + tail)
    if verb == "DELETE":
        return _deletion(draw, path, dry)
    body = draw(KINDS[path])
    if verb == "POST":
        return Step("POST", path + query, body, TYPES["json"])
    at = f"{path}/{body['metadata']['name']}"
    if verb == "APPLY":
        force = draw(st.sampled_from(["", "&force=true"]))
        return Step("PATCH", at + query + force, body, TYPES["apply"])
    if verb == "PUT":
        version = draw(st.sampled_from(["", "", "${version}"]))
        meta = {**body["metadata"], **({"resourceVersion": version} if version else {})}
        return Step("PUT", at + query, {**body, "metadata": meta}, TYPES["json"])
    flavour = draw(st.sampled_from(["merge", "strategic", "ops"]))
    return Step("PATCH", at + query, _patch_body(draw, path, flavour), TYPES[flavour])


def _deletion(draw: st.DrawFn, path: str, dry: str) -> Step:
    options: dict[str, Any] = {
        "propagationPolicy": draw(st.sampled_from(["Background", "Foreground", "Orphan"])),
        **({"dryRun": ["All"]} if dry else {}),
    }
    which = draw(st.sampled_from(["", "", "uid", "resourceVersion"]))
    if which:
        kept = {"uid": "${uid}", "resourceVersion": "${version}"}[which]
        options["preconditions"] = {which: kept}
    return Step("DELETE", f"{path}/{draw(NAMES)}", options, TYPES["json"])


CONVERSATIONS: Final = st.lists(steps(), min_size=2, max_size=10)
