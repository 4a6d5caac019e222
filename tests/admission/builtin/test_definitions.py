"""Definitions that a kube-apiserver 1.34 refuses are refused, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gitkruise.errors import InvalidObject
from tests.world.api_client import CRDS, Api
from tests.worlds import empty_world

ROOT: Final = Path(__file__).parents[3]
TEXT: Final = {"type": "string"}
STRUCT: Final = {"type": "object"}
EITHER: Final = [{"type": "integer"}, {"type": "string"}]
KEYED: Final = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
HERE: Final = "spec.versions[0].schema.openAPIV3Schema"
FIELD: Final = f"{HERE}.properties[f]"
TWICE: Final = [{"name": "v1", "served": True, "storage": storage} for storage in (True, False)]


def definition(*, schema: Any = None, **spec: Any) -> dict[str, Any]:
    group, names = spec.pop("group", "example.com"), spec.pop("names", {})
    names = {"plural": "things", "kind": "Thing", **names}
    versions = spec.pop("versions", [{"name": "v1", "served": True, "storage": True}])
    shape = {"openAPIV3Schema": schema or STRUCT}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": [{"schema": shape, **version} for version in versions],
            **spec,
        },
    }


def field(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"f": schema}}


def array(**items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def keyed(**items: Any) -> dict[str, Any]:
    return {**array(type="object", **items), **KEYED}


def refused(crd: Any) -> set[str]:
    try:
        Api(empty_world()).post(CRDS, crd)
    except InvalidObject as error:
        return {cause.field for cause in error.details.causes}
    return set()


def one(**version: Any) -> list[dict[str, Any]]:
    return [{"name": "v1", "served": True, "storage": True, **version}]


@pytest.mark.parametrize(
    ("schema", "fields"),
    [
        (field(TEXT), set()),
        (field({"x-kubernetes-preserve-unknown-fields": True}), set()),
        (field({"x-kubernetes-int-or-string": True, "anyOf": EITHER}), set()),
        (field({"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": EITHER}]}), set()),
        (field({**STRUCT, "additionalProperties": True, "properties": {"x": TEXT}}), set()),
        (field({**STRUCT, "properties": {"x": TEXT}, "anyOf": [{"required": ["x"]}]}), set()),
        (field(keyed(properties={"k": TEXT}, required=["k"])), set()),
        (field(keyed(properties={"k": {**TEXT, "default": ""}})), set()),
        ({"properties": {"f": TEXT}}, {f"{HERE}.type"}),
        (array(type="string"), {f"{HERE}.type"}),
        ({**STRUCT, "additionalProperties": TEXT}, {f"{HERE}.additionalProperties"}),
        (field({"description": "x"}), {f"{FIELD}.type"}),
        (field({"type": "text"}), {f"{FIELD}.type"}),
        (field({"type": "array"}), {f"{FIELD}.items"}),
        (field(array(description="x")), {f"{FIELD}.items.type"}),
        (field({**STRUCT, "additionalProperties": TEXT, "properties": {"x": TEXT}}),
         {f"{FIELD}.additionalProperties"}),
        (field({**TEXT, "uniqueItems": True}), {f"{FIELD}.uniqueItems"}),
        (field({**STRUCT, "patternProperties": {"a": TEXT}}), {f"{FIELD}.patternProperties"}),
        (field({**STRUCT, "x-kubernetes-preserve-unknown-fields": False}),
         {f"{FIELD}.x-kubernetes-preserve-unknown-fields"}),
        (field({"anyOf": EITHER}), {f"{FIELD}.type"}),
        (field({**TEXT, "allOf": [{"nullable": True, "default": "x"}]}),
         {f"{FIELD}.allOf[0].nullable", f"{FIELD}.allOf[0].default"}),
        (field({**TEXT, "not": TEXT}), {f"{FIELD}.not.type"}),
        (field({**STRUCT, "x-kubernetes-embedded-resource": True}), {f"{FIELD}.properties"}),
        (field({"type": "object", "x-kubernetes-list-type": "set"}), {f"{FIELD}.type"}),
        (field({**TEXT, "x-kubernetes-map-type": "atomic"}), {f"{FIELD}.type"}),
        (field({**array(**STRUCT), "x-kubernetes-list-type": "set"}),
         {f"{FIELD}.items.x-kubernetes-map-type"}),
        (field({**array(**TEXT), "x-kubernetes-list-map-keys": ["k"]}),
         {f"{FIELD}.x-kubernetes-list-type"}),
        (field(keyed(properties={"k": TEXT})), {f"{FIELD}.items.properties[k].default"}),
        (field(keyed(properties={"x": TEXT})), {f"{FIELD}.x-kubernetes-list-map-keys"}),
        ({**STRUCT, "properties": {"metadata": {**STRUCT, "properties": {"labels": STRUCT}}}},
         {f"{HERE}.properties[metadata]"}),
        ({**STRUCT, "properties": {"metadata": {**STRUCT, "properties": {"name": TEXT}}}}, set()),
        ({**STRUCT, "properties": {"kind": {"type": "integer"}}},
         {f"{HERE}.properties[kind].type"}),
    ],
)  # fmt: skip
def test_a_schema_has_to_be_structural(schema: Any, fields: set[str]) -> None:
    assert refused(definition(schema=schema)) == fields


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"names": {"shortNames": ["A B"]}}, {"spec.names.shortNames[0]"}),
        ({"names": {"kind": "a_b", "listKind": "a_b"}}, {"spec.names.kind", "spec.names.listKind"}),
        ({"group": "example"}, {"spec.group"}),
        ({"group": "x.k8s.io"}, {"metadata.annotations[api-approved.kubernetes.io]"}),
        ({"preserveUnknownFields": True}, {"spec.preserveUnknownFields"}),
        ({"versions": TWICE}, {"spec.versions"}),
        ({"versions": one(name="V_1")}, {"spec.versions[0].name"}),
        ({"versions": one(deprecationWarning="x")}, {"spec.versions[0].deprecationWarning"}),
        ({"versions": one(deprecated=True, deprecationWarning="x" * 257)},
         {"spec.versions[0].deprecationWarning"}),
        ({"versions": one(additionalPrinterColumns=[{"name": "x", "type": "y", "jsonPath": "a"}])},
         {f"spec.versions[0].additionalPrinterColumns[0].{name}" for name in ("type", "jsonPath")}),
        ({"versions": one(subresources={"scale": {"specReplicasPath": ".spec.n",
                                                  "statusReplicasPath": ".spec.n"}})},
         {"spec.versions[0].subresources.scale.statusReplicasPath"}),
        ({"conversion": {"strategy": "Webhook"}},
         {"spec.conversion.webhook.clientConfig",
          "spec.conversion.webhook.conversionReviewVersions"}),
        ({"conversion": {"strategy": "None"}}, set()),
    ],
)  # fmt: skip
def test_names_versions_and_columns(spec: dict[str, Any], fields: set[str]) -> None:
    assert refused(definition(**spec)) == fields


@pytest.mark.parametrize("path", sorted((ROOT / "deploy" / "crds").glob("*.yaml")), ids=str)
def test_definitions_in_use_are_accepted(path: Any) -> None:
    crd = yaml.safe_load(path.read_text())
    url = f"{CRDS}/{crd['metadata']['name']}?dryRun=All&fieldManager=t&force=true"
    assert Api(empty_world()).answer("PATCH", url, crd, "application/apply-patch+yaml")[0] in {
        200,
        201,
    }


def test_a_deprecated_version_warns_of_itself() -> None:
    api = Api(empty_world())
    versions = [
        {"name": "v1", "served": True, "storage": True},
        {"name": "v1beta1", "served": True, "storage": False, "deprecated": True},
        {"name": "v1alpha1", "served": True, "storage": False, "deprecated": True,
         "deprecationWarning": "gone soon"},
    ]  # fmt: skip
    api.post(CRDS, definition(versions=versions))
    url = "/apis/example.com/{}/namespaces/default/things"
    warnings = {name: api.reply("GET", url.format(name)).warnings for name in ("v1", "v1beta1")}
    better = "example.com/v1beta1 Thing is deprecated; use example.com/v1 Thing"
    assert warnings == {"v1": (), "v1beta1": (better,)}
    assert api.reply("GET", url.format("v1alpha1")).warnings == ("gone soon",)
