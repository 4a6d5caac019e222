"""Random API calls as raw HTTP requests: recorded conversations and sampled objects, mutated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from random import Random  # noqa: TID251  drawn from the seed of the run
from typing import Any, Final
from urllib.parse import quote

from gitkruise.kube.system.package_data import load_catalog
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.schema.nodes import Node
from tests import worlds
from tests.fuzz.mutations import BROKEN, EXTREMES, corrupted, mutated, nested, written
from tests.transcripts.script import TYPES, chapters

SPACE: Final = "default"
HOST: Final = "127.0.0.1:1"
TOKEN: Final = "t" * 40
NAMES: Final = (*["a"] * 12, "web", "web", "b", "node-1", "robot", "default", "ghost")
METHODS: Final = ("POST", "POST", "POST", "PUT", "PATCH", "PATCH", "PATCH", "DELETE", "GET", "GET")
SUBRESOURCES: Final = (
    *("status", "status", "scale", "eviction", "binding", "token", "log", "exec", "finalize"),
    *("ephemeralcontainers", "resize", "proxy", "attach", "portforward", "none"),
)
CONTENT_TYPES: Final = (
    *TYPES.values(),
    *("application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor", "text/plain"),
    *("", "application/json;charset=utf-16", "application/json; q", "a/b/c", "\xff"),
)
ACCEPTS: Final = (
    "application/json", "application/json", "*/*", "application/yaml", "text/html", "",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf", "application/json;q=nan,a/b;q=1e999", ";;;,,=", "a;q=",
)  # fmt: skip
WORDS: Final = (
    *("", "0", "1", "2", "-1", "999999999999999999999999", "abc", "All", "None", "true", "false"),
    *(
        "a=b",
        "a!=b",
        "a in (b,c)",
        "a notin (b",
        "!a",
        "a>1",
        "a=b=c",
        ",,",
        "(",
        "app=web",
        "\x00",
    ),
    *("metadata.name=a", "metadata.name!=", "spec.nodeName=", "status.phase=Running", "x=y", "\\"),
    *("NotOlderThan", "Exact", "Foreground", "Background", "Orphan", "Strict", "Warn", "Ignore"),
    *("one", "m" * 200, "\x1b[31m", "\u202e", "eyJ2IjoxfQ", "9" * 30, "1e3", "nan", "٣", "²"),
)
PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "limit": ("1", "0", "2", "-1"),
    "continue": ("", "x", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0", "e30", "W10"),
    "resourceVersion": ("0", "1", "999999999"),
    "resourceVersionMatch": ("Exact", "NotOlderThan"),
    "fieldSelector": ("metadata.name=a", "spec.nodeName=node-1", "type=Normal"),
    "labelSelector": ("app=web", "app in (web)", "!app"),
    "watch": ("1", "true", "0"),
    "timeoutSeconds": ("1", "5"),
    "dryRun": ("All",),
    "fieldManager": ("one", "two"),
    "force": ("true", "false"),
    "fieldValidation": ("Strict", "Warn", "Ignore"),
    "propagationPolicy": ("Foreground", "Background", "Orphan"),
    "orphanDependents": ("true",),
    "gracePeriodSeconds": ("0", "30", "-1"),
    "sendInitialEvents": ("true",),
    "allowWatchBookmarks": ("true",),
    "includeObject": ("Object", "None", "Metadata"),
    "pretty": ("true",),
    "follow": ("true",),
}
PATHS: Final = (
    *("/", "/api", "/apis", "/apis/apps/v1", "/openapi/v2", "/version", "/healthz", "/livez/ping"),
    *("/api/v1", "/api/v1/x", "//", "/api//v1", "/api/v1/pods/", "/%00", "/api/v1/%ff", "/.."),
    *("/api/v1/namespaces/default/pods/%1b%5b31m", "/metrics", "/apis/x/y/z"),
    "/api/v1/" + "a" * 3000,
    *("/api/v1/namespaces/default/finalize", "/api/v1/namespaces/default/status", "*", "a:80"),
)  # fmt: skip
_DEEPEST: Final = 7


@dataclass(frozen=True, slots=True)
class Draft:
    """A request that makes sense, before it is mutated."""

    method: str
    path: str
    body: Any = None
    content_type: str = ""


def starters() -> list[bytes]:
    """Requests that create an object of many kinds, so that others find something."""
    draw = Random(0)
    found = {(draft.path, str(draft.body)[:200]): draft for draft in recorded()}
    return [
        _request(draw, "POST", draft.path, written(draw, draft.body), draft.content_type)
        for draft in found.values()
        if draft.method == "POST"
    ]


def call(draw: Random) -> bytes:
    """A random request, complete with its header."""
    draft = draw.choice(recorded()) if draw.random() < 0.5 else _composed(draw)
    method, path = draft.method, draft.path
    if draw.random() < 0.03:
        path = draw.choice(PATHS)
    if draw.random() < 0.03:
        method = draw.choice((*METHODS, "HEAD", "OPTIONS", "TRACE", "BREW"))
    if draw.random() < 0.25:
        path += ("&" if "?" in path else "?") + _query(draw)
    content_type = draft.content_type
    if draw.random() < 0.04:
        content_type = draw.choice(CONTENT_TYPES)
    return _request(draw, method, path, _body(draw, draft.body), content_type)


def _body(draw: Random, body: Any) -> bytes:
    if body is None:
        return draw.choice(BROKEN) if draw.random() < 0.03 else b""
    luck = draw.random()
    if luck < 0.02:
        return draw.choice(BROKEN)
    if luck < 0.03:
        return nested(draw)
    if luck < 0.65:
        body = mutated(draw, body)
    data = written(draw, body)
    if luck < 0.06:
        return corrupted(draw, data)
    if luck < 0.07:
        return b"k8s\x00" + corrupted(draw, data)
    return data


def _request(draw: Random, method: str, path: str, body: bytes, content_type: str) -> bytes:
    accept = draw.choice(ACCEPTS) if draw.random() < 0.08 else "application/json"
    headers = {"Host": HOST, "Authorization": f"Bearer {TOKEN}", "Accept": accept}
    if body or draw.random() < 0.1:
        headers["Content-Length"] = str(len(body))
    if content_type:
        headers["Content-Type"] = content_type
    if draw.random() < 0.03:
        name = draw.choice(
            ("Impersonate-User", "Impersonate-Group", "Impersonate-Extra-x", "User-Agent")
        )
        headers[name] = draw.choice(("system:serviceaccount:default:robot", "", "\xe9", "a" * 200))
    lines = [f"{method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1", "replace") + body


def _query(draw: Random) -> str:
    terms = []
    for name in draw.choices(list(PARAMETERS), k=draw.randint(1, 3)):
        value = draw.choice(PARAMETERS[name] if draw.random() < 0.6 else WORDS)
        terms.append(f"{name}={quote(value, safe='')}")
    return "&".join(terms)


@cache
def recorded() -> tuple[Draft, ...]:
    """The requests of the recorded conversations, and objects of the kinds they lack."""
    found = []
    for chapter in chapters():
        for step in chapter.steps:
            body = _settled(step.body)
            found.append(Draft(step.method, _settled(step.path), body, step.content_type))
    return (*found, *_more())


def _settled(value: Any) -> Any:
    """A step's path or body with its placeholders filled in."""
    if isinstance(value, str):
        return value.replace("${ns}", SPACE).replace("${version}", "1").replace("$", "")
    if isinstance(value, dict):
        return {key: _settled(item) for key, item in value.items()}
    return [_settled(item) for item in value] if isinstance(value, list) else value


def _more() -> list[Draft]:
    template = worlds.template()
    objects: list[Obj] = [
        worlds.deployment(), worlds.cloneset(), worlds.sidecarset(), worlds.pod("a"),
        worlds.pod("b"),
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"},
         "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                    "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                    "conditions": [{"type": "Ready", "status": "True"}]}},
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "a"},
         "spec": {"serviceName": "a", "selector": {"matchLabels": {"app": "web"}},
                  "template": template, "volumeClaimTemplates": [
                      {"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"],
                       "resources": {"requests": {"storage": "1Gi"}}}}]}},
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "a"},
         "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template}},
        {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a"},
         "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {
             "template": worlds.template(restartPolicy="Never")}}}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
         "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"},
         "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"},
         "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}}},
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
         "metadata": {"name": "a"}, "webhooks": [{
             "name": "a.b.c", "clientConfig": {"url": "https://127.0.0.1:1/"},
             "sideEffects": "None",
             "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore", "timeoutSeconds": 1,
             "objectSelector": {"matchLabels": {"never": "set"}},
             "matchConditions": [{"name": "x", "expression": "object.metadata.name == 'x'"}],
             "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"],
                        "operations": ["CREATE"], "scope": "*"}]}]},
        {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "reason": "x",
         "type": "Normal",
         "involvedObject": {"kind": "Pod", "name": "a", "namespace": SPACE}, "message": "m",
         "firstTimestamp": "2026-01-01T00:00:00Z", "count": 1},
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "a"},
         "value": 5},
        {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "b"},
         "spec": {**worlds.cloneset()["spec"], "scaleStrategy": {"podsToDelete": ["a"]},
                  "lifecycle": {"preDelete": {"labelsHandler": {"x": "y"}}}}},
    ]  # fmt: skip
    return [draft for obj in objects for draft in _of_object(obj)]


def _of_object(obj: Obj) -> list[Draft]:
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = load_catalog().by_kind(group, version, obj["kind"])
    assert kind is not None
    at, name = _collection(kind), obj["metadata"]["name"]
    whole = [Draft("POST", at, obj, TYPES["json"])] * 3 + [
        Draft("PUT", f"{at}/{name}", obj, TYPES["json"])
    ]
    whole.append(Draft("PATCH", f"{at}/{name}?fieldManager=x", obj, TYPES["apply"]))
    parts = [
        Draft("PATCH", f"{at}/{name}", {key: obj[key]}, TYPES["merge"])
        for key in obj if key not in ("apiVersion", "kind", "metadata")
    ]  # fmt: skip
    status = [
        Draft(
            "PATCH", f"{at}/{name}/status", {"status": obj.get("status", {"a": 1})}, TYPES["merge"]
        )
    ]
    return [
        *whole,
        *parts,
        *status,
        Draft("DELETE", f"{at}/{name}", {"propagationPolicy": "Orphan"}, TYPES["json"]),
    ]


def _collection(kind: Kind) -> str:
    space = f"/namespaces/{SPACE}" if kind.namespaced else ""
    return f"{kind.ref.root}{space}/{kind.plural}"


def _composed(draw: Random) -> Draft:
    """A request to any kind, its body sampled from its schema."""
    kind = draw.choice(load_catalog().kinds())
    method, name = draw.choice(METHODS), draw.choice(NAMES)
    path = _collection(kind)
    if method != "POST" and draw.random() < 0.95:
        path += f"/{name}"
    if draw.random() < 0.25:
        subresource = draw.choice((*sorted(kind.subresources) * 3, *SUBRESOURCES))
        path = f"{_collection(kind)}/{name}/{subresource}"
    if method == "GET":
        return Draft(method, path)
    if method == "DELETE":
        options = {"preconditions": {"uid": "x"}, "gracePeriodSeconds": 0, "dryRun": ["All"]}
        return Draft(method, path, draw.choice((None, None, options)), TYPES["json"])
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "labels": {"app": "web"}, **_sampled(draw, _meta(kind), 2)},
    }
    body |= {k: v for k, v in _sampled(draw, kind.schema, 0).items() if k not in body}
    if method != "PATCH":
        return Draft(method, path, body, TYPES["json"])
    flavour = draw.choice(("merge", "merge", "strategic", "ops", "apply"))
    if flavour == "ops":
        return Draft(method, path, _operations(draw, body), TYPES[flavour])
    if flavour == "apply":
        return Draft(method, path + "?fieldManager=one&force=true", body, TYPES[flavour])
    return Draft(method, path, {k: body[k] for k in body if draw.random() < 0.6}, TYPES[flavour])


def _meta(kind: Kind) -> Node:
    found = kind.schema.child("metadata")
    assert found is not None
    return found


def _operations(draw: Random, body: Obj) -> list[Any]:
    paths = (
        "/metadata/labels/x",
        "/spec",
        "/status",
        "/metadata",
        "/spec/replicas",
        "",
        "/",
        "/a~2",
    )
    ops = ("add", "replace", "remove", "move", "copy", "test", "x")
    return [
        {"op": draw.choice(ops), "path": draw.choice(paths), "from": draw.choice(paths),
         "value": draw.choice((*EXTREMES, body.get("spec")))}
        for _ in range(draw.randint(1, 3))
    ]  # fmt: skip


def _sampled(draw: Random, node: Node, depth: int) -> dict[str, Any]:
    """Values for some named fields of a node."""
    names = [n for n in node.names if n in node.required or draw.random() < 2.5 / (depth + 2)]
    found = {}
    for name in names[:6]:
        child = node.child(name)
        if child is not None:
            found[name] = _value(draw, child, depth + 1)
    return found


def _value(draw: Random, node: Node, depth: int) -> Any:
    if node.enum:
        return draw.choice(node.enum)
    if node.type == "object" and depth < _DEEPEST:
        if node.names:
            return _sampled(draw, node, depth)
        value = node.additional
        return {"a": _value(draw, value, depth + 1)} if value is not None else {}
    if node.type == "array":
        return [_value(draw, node.items, depth + 1)] if node.items and depth < _DEEPEST else []
    return draw.choice(_SCALARS.get(node.format) or _SCALARS.get(node.type) or ("a", 1))


_SCALARS: Final[Mapping[str, tuple[Any, ...]]] = {
    "string": ("a", "web", "1", ""),
    "integer": (0, 1, 3, 80),
    "number": (0, 1.5),
    "boolean": (True, False),
    "quantity": ("1", "100m", "2Gi"),
    "date-time": ("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
    "int-or-string": (1, "25%", "a"),
    "byte": ("YQ==", "a"),
}
