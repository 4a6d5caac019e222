"""CustomResourceDefinitions as Kinds, with the checks that keep a bad one from being served."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

from gitkruise.errors import Problem, invalid_object
from gitkruise.wire.catalog.kinds import Kind, PrinterColumn, ScalePaths
from gitkruise.wire.catalog.kruise_schemas import typed_templates
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.schema.crd_field_types import schema_problems
from gitkruise.wire.schema.nodes import Components, Lookup, Node, crd_schema
from gitkruise.wire.schema.patterns import BadPattern

MAX_SCHEMA_NODES: Final = 50_000
_REQUIRED: Final[tuple[tuple[str, ...], ...]] = (
    ("spec", "group"), ("spec", "names", "plural"), ("spec", "names", "kind"), ("spec", "scope"),
    ("spec", "versions"),
)  # fmt: skip
Steps: TypeAlias = tuple[str | int, ...]
_VERSIONS, _SCHEMA = ("spec", "versions"), ("schema", "openAPIV3Schema")

_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES: Final = {"alpha": 0, "beta": 1, None: 2}


def version_order(version: str) -> tuple[int, int, int, str]:
    """Sort key of API versions, most preferred first: v2, v1, v1beta2, v1alpha1, others by name."""
    found = _VERSION.fullmatch(version)
    if not found:
        return (1, 0, 0, version)
    major, stage, minor = found.groups()
    return (-_STAGES[stage], -int(major), -int(minor or 0), "")


def kinds_of(crd: Obj, core: Lookup, *, tried: bool = False) -> tuple[Kind, ...]:
    """One Kind for each served version, preferred version first.

    `core` gives core/v1 components, for metadata and templates. Raises InvalidObject with every
    problem: missing names, a name that is not `<plural>.<group>`, not exactly one storage version,
    a pattern no linear-time matcher can run, a schema too large. One that was `tried` before has
    its fields compiled when they are asked for.
    """
    problems = list(_problems(crd))
    if not problems and not tried:
        problems = list(schemas_problems(crd))
    kinds: list[Kind] = []
    if not problems:
        kinds = [_kind(crd, version, core) for version in crd["spec"]["versions"]]
    if not problems and not tried:
        problems = [p for i, kind in enumerate(kinds) for p in _schema_problems(kind, i)]
    if problems:
        name = str((crd.get("metadata") or {}).get("name") or "")
        raise invalid_object("CustomResourceDefinition", "apiextensions.k8s.io", name, problems)
    served = {version["name"] for version in crd["spec"]["versions"] if version.get("served")}
    found = [kind for kind in kinds if kind.version in served]
    return tuple(sorted(found, key=lambda kind: version_order(kind.version)))


def schemas_problems(crd: Obj) -> Iterator[Problem]:
    """Everything in the schemas of a definition that is of another type than it must be, and
    every reference; what makes a version no version is left to others."""
    versions = _lookup(crd, _VERSIONS)
    for index, version in enumerate(versions if isinstance(versions, list) else ()):
        schema = _lookup(version, _SCHEMA)
        if schema is not None:
            at: Steps = (*_VERSIONS, index, *_SCHEMA)
            yield from schema_problems(schema, at, most=MAX_SCHEMA_NODES)


def _problems(crd: Obj) -> Iterator[Problem]:
    missing = [path for path in _REQUIRED if not _lookup(crd, path)]
    for path in missing:
        yield Problem(path, "FieldValueRequired", "Required value")
    if missing:
        return
    spec = crd["spec"]
    wanted = f"{spec['names']['plural']}.{spec['group']}"
    name = (crd.get("metadata") or {}).get("name")
    if name != wanted:
        message = f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group'
        yield Problem(("metadata", "name"), "FieldValueInvalid", message)
    if spec["scope"] not in ("Namespaced", "Cluster"):
        message = f'Unsupported value: "{spec["scope"]}": supported values: "Cluster", "Namespaced"'
        yield Problem(("spec", "scope"), "FieldValueNotSupported", message)
    if sum(bool(version.get("storage")) for version in spec["versions"]) != 1:
        message = "Invalid value: must have exactly one version marked as storage version"
        yield Problem(("spec", "versions"), "FieldValueInvalid", message)
    for index, version in enumerate(spec["versions"]):
        if not _lookup(version, ("schema", "openAPIV3Schema")):
            at = ("spec", "versions", index, "schema", "openAPIV3Schema")
            yield Problem(at, "FieldValueRequired", "Required value: schemas are required")


def _lookup(value: Any, path: Sequence[str]) -> Any:
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _kind(crd: Obj, version: Mapping[str, Any], core: Lookup) -> Kind:
    spec = crd["spec"]
    names = spec["names"]
    kind = names["kind"]
    subresources = version.get("subresources") or {}

    components = Components(core)
    raw = crd_schema(version["schema"]["openAPIV3Schema"])
    typed = typed_templates(spec["group"], kind, raw, core)
    load = cache(lambda: Node(raw, components))
    load_strict = load if typed is raw else cache(lambda: Node(typed, components))
    return Kind(
        group=spec["group"],
        version=version["name"],
        kind=kind,
        plural=names["plural"],
        singular=names.get("singular") or kind.lower(),
        list_kind=names.get("listKind") or kind + "List",
        namespaced=spec["scope"] == "Namespaced",
        storage_version=next(v["name"] for v in spec["versions"] if v.get("storage")),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=frozenset(name for name in ("status", "scale") if name in subresources),
        columns=columns_of(version),
        scale=scale_of(version),
        crd=True,
        deprecation=_deprecation(spec, version),
        load_schema=load,
        load_strict=load_strict,
    )


def _deprecation(spec: Mapping[str, Any], version: Mapping[str, Any]) -> str:
    """The warning about a deprecated version: its own, or one that names a better version."""
    if not version.get("deprecated"):
        return ""
    if own := version.get("deprecationWarning"):
        return str(own)
    group, kind, name = spec["group"], spec["names"]["kind"], version["name"]
    better = (
        one["name"]
        for one in spec["versions"]
        if one.get("served") and not one.get("deprecated")
        and version_order(one["name"]) < version_order(name)
    )  # fmt: skip
    use = next((f"; use {group}/{one} {kind}" for one in better), "")
    return f"{group}/{name} {kind} is deprecated{use}"


def columns_of(version: Mapping[str, Any]) -> tuple[PrinterColumn, ...]:
    """The printer columns of a CRD version, as written (none means the server's own AGE column)."""
    return tuple(
        PrinterColumn(
            name=raw["name"],
            type=raw["type"],
            json_path=raw["jsonPath"],
            priority=raw.get("priority") or 0,
            format=raw.get("format") or "",
            description=raw.get("description") or "",
        )
        for raw in version.get("additionalPrinterColumns") or ()
    )


def scale_of(version: Mapping[str, Any]) -> ScalePaths | None:
    """The scale subresource's paths of a CRD version, if it has one."""
    raw = (version.get("subresources") or {}).get("scale")
    if not raw:
        return None
    return ScalePaths(
        replicas=_path(raw["specReplicasPath"]),
        status_replicas=_path(raw["statusReplicasPath"]),
        selector=_path(raw.get("labelSelectorPath") or ""),
    )


def _path(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(".")))


def _schema_problems(kind: Kind, index: int) -> Iterator[Problem]:
    """Compile every field once, so that a bad pattern is reported here, not by the first object."""
    at: Steps = (*_VERSIONS, index, *_SCHEMA)
    try:
        count = sum(1 for _ in _fields(kind.schema))
        if count > MAX_SCHEMA_NODES:
            message = f"Too many: {count}: must have at most {MAX_SCHEMA_NODES} fields"
            yield Problem(at, "FieldValueTooMany", message)
    except BadPattern as bad:
        message = f"Invalid value: must be a valid regular expression, but isn't: {bad}"
        yield Problem(at, "FieldValueInvalid", message)


def _fields(root: Node) -> Iterator[Node]:
    """Every field below a CRD's root but metadata, at most one more than is allowed."""
    stack = [child for key, child in root.children() if key != "metadata"]
    count = 0
    while stack and count <= MAX_SCHEMA_NODES:
        node = stack.pop()
        count += 1
        yield node
        stack += [child for _, child in node.children()]
        stack += [node.items] if node.items else []
        stack += [node.additional] if node.additional else []
