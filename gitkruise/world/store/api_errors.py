"""Error messages of kube-apiserver, word for word."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from gitkruise.errors import (
    AlreadyExists,
    BadRequest,
    Cause,
    Conflict,
    Forbidden,
    InvalidObject,
    MethodNotAllowed,
    NotFound,
    Problem,
    StatusDetails,
    UnsupportedMediaType,
    invalid_object,
)
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.gojson import plain

# Answers that no storage gave carry empty details.
GENERIC: Final = StatusDetails(shown=True)


def resource(kind: Kind) -> str:
    """`clonesets.apps.kruise.io`, `pods`."""
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def _details(kind: Kind, name: str, causes: tuple[Cause, ...] = ()) -> StatusDetails:
    return StatusDetails(name=name, group=kind.group, kind=kind.plural, causes=causes)


def no_such_resource() -> NotFound:
    return NotFound("the server could not find the requested resource", GENERIC)


def no_such_method() -> MethodNotAllowed:
    text = "the server does not allow this method on the requested resource"
    return MethodNotAllowed(text, GENERIC)


def not_found(kind: Kind, name: str) -> NotFound:
    return NotFound(f'{resource(kind)} "{name}" not found', _details(kind, name))


def no_namespace(name: str) -> NotFound:
    return NotFound(f'namespaces "{name}" not found', StatusDetails(name=name, kind="namespaces"))


def already_exists(
    kind: Kind, name: str, *, going: bool = False, generated: bool = False
) -> AlreadyExists:
    """`going`: the existing object is being deleted. `generated`: for a generated name."""
    why = "object is being deleted: " * going + f'{resource(kind)} "{name}" already exists'
    if not generated:
        return AlreadyExists(why, _details(kind, name))
    why += ", the server was not able to generate a unique name for the object"
    return AlreadyExists(why, replace(_details(kind, name), retry_after_s=1))


def modified(kind: Kind, name: str) -> Conflict:
    """The optimistic lock of an update failed."""
    return conflict(
        kind,
        name,
        "the object has been modified; please apply your changes to the latest version and try"
        " again",
    )


def conflict(kind: Kind, name: str, why: str, *, subresource: str = "") -> Conflict:
    where = f"{resource(kind)}/{subresource}" if subresource else resource(kind)
    plural = f"{kind.plural}/{subresource}" if subresource else kind.plural
    return Conflict(
        f'Operation cannot be fulfilled on {where} "{name}": {why}',
        StatusDetails(name=name, group=kind.group, kind=plural),
    )


def precondition(kind: Kind, name: str, why: str) -> Conflict:
    """A delete's precondition failed (the server names the kind here, not the resource)."""
    return Conflict(
        f'Operation cannot be fulfilled on {kind.group_kind} "{name}": {why}',
        StatusDetails(name=name, group=kind.group, kind=kind.kind),
    )


def forbidden(kind: Kind, name: str, why: str, *causes: Cause) -> Forbidden:
    return Forbidden(f'{resource(kind)} "{name}" is forbidden: {why}', _details(kind, name, causes))


def terminating(kind: Kind, name: str, namespace: str) -> Forbidden:
    """Something was to be created in a namespace that is going away."""
    return forbidden(
        kind,
        name,
        f"unable to create new content in namespace {namespace} because it is being terminated",
        Cause(
            "metadata.namespace",
            "NamespaceTerminating",
            f"namespace {namespace} is being terminated",
        ),
    )


def invalid(kind: Kind, name: str, problems: Sequence[Problem]) -> InvalidObject:
    return invalid_object(kind.kind, kind.group, name, problems)


def joined(
    kind: Kind, name: str, problems: Sequence[Problem], error: InvalidObject
) -> InvalidObject:
    """Broken rules of metadata and those that admission found, in one refusal."""
    if not problems:
        return error
    found = (Problem((c.field,), c.reason, c.message) for c in error.details.causes)
    return invalid(kind, name, [*problems, *found])


def bad_options(what: str, path: str, reason: str, message: str) -> InvalidObject:
    """A 422 about CreateOptions, PatchOptions, DeleteOptions, ... of meta.k8s.io."""
    return invalid_object(what, "meta.k8s.io", "", [Problem((path,), reason, message)])


def undecodable(kind: Kind, why: str, named: tuple[str, str] | None = None) -> BadRequest:
    """A body that is not of this kind; `named` is the kind and version it names instead."""
    name, version = named or (kind.kind, kind.version)
    return BadRequest(f'{name} in version "{version}" cannot be handled as a {kind.kind}: {why}')


def quoted(obj: Any) -> str:
    """An object as a message about a patch shows it: its JSON text, sorted and quoted."""
    text = json.dumps(obj, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=plain)
    return json.dumps(text, ensure_ascii=False)


def rejected_patch(why: str) -> InvalidObject:
    """A patch that cannot be laid over the object, or gives something that is none."""
    problem = Problem(("patch",), "FieldValueInvalid", why)
    return InvalidObject(
        f' "" is invalid: patch: {why}',
        StatusDetails(causes=(Cause(problem.field, problem.reason, problem.message),)),
    )


def unknown_media_type(accepted: Sequence[str]) -> UnsupportedMediaType:
    return UnsupportedMediaType(
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
