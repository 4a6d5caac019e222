"""Objects drawn for random conversations: what clients write into five kinds of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

NAMES: Final = st.sampled_from(["a", "b"])
TEXTS: Final = st.sampled_from(["", "v", "w"])
KEYS: Final = st.sampled_from(["k", "l", "m"])
TEXT_MAPS: Final = st.dictionaries(KEYS, TEXTS, max_size=3)
LABELS: Final = st.dictionaries(st.sampled_from(["tier", "zone"]), TEXTS, max_size=2)
HOLDS: Final = st.sampled_from(
    [[], [], [], [], ["example.com/hold"], ["example.com/hold", "example.com/more"]]
)


def _name(one: Any) -> Any:
    return one["name"]


def _port(one: Any) -> Any:
    return one["port"]


CONTAINERS: Final = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["c", "d"]), "image": st.sampled_from(["x:1", "x:2"])},
        optional={
            "env": st.lists(
                st.fixed_dictionaries({"name": st.sampled_from(["A", "B"]), "value": TEXTS}),
                max_size=2,
                unique_by=_name,
            ),
            "args": st.lists(TEXTS, max_size=2),
            "ports": st.just([{"containerPort": 80, "protocol": "TCP"}]),
        },
    ),
    min_size=1,
    max_size=2,
    unique_by=_name,
)
Drawn = Mapping[str, Any]
GROUP: Final = "conversed.example.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class Talked:
    """A kind that is talked about: its collection, whole objects and parts of a patch.

    `specs` fill the field `field` of a whole object; `changes` are merged into one; `statuses`
    go through the door of that name, when there is one. `scale`: there is that door too.
    `plain` is a field that every server takes.
    """

    kind: str
    api: str
    plural: str
    field: str
    plain: Any
    specs: st.SearchStrategy[Any]
    changes: st.SearchStrategy[Any]
    statuses: st.SearchStrategy[Any] | None = None
    scale: bool = False
    flavours: Sequence[str] = ("merge", "strategic", "ops")

    @property
    def path(self) -> str:
        root = f"/apis/{self.api}" if "/" in self.api else f"/api/{self.api}"
        return f"{root}/namespaces/${{ns}}/{self.plural}"

    def whole(self, meta: Drawn, field: Any, surplus: Drawn) -> dict[str, Any]:
        body: dict[str, Any] = {"apiVersion": self.api, "kind": self.kind, "metadata": meta}
        if field is not None:
            body[self.field] = field
        return {**body, **surplus}


@st.composite
def metas(draw: st.DrawFn, *, made_up: bool = False) -> dict[str, Any]:
    """Metadata of one of two objects; `made_up`: or of one that the server shall name."""
    named: dict[str, Any] = {"name": draw(NAMES)}
    if made_up and draw(st.integers(0, 4)) == 0:
        named = {"generateName": "gen-${turn}-"}
    labels, holds = draw(LABELS), draw(HOLDS)
    return {
        **named,
        **({"labels": labels} if labels else {}),
        **({"finalizers": holds} if holds else {}),
    }


TEMPLATE: Final[dict[str, Any]] = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "x:1"}]},
}
SURPLUS: Final = st.sampled_from([{}, {}, {}, {}, {}, {"surplus": 1}])


@st.composite
def deployment_specs(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {
            "metadata": {"labels": {"app": draw(st.sampled_from(["a", "a", "a", "b"]))}},
            "spec": {"containers": draw(CONTAINERS)} | draw(SURPLUS),
        },
    }
    if draw(st.booleans()):
        spec["replicas"] = draw(st.integers(-1, 3))
    return spec


GEAR_LIST: Final = st.lists(
    st.fixed_dictionaries({"key": st.sampled_from(["x", "y"])}, optional={"value": TEXTS}),
    max_size=2,
)
GEAR_SPECS: Final = st.fixed_dictionaries(
    {"size": st.sampled_from([1, 3, 3, 9, 12, "x"])},
    optional={
        "replicas": st.integers(-1, 3),
        "mode": st.sampled_from(["a", "b", "c", None]),
        "name": st.sampled_from(["ab", "A", "abcdef"]),
        "free": st.sampled_from([{}, {"any": [1, {"deep": None}]}, {"x": "y"}]),
        "either": st.sampled_from([5, "5%", 1.5]),
        "list": GEAR_LIST,
        "set": st.lists(TEXTS, max_size=3),
        "nested": st.sampled_from([{}, {"on": True}, {"unknown": 1}, None]),
        "unknown": st.just(1),
    },
)
SINCE: Final = st.sampled_from([{}, {"since": "now"}])  # of v2, so it is not stored
GEAR_STATUSES: Final = st.fixed_dictionaries(
    {}, optional={"replicas": st.integers(0, 3), "note": TEXTS, "unknown": st.just(2)}
)
GEAR_CHANGES: Final = st.one_of(
    st.fixed_dictionaries({"size": st.sampled_from([2, 3, 99, None])}),
    st.fixed_dictionaries({"mode": st.sampled_from(["b", None]), "replicas": st.just(None)}),
    st.fixed_dictionaries({"list": GEAR_LIST | st.none(), "unknown": st.just(3)}),
    st.fixed_dictionaries({"free": st.sampled_from([{"any": None}, {"more": 1}, None])}),
)
# The real server writes a null for a time that is not given.
TIMES: Final = dict.fromkeys(("lastProbeTime", "lastTransitionTime"), "2026-11-21T10:00:00Z")
POD_STATUSES: Final = st.fixed_dictionaries(
    {"phase": st.sampled_from(["Pending", "Running", "Succeeded"])},
    optional={
        "podIP": st.just("10.0.0.1"),
        "message": TEXTS,
        "conditions": st.sampled_from(
            [
                [],
                [{"type": "Ready", "status": "True", **TIMES}],
                [{"type": "Fit", "status": "False", **TIMES}],
            ]
        ),
        "containerStatuses": st.just(
            [
                {
                    "name": "c",
                    "ready": True,
                    "restartCount": 1,
                    "image": "x:1",
                    "imageID": "",
                    "state": {"waiting": {"reason": "None"}},
                }
            ]
        ),
    },
)


SERVICE_SPECS: Final = st.fixed_dictionaries(
    {
        "clusterIP": st.just("None"),
        "ports": st.lists(
            st.fixed_dictionaries(
                {"port": st.sampled_from([80, 81]), "name": st.sampled_from(["web", "more"])},
                optional={
                    "targetPort": st.sampled_from([8080, "web"]),
                },
            ),
            min_size=1,
            max_size=2,
            unique_by=(_port, _name),
        ),
        "selector": st.just({"app": "a"}),  # without one the server guesses at address families
    },
)
BUDGET_SPECS: Final = st.fixed_dictionaries(
    {},
    optional={
        "minAvailable": st.sampled_from([1, "50%", "x%", -1]),
        "maxUnavailable": st.sampled_from([1, "20%"]),
        "selector": st.sampled_from([{"matchLabels": {"app": "a"}}, {}, None]),
    },
)


@st.composite
def pod_specs(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {"serviceAccountName": "default", "containers": draw(CONTAINERS)}
    if draw(st.booleans()):
        spec["activeDeadlineSeconds"] = draw(st.sampled_from([60, 600]))
    return spec


KINDS: Final = (
    Talked(
        kind="ConfigMap",
        api="v1",
        plural="configmaps",
        field="data",
        plain={},
        specs=st.none() | TEXT_MAPS,
        changes=st.none() | st.dictionaries(KEYS, st.none() | TEXTS, max_size=2),
    ),
    Talked(
        kind="Deployment",
        api="apps/v1",
        plural="deployments",
        field="spec",
        plain={"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE},
        specs=deployment_specs(),
        changes=st.one_of(
            st.fixed_dictionaries({"replicas": st.none() | st.integers(-1, 3)}),
            st.fixed_dictionaries({"paused": st.sampled_from([True, False, None])}),
            st.fixed_dictionaries({"minReadySeconds": st.sampled_from([0, 5, None])}),
        ),
        statuses=st.fixed_dictionaries(
            {},
            optional={
                "replicas": st.integers(0, 3),
                "readyReplicas": st.integers(-1, 2),
                "observedGeneration": st.integers(0, 2),
            },
        ),
        scale=True,
    ),
    Talked(
        kind="Gear",
        api=f"{GROUP}/v1",
        plural="gears",
        field="spec",
        plain={"size": 3},
        specs=GEAR_SPECS,
        changes=GEAR_CHANGES,
        statuses=GEAR_STATUSES,
        scale=True,
        flavours=("merge", "merge", "ops"),
    ),
    Talked(
        kind="Gear",
        api=f"{GROUP}/v2",
        plural="gears",
        field="spec",
        plain={"size": 3},
        specs=st.tuples(GEAR_SPECS, SINCE).map(lambda both: both[0] | both[1]),
        changes=GEAR_CHANGES,
        flavours=("merge", "ops"),
    ),
    Talked(
        kind="Pod",
        api="v1",
        plural="pods",
        field="spec",
        plain={"serviceAccountName": "default", **TEMPLATE["spec"]},
        specs=pod_specs(),
        changes=st.fixed_dictionaries({"activeDeadlineSeconds": st.sampled_from([30, 300])}),
        statuses=POD_STATUSES,
    ),
    Talked(
        kind="Service",
        api="v1",
        plural="services",
        field="spec",
        plain={"clusterIP": "None", "ports": [{"port": 80}], "selector": {"app": "a"}},
        specs=SERVICE_SPECS,
        changes=st.one_of(
            st.fixed_dictionaries({"selector": st.just({"tier": "b"})}),
            st.fixed_dictionaries({"ports": st.sampled_from([[{"port": 82}], [], None])}),
        ),
        flavours=("merge", "ops"),
    ),
    Talked(
        kind="PodDisruptionBudget",
        api="policy/v1",
        plural="poddisruptionbudgets",
        field="spec",
        plain={"maxUnavailable": 1},
        specs=BUDGET_SPECS,
        changes=st.fixed_dictionaries({"minAvailable": st.sampled_from([2, None])}),
        statuses=st.fixed_dictionaries(
            {
                "currentHealthy": st.just(1),
                "desiredHealthy": st.just(1),
                "disruptionsAllowed": st.sampled_from([0, -1]),
                "expectedPods": st.just(1),
            },
            optional={"observedGeneration": st.just(1)},
        ),
    ),
)


def _gear_version(name: str, *, storage: bool, more: Drawn) -> dict[str, Any]:
    text, number = {"type": "string"}, {"type": "integer"}
    row = {"type": "object", "required": ["key"], "properties": {"key": text, "value": text}}
    spec = {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 9},
            "replicas": {"type": "integer", "default": 1, "minimum": 0},
            "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "either": {"x-kubernetes-int-or-string": True},
            "list": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["key"],
                "items": row,
            },
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
            "nested": {
                "type": "object",
                "nullable": True,
                "properties": {"on": {"type": "boolean", "default": False}},
            },
            **more,
        },
    }
    status = {"type": "object", "properties": {"replicas": number, "note": text}}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
            },
        },
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "required": ["spec"],
                "properties": {"spec": spec, "status": status},
            }
        },
    }


DEFINITION: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"gears.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"},
        "versions": [
            _gear_version("v1", storage=True, more={}),
            _gear_version("v2", storage=False, more={"since": {"type": "string"}}),
        ],
    },
}
