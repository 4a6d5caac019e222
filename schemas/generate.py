#!/usr/bin/env python3
"""Writes schemas/json, the CRDs of schemas/own and deploy/crds; `--check` says what is stale."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent
sys.path.insert(0, str(ROOT))  # this file runs from a checkout that need not be installed

from gitkruise.kube.system.package_data import only_storage_version  # noqa: E402  after the path
from gitkruise.wire.catalog.kruise_schemas import typed_templates  # noqa: E402  after the path
from gitkruise.wire.schema.nodes import OBJECT_META, QUANTITY, REF_PREFIX  # noqa: E402  after the path

Raw = Mapping[str, Any]
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
OWN_GROUP, OWN_VERSION = "gitkruise.io", "v1alpha1"
OWN_KINDS: Final = ("GitSource", "Unit", "Sink", "Receiver")
PUBLISHED: Final = {
    ("", "v1"): (
        "Pod", "Service", "ConfigMap", "Secret", "Namespace", "ServiceAccount", "Node",
        "PersistentVolumeClaim",
    ),
    ("apps", "v1"): ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ControllerRevision"),
    ("batch", "v1"): ("Job", "CronJob"),
    ("rbac.authorization.k8s.io", "v1"): (
        "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding",
    ),
    ("networking.k8s.io", "v1"): ("Ingress",),
    ("autoscaling", "v2"): ("HorizontalPodAutoscaler",),
    ("policy", "v1"): ("PodDisruptionBudget",),
    ("apps.kruise.io", "v1alpha1"): ("CloneSet", "SidecarSet", "WorkloadSpread"),
    ("apps.kruise.io", "v1beta1"): ("CloneSet", "SidecarSet", "WorkloadSpread"),
    ("policy.kruise.io", "v1alpha1"): ("PodUnavailableBudget",),
    ("policy.kruise.io", "v1beta1"): ("PodUnavailableBudget",),
}  # fmt: skip
INSTALLED: Final = (
    *(
        f"{plural}.apps.kruise.io"
        for plural in (
            "clonesets", "sidecarsets", "statefulsets", "containerrecreaterequests",
            "imagepulljobs", "imagelistpulljobs", "nodeimages", "workloadspreads",
        )
    ),
    "podunavailablebudgets.policy.kruise.io",
)  # fmt: skip
KEPT: Final = (
    "description", "format", "pattern", "minimum", "maximum", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties",
)  # fmt: skip
RANGES: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
QUANTITY_TEXT: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"
REFERENCE: Final = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "description": "Its name."},
        "namespace": {
            "type": "string",
            "description": "Its namespace; by default that of this document.",
        },
    },
}
LOCAL_REFERENCE: Final = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string", "minLength": 1, "description": "Its name."}},
}
STATUS: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "The state that gitkruise last observed; written by gitkruise only.",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        "observedGeneration": {"type": "integer", "format": "int64"},
        "lastHandledReconcileAt": {
            "type": "string",
            "description": "The last handled value of the annotation gitkruise.io/reconcile-at.",
        },
        "conditions": {
            "description": "Conditions, as kstatus and Flux read them: Ready, Stalled, …",
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type", "status"],
                "properties": {
                    "type": {"type": "string"},
                    "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                    "reason": {"type": "string"},
                    "message": {"type": "string"},
                    "observedGeneration": {"type": "integer", "format": "int64"},
                    "lastTransitionTime": {"type": "string", "format": "date-time"},
                },
            },
        },
    },
}


class Converter:
    """Turns structural schemas into JSON Schema, collecting the components they refer to.

    With `nullable`, null is allowed wherever a field may be absent, as an API server reads it.
    """

    def __init__(self, components: Mapping[str, Raw], *, nullable: bool) -> None:
        self.components = components
        self.nullable = nullable
        self.defs: dict[str, Any] = {}

    def convert(self, raw: Raw, *, required: bool) -> dict[str, Any]:
        wrapped = raw.get("allOf") or ()
        target: str = raw.get("$ref") or "".join(part.get("$ref", "") for part in wrapped[:1])
        if target:
            return self.refer(target.removeprefix(REF_PREFIX), required=required)
        if "x-json-schema" in raw:
            return {"description": raw["description"], **raw["x-json-schema"]}
        return self.inline(raw, required=required)

    def refer(self, name: str, *, required: bool) -> dict[str, Any]:
        short = name.removeprefix("io.k8s.").replace("api.", "", 1)
        if short not in self.defs:
            self.defs[short] = {}  # a recursive definition finds its name taken
            body = self.inline(self.components[name], required=False, component=name)
            self.defs[short] = {"title": name.rpartition(".")[2], **body}
        kind = self.components[name].get("type")
        must = {"type": kind} if required and kind and self.nullable else {}
        return {"$ref": f"#/$defs/{short}", **must}

    def inline(self, raw: Raw, *, required: bool, component: str = "") -> dict[str, Any]:
        types = _types(raw, component)
        null = self.nullable and bool(types) and not required
        allowed = [*types, "null"] if null else types
        out: dict[str, Any] = {}
        if allowed:
            out["type"] = allowed[0] if len(allowed) == 1 else allowed
        out |= {key: raw[key] for key in KEPT if key in raw}
        if raw.get("enum"):
            out["enum"] = [*raw["enum"], None] if null else raw["enum"]
        default = raw.get("default")
        if default or default is False:  # zero values of Go types say nothing
            out["default"] = default
        if raw.get("format") in RANGES:
            out = dict(zip(("minimum", "maximum"), RANGES[raw["format"]], strict=True)) | out
        if component == QUANTITY:
            out["pattern"] = QUANTITY_TEXT
        return out | self.inside(raw, component)

    def inside(self, raw: Raw, component: str) -> dict[str, Any]:
        out: dict[str, Any] = {}
        needed = raw.get("required") or ()
        if raw.get("properties"):
            out["properties"] = {
                key: self.convert(child, required=key in needed)
                for key, child in raw["properties"].items()
            }
        if needed:
            out["required"] = list(needed)
        extra = raw.get("additionalProperties")
        if isinstance(extra, Mapping):
            out["additionalProperties"] = self.convert(extra, required=True)
        elif raw.get("properties") and not raw.get("x-kubernetes-preserve-unknown-fields"):
            out["additionalProperties"] = False
        if raw.get("items"):
            out["items"] = self.convert(raw["items"], required=True)
        return out


def _types(raw: Raw, component: str) -> list[str]:
    if component == QUANTITY:
        return ["string", "number"]
    if raw.get("x-kubernetes-int-or-string") or raw.get("format") == "int-or-string":
        return ["integer", "string"]
    return [raw["type"]] if raw.get("type") else []


def published(raw: Raw, group: str, version: str, kind: str, converter: Converter) -> str:
    """The text of one published JSON Schema."""
    api_version = f"{group}/{version}" if group else version
    body = converter.convert({**raw, "required": raw.get("required", ())}, required=True)
    body["properties"] |= {"apiVersion": {"const": api_version}, "kind": {"const": kind}}
    body["required"] = list(
        dict.fromkeys(("apiVersion", "kind", "metadata", *body.get("required", ())))
    )
    document = {
        "$schema": DIALECT,
        "title": f"{kind} ({api_version})",
        **body,
        "$defs": dict(sorted(converter.defs.items())),
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False) + "\n"


def read_components(group: str, version: str) -> dict[str, Raw]:
    name = f"apis__{group}__{version}.json" if group else f"api__{version}.json"
    found: dict[str, Raw] = json.loads((HERE / "openapi" / name).read_bytes())["schemas"]
    return found


def json_schemas() -> Iterator[tuple[Path, str]]:
    core = read_components("", "v1")
    for (group, version), kinds in PUBLISHED.items():
        own = read_components(group, version)
        by_kind = {_kind_of(raw): raw for raw in own.values()}
        for kind in kinds:
            raw = typed_templates(group, kind, by_kind[kind], core.__getitem__)
            converter = Converter({**core, **own}, nullable=True)
            yield _json_path(group, version, kind), published(raw, group, version, kind, converter)


def _kind_of(raw: Raw) -> str:
    found: list[Raw] = raw.get("x-kubernetes-group-version-kind") or []
    return str(found[0]["kind"]) if len(found) == 1 else ""


def _json_path(group: str, version: str, kind: str) -> Path:
    parts = [kind, *([group] if group else []), version]
    return HERE / "json" / ("-".join(parts) + ".json")


# gitkruise's own kinds --------------------------------------------------------------------------


def _expanded(raw: Any) -> Any:
    """The authored schema with `$use: reference` and `$use: localReference` written out."""
    if isinstance(raw, list):
        return [_expanded(item) for item in raw]
    if not isinstance(raw, Mapping):
        return raw
    rest = {key: _expanded(value) for key, value in raw.items() if key != "$use"}
    used = {"reference": REFERENCE, "localReference": LOCAL_REFERENCE}
    return {**used[raw["$use"]], **rest} if "$use" in raw else rest


def read_own(kind: str) -> dict[str, Any]:
    """An authored kind: names, columns, and the schemas of its spec and status."""
    source = yaml.safe_load((HERE / "own" / f"{kind}.yaml").read_text())
    names, columns = source.pop("names"), source.pop("columns")
    status = {**STATUS, "properties": {**STATUS["properties"], **source.pop("status", {})}}
    spec = {"type": "object", **_expanded(source)}
    return {"names": names, "columns": columns, "spec": spec, "status": status}


def own_root(kind: str) -> dict[str, Any]:
    own = read_own(kind)
    spec = own["spec"]
    needed = ["spec"] if spec.get("required") else []
    return {
        "type": "object",
        "description": spec["description"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"$ref": REF_PREFIX + OBJECT_META},
            "spec": spec,
            "status": own["status"],
        },
        "required": needed,
    }


def own_schemas() -> Iterator[tuple[Path, str]]:
    for kind in OWN_KINDS:
        converter = Converter(read_components("", "v1"), nullable=False)
        text = published(own_root(kind), OWN_GROUP, OWN_VERSION, kind, converter)
        yield _json_path(OWN_GROUP, OWN_VERSION, kind), text


def _structural(raw: Any) -> Any:
    """The authored schema as a CRD may have it."""
    if isinstance(raw, list):
        return [_structural(item) for item in raw]
    if not isinstance(raw, Mapping):
        return raw
    return {key: _structural(value) for key, value in raw.items() if key != "x-json-schema"}


def own_crd(kind: str) -> dict[str, Any]:
    """The CustomResourceDefinition of an authored kind."""
    own, root = read_own(kind), own_root(kind)
    schema = _structural(root)
    schema["properties"]["metadata"] = {"type": "object"}
    if not schema["required"]:
        del schema["required"]
    names = {"kind": kind, "listKind": f"{kind}List", **own["names"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{OWN_GROUP}"},
        "spec": {
            "group": OWN_GROUP,
            "names": names,
            "scope": "Namespaced",
            "versions": [
                {
                    "name": OWN_VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": own["columns"],
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


def own_crds() -> Iterator[tuple[Path, str]]:
    for kind in OWN_KINDS:
        crd = own_crd(kind)
        text = json.dumps(crd, separators=(",", ":"), ensure_ascii=False) + "\n"
        yield HERE / "crds" / f"{crd['metadata']['name']}.json", text
        yield _manifest(crd)


def kruise_crds() -> Iterator[tuple[Path, str]]:
    """OpenKruise's kinds as gitkruise installs them."""
    for name in INSTALLED:
        crd = json.loads((HERE / "crds" / f"{name}.json").read_bytes())
        yield _manifest(only_storage_version(crd))


def _manifest(crd: Mapping[str, Any]) -> tuple[Path, str]:
    text = yaml.safe_dump(crd, sort_keys=False, allow_unicode=True, width=100)
    header = "# Generated by schemas/generate.py: do not edit.\n"
    return ROOT / "deploy" / "crds" / f"{crd['metadata']['name']}.yaml", header + text


def outputs() -> dict[Path, str]:
    """Every generated file and its text."""
    return dict([*json_schemas(), *own_schemas(), *own_crds(), *kruise_crds()])


def stale() -> list[Path]:
    """Generated files that are missing, old, or no longer generated."""
    wanted = outputs()
    found = {*(HERE / "json").glob("*.json"), *(ROOT / "deploy" / "crds").glob("*.yaml")}
    old = [p for p, text in wanted.items() if not p.exists() or p.read_text() != text]
    return sorted(old) + sorted(p for p in found if p not in wanted)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when stale")
    if parser.parse_args().check:
        names = [str(path.relative_to(ROOT)) for path in stale()]
        sys.stdout.write("".join(f"stale: {name}\n" for name in names))
        return bool(names)
    for path, text in outputs().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
