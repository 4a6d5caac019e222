"""Rejections of objects that may hold secrets: rebuilt from fields and reasons, never from
values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeVar

from gitkruise.errors import ApiError, Cause, StatusDetails, Untyped
from gitkruise.model.gitops.document import Desired, FieldPath

# Reason of a cause · its rule in words. A message of the server may quote the value at fault.
_RULES: Final[Mapping[str, str]] = {
    "FieldValueNotFound": "the value is not found",
    "FieldValueRequired": "a value is required",
    "FieldValueDuplicate": "the value is there twice",
    "FieldValueInvalid": "the value is not valid",
    "FieldValueNotSupported": "the value is not one of the supported values",
    "FieldValueForbidden": "the field may not have this value",
    "FieldValueTooLong": "the value is too long",
    "FieldValueTooMany": "there are too many values",
    "FieldValueTypeInvalid": "the value is of another type",
    "TypeInvalid": "the value is of another type",
}
# Beginning of a sentence of an API server that quotes no value · the same for a user.
_SENTENCES: Final[Mapping[str, str]] = {
    "illegal base64 data": "the value is no base64; plain text belongs under stringData",
    "a valid config key must": "a key may have letters, digits, '-', '_' and '.' alone",
    "immutable": "field is immutable",
}
_HIDDEN: Final = "the value is not valid; it is not shown"
# Sentences of an API server that quote names alone.
_NAMES_ALONE: Final = re.compile(
    r'secrets "[^"]{0,253}" is forbidden: User "[^"]{0,253}" cannot \w+ resource "secrets"'
    r'( in API group "[^"]{0,253}")?( in the namespace "[^"]{0,253}")?'
    r'|namespaces "[^"]{0,253}" not found'
    r'|^admission webhook "[^"]{0,253}" denied the request'
    r"|^secrets \"[^\"]{0,253}\" is forbidden: (ValidatingAdmissionPolicy '[^']{0,253}'"
    r" with binding '[^']{0,253}' denied request|exceeded quota: [-.a-z0-9]{1,253})"
)
_STEP: Final = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")
_UNTYPED: Final = re.compile(r": \.([^\s:]+): ")  # the first field of those listed
_E = TypeVar("_E", bound=ApiError)


def parse_field(text: str) -> tuple[str | int, ...]:
    """Return `spec.template.spec.containers[0].image` as a path; keys in brackets are one step."""
    return tuple(
        int(index) if index.isdigit() else index or name for name, index in _STEP.findall(text)
    )


def refused_field(error: ApiError) -> str:
    """Return the first field that a rejection names, otherwise `spec`."""
    if error.details.causes:
        return error.details.causes[0].field
    named = _UNTYPED.search(error.message) if isinstance(error, Untyped) else None
    return named[1] if named else "spec"


def may_be_secret(desired: Desired, path: FieldPath) -> bool:
    """Return whether a message about the field at `path` may quote a secret."""
    return desired.secret or desired.document.may_be_secret(path)


def rule(reason: str) -> str:
    """Return the rule that a cause of this reason broke, without the value that broke it."""
    return _RULES.get(reason, _HIDDEN)


def unquoted(error: _E, desired: Desired) -> _E:
    """Return `error` itself, or for an object with secrets the same error without any value."""
    causes = error.details.causes
    hidden = [may_be_secret(desired, c.path or parse_field(c.field)) for c in causes]
    if not (desired.secret or any(hidden)):
        return error
    kept = tuple(
        replace(cause, message=_message_without_value(cause)) if hide else cause
        for cause, hide in zip(causes, hidden, strict=True)
    )
    details = replace(error.details, causes=kept) if kept else StatusDetails()
    found = _NAMES_ALONE.search(error.message)
    named = any(cause.field for cause in kept)
    message = found[0] if found and not named else _listed(kept) or f"refused: {error.reason}"
    return type(error)(f"{desired.key}: {message}", details)


def _message_without_value(cause: Cause) -> str:
    plain = (words for begin, words in _SENTENCES.items() if begin in cause.message)
    return next(plain, rule(cause.reason))


def _listed(causes: tuple[Cause, ...]) -> str:
    return "; ".join(f"{cause.field}: {cause.message}" for cause in causes)
