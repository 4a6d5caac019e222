"""Catalog of the kinds a cluster serves, found by any of their names; grows with applied CRDs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from gitkruise.errors import Problem, invalid_object
from gitkruise.wire.catalog.crds import kinds_of
from gitkruise.wire.catalog.kinds import Kind, PrinterColumn, ScalePaths
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.requests import ResourceRef
from gitkruise.wire.schema.nodes import Lookup

__all__ = ["Catalog", "Kind", "PrinterColumn", "ScalePaths"]


class Catalog:
    """An immutable set of Kinds in the order of discovery: core first, preferred versions first."""

    def __init__(
        self, kinds: Iterable[Kind], core: Lookup, definitions: Sequence[Obj] | None = None
    ) -> None:
        """`core` gives core/v1 components: metadata and templates of CRDs; `definitions` are all
        CustomResourceDefinitions of a cluster, where the catalog is that of one."""
        self.definitions = definitions
        self._kinds = tuple(kinds)
        self.core = core

    # Indexes are built when they are asked for: a catalog grows by one definition at a time.

    @cached_property
    def _by_ref(self) -> Mapping[ResourceRef, Kind]:
        return {kind.ref: kind for kind in self._kinds}

    @cached_property
    def _by_kind(self) -> Mapping[tuple[str, str, str], Kind]:
        return {(kind.group, kind.version, kind.kind): kind for kind in self._kinds}

    @cached_property
    def _words(self) -> Mapping[str, tuple[Kind, ...]]:
        return _word_index(self._kinds)

    def kinds(self) -> tuple[Kind, ...]:
        """Every kind in every served version."""
        return self._kinds

    def by_ref(self, ref: ResourceRef) -> Kind | None:
        return self._by_ref.get(ref)

    def by_kind(self, group: str, version: str, kind: str) -> Kind | None:
        return self._by_kind.get((group, version, kind))

    def preferred(self, group: str, kind: str) -> Kind | None:
        """The kind in its group's preferred version."""
        return next((k for k in self._kinds if k.group == group and k.kind == kind), None)

    def stored(self, group_kind: GroupKind) -> Kind | None:
        """The kind in the version it is stored in."""
        group, kind = group_kind
        found = self.preferred(group, kind)
        return found and self._by_kind.get((group, found.storage_version, kind), found)

    def find(self, word: str) -> Kind | None:
        """The kind a user means: `clone`, `CloneSet`, `clonesets.apps.kruise.io`, `deploy.v1.apps`.

        Case does not matter. Full names win over short names, and earlier groups over later ones
        (so `events` is core's), as kubectl resolves them.
        """
        name, _, rest = word.lower().partition(".")
        for kind in self._words.get(name, ()):
            if rest in ("", kind.group, kind.version, f"{kind.version}.{kind.group}"):
                return kind
        return None

    def with_crd(self, crd: Obj, *, tried: bool = False) -> Catalog:
        """The catalog with a CustomResourceDefinition's kinds; an earlier definition is replaced.

        `tried`: its schema is known to be good, and is compiled as far as it is used.
        Raises InvalidObject when names or schema cannot be served.
        """
        added = kinds_of(crd, self.core, tried=tried)
        taken = self._conflict(added)
        if taken:
            path = ("spec", "names", "kind")
            problem = Problem(path, "FieldValueInvalid", f"Invalid value: {taken}: already in use")
            raise invalid_object(
                "CustomResourceDefinition",
                "apiextensions.k8s.io",
                crd["metadata"]["name"],
                [problem],
            )
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        return Catalog((*self._without(group, plural), *added), self.core)

    def without_crd(self, name: str) -> Catalog:
        """The catalog without the kinds of CRD `name` (`<plural>.<group>`)."""
        plural, _, group = name.partition(".")
        kept = self._without(group, plural)
        return self if len(kept) == len(self._kinds) else Catalog(kept, self.core)

    def _without(self, group: str, plural: str) -> tuple[Kind, ...]:
        return tuple(
            k for k in self._kinds if not (k.crd and k.group == group and k.plural == plural)
        )

    def _conflict(self, added: Iterable[Kind]) -> str:
        """The name of an added kind that another resource of its group uses already, or ""."""
        new = next(iter(added), None)
        if new is None:
            return ""  # no version is served
        for kind in self._kinds:
            if kind.group != new.group or (kind.crd and kind.plural == new.plural):
                continue
            if kind.plural == new.plural:
                return kind.plural
            if new.kind in (kind.kind, kind.list_kind):
                return new.kind
        return ""


def _word_index(kinds: Iterable[Kind]) -> Mapping[str, tuple[Kind, ...]]:
    """Lower-case word -> kinds it may mean, full names before short ones, in catalog order."""
    full: dict[str, list[Kind]] = {}
    short: dict[str, list[Kind]] = {}
    for kind in kinds:
        for word in dict.fromkeys((kind.plural, kind.singular, kind.kind.lower())):
            full.setdefault(word, []).append(kind)
        for word in kind.short_names:
            short.setdefault(word, []).append(kind)
    return {w: (*full.get(w, ()), *short.get(w, ())) for w in full.keys() | short.keys()}
