"""Rights that rows need: which resources a viewer must be allowed to list to see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from gitkruise.dashboard.board import Encoded
from gitkruise.dashboard.source import HEAD, Topic
from gitkruise.wire.primitives.names import OWN_GROUP
from gitkruise.wire.primitives.requests import ResourceRef


class Need(NamedTuple):
    """The right to list and watch a resource; namespace "" is every namespace."""

    group: str
    resource: str
    namespace: str

    def __str__(self) -> str:
        name = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{name} in {f'namespace {self.namespace}' if self.namespace else 'all namespaces'}"

    @property
    def everywhere(self) -> Need:
        """The same right in every namespace, which includes this one."""
        return Need(self.group, self.resource, "")


Needs: TypeAlias = frozenset[Need]
EVERYTHING: Final = Need("*", "*", "")
FREE: Final[Needs] = frozenset()
ALL: Final[Needs] = frozenset({EVERYTHING})
# What a page's head may say to a viewer who does not see everything, apart from its units.
_HEAD_KEYS: Final = ("cluster", "repository", "stale", "problem", "problemSince")
K = TypeVar("K")
V = TypeVar("V")
_KEPT_MAX: Final = 512  # results for one set of rights in one topic


@dataclass(frozen=True, slots=True)
class Rules:
    """Needs of topics and rows; `nouns` are the resources of objects by their nouns.

    A topic without a rule needs everything, so that a new one shows nothing by mistake.
    """

    nouns: Mapping[str, ResourceRef]

    def of_topic(self, topic: Topic) -> Needs:
        """Return what all rows of a topic need; those of `fleet` and `events` have their own."""
        match topic.split("/"):
            case ["cluster"] | ["fleet"] | ["events"] | ["session"] | ["stream", *_]:
                return FREE
            case ["pods", noun, *space, _] if len(space) <= 1:
                return self._object(noun, "".join(space))
            case ["why", noun, *space, _] if len(space) <= 1:
                return self._object(noun, "".join(space)) | {Need("", "events", "".join(space))}
            case ["nodes"]:
                return FREE.union(*(self._object(noun, "") for noun in self.nouns))
            case _:
                return ALL

    def of_row(self, topic: Topic, key: str) -> Needs:
        """Return what one row needs in addition."""
        parts = key.split("/")
        if topic == "fleet" and len(parts) in {2, 3}:
            noun, *space, _ = parts
            return self._object(noun, "".join(space))
        if topic == "events" and len(parts) == 2:
            return frozenset({Need("", "events", parts[0])})
        return ALL if topic in {"fleet", "events"} else FREE

    def _object(self, noun: str, namespace: str) -> Needs:
        """An object is shown with counts and failures of its pods, so it needs both."""
        ref = self.nouns.get(noun)
        if ref is None:
            return ALL
        own = Need(ref.group, ref.plural, namespace)
        return frozenset({own, Need("", "pods", namespace)})


@dataclass(slots=True)
class _Sorted:
    """Rows of a topic by their needs."""

    rows: Encoded
    groups: dict[Needs, dict[str, bytes]] = field(default_factory=dict)
    units: dict[str, Need] = field(default_factory=dict)

    @property
    def needs(self) -> Needs:
        return frozenset(self.units.values()).union(*self.groups)


class Sieve:
    """Rows that viewers may see; viewers with equal rights share one result."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._sorted: dict[Topic, _Sorted] = {}
        self._kept: dict[tuple[Topic, Needs], tuple[Encoded, Encoded]] = {}
        self._heads: dict[tuple[Topic, Needs], tuple[bytes, bytes]] = {}

    def needs(self, topic: Topic, rows: Encoded) -> Needs:
        """Return the rights that rows of a topic need, each of them for some rows."""
        return self._of(topic, rows).needs

    def pick(self, topic: Topic, rows: Encoded, granted: Needs) -> Encoded:
        """Return the rows for a viewer who has some of the rights in `needs`."""
        if EVERYTHING in granted:
            return rows
        found, key = self._of(topic, rows), (topic, granted)
        source, kept = self._kept.get(key, (None, {}))
        if source is rows:
            return kept
        picked = {
            name: row
            for needs, group in found.groups.items()
            if needs <= granted
            for name, row in group.items()
        }
        if HEAD in rows and topic == "fleet":
            picked[HEAD] = self._head(key, rows[HEAD], found.units)
        bounded(self._kept)[key] = (rows, picked)
        return picked

    def _of(self, topic: Topic, rows: Encoded) -> _Sorted:
        found = self._sorted.get(topic)
        if found is not None and found.rows is rows:
            return found
        found = _Sorted(rows)
        for name, row in rows.items():
            if name == HEAD and topic == "fleet":
                found.units = {u: _unit_need(u) for u in _units(msgspec.json.decode(row))}
            else:
                needs = self.rules.of_row(topic, name)
                found.groups.setdefault(needs, {})[name] = row
        bounded(self._sorted)[topic] = found
        return found

    def _head(self, key: tuple[Topic, Needs], row: bytes, units: Mapping[str, Need]) -> bytes:
        """The same object for the same row: it did not change for the viewer either."""
        source, kept = self._heads.get(key, (b"", b""))
        if source is row:
            return kept
        head, granted = msgspec.json.decode(row), key[1]
        shown = {"limited": True, **{name: head[name] for name in _HEAD_KEYS if name in head}}
        shown["units"] = [u for u in head.get("units", ()) if units[u["unit"]] in granted]
        kept = msgspec.json.encode(shown)
        bounded(self._heads)[key] = (row, kept)
        return kept


def _units(head: Mapping[str, list[Mapping[str, str]]]) -> Iterable[str]:
    return (unit["unit"] for unit in head.get("units", ()))


def _unit_need(unit: str) -> Need:
    """A unit is NAMESPACE/NAME, and shown to those who may list units there."""
    return Need(OWN_GROUP, "units", unit.partition("/")[0])


def bounded(kept: dict[K, V], most: int = _KEPT_MAX) -> dict[K, V]:
    """Return entries that have room for one more: the oldest goes where there are `most`."""
    if len(kept) >= most:
        del kept[next(iter(kept))]
    return kept
