"""Decoding of request bodies into the server's Go types.

Built-in kinds are decoded into structs, so that a wrong type, an invalid amount or time and a
number out of range are a 400. Of a custom resource only the metadata are decoded; its schema
rejects the rest later, with a 422.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from gitkruise.errors import BadRequest, Problem
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.schema.go_decoding import sentence, value_at
from gitkruise.wire.schema.nodes import Components, Lookup, Node
from gitkruise.wire.schema.structural import validate, with_defaults
from gitkruise.world.store import api_errors
from gitkruise.world.write.changed_parts import touched

SECRET: Final = GroupKind("", "Secret")
_BASE64: Final = frozenset(string.ascii_letters + string.digits + "+/")
# What is sent to a subresource or as options: a component of core/v1's document.
BODIES: Final[Mapping[str, str]] = {
    "Binding": "io.k8s.api.core.v1.Binding",
    "DeleteOptions": "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "Eviction": "io.k8s.api.policy.v1.Eviction",
    "Scale": "io.k8s.api.autoscaling.v1.Scale",
    "TokenRequest": "io.k8s.api.authentication.v1.TokenRequest",
}


def flawed(kind: Kind, obj: Obj, old: Obj) -> bool:
    """Return whether `obj` violates its schema in a part that `old` does not share."""
    return any(
        validate(node, value)
        for path, value, node in touched(kind.schema, obj, old)
        if node is not None and (not kind.crd or path[0] == "metadata")
    )


def undecodable(kind: Kind, obj: Obj, old: Obj, *, nulls: bool = True) -> tuple[str, bool]:
    """(the first value of `obj` that no Go type can hold, in its decoder's words, or "";
    whether all of `obj` keeps its schema). `nulls`: a null is looked at as well."""
    sound = True
    for path, value, node in touched(kind.schema, obj, old):
        if node is None or (kind.crd and path[0] != "metadata"):
            continue
        for problem in validate(node, value):
            sound = False
            whole = Problem((*path, *problem.path), problem.reason, problem.message)
            why = sentence(kind.schema, kind.kind, whole, value, problem.path)
            if why and (nulls or value_at(value, problem.path) is not None):
                return why, False
    return "", sound


def undecodable_bytes(kind: Kind, obj: Obj) -> str:
    """The decoder's sentence about the first text of a Secret's data that is no base64, or ""."""
    data = obj.get("data") if kind.group_kind == SECRET else None
    for text in data.values() if isinstance(data, Mapping) else ():
        at = corrupt_at(text) if isinstance(text, str) else None
        if at is not None:
            return f"illegal base64 data at input byte {at}"
    return ""


def corrupt_at(text: str) -> int | None:
    """The place that encoding/base64 names as the first that is wrong, None for valid base64."""
    read, padded = 0, 0  # characters of the alphabet, and of the padding
    for place, char in enumerate(text):
        if char in "\r\n":
            continue
        if padded and (char != "=" or (read + padded) % 4 == 0):
            return place
        if char == "=":
            if read % 4 < 2:
                return place
            padded += 1
        elif char in _BASE64:
            read += 1
        else:
            return place
    rest = (read + padded) % 4
    return len(text) - rest if rest else None


def check_body(core: Lookup, name: str, body: Any) -> dict[str, Any]:
    """A body named in BODIES, without its nulls. Raises BadRequest where it is another type."""
    if body is None:
        return {}
    if not isinstance(body, Mapping):
        raise BadRequest(f"the object provided is unrecognized (must be of type {name})")
    node = _component(core, BODIES[name])
    filled = {**with_defaults(node, {key: v for key, v in body.items() if v is not None})}
    for problem in validate(node, filled):
        if why := sentence(node, name, problem, filled, problem.path):
            raise BadRequest(f'{name} in version "v1" cannot be handled as a {name}: {why}')
    return filled


def check_metadata(kind: Kind, meta: Mapping[str, Any]) -> None:
    """Raise BadRequest where metadata of a body have another type than ObjectMeta.

    A null decodes into any type; it is checked after defaulting.
    """
    node = kind.schema.child("metadata")
    found = validate(node, meta, ("metadata",)) if node is not None else ()
    for problem in found:
        path = problem.path[1:]
        why = sentence(kind.schema, kind.kind, problem, meta, path)
        if why and value_at(meta, path) is not None:
            raise api_errors.undecodable(kind, why)


@lru_cache(maxsize=64)
def _component(core: Lookup, name: str) -> Node:
    return Components(core).node(name, {})
