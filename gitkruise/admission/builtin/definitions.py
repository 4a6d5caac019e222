"""CustomResourceDefinitions at admission: names, versions, columns, subresources, conversion.

Source: ValidateCustomResourceDefinition of apiextensions-apiserver 1.34. Rules without which a
definition cannot be served are the catalog's (`wire.catalog.crds`). CEL rules are not compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gitkruise.admission.builtin.schemas import structural_problems
from gitkruise.admission.rules import formats
from gitkruise.admission.rules.field_errors import Path, forbidden, invalid, required, unsupported
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import MapKey, Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.catalog.crds import schemas_problems
from gitkruise.wire.primitives.names import Obj

_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_FORMATS: Final = (
    "byte", "date", "date-time", "double", "float", "int32", "int64", "password",
)  # fmt: skip
_APPROVAL: Final = "api-approved.kubernetes.io"
_PROTECTED: Final = ("k8s.io", "kubernetes.io")
_WARNING_LENGTH: Final = 256
_REVIEWS: Final = ("v1", "v1beta1")
_NO_WEBHOOK: Final = "should not be set when strategy is not set to Webhook"


def definition_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """Broken rules; on an update only those that the stored definition keeps."""
    if not request.is_typed or any(schemas_problems(request.new)):
        return  # other rules refuse it
    known = {(p.path, p.message) for p in _problems(request.old)} if request.old else set()
    yield from (p for p in _problems(request.new) if (p.path, p.message) not in known)


def _problems(crd: Obj) -> Iterator[Problem]:
    spec: Obj = crd.get("spec") or {}
    yield from _group_problems(crd, str(spec.get("group") or ""))
    yield from _name_problems(spec.get("names") or {}, ("spec", "names"))
    if spec.get("preserveUnknownFields"):
        text = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        yield invalid(("spec", "preserveUnknownFields"), spec["preserveUnknownFields"], text)
    yield from _conversion_problems(spec.get("conversion") or {}, ("spec", "conversion"))
    versions = spec.get("versions") or ()
    names = [one.get("name") for one in versions]
    if len(set(names)) < len(names):
        yield invalid(("spec", "versions"), names, "must contain unique version names")
    for index, version in enumerate(versions):
        yield from _version_problems(version, ("spec", "versions", index))


def _group_problems(crd: Obj, group: str) -> Iterator[Problem]:
    at: Path = ("spec", "group")
    if group:
        yield from (invalid(at, group, text) for text in formats.dns_subdomain(group))
        if "." not in group:
            yield invalid(at, group, "should be a domain with at least one dot")
    notes = (crd.get("metadata") or {}).get("annotations") or {}
    if group.endswith(tuple(f".{suffix}" for suffix in _PROTECTED)) and not notes.get(_APPROVAL):
        text = (
            f'protected groups must have approval annotation "{_APPROVAL}", see '
            "https://github.com/kubernetes/enhancements/pull/1111"
        )
        yield required(("metadata", "annotations", MapKey(_APPROVAL)), text)


def _name_problems(names: Obj, at: Path) -> Iterator[Problem]:
    for field in ("plural", "singular"):
        if names.get(field):
            yield from _labels(names[field], (*at, field))
    for field in ("kind", "listKind"):
        name = names.get(field) or ""
        mixed = "may have mixed case, but should otherwise match: "
        for text in formats.service_name(name.lower()) if name else ():
            yield invalid((*at, field), name, mixed + text)
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield invalid((*at, "listKind"), names["kind"], "kind and listKind may not be the same")
    for field in ("shortNames", "categories"):
        for index, name in enumerate(names.get(field) or ()):
            yield from _labels(name, (*at, field, index))


def _labels(name: str, at: Path) -> Iterator[Problem]:
    yield from (invalid(at, name, text) for text in formats.service_name(name))


def _conversion_problems(conversion: Obj, at: Path) -> Iterator[Problem]:
    strategy, webhook = conversion.get("strategy") or "None", conversion.get("webhook")
    if strategy not in ("None", "Webhook"):
        yield unsupported((*at, "strategy"), strategy, ("None", "Webhook"))
    elif strategy == "None" and webhook is not None:
        yield forbidden((*at, "webhook"), _NO_WEBHOOK)
    elif strategy == "Webhook":
        if not (webhook or {}).get("clientConfig"):
            text = "required when strategy is set to Webhook"
            yield required((*at, "webhook", "clientConfig"), text)
        reviews = (webhook or {}).get("conversionReviewVersions") or []
        here: Path = (*at, "webhook", "conversionReviewVersions")
        if not reviews:
            yield required(here)
        elif not set(reviews) & set(_REVIEWS):
            yield invalid(here, reviews, f"must include at least one of {', '.join(_REVIEWS)}")


def _version_problems(version: Obj, at: Path) -> Iterator[Problem]:
    yield from _labels(str(version.get("name") or ""), (*at, "name"))
    warning = version.get("deprecationWarning")
    if warning and not version.get("deprecated"):
        text = "can only be set for deprecated versions"
        yield invalid((*at, "deprecationWarning"), warning, text)
    if warning and len(warning) > _WARNING_LENGTH:
        text = f"must be <= {_WARNING_LENGTH} characters long"
        yield invalid((*at, "deprecationWarning"), warning, text)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema:
        yield from structural_problems(schema, (*at, "schema", "openAPIV3Schema"))
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        yield from _column_problems(column, (*at, "additionalPrinterColumns", index))
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        yield from _scale_problems(scale, (*at, "subresources", "scale"))


def _column_problems(column: Obj, at: Path) -> Iterator[Problem]:
    if not column.get("name"):
        yield required((*at, "name"))
    type_, one_of = column.get("type") or "", f"must be one of {','.join(_TYPES)}"
    if not type_:
        yield required((*at, "type"), one_of)
    elif type_ not in _TYPES:
        yield invalid((*at, "type"), type_, one_of)
    if column.get("format") and column["format"] not in _FORMATS:
        text = f"must be one of {','.join(_FORMATS)}"
        yield invalid((*at, "format"), column["format"], text)
    yield from _path_problems(column.get("jsonPath"), (*at, "jsonPath"), needed=True)


def _scale_problems(scale: Obj, at: Path) -> Iterator[Problem]:
    for field, part in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        wrong = list(_path_problems(scale.get(field), (*at, field), needed=True))
        yield from wrong
        if not wrong and not scale[field].startswith(f"{part}."):
            yield invalid((*at, field), scale[field], f"should be a json path under {part}")
    yield from _path_problems(scale.get("labelSelectorPath"), (*at, "labelSelectorPath"))


def _path_problems(value: Any, at: Path, *, needed: bool = False) -> Iterator[Problem]:
    if not value:
        if needed:
            yield required(at)
    elif not value.startswith("."):
        yield invalid(at, value, "must be a simple json path starting with .")
