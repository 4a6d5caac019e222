"""The catalog finds kinds by every name people use, and grows and shrinks with CRDs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gitkruise.errors import InvalidObject
from gitkruise.kube.system.package_data import data_dir, load_catalog
from gitkruise.wire.catalog.catalog import PrinterColumn
from gitkruise.wire.catalog.crds import version_order
from gitkruise.wire.primitives.names import GroupKind
from gitkruise.wire.primitives.requests import ResourceRef
from gitkruise.wire.schema.structural import unknown_fields

CRDS = Path(__file__).parents[3] / "schemas" / "crds"

FOUND: list[tuple[str, str, str]] = [
    ("clone", "apps.kruise.io/v1beta1", "CloneSet"),
    ("cloneset", "apps.kruise.io/v1beta1", "CloneSet"),
    ("CloneSet", "apps.kruise.io/v1beta1", "CloneSet"),
    ("clonesets", "apps.kruise.io/v1beta1", "CloneSet"),
    ("clonesets.apps.kruise.io", "apps.kruise.io/v1beta1", "CloneSet"),
    ("clonesets.v1alpha1.apps.kruise.io", "apps.kruise.io/v1alpha1", "CloneSet"),
    ("clonesets.v1alpha1", "apps.kruise.io/v1alpha1", "CloneSet"),
    ("sidecarsets", "apps.kruise.io/v1beta1", "SidecarSet"),
    ("PodUnavailableBudget", "policy.kruise.io/v1beta1", "PodUnavailableBudget"),
    ("deploy", "apps/v1", "Deployment"),
    ("deployments.apps", "apps/v1", "Deployment"),
    ("sts", "apps/v1", "StatefulSet"),
    ("statefulsets.apps.kruise.io", "apps.kruise.io/v1beta1", "StatefulSet"),
    ("cm", "v1", "ConfigMap"),
    ("ns", "v1", "Namespace"),
    ("po", "v1", "Pod"),
    ("no", "v1", "Node"),
    ("svc", "v1", "Service"),
    ("pvc", "v1", "PersistentVolumeClaim"),
    ("sa", "v1", "ServiceAccount"),
    ("events", "v1", "Event"),
    ("events.events.k8s.io", "events.k8s.io/v1", "Event"),
    ("hpa", "autoscaling/v2", "HorizontalPodAutoscaler"),
    ("crd", "apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("units", "gitkruise.io/v1alpha1", "Unit"),
    ("gks", "gitkruise.io/v1alpha1", "GitSource"),
]


@pytest.mark.parametrize(("word", "api_version", "kind"), FOUND)
def test_words(word: str, api_version: str, kind: str) -> None:
    found = load_catalog().find(word)
    assert found
    assert (found.api_version, found.kind) == (api_version, kind)


@pytest.mark.parametrize("word", ["", "nope", "pods.apps", "clonesets.v2", ".apps"])
def test_unknown_words(word: str) -> None:
    assert load_catalog().find(word) is None


def test_lookups_agree() -> None:
    catalog = load_catalog()
    for kind in catalog.kinds():
        assert catalog.by_ref(kind.ref) is kind
        assert catalog.by_kind(kind.group, kind.version, kind.kind) is kind
        stored = catalog.stored(kind.group_kind)
        assert stored
        assert stored.version == kind.storage_version
    assert catalog.by_ref(ResourceRef("apps", "v2", "deployments")) is None
    assert catalog.preferred("apps.kruise.io", "CloneSet") == catalog.find("clone")
    assert catalog.stored(GroupKind("", "Nope")) is None


def test_every_kind_has_a_schema_in_its_document() -> None:
    for kind in load_catalog().kinds():
        for node in (kind.schema, kind.strict):
            assert node.type == "object"
            assert kind.verbs
            if "list" in kind.verbs and not kind.crd:
                assert {"apiVersion", "kind", "metadata"} <= set(node.names), kind.kind


def test_a_clone_set_is_served_as_open_kruise_serves_it() -> None:
    kind = load_catalog().find("clone")
    assert kind
    assert kind.crd
    assert kind.namespaced
    assert kind.subresources == {"status", "scale"}
    assert kind.scale
    assert kind.scale.selector == ("status", "labelSelector")
    assert kind.columns[0] == PrinterColumn(
        name="DESIRED", type="integer", json_path=".spec.replicas"
    )
    assert [column.name for column in kind.columns if column.priority] == [
        "CONTAINERS",
        "IMAGES",
        "SELECTOR",
    ]
    old = load_catalog().by_kind("apps.kruise.io", "v1alpha1", "CloneSet")
    assert old
    assert old.columns == kind.columns
    assert old.storage_version == "v1beta1"


def test_built_in_kinds_scale_by_their_selector() -> None:
    deployment, pod = load_catalog().find("deploy"), load_catalog().find("po")
    assert deployment
    assert deployment.scale
    assert deployment.scale.selector == ("spec", "selector")
    assert not deployment.crd
    assert pod
    assert pod.scale is None
    assert {"binding", "eviction", "resize", "status"} <= pod.subresources


def test_merge_keys_and_list_types_are_known() -> None:
    pod = load_catalog().find("pod")
    assert pod
    spec = pod.schema.child("spec")
    assert spec
    containers = spec.child("containers")
    assert containers
    assert (containers.list_type, containers.list_keys, containers.merge_key) == (
        "map",
        ("name",),
        "name",
    )
    selector = spec.child("nodeSelector")
    assert selector
    assert selector.map_type == "atomic"


# CRDs --------------------------------------------------------------------------------------------


def crd(**changes: Any) -> dict[str, Any]:
    """A small CRD; `changes` replace top-level fields of its spec."""
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}
        },
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": "X", "type": "string", "jsonPath": ".spec.x", "priority": 1}
        ],
    }
    spec = {
        "group": "example.com",
        "names": {"plural": "shirts", "kind": "Shirt", "shortNames": ["sh"]},
        "scope": "Namespaced",
        "versions": [version],
    }
    return {"metadata": {"name": "shirts.example.com"}, "spec": {**spec, **changes}}


def version(name: str, **changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {**crd()["spec"]["versions"][0], "name": name, **changes}
    return found


def test_a_crd_adds_its_kind_and_takes_it_away() -> None:
    before = load_catalog()
    after = before.with_crd(crd())
    kind = after.find("sh")
    assert before.find("sh") is None
    assert kind
    assert (kind.api_version, kind.singular, kind.list_kind) == (
        "example.com/v1",
        "shirt",
        "ShirtList",
    )
    assert kind.crd
    assert kind.columns == (
        PrinterColumn(name="X", type="string", json_path=".spec.x", priority=1),
    )
    assert kind.schema.child("metadata") is not None
    assert after.without_crd("shirts.example.com").find("shirt") is None
    assert before.without_crd("shirts.example.com") is before
    assert before.without_crd("pods.") is before, "built-in kinds cannot be taken away"


def test_versions_are_preferred_by_their_names() -> None:
    names = ["v1alpha1", "v2", "v11beta2", "foo1", "v1", "v10", "v11beta1"]
    assert sorted(names, key=version_order) == [
        "v10",
        "v2",
        "v1",
        "v11beta2",
        "v11beta1",
        "v1alpha1",
        "foo1",
    ]
    versions = [
        version("v1beta1", storage=False),
        version("v1"),
        version("v2", served=False, storage=False),
    ]
    catalog = load_catalog().with_crd(crd(versions=versions))
    kind = catalog.find("shirt")
    assert kind
    assert kind.version == kind.storage_version == "v1"
    assert catalog.by_kind("example.com", "v2", "Shirt") is None
    assert len([k for k in catalog.kinds() if k.kind == "Shirt"]) == 2


def test_a_crd_that_serves_no_version_has_no_kind() -> None:
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [{"name": "v1", "storage": True, "schema": schema}]
    catalog = load_catalog().with_crd(crd()).with_crd(crd(versions=versions))
    assert catalog.find("shirt") is None


def test_a_crd_applied_again_replaces_itself() -> None:
    catalog = load_catalog().with_crd(crd()).with_crd(crd(scope="Cluster"))
    kind = catalog.find("shirt")
    assert kind
    assert not kind.namespaced
    assert len([k for k in catalog.kinds() if k.kind == "Shirt"]) == 1


def test_a_kruise_crd_that_is_applied_keeps_its_typed_templates() -> None:
    name = "clonesets.apps.kruise.io"
    applied = json.loads((CRDS / f"{name}.json").read_text())
    catalog = load_catalog().without_crd(name).with_crd(applied)
    kind, recorded = catalog.find("clone"), load_catalog().find("clone")
    assert kind
    assert kind == recorded
    template = kind.strict
    for step in ("spec", "template", "spec"):
        child = template.child(step)
        assert child
        template = child
    assert "containers" in template.names


@pytest.mark.parametrize("kind", ["DaemonSet", "SidecarSet"])
def test_a_kruise_crd_without_fields_takes_any(kind: str) -> None:
    name = f"{kind.lower()}s.apps.kruise.io"
    names = {"kind": kind, "plural": f"{kind.lower()}s"}
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [version("v1alpha1", schema={"openAPIV3Schema": anything})]
    stub = crd(group="apps.kruise.io", names=names, versions=versions)
    stub["metadata"] = {"name": name}
    served = load_catalog().without_crd(name).with_crd(stub)
    found = served.by_kind("apps.kruise.io", "v1alpha1", kind)
    assert found
    assert not unknown_fields(found.strict, {"spec": {"selector": {}, "containers": []}})


def schema_with(spec: Any) -> dict[str, Any]:
    return {
        "versions": [
            version(
                "v1", schema={"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
            )
        ]
    }


BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("no scope", {"scope": ""}, "spec.scope", "Required value"),
    ("no kind", {"names": {"plural": "shirts"}}, "spec.names.kind", "Required value"),
    ("other name", {"group": "example.org"}, "metadata.name", "must be spec.names.plural"),
    ("bad scope", {"scope": "World"}, "spec.scope", "Unsupported value"),
    (
        "no storage",
        {"versions": [version("v1", storage=False)]},
        "spec.versions",
        "exactly one version",
    ),
    (
        "no schema",
        {"versions": [version("v1", schema={})]},
        "openAPIV3Schema",
        "schemas are required",
    ),
    (
        "reference",
        schema_with({"$ref": "#/components/schemas/io.k8s.api.core.v1.Pod"}),
        "spec",
        "$ref",
    ),
    (
        "pattern",
        schema_with({"type": "string", "pattern": "("}),
        "openAPIV3Schema",
        "regular expression",
    ),
]


@pytest.mark.parametrize(
    ("changes", "field", "words"), [r[1:] for r in BAD], ids=[r[0] for r in BAD]
)
def test_bad_crds_are_refused(changes: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        load_catalog().with_crd(crd(**changes))
    causes = caught.value.details.causes
    assert any(field in cause.field and words in cause.message for cause in causes), causes


def test_a_name_in_use_is_refused() -> None:
    names = {"plural": "jerseys", "kind": "Shirt"}
    other = {**crd(names=names), "metadata": {"name": "jerseys.example.com"}}
    with pytest.raises(InvalidObject, match="Shirt: already in use"):
        load_catalog().with_crd(crd()).with_crd(other)


def test_missing_data_is_reported() -> None:
    with pytest.raises(FileNotFoundError, match="installed without its data folder 'nope'"):
        data_dir("nope")
