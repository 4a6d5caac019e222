"""ConfigMaps, Secrets, claims and nodes at admission: defaults and Kubernetes' rules."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gitkruise.admission.pods.volumes import claim_spec_problems
from gitkruise.admission.rules import formats
from gitkruise.admission.rules.field_errors import (
    IMMUTABLE,
    Path,
    forbidden,
    invalid,
    required,
    too_long,
    unsupported,
)
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import MapKey, Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.kruise.go_round_trip import settle
from gitkruise.wire.kruise.template_defaults import round_up
from gitkruise.wire.primitives import paths
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.values.base64_text import decoded, with_stored_bytes
from gitkruise.wire.values.quantity import parse_quantity

_LIMIT: Final = 1024 * 1024
# what data a typed Secret must have, and which of it in JSON
_SECRET_KEYS: Final = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_SECRET_JSON: Final = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}
_LOGIN: Final = ("username", "password")  # of type basic-auth, which needs one of them
_ACCOUNT: Final = "kubernetes.io/service-account.name"
_JSON_WORDS: Final = {
    list: "array", str: "string", bool: "bool", int: "number", float: "number",
}  # fmt: skip
_EFFECTS: Final = ("NoExecute", "NoSchedule", "PreferNoSchedule")
_FROZEN: Final = "field is immutable when `immutable` is set"
_CLAIM_FROZEN: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName "
    "for bound claims"
)


def default_secret(request: AdmissionRequest, _gates: Gates) -> Obj:
    """Type Opaque, stringData folded into data, and base64 on one line."""
    out: dict[str, Any] = {
        **with_stored_bytes(request.new),
        "type": request.new.get("type") or "Opaque",
    }
    texts = out.pop("stringData", None)
    if texts:
        encoded = {key: base64.b64encode(t.encode()).decode() for key, t in texts.items()}
        out["data"] = {**(out.get("data") or {}), **encoded}
    return out


def default_config_map(request: AdmissionRequest, _gates: Gates) -> Obj:
    """Return it with the base64 of binaryData on one line."""
    return with_stored_bytes(request.new)


def secret_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """ValidateSecret and ValidateSecretUpdate."""
    obj, old = request.new, request.old
    total = 0
    for key, text in (obj.get("data") or {}).items():
        at: Path = ("data", MapKey(key))
        yield from (invalid(at, key, sentence) for sentence in formats.config_key(key))
        try:
            total += len(decoded(text or ""))
        except ValueError:
            yield invalid(at, "<secret>", "illegal base64 data")
    if total > _LIMIT:
        yield too_long(("data",), _LIMIT)
    yield from _typed_problems(obj)
    if old is not None and obj.get("type") != old.get("type", "Opaque"):
        yield invalid(("type",), obj.get("type"), IMMUTABLE)
    yield from _immutable_problems(obj, old, ("data",))


def _is_base64(text: str) -> bool:
    try:
        decoded(text)
    except ValueError:
        return False
    return True


def _typed_problems(obj: Obj) -> Iterator[Problem]:
    """Data that a type of Secret requires; only an SSH key must not be empty."""
    type_, data = str(obj.get("type")), obj.get("data") or {}
    for key in _SECRET_KEYS.get(type_, ()):
        if key not in data or (key == "ssh-privatekey" and not data[key]):
            yield required(("data", MapKey(key)))
    if type_ == "kubernetes.io/basic-auth" and not any(key in data for key in _LOGIN):
        yield from (required(("data", MapKey(key))) for key in _LOGIN)
    notes = obj["metadata"].get("annotations") or {}
    if type_ == "kubernetes.io/service-account-token" and not notes.get(_ACCOUNT):
        yield required(("metadata", "annotations", MapKey(_ACCOUNT)))
    coded = _SECRET_JSON.get(type_, "")
    if coded in data and (text := _json_problem(data[coded] or "")):
        yield invalid(("data", MapKey(coded)), "<secret contents redacted>", text)


def _json_problem(text: str) -> str:
    """The reason, in Go's words, for which a value of a Secret is no JSON object; "" if it is."""
    try:
        value = json.loads(decoded(text) or b"")
    except json.JSONDecodeError as error:
        rest = error.doc[error.pos :]
        return f"invalid character '{rest[0]}'" if rest else "unexpected end of JSON input"
    except UnicodeDecodeError:
        return "invalid character in JSON input"
    except ValueError:
        return ""  # no base64: named already
    except RecursionError:
        return "exceeded max depth"
    if isinstance(value, dict) or value is None:
        return ""
    word = _JSON_WORDS[type(value)]
    return f"json: cannot unmarshal {word} into Go value of type map[string]interface {{}}"


def config_map_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """ValidateConfigMap and ValidateConfigMapUpdate."""
    obj = request.new
    total = 0
    for field in ("data", "binaryData"):
        for key, text in (obj.get(field) or {}).items():
            at: Path = (field, MapKey(key))
            yield from (invalid(at, key, sentence) for sentence in formats.config_key(key))
            total += len((text or "").encode())
            if field == "binaryData" and not _is_base64(text or ""):
                yield invalid(at, text, "illegal base64 data")
    for key in sorted({*(obj.get("data") or {})} & {*(obj.get("binaryData") or {})}):
        yield invalid(("data", MapKey(key)), key, "duplicate of key present in binaryData")
    if total > _LIMIT:
        yield too_long((), _LIMIT)
    yield from _immutable_problems(obj, request.old, ("data", "binaryData"))


def _immutable_problems(obj: Obj, old: Obj | None, fields: tuple[str, ...]) -> Iterator[Problem]:
    if old is None or not old.get("immutable"):
        return
    for field in ("immutable", *fields):
        if obj.get(field) != old.get(field):
            yield forbidden((field,), _FROZEN)


def default_claim_object(request: AdmissionRequest, _gates: Gates) -> Obj:
    """volumeMode Filesystem, amounts printed as Kubernetes does. Raises Malformed."""
    out = {**request.new, "spec": settle("PersistentVolumeClaimSpec", request.new.get("spec"))}
    out["spec"].setdefault("volumeMode", "Filesystem")
    round_up(out, (("spec", "resources", ("limits", "requests")),))
    return out


def claim_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """ValidatePersistentVolumeClaim; on update only the size may change, and only grow."""
    spec: Obj = request.new.get("spec") or {}
    before: Obj | None = (request.old.get("spec") or {}) if request.old is not None else None
    if before is None:
        yield from claim_spec_problems(spec, ("spec",))
        return
    if _bound(before) != _bound(spec):
        yield forbidden(("spec",), _CLAIM_FROZEN)
    steps = ("resources", "requests", "storage")
    old, new = (paths.get(s, *steps, default="0") for s in (before, spec))
    if parse_quantity(new).value < parse_quantity(old).value:
        text = "field can not be less than status.capacity"
        yield forbidden(("spec", *steps), text)


def _bound(spec: Obj) -> Obj:
    """Return the immutable part of a claim's spec; an unset volume name may be set once."""
    return {
        key: value
        for key, value in spec.items()
        if key not in ("resources", "volumeAttributesClassName", "volumeName")
    }


def default_node(request: AdmissionRequest, _gates: Gates) -> Obj:
    """Default `allocatable` to the capacity."""
    capacity = paths.get(request.new, "status", "capacity")
    if not isinstance(capacity, Mapping) or paths.get(request.new, "status", "allocatable"):
        return request.new
    return paths.put(request.new, ("status", "allocatable"), dict(capacity))  # type: ignore[no-any-return]  # an object


def node_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """Taints: a key, a known effect, no pair of them twice."""
    seen: set[tuple[Any, Any]] = set()
    for index, taint in enumerate(paths.get(request.obj, "spec", "taints", default=())):
        at: Path = ("spec", "taints", index)
        key, effect = taint.get("key") or "", taint.get("effect")
        yield from (invalid((*at, "key"), key, text) for text in formats.qualified_name(key))
        value = taint.get("value") or ""
        yield from (invalid((*at, "value"), value, text) for text in formats.label_value(value))
        if effect not in _EFFECTS:
            yield unsupported((*at, "effect"), effect, _EFFECTS)
        if (key, effect) in seen:
            text = "taints must be unique by key and effect pair"
            yield Problem((*at,), "FieldValueDuplicate", f'Duplicate value: "{key}": {text}')
        seen.add((key, effect))
