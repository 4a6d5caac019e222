"""AdmissionReview and ConversionReview (both v1): what a request asks and how an answer looks."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gitkruise.admission.rules.request import CREATE, DELETE, UPDATE
from gitkruise.errors import ApiError, BadRequest
from gitkruise.kube.client.codec import decode, encode, readable_status
from gitkruise.wire.primitives.json_text import decode_problem
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get

ADMISSION: Final = "admission.k8s.io/v1"
CONVERSION: Final = "apiextensions.k8s.io/v1"
OPERATIONS: Final = frozenset({CREATE, UPDATE, DELETE, "CONNECT"})
UID_MAX: Final = 256
OBJECTS_MAX: Final = 100_000  # of one conversion


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One write to be judged. `obj` is None on DELETE, `old` on CREATE; `namespace` "" and `name`
    "" where the request has none (a name may still have to be generated)."""

    uid: str
    operation: str
    key: ObjectKey
    version: str
    subresource: str
    obj: Obj | None
    old: Obj | None
    user: str
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Conversion:
    """Objects wanted in the version `to` ("apps.kruise.io/v1beta1").

    They are still JSON: decoded all together they take ten times the room.
    """

    uid: str
    to: str
    objects: Sequence[bytes | msgspec.Raw]


class _ReviewBody(msgspec.Struct, gc=False):
    uid: str = ""
    desiredAPIVersion: str = ""
    objects: list[msgspec.Raw] = []


class _ConversionReview(msgspec.Struct, gc=False):
    request: _ReviewBody
    kind: str = ""
    apiVersion: str = ""


_CONVERSION: Final = msgspec.json.Decoder(_ConversionReview)


def read_review(data: bytes) -> Review:
    """Raises BadRequest for anything that is no AdmissionReview with a request."""
    request = _request(data, ADMISSION, "AdmissionReview")
    kind = _map(request, "kind")
    obj, old = (_object(request, name) for name in ("object", "oldObject"))
    operation = _text(request, "operation")
    if operation not in OPERATIONS:
        raise BadRequest(f"operation {operation[:40]!r} is none we know")
    if operation in {CREATE, UPDATE} and obj is None:
        raise BadRequest(f"a review of {operation} has no object")
    key = ObjectKey(
        _text(kind, "group"),
        _text(kind, "kind"),
        _text(request, "namespace"),
        _text(request, "name") or str(get(obj, "metadata", "name") or ""),
    )
    return Review(
        uid=_uid(request),
        operation=operation,
        key=key,
        version=_text(kind, "version"),
        subresource=_text(request, "subResource"),
        obj=obj,
        old=old if operation != CREATE else None,
        user=_text(_map(request, "userInfo", required=False), "username"),
        dry_run=request.get("dryRun") is True,
    )


def read_conversion(data: bytes) -> Conversion:
    """Raises BadRequest for anything that is no ConversionReview with a request."""
    try:
        review = _CONVERSION.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        problem = f"the body is no ConversionReview: {decode_problem(error)}"
        raise BadRequest(problem) from error
    if review.kind != "ConversionReview":
        raise BadRequest("the body is no ConversionReview")
    if review.apiVersion != CONVERSION:
        raise BadRequest(f"only {CONVERSION} is understood")
    asked = review.request
    if len(asked.objects) > OBJECTS_MAX:
        raise BadRequest(f"objects must be a list of at most {OBJECTS_MAX}")
    if not 0 < len(asked.uid) <= UID_MAX:
        raise BadRequest("a review needs a uid")
    return Conversion(asked.uid, asked.desiredAPIVersion, asked.objects)


def read_object(raw: bytes | msgspec.Raw) -> Obj:
    """One object of a conversion. Raises BadRequest."""
    try:
        obj = decode(bytes(raw))
    except ValueError as error:
        raise BadRequest(f"an object cannot be read: {error}") from error
    if not isinstance(obj, dict) or not _named(obj) or not _is_object(obj):
        raise BadRequest("every object needs apiVersion, kind and metadata")
    return obj


def _request(data: bytes, api_version: str, kind: str) -> Mapping[str, Any]:
    try:
        review = decode(data)
    except ValueError as error:
        raise BadRequest(f"the body is no {kind}: {error}") from error
    if not isinstance(review, dict) or review.get("kind") != kind:
        raise BadRequest(f"the body is no {kind}")
    if review.get("apiVersion") != api_version:
        raise BadRequest(f"only {api_version} is understood")
    return _map(review, "request")


def _uid(request: Mapping[str, Any]) -> str:
    uid = _text(request, "uid")
    if not 0 < len(uid) <= UID_MAX:
        raise BadRequest("a review needs a uid")
    return uid


def _map(of: Mapping[str, Any], name: str, *, required: bool = True) -> Mapping[str, Any]:
    value = of.get(name)
    if value is None and not required:
        return {}
    if not isinstance(value, dict):
        raise BadRequest(f"{name} must be an object")
    return value


def _text(of: Mapping[str, Any], name: str) -> str:
    value = of.get(name, "")
    if not isinstance(value, str):
        raise BadRequest(f"{name} must be a string")
    return value


def _object(request: Mapping[str, Any], name: str) -> Obj | None:
    value = request.get(name)
    if value is None:
        return None
    if not isinstance(value, dict) or not _is_object(value):
        raise BadRequest(f"{name} is no Kubernetes object")
    return value


def _named(obj: Mapping[str, Any]) -> bool:
    return all(isinstance(obj.get(field), str) for field in ("apiVersion", "kind"))


def _is_object(obj: Mapping[str, Any]) -> bool:
    """Return whether its metadata have the types that every reader assumes."""
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        return False
    texts = (meta.get(name, "") for name in ("name", "generateName", "namespace", "uid"))
    maps = (meta.get(name) or {} for name in ("labels", "annotations"))
    return all(isinstance(text, str) for text in texts) and all(
        isinstance(found, dict) and all(isinstance(v, str) for v in found.values())
        for found in maps
    )


def allow(uid: str, patch: Sequence[Mapping[str, Any]] = ()) -> bytes:
    """Let it pass, changed by a JSON patch if there is one."""
    answer: dict[str, Any] = {"uid": uid, "allowed": True}
    if patch:
        answer |= {"patchType": "JSONPatch", "patch": base64.b64encode(encode(patch)).decode()}
    return _answer(ADMISSION, "AdmissionReview", answer)


def deny(uid: str, error: ApiError) -> bytes:
    """Refuse it with the Status a client is to read."""
    return _answer(
        ADMISSION,
        "AdmissionReview",
        {"uid": uid, "allowed": False, "status": readable_status(error.as_status())},
    )


def converted(uid: str, objects: Sequence[bytes]) -> list[bytes]:
    """The answer with objects that are JSON, in pieces: all of them once more would not fit."""
    head = encode(
        {
            "apiVersion": CONVERSION,
            "kind": "ConversionReview",
            "response": {"uid": uid, "result": {"status": "Success"}, "convertedObjects": []},
        }
    )
    start, commas = head.removesuffix(b"]}}"), [b""] + [b","] * (len(objects) - 1)
    pieces = [comma + one for comma, one in zip(commas, objects, strict=False)]
    return [start, *pieces, b"]}}"]


def unconverted(uid: str, why: str) -> bytes:
    result = {"status": "Failure", "message": why}
    return _answer(CONVERSION, "ConversionReview", {"uid": uid, "result": result})


def _answer(api_version: str, kind: str, response: Mapping[str, Any]) -> bytes:
    return encode({"apiVersion": api_version, "kind": kind, "response": response})
