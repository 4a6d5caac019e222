"""Environment variables and the fields, resources and keys they are taken from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from gitkruise.admission.rules import formats
from gitkruise.admission.rules.engine import EACH, Table, like, present
from gitkruise.admission.rules.field_errors import Path, invalid, required, unsupported
from gitkruise.errors import Problem
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.values.quantity import parse_quantity

_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef")
_ENV_FIELDS: Final = frozenset({
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
    "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
})  # fmt: skip
FILE_FIELDS: Final = frozenset({
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace",
    "metadata.uid",
})  # fmt: skip
SUBSCRIPT: Final = re.compile(r"(metadata\.(?:labels|annotations))\['(.*)'\]", re.DOTALL)
_RESOURCES: Final = frozenset(
    f"{side}.{name}"
    for side in ("limits", "requests")
    for name in ("cpu", "memory", "ephemeral-storage")
)
_CPU_DIVISORS: Final = frozenset({"0", "1m", "1"})
_BYTE_DIVISORS: Final = frozenset(
    {"0", "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
)
_KEY_RULES: Final = Table(
    (("name",), (present,)),
    (("key",), (present, like(formats.config_key))),
)


@cache
def _env_rules(name_format: formats.Format) -> Table:
    return Table(((EACH, "name"), (present, like(name_format))))


@cache
def _env_from_rules(name_format: formats.Format) -> Table:
    return Table(
        ((EACH, "prefix"), (like(name_format),)),
        ((EACH, ("configMapRef", "secretRef"), "name"), (present,)),
    )


def env_problems(env: Any, at: Path, name_format: formats.Format) -> Iterator[Problem]:
    """Entries of `env`: a name, and a value or one source."""
    yield from _env_rules(name_format).problems(env, at)
    for index, entry in enumerate(env or ()):
        source = entry.get("valueFrom")
        if source is not None:
            yield from _source_problems(entry, source, (*at, index, "valueFrom"))


def env_from_problems(sources: Any, at: Path, name_format: formats.Format) -> Iterator[Problem]:
    """Entries of `envFrom`: one ConfigMap or Secret each."""
    yield from _env_from_rules(name_format).problems(sources, at)
    for index, entry in enumerate(sources or ()):
        found = [kind for kind in ("configMapRef", "secretRef") if entry.get(kind) is not None]
        if not found:
            yield invalid((*at, index), "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(found) > 1:
            yield invalid((*at, index), "", "may not have more than one field specified at a time")


def _source_problems(entry: Obj, source: Obj, at: Path) -> Iterator[Problem]:
    kinds = [kind for kind in _SOURCES if source.get(kind) is not None]
    if not kinds:
        listed = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        yield invalid(at, "", f"must specify one of: {listed}")
    elif len(kinds) > 1:
        yield invalid(at, "", "may not have more than one field specified at a time")
    if entry.get("value") and kinds:
        yield invalid(at, "", "may not be specified when `value` is not empty")
    for kind in kinds:
        if kind == "fieldRef":
            yield from field_problems(source[kind], (*at, kind), _ENV_FIELDS)
        elif kind == "resourceFieldRef":
            yield from resource_field_problems(source[kind], (*at, kind), in_volume=False)
        else:
            yield from _KEY_RULES.problems(source[kind], (*at, kind))


def field_problems(ref: Obj, at: Path, allowed: frozenset[str]) -> Iterator[Problem]:
    """A reference to a field of the pod (validateObjectFieldSelector)."""
    path = ref.get("fieldPath") or ""
    if not path:
        yield required((*at, "fieldPath"))
    elif subscript := SUBSCRIPT.fullmatch(path):
        key = subscript[2]
        lowered = key.lower() if subscript[1] == "metadata.annotations" else key
        yield from (invalid((*at, "fieldPath"), path, s) for s in formats.qualified_name(lowered))
    elif path not in allowed:
        yield unsupported((*at, "fieldPath"), path, allowed)


def resource_field_problems(ref: Obj, at: Path, *, in_volume: bool) -> Iterator[Problem]:
    """A reference to a request or limit (validateContainerResourceFieldSelector)."""
    resource = ref.get("resource") or ""
    if in_volume and not ref.get("containerName"):
        yield required((*at, "containerName"))
    if not resource:
        yield required((*at, "resource"))
    elif resource not in _RESOURCES and ".hugepages-" not in resource:
        yield unsupported((*at, "resource"), resource, _RESOURCES)
    kind = resource.partition(".")[2]
    allowed = _CPU_DIVISORS if kind == "cpu" else _BYTE_DIVISORS
    divisor = parse_quantity(ref.get("divisor") or "0").text
    if resource and divisor not in allowed:
        listed = ", ".join(sorted(allowed))
        text = f"only divisor's values {listed} are supported with the {kind} resource"
        yield invalid((*at, "divisor"), divisor, text)
