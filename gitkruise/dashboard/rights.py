"""Rights that rows need: which resources a viewer must be allowed to list to see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from gitkruise.dashboard.board import Encoded
from gitkruise.dashboard.past_rows import NOTHING
from gitkruise.dashboard.record_rights import (
    RecordSubject,
    commit_rows,
    lanes_of,
    record_head,
    subject_of,
)
from gitkruise.dashboard.source import HEAD, Topic
from gitkruise.wire.primitives.names import OWN_GROUP, GroupKind, ObjectKey
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
_HEAD_KEYS: Final = ("cluster", "repository", "stale", "unread", "problem", "problemSince")
_RECORDS: Final = frozenset({"commits", "commit", "drift"})
_FREE: Final = frozenset(
    {"cluster", "fleet", "events", "session", "commits", "proposed", "drift", "machines"}
)
_SECRET: Final = GroupKind("", "Secret")
K = TypeVar("K")
V = TypeVar("V")
_KEPT_MAX: Final = 512  # results for one set of rights in one topic


@dataclass(frozen=True, slots=True)
class Rules:
    """Needs of topics and rows; `nouns` are the resources of workloads by their nouns, `kinds`
    those of all known kinds. `cluster` is the one that answers for its viewers.

    A topic without a rule needs everything, so that a new one shows nothing by mistake.
    """

    nouns: Mapping[str, ResourceRef]
    kinds: Callable[[GroupKind], ResourceRef | None]
    cluster: str

    def of_topic(self, topic: Topic) -> Needs:
        """Return what all rows of a topic need; those of `fleet`, `events` and of records have
        their own, and plans and forecasts are made for their viewer."""
        match topic.split("/"):
            case [first] if first in _FREE:
                return FREE
            case (
                ["stream", *_]
                | ["commit" | "plan" | "diff", _]
                | ["commit" | "plan" | "diff", "pr" | "branch", *_]
            ):
                return FREE
            case ["pods" | "past", noun, *space, _] | ["forecast", _, noun, *space, _] if (
                len(space) <= 1
            ):
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

    def of_object(self, key: ObjectKey) -> Needs:
        """Return what an object needs where git or a record is read. Secrets need everything."""
        ref = self.kinds(key.group_kind)
        if ref is None or key.group_kind == _SECRET:
            return ALL
        own = Need(ref.group, ref.plural, key.namespace)
        counted = ref in self.nouns.values()  # with its pods
        return frozenset({own, Need("", "pods", key.namespace)} if counted else {own})

    def of_subject(self, subject: RecordSubject) -> Needs:
        """Return what the subject of a record needs. The cluster knows no rights in others."""
        if subject.cluster != self.cluster:
            return ALL
        if subject.key is not None:
            return self.of_object(subject.key)
        return _unit_needs(subject.name)

    def _object(self, noun: str, namespace: str) -> Needs:
        """An object is shown with counts and failures of its pods, so it needs both."""
        ref = self.nouns.get(noun)
        if ref is None:
            return ALL
        own = Need(ref.group, ref.plural, namespace)
        return frozenset({own, Need("", "pods", namespace)})


@dataclass(slots=True)
class _Sorted:
    """Rows of a topic by their needs; `parts` are the needs of what is within a row, and `read`
    the rows that are narrowed for a viewer."""

    rows: Encoded
    groups: dict[Needs, dict[str, bytes]] = field(default_factory=dict)
    parts: dict[str, Needs] = field(default_factory=dict)
    read: dict[str, Any] = field(default_factory=dict)

    @property
    def needs(self) -> Needs:
        return FREE.union(*self.parts.values(), *self.groups)


class Sieve:
    """Rows that viewers may see; viewers with equal rights share one result."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._sorted: dict[Topic, _Sorted] = {}
        self._kept: dict[tuple[Topic, Needs], tuple[Encoded, Encoded]] = {}

    def needs(self, topic: Topic, rows: Encoded) -> Needs:
        """Return the rights that rows of a topic need, each of them for some rows."""
        return self._of(topic, rows).needs

    def pick(self, topic: Topic, rows: Encoded, granted: Needs) -> Encoded:
        """Return the rows for a viewer who has some of the rights in `needs`."""
        if EVERYTHING in granted:
            return rows
        found, key = self._of(topic, rows), (topic, granted)
        source, kept = self._kept.get(key, (None, NOTHING))
        if source is rows:
            return kept
        picked = {
            name: row
            for needs, group in found.groups.items()
            if needs <= granted
            for name, row in group.items()
        }
        for name, row in self._narrowed(topic, found, picked, granted).items():
            text = msgspec.json.encode(row)
            known = kept.get(name)  # the same object for the same row: it did not change
            picked[name] = known if known == text else text
        bounded(self._kept)[key] = (rows, picked)
        return picked

    def _of(self, topic: Topic, rows: Encoded) -> _Sorted:
        found = self._sorted.get(topic)
        if found is not None and found.rows is rows:
            return found
        found = _Sorted(rows)
        first = topic.partition("/")[0]
        if first == "proposed":
            for name, row in rows.items():
                needs = FREE.union(*map(_unit_needs, msgspec.json.decode(row)["units"]))
                found.groups.setdefault(needs, {})[name] = row
        elif first in _RECORDS:
            self._read_records(found, first)
        else:
            for name, row in rows.items():
                if name == HEAD and topic == "fleet":
                    found.read[HEAD] = head = msgspec.json.decode(row)
                    found.parts = {u: _unit_needs(u) for u in _units(head)}
                else:
                    needs = self.rules.of_row(topic, name)
                    found.groups.setdefault(needs, {})[name] = row
        bounded(self._sorted)[topic] = found
        return found

    def _read_records(self, found: _Sorted, first: str) -> None:
        found.read = {name: msgspec.json.decode(row) for name, row in found.rows.items()}
        if first == "commits" and HEAD in found.read:
            head = found.read[HEAD]
            needs = map(self.rules.of_subject, lanes_of(head))
            found.parts = dict(zip(head["lanes"], needs, strict=True))
        elif first != "commits":
            for name, row in found.rows.items():
                if name != HEAD:
                    rights = self.rules.of_subject(subject_of(name, found.read[name]))
                    found.groups.setdefault(rights, {})[name] = row

    def _narrowed(
        self, topic: Topic, found: _Sorted, picked: Mapping[str, bytes], granted: Needs
    ) -> Mapping[str, Any]:
        """Return the rows of which the viewer sees a part."""
        if HEAD not in found.read:
            return {}
        parts = {part for part, needs in found.parts.items() if needs <= granted}
        if topic == "fleet":
            return {HEAD: _fleet_head(found.read[HEAD], parts)}
        if topic == "commits":
            return commit_rows(found.read, parts, self.rules.cluster)
        return {HEAD: record_head(topic, found.read, picked.keys(), self.rules.cluster)}


def _fleet_head(head: Mapping[str, Any], units: Set[str]) -> dict[str, Any]:
    shown = {"limited": True, **{name: head[name] for name in _HEAD_KEYS if name in head}}
    return {**shown, "units": [u for u in head.get("units", ()) if u["unit"] in units]}


def _units(head: Mapping[str, list[Mapping[str, str]]]) -> Iterable[str]:
    return (unit["unit"] for unit in head.get("units", ()))


def _unit_needs(unit: str) -> Needs:
    return frozenset({_unit_need(unit)})


def _unit_need(unit: str) -> Need:
    """A unit is NAMESPACE/NAME, and shown to those who may list units there."""
    return Need(OWN_GROUP, "units", unit.partition("/")[0])


def bounded(kept: dict[K, V], most: int = _KEPT_MAX) -> dict[K, V]:
    """Return entries that have room for one more: the oldest goes where there are `most`."""
    if len(kept) >= most:
        del kept[next(iter(kept))]
    return kept
