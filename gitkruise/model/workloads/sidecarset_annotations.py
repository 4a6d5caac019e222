"""Annotations of pods about their SidecarSets: injected sets, hashes, update states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from gitkruise.model.workloads.sidecarset import SidecarSetFacts
from gitkruise.model.workloads.sidecarset_hash import HASH, HASH_WITHOUT_IMAGE
from gitkruise.wire.kruise.go_round_trip import Malformed, normalise
from gitkruise.wire.primitives.gojson import compact, ordered
from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time

INJECTED_LIST: Final = "kruise.io/sidecarset-injected-list"
INPLACE_STATE: Final = "kruise.io/sidecarset-inplace-update-state"
WORKING: Final = "kruise.io/sidecarset-working-hotupgrade-container"
VERSION_PREFIX: Final = "version.sidecarset.kruise.io/"
VERSION_ALT_PREFIX: Final = "versionalt.sidecarset.kruise.io/"

Notes = Mapping[str, str]  # annotations of a pod
_RECORD: Final = "SidecarSetUpgradeSpec"
_STATE: Final = "SidecarSetInPlaceUpdateState"


@dataclass(frozen=True, slots=True, kw_only=True)
class HashMark:
    """One SidecarSet's entry in a hash annotation; everything empty when there is none."""

    hash: str = ""
    updated: str = ""  # RFC 3339, as written
    sidecars: tuple[str, ...] = ()
    revision: str = ""


def version_key(container: str) -> str:
    """The annotation with the version of a hot sidecar's container (`mesh-1`)."""
    return VERSION_PREFIX + container


def version_alt_key(container: str) -> str:
    """The annotation with the version of its other container."""
    return VERSION_ALT_PREFIX + container


def injected_sets(notes: Notes) -> tuple[str, ...]:
    """Names of the SidecarSets injected into a pod, as listed."""
    listed = notes.get(INJECTED_LIST, "")
    return tuple(listed.split(",")) if listed else ()


def mark_of(notes: Notes, set_name: str) -> HashMark:
    """The hash recorded for a SidecarSet, in the present or the legacy form; lenient."""
    return _mark(notes.get(HASH, ""), set_name)


def mark_without_image(notes: Notes, set_name: str) -> HashMark:
    """The same of the hash without images."""
    return _mark(notes.get(HASH_WITHOUT_IMAGE, ""), set_name)


def working_containers(notes: Notes) -> dict[str, str]:
    """The serving container of each hot sidecar, by the sidecar's name; lenient."""
    found = _decoded(notes.get(WORKING, ""))
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        return {}
    return found


def working_text(working: Mapping[str, str]) -> str:
    """The annotation that says so."""
    return compact(working).decode()


def in_place_states(notes: Notes) -> dict[str, dict[str, Any]] | None:
    """`lastContainerStatuses` and the rest by SidecarSet; {} without the annotation.

    None when it cannot be read.
    """
    text = notes.get(INPLACE_STATE)
    return {} if text is None else _entries(text, _STATE)


def in_place_text(states: Mapping[str, Obj], name: str, state: Obj) -> str:
    """The annotation with the `state` of one set, next to those that `in_place_states` gives."""
    last = tuple((c, kept.get("imageID", "")) for c, kept in state["lastContainerStatuses"].items())
    others = {other: kept for other, kept in states.items() if other != name}
    texts = {other: _one_text(kept, _STATE) for other, kept in others.items()}
    texts[name] = _state_text(state["revision"], state["updateTimestamp"], last)
    return _joined(texts)


@lru_cache(maxsize=1024)  # many pods get the same one
def _state_text(revision: str, stamp: str, last: tuple[tuple[str, str], ...]) -> str:
    state = {
        "revision": revision,
        "updateTimestamp": stamp,
        "lastContainerStatuses": {name: {"imageID": kept} for name, kept in last},
    }
    return _one_text(state, _STATE)


def injected_notes(
    notes: Notes, sets: Iterable[tuple[SidecarSetFacts, bool]], now: datetime
) -> dict[str, str]:
    """The three annotations of an injection: both hashes, and the list of sets.

    `sets` are the sets that apply, each as it is injected and whether it brought containers. What
    the pod carries of other sets stays. Raises ValueError when that cannot be read.
    """
    hashes, without = (_texts_there(notes, key) for key in (HASH, HASH_WITHOUT_IMAGE))
    listed = set(injected_sets(notes))
    stamp = format_time(now)
    for facts, brought in sets:
        listed.add(facts.name)
        if brought:
            name, sidecars = facts.name, facts.sidecar_list
            hashes[name] = _entry(name, facts.hash, sidecars, stamp, facts.latest_revision)
            without[name] = _entry(name, facts.hash_without_image, sidecars, stamp, "")
    return {
        HASH: _joined(hashes),
        HASH_WITHOUT_IMAGE: _joined(without),
        INJECTED_LIST: ",".join(sorted(listed)),
    }


def upgraded_notes(notes: Notes, facts: SidecarSetFacts, now: datetime) -> dict[str, str]:
    """The hash annotations an in-place upgrade writes; the one without images only out of legacy.

    Unreadable annotations are replaced.
    """
    out = {}
    records = _entries(notes.get(HASH, ""), _RECORD)
    if records is None:
        records = _migrated(notes, HASH, facts, now) or {}
        without = _migrated(notes, HASH_WITHOUT_IMAGE, facts, now)
        if without is not None:
            out[HASH_WITHOUT_IMAGE] = _text(without, _RECORD)
    name, revision = facts.name, facts.latest_revision
    texts = {other: _entry_text(record) for other, record in records.items() if other != name}
    texts[name] = _entry(name, facts.hash, facts.sidecar_list, format_time(now), revision)
    return {**out, HASH: _joined(texts)}


@lru_cache(maxsize=1024)  # many pods get the same one
def _entry(name: str, digest: str, sidecars: tuple[str, ...], stamp: str, revision: str) -> str:
    record = {
        "updateTimestamp": stamp,
        "hash": digest,
        "sidecarSetName": name,
        "sidecarList": sidecars,
        "controllerRevision": revision,
    }
    return _entry_text(record)


def _entry_text(record: Obj) -> str:
    return _one_text(record, _RECORD)


def _joined(texts: Mapping[str, str]) -> str:
    """One JSON object of the entries, in key order."""
    return "{" + ",".join(f"{_quoted(name)}:{texts[name]}" for name in sorted(texts)) + "}"


@lru_cache(maxsize=1024)
def _quoted(name: str) -> str:
    return ordered(name).decode()


def _migrated(
    notes: Notes, key: str, facts: SidecarSetFacts, now: datetime
) -> dict[str, dict[str, Any]] | None:
    legacy = _legacy(notes.get(key, ""))
    if legacy is None:
        return None
    stamp = format_time(now)
    return {
        name: {"updateTimestamp": stamp, "hash": digest, "sidecarSetName": facts.name}
        for name, digest in legacy.items()
    }


def _texts_there(notes: Notes, key: str) -> dict[str, str]:
    """The entries an annotation holds, each as it will be written again."""
    text = notes.get(key, "")
    if not text:
        return {}
    records = _entries(text, _RECORD)
    if records is None:
        legacy = _legacy(text)
        if legacy is None:
            raise ValueError(f"annotation {key} cannot be read: {text[:200]!r}")
        records = {name: {"hash": h, "sidecarSetName": name} for name, h in legacy.items()}
    return {name: _entry_text(record) for name, record in records.items()}


def _mark(text: str, set_name: str) -> HashMark:
    if not text:
        return HashMark()
    records = _entries(text, _RECORD)
    if records is None:
        return HashMark(hash=(_legacy(text) or {}).get(set_name, ""))
    found = records.get(set_name)
    if found is None:
        return HashMark()
    return HashMark(
        hash=found["hash"],
        updated=found["updateTimestamp"] or "",
        sidecars=tuple(found["sidecarList"] or ()),
        revision=found.get("controllerRevision", ""),
    )


def _decoded(text: str) -> Any:
    """The JSON value of an annotation; None for null and for what is none."""
    try:
        return read_json(text)
    except ValueError:
        return None


def _each(text: str, read: Callable[[Any], Any]) -> dict[str, Any] | None:
    """A JSON object with every value read; None when it is none, or a value is not as it should."""
    if text.strip() == "null":
        return {}
    found = _decoded(text)
    if not isinstance(found, dict):
        return None
    try:
        return {key: read(value) for key, value in found.items()}
    except Malformed:
        return None


def _entries(text: str, type_name: str) -> dict[str, dict[str, Any]] | None:
    return _each(text, lambda value: normalise(type_name, value))


def _legacy(text: str) -> dict[str, str] | None:
    return _each(text, _hash_text)


def _hash_text(value: Any) -> str:
    if not isinstance(value, str | None):
        raise Malformed("a legacy record holds the hash alone")
    return value or ""


def _text(entries: Mapping[str, Obj], type_name: str) -> str:
    """As Go writes a map of structs: outer keys sorted, inner ones in struct order."""
    return _joined({k: _one_text(v, type_name) for k, v in entries.items()})


def _one_text(entry: Obj, type_name: str) -> str:
    return ordered(normalise(type_name, entry)).decode()
