"""Type checks of the fields that all kinds share, before anything reads them.

Kinds have schemas, but objects of an unknown kind have none, and name, namespace, labels and
annotations decide how an object is handled before its schema is known. As in kubectl, a null inside
a map or a list is an error; a null of a named field counts as absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gitkruise.admission.rules.formats import dns_label, dns_subdomain
from gitkruise.errors import Finding, Problem
from gitkruise.gitops.build.redacted_findings import rule
from gitkruise.model.gitops.document import Document, FieldPath
from gitkruise.printable import shown
from gitkruise.wire.primitives.names import Obj, split_api_version
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.schema.nodes import Components, Node
from gitkruise.wire.schema.validation import TYPE_INVALID, validate

_MESSAGE_MAX: Final = 500
_NAMESPACE: Final = ("metadata", "namespace")
_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "object", "additionalProperties": _TEXT}
_META: Final = {
    "type": "object",
    "properties": {
        "generateName": _TEXT,
        "namespace": _TEXT,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "finalizers": {"type": "array", "items": _TEXT},
        "ownerReferences": {"type": "array", "items": {"type": "object"}},
    },
}
_NODE: Final = Node(
    {"type": "object", "properties": {"apiVersion": _TEXT, "kind": _TEXT, "metadata": _META}},
    Components(dict[str, Any]().__getitem__),
)
_MEANT: Final = {
    "integer": re.compile(r"-?\d{1,18}"),
    "boolean": re.compile(r"true|false"),
    "number": re.compile(r"-?\d{1,18}(\.\d+)?"),
}
_BYTES: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGTPEkmgtpe])i?[Bb]")
_BOOLEANS: Final = frozenset({"true", "false"})
_KIND: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}")
_VERSION: Final = re.compile(r"[a-z][a-z0-9]{0,62}")


def untyped(document: Document) -> Iterator[Finding]:
    """One finding for each shared field of the wrong type."""
    obj = document.obj
    found = [*validate(_NODE, obj), *nulls(_NODE, obj)]
    problems = [problem for problem in found if len(problem.path) > 1]  # others name no object
    yield from (shape(document, subject_of(obj), obj, problem) for problem in problems)
    if not found:
        yield from _unservable(document)


def _unservable(document: Document) -> Iterator[Finding]:
    """Findings for values that no cluster accepts as kind, apiVersion or namespace."""
    obj = document.obj
    kind, api_version = obj.get("kind"), obj.get("apiVersion")
    if kind and not _KIND.fullmatch(kind):
        yield _no_word(document, "GK2001", f'"{shown(kind, 60)}" cannot be a kind', ("kind",))
    if api_version:
        group, version = split_api_version(api_version)
        if not _VERSION.fullmatch(version) or (group and dns_subdomain(group)):
            words = f'"{shown(api_version, 60)}" cannot be an apiVersion'
            yield _no_word(document, "GK2001", words, ("apiVersion",))
    namespace = get(obj, "metadata", "namespace")
    if namespace and dns_label(namespace) and _NAMESPACE not in document.unread:
        words = f'"{shown(namespace, 60)}" cannot be a namespace'
        yield _no_word(document, "GK2005", words, _NAMESPACE)


def _no_word(document: Document, code: str, message: str, path: FieldPath) -> Finding:
    return Finding(code=code, message=message, places=(document.place(path),))


def subject_of(obj: Obj) -> str:
    """Return `Kind namespace/name`, as far as the fields are known."""
    name, namespace = get(obj, "metadata", "name"), get(obj, "metadata", "namespace")
    kind = obj.get("kind")
    words = [word for word in (namespace, name) if isinstance(word, str) and word]
    return " ".join(filter(None, [kind if isinstance(kind, str) else "", "/".join(words)]))


def nulls(node: Node, value: Any, at: FieldPath = ()) -> Iterator[Problem]:
    """Problems of nulls that are values of a map; `validate` finds those of a list."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            child = node.child(key)
            if child is None:
                continue
            if item is not None:
                if isinstance(item, Mapping | list):
                    yield from nulls(child, item, (*at, key))
            elif key not in node.names and child.types and not child.nullable:
                yield _null(child, (*at, key))
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            yield from nulls(node.items, item, (*at, index))


def has_null(value: Any) -> bool:
    """Return whether a null is anywhere in a value."""
    if isinstance(value, Mapping):
        return any(item is None or has_null(item) for item in value.values())
    return isinstance(value, list) and any(item is None or has_null(item) for item in value)


def _null(node: Node, at: FieldPath) -> Problem:
    field, wanted = Problem(at, "", "").field, ",".join(node.types)
    message = f'Invalid value: "null": {field} in body must be of type {wanted}: "null"'
    return Problem(at, TYPE_INVALID, message)


def shape(document: Document, subject: str, obj: Obj, problem: Problem) -> Finding:
    """Return the finding for a value that breaks its schema."""
    notes: tuple[tuple[str, str], ...] = ()
    if document.may_be_secret(problem.path):
        message = f"{subject}: {problem.field}: {rule(problem.reason)}"
        notes = (("next", "quote the value if it is to be text"),)
    else:
        message = cut(f"{subject}: {problem.field}: {problem.message}")
        notes = (*_advice(document, get(obj, *problem.path), problem),)
    places = (document.place(problem.path),)
    return Finding(code="GK1204", message=message, places=places, notes=notes, object=subject)


def _advice(document: Document, value: Any, problem: Problem) -> Iterator[tuple[str, str]]:
    """Advice on the value that was probably meant."""
    written = document.written(problem.path)
    plain = isinstance(value, bool) and written.isalpha() and written.lower() not in _BOOLEANS
    scalar = isinstance(value, bool | int | float)
    wants_text = "must be of type string" in problem.message or ' "string"' in problem.message
    if plain:
        yield "why", f"the plain word {written} means {str(value).lower()} in YAML"
    if wants_text and scalar and written:
        yield "next", f'quote it: "{written}"'
    elif wants_text and value is None and get(document.obj, *problem.path[:-1]):
        yield "next", "give it a text, or take the line out"
    elif isinstance(value, str):
        yield from _without_quotes(value, problem)
    elif isinstance(value, Mapping) and "must be of type array" in problem.message:
        yield "next", 'a list is wanted: begin the first line of each item with "- "'
    elif isinstance(value, list) and "must be of type object" in problem.message:
        yield "next", 'a map is wanted: take out the "- "'


def _without_quotes(value: str, problem: Problem) -> Iterator[tuple[str, str]]:
    """Advice on a text where a number, a boolean or a quantity is wanted."""
    for wanted, pattern in _MEANT.items():
        if f"must be of type {wanted}" in problem.message and pattern.fullmatch(value):
            yield "next", f"write it without quotes: {value}"
    size = _BYTES.fullmatch(value) if "must be of type quantity" in problem.message else None
    if size is not None:
        amount, unit = size.groups()
        unit = unit.upper()
        decimal = "k" if unit == "K" else unit
        yield "next", f"write {amount}{unit}i (powers of 1024) or {amount}{decimal} (of 1000)"


def cut(message: str) -> str:
    """Cut a message of the API server: it may quote the whole value, and its beginning suffices."""
    return message if len(message) <= _MESSAGE_MAX else f"{message[:_MESSAGE_MAX]}…"
