"""Label and field selectors: parsed from strings and objects, printed as Kubernetes prints them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from gitkruise.errors import BadRequest
from gitkruise.wire.primitives import paths
from gitkruise.wire.primitives.integers import parse_int
from gitkruise.wire.primitives.names import GroupKind, Obj

MAX_LENGTH: Final = 65_536  # characters of a selector; a URL cannot carry more either
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")
_TOKEN: Final = re.compile(r"\s*(==|!=|[=!,()<>]|[^\s=!,()<>]+)")
_PUNCTUATION: Final = frozenset(("==", "!=", *"=!,()<>"))
_ALPHANUMERIC: Final = (
    "alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_KEY_RULE: Final = f"name part must consist of {_ALPHANUMERIC}, at most 63 characters"
_VALUE_RULE: Final = (
    f"a valid label must be an empty string or consist of {_ALPHANUMERIC}, at most 63 characters"
)


class Op(Enum):
    """Operators of a requirement; the value is how a requirement prints between key and values."""

    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    IN = " in "
    NOT_IN = " notin "
    EXISTS = ""
    NOT_EXISTS = "!"
    GREATER = ">"
    LESS = "<"


_ANY_OF: Final = frozenset({Op.EQUALS, Op.DOUBLE_EQUALS, Op.IN})
_NONE_OF: Final = frozenset({Op.NOT_EQUALS, Op.NOT_IN})
_OBJECT_OPS: Final = {
    "In": Op.IN, "NotIn": Op.NOT_IN, "Exists": Op.EXISTS, "DoesNotExist": Op.NOT_EXISTS,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label; `values` are sorted and without repeats."""

    key: str
    op: Op
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.op in _ANY_OF:
            return value in self.values
        if self.op in _NONE_OF:
            return value not in self.values
        if self.op in (Op.EXISTS, Op.NOT_EXISTS):
            return (value is not None) == (self.op is Op.EXISTS)
        return value is not None and _compare(value, self.op, self.values[0])

    def __str__(self) -> str:
        if self.op is Op.EXISTS:
            return self.key
        if self.op is Op.NOT_EXISTS:
            return f"!{self.key}"
        listed = ",".join(self.values)
        return f"{self.key}{self.op.value}" + (
            f"({listed})" if self.op in (Op.IN, Op.NOT_IN) else listed
        )


def _compare(value: str, op: Op, bound: str) -> bool:
    try:
        left, right = parse_int(value), parse_int(bound)
    except ValueError:
        return False
    return left > right if op is Op.GREATER else left < right


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements must hold; none match everything. `str()` is canonical: sorted by key.

    `nothing` is the selector of a missing (null) LabelSelector, which matches no object.
    """

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        found = labels or {}
        return not self.nothing and all(r.matches(found) for r in self.requirements)

    def __bool__(self) -> bool:
        """False when it matches everything."""
        return self.nothing or bool(self.requirements)

    def __str__(self) -> str:
        return ",".join(str(r) for r in sorted(self.requirements, key=lambda r: r.key))


NOTHING: Final = Selector(nothing=True)


def _requirement(key: str, op: Op, values: Iterable[str]) -> Requirement:
    _check_key(key)
    listed = tuple(sorted(set(values)))
    for value in listed:
        _check_value(key, value)
    if op in (Op.GREATER, Op.LESS) and not re.fullmatch(r"-?\d+", listed[0], re.ASCII):
        sentence = "for 'Gt', 'Lt' operators, the value must be an integer"
        raise BadRequest(f'values[0][{key}]: Invalid value: "{listed[0]}": {sentence}')
    return Requirement(key, op, listed)


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    bad_prefix = slash and (len(prefix) > 253 or not _PREFIX.fullmatch(prefix))
    if bad_prefix or not _NAME.fullmatch(name):
        raise BadRequest(f'unable to parse requirement: <nil>: Invalid value: "{key}": {_KEY_RULE}')


def _check_value(key: str, value: str) -> None:
    if value and not _NAME.fullmatch(value):
        where = f'values[0][{key}]: Invalid value: "{value}"'
        raise BadRequest(f"unable to parse requirement: {where}: {_VALUE_RULE}")


class _Tokens:
    """The tokens of a selector string, one ahead."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise BadRequest(f"the selector is longer than {MAX_LENGTH} characters")
        self.found = _TOKEN.findall(text)
        self.at = 0

    def peek(self) -> str:
        return self.found[self.at] if self.at < len(self.found) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def identifier(self) -> str:
        token = self.take()
        if not token or token in _PUNCTUATION:
            raise BadRequest(f"unable to parse requirement: found '{token}', expected: identifier")
        return token

    def expect(self, *wanted: str) -> str:
        token = self.take()
        if token not in wanted:
            listed = " or ".join(f"'{w}'" if w else "the end" for w in wanted)
            raise BadRequest(f"unable to parse requirement: found '{token}', expected: {listed}")
        return token


def parse_label_selector(text: str) -> Selector:
    """A selector string: `app=web,tier in (a,b),!canary,ring>3`. Raises BadRequest."""
    if not text.strip():
        return Selector()
    tokens = _Tokens(text)
    if tokens.peek() in _PUNCTUATION and tokens.peek() != "!":
        wanted = "expected: !, identifier, or 'end of string'"
        raise BadRequest(f"found '{tokens.peek()}', {wanted}")
    requirements = []
    while True:
        requirements.append(_parse_requirement(tokens))
        if not tokens.expect(",", ""):
            return Selector(tuple(requirements))


def _parse_requirement(tokens: _Tokens) -> Requirement:
    if tokens.peek() == "!":
        tokens.take()
        return _requirement(tokens.identifier(), Op.NOT_EXISTS, ())
    key = tokens.identifier()
    word = tokens.peek()
    if word in ("", ","):
        return _requirement(key, Op.EXISTS, ())
    tokens.take()
    if word in ("in", "notin"):
        return _requirement(key, Op(f" {word} "), _parse_set(tokens))
    if word not in ("=", "==", "!=", ">", "<"):
        raise BadRequest(
            f"unable to parse requirement: found '{word}', expected: in, notin, =, ==, !=, gt, lt"
        )
    value = tokens.take() if tokens.peek() not in ("", ",") else ""
    return _requirement(key, Op(word), (value,))


def _parse_set(tokens: _Tokens) -> list[str]:
    tokens.expect("(")
    values = []
    while True:
        values.append(tokens.take() if tokens.peek() not in (",", ")") else "")
        if tokens.expect(",", ")") == ")":
            return values


def label_selector(obj: Obj | None) -> Selector:
    """A LabelSelector object: matchLabels and matchExpressions; null matches nothing, `{}` all.

    Raises BadRequest on an operator or values that do not fit.
    """
    if obj is None:
        return NOTHING
    found = [
        _requirement(key, Op.EQUALS, (value,))
        for key, value in (obj.get("matchLabels") or {}).items()
    ]
    for raw in obj.get("matchExpressions") or ():
        op = _OBJECT_OPS.get(raw.get("operator"))
        if op is None:
            raise BadRequest(f'"{raw.get("operator")}" is not a valid label selector operator')
        values = raw.get("values") or ()
        if bool(values) != (op in (Op.IN, Op.NOT_IN)):
            need = "must be specified" if not values else "must not be specified"
            raise BadRequest(f"values: {need} when `operator` is '{raw['operator']}'")
        found.append(_requirement(raw["key"], op, values))
    return Selector(tuple(sorted(found, key=lambda r: r.key)))


# Field selectors -----------------------------------------------------------------------------

_EVERY: Final = frozenset({"metadata.name", "metadata.namespace"})
_INVOLVED: Final = (
    "kind",
    "namespace",
    "name",
    "uid",
    "apiVersion",
    "resourceVersion",
    "fieldPath",
)
# The labels kube-apiserver converts for built-in kinds; custom resources have name and namespace.
_FIELDS: Final[Mapping[GroupKind, frozenset[str]]] = {
    GroupKind("", "Pod"): frozenset({
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName",
    }),
    GroupKind("", "Node"): frozenset({"spec.unschedulable"}),
    GroupKind("", "Namespace"): frozenset({"status.phase"}),
    GroupKind("", "Secret"): frozenset({"type"}),
    GroupKind("", "ReplicationController"): frozenset({"status.replicas"}),
    GroupKind("", "Service"): frozenset({"spec.clusterIP", "spec.type"}),
    GroupKind("apps", "ReplicaSet"): frozenset({"status.replicas"}),
    GroupKind("batch", "Job"): frozenset({"status.successful"}),
    GroupKind("", "Event"): frozenset({
        *(f"involvedObject.{field}" for field in _INVOLVED),
        "reason", "reportingComponent", "source", "type",
    }),
    GroupKind("events.k8s.io", "Event"): frozenset({
        *(f"regarding.{field}" for field in _INVOLVED), "reason", "reportingController", "type",
    }),
}  # fmt: skip
# Of events.k8s.io, whose objects are stored as core/v1.
_STORED: Final = {
    **{f"regarding.{field}": f"involvedObject.{field}" for field in _INVOLVED},
    "reportingController": "reportingComponent",
}
_SPECIAL: Final[Mapping[str, Callable[[Obj], Any]]] = {
    "source": lambda obj: paths.get(obj, "source", "component") or obj.get("reportingComponent"),
    "status.successful": lambda obj: paths.get(obj, "status", "succeeded", default=0),
    "status.replicas": lambda obj: paths.get(obj, "status", "replicas", default=0),
    "spec.unschedulable": lambda obj: paths.get(obj, "spec", "unschedulable", default=False),
    "spec.hostNetwork": lambda obj: paths.get(obj, "spec", "hostNetwork", default=False),
}


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One comparison: `field` equals `value`, or does not when `equal` is false."""

    field: str
    value: str
    equal: bool

    def matches(self, obj: Obj) -> bool:
        read = _SPECIAL.get(self.field)
        found = read(obj) if read else paths.get(obj, *self.field.split("."))
        return (_field_text(found) == self.value) == self.equal

    def __str__(self) -> str:
        return f"{self.field}{'=' if self.equal else '!='}{_escape(self.value)}"


def _field_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _escape(value: str) -> str:
    return re.sub(r"([\\,=])", r"\\\1", value)


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All terms must hold; none at all match everything."""

    terms: tuple[FieldTerm, ...] = ()

    def matches(self, obj: Obj) -> bool:
        return all(term.matches(obj) for term in self.terms)

    def checked(self, group_kind: GroupKind) -> FieldSelector:
        """Itself, if objects of the kind can be selected by all its fields. Raises BadRequest."""
        own = _FIELDS.get(group_kind, frozenset())
        custom = "." in group_kind.group and not group_kind.group.endswith(".k8s.io")
        for term in self.terms:
            if term.field in own or term.field in _EVERY:
                continue
            if own or custom:  # kinds that state what is selectable have a sentence of their own
                raise BadRequest(f"field label not supported: {term.field}")
            listed = ", ".join(f'"{name}"' for name in sorted(_EVERY))
            why = f'"{term.field}" is not a known field selector: only {listed}'
            raise BadRequest(why)
        return self

    def stored(self, group_kind: GroupKind) -> FieldSelector:
        """The selector of stored objects, checked. Raises BadRequest."""
        renamed = (replace(t, field=_STORED.get(t.field, t.field)) for t in self.terms)
        return FieldSelector(tuple(renamed)) if self.checked(group_kind).terms else self

    def required(self, field: str) -> str | None:
        """The value `field` must have, if an equality asks for one (so a list looks up by name)."""
        return next((t.value for t in self.terms if t.field == field and t.equal), None)

    def __str__(self) -> str:
        return ",".join(str(term) for term in sorted(self.terms, key=lambda t: t.field))


def parse_field_selector(text: str) -> FieldSelector:
    """A field selector string: `metadata.name=web,status.phase!=Running`. Raises BadRequest.

    A backslash escapes `,`, `=` and itself in values. Whether a kind knows the fields: `checked`.
    """
    if len(text) > MAX_LENGTH:
        raise BadRequest(f"the selector is longer than {MAX_LENGTH} characters")
    return FieldSelector(tuple(_field_term(part) for part in _split(text) if part))


def _split(text: str) -> Sequence[str]:
    return re.findall(r"(?:\\.|[^,\\])+", text, re.DOTALL)


def _field_term(text: str) -> FieldTerm:
    found = re.match(r"([^=!]*)(!=|==|=)(.*)", text, re.DOTALL)
    if not found:
        raise BadRequest(f'invalid selector: "{text}"; can\'t understand it')
    field, op, value = found.groups()
    return FieldTerm(field.strip(), _unescape(value), op != "!=")


def _unescape(value: str) -> str:
    if re.search(r"(?<!\\)(?:\\\\)*=", value) or re.search(r"\\(?![\\,=])", value):
        raise BadRequest(
            f'invalid field selector: "{value}" has an unescaped or wrongly escaped character'
        )
    return re.sub(r"\\([\\,=])", r"\1", value)
