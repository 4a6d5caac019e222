"""Kinds as a cluster serves them: names, verbs, subresources, printer columns, schemas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gitkruise.wire.primitives.names import GroupKind, join_api_version
from gitkruise.wire.primitives.requests import ResourceRef
from gitkruise.wire.schema.nodes import Node

ALL_VERBS: Final = frozenset(
    {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrinterColumn:
    """A printer column of a CRD version: type is integer, number, string, boolean or date."""

    name: str
    type: str
    json_path: str
    priority: int = 0
    format: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePaths:
    """Paths of the scale subresource into an object of its kind.

    `selector` leads to a selector in string form (CRDs) or to a LabelSelector (built-in kinds).
    """

    replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...] = ()


_HOMES: Final = {GroupKind("events.k8s.io", "Event"): GroupKind("", "Event")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind as served in one version.

    `storage_version` is the version objects of the group and kind are kept in. `schema` is the
    structural schema as served (a CloneSet's template is opaque there, as in its CRD); `strict`
    is the same with pod templates, containers and claims typed from core/v1, for offline checks.
    Two Kinds are equal when everything but the schemas is.
    """

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    list_kind: str
    namespaced: bool
    storage_version: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: frozenset[str] = ALL_VERBS
    subresources: frozenset[str] = frozenset()
    columns: tuple[PrinterColumn, ...] = ()
    scale: ScalePaths | None = None
    crd: bool = False
    deprecation: str = ""  # what a server says of every use of a version of a CRD
    load_schema: Callable[[], Node] = field(compare=False, repr=False)
    load_strict: Callable[[], Node] = field(compare=False, repr=False)

    @property
    def ref(self) -> ResourceRef:
        return ResourceRef(self.group, self.version, self.plural)

    @property
    def moves(self) -> bool:
        """Return whether the stored form may differ from the form that is served."""
        return self.crd or not self.is_stored_form

    @property
    def is_stored_form(self) -> bool:
        """Return whether objects are stored in this group and version."""
        return self.version == self.storage_version and self.home == self.group_kind

    @property
    def home(self) -> GroupKind:
        """The group and kind that objects are stored under; events of two groups share theirs."""
        return _HOMES.get(self.group_kind, self.group_kind)

    group_kind: GroupKind = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "group_kind", GroupKind(self.group, self.kind))

    @property
    def api_version(self) -> str:
        return join_api_version(self.group, self.version)

    @property
    def schema(self) -> Node:
        """The structural schema as served; compiled once, on first use."""
        return self.load_schema()

    @property
    def strict(self) -> Node:
        """The schema with every template typed; compiled once, on first use."""
        return self.load_strict()
