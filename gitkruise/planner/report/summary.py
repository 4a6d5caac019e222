"""A change in a few words, as histories, status commits and progress lines show it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from gitkruise import printable
from gitkruise.model.gitops.change import MISSING, FieldChange
from gitkruise.model.planning.canary import ANNOTATION
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.intstr import UnreadableAmount, resolve_decimal

_PLAIN: Final = {"replicas": "replicas", "partition": "partition", "paused": "paused",
                 "maxUnavailable": "maxUnavailable", "maxSurge": "maxSurge",
                 ANNOTATION: "canary"}  # fmt: skip
_UNSET: Final = {"partition": "0", "paused": "false", "maxSurge": "0"}  # OpenKruise's defaults
SHOWN: Final = 3


def summarize(fields: Sequence[FieldChange], after: Obj) -> str:
    """`app v2.4.0 → v2.4.1, partition 0 → 60%`; "" for no change.

    `after` is the object the paths point into, for the names of containers.
    """
    words = [_words(change, after) for change in fields]
    known = [w for w in dict.fromkeys(words) if w]
    other = sum(1 for w in words if not w)
    if other:
        known.append(f"{other} more field{'s' if other > 1 else ''}" if known else _first(fields))
    return ", ".join(known[:SHOWN]) + (", …" if len(known) > SHOWN else "")


def _words(change: FieldChange, after: Obj) -> str:
    path = change.path
    last = path[-1] if path else ""
    if last == "image" and "containers" in path:
        name = get(after, *path[:-1], "name", default="image")
        return f"{name} {tag_of(change.before)} → {tag_of(change.after)}"
    if isinstance(last, str) and last in _PLAIN:
        old, new = (
            _UNSET.get(last, "unset") if value is MISSING else shown(value)
            for value in (change.before, change.after)
        )
        return f"{_PLAIN[last]} {old} → {new}" if old != new else ""
    return ""


def _first(fields: Sequence[FieldChange]) -> str:
    path = ".".join(str(p) for p in fields[0].path)
    return path if len(fields) == 1 else f"{path} and {len(fields) - 1} more"


def tag_of(image: Any) -> str:
    """The part of an image name that changes: its tag, or the start of its digest."""
    if not isinstance(image, str):
        return shown(image)
    name, at, digest = image.partition("@")
    if at:
        return digest[:15]
    repository, colon, tag = name.rpartition(":")
    return tag if colon and "/" not in tag else repository.rpartition("/")[2] or name


def shown(value: Any) -> str:
    """A value for a sentence; long ones are cut, and nothing in it steers a terminal."""
    if value is MISSING or value is None:
        return "unset"
    plain = not isinstance(value, (bool, dict, list))
    text = str(value) if plain else json.dumps(value, ensure_ascii=False, default=str)
    return printable.shown(text, 60)


def keeps(partition: str, replicas: int, kept: int) -> str:
    """A partition with its arithmetic, where that is all: `partition 60% keeps ⌈10 × 60 %⌉ = 6`."""
    if partition.endswith("%") and _rounded(partition, replicas) == kept:
        return f"partition {partition} keeps ⌈{replicas} × {partition[:-1]} %⌉ = {kept}"
    return f"partition {partition} keeps {kept} of {replicas}"


def _rounded(share: str, replicas: int) -> int | None:
    try:
        return resolve_decimal(share, replicas, round_up=True)
    except UnreadableAmount:
        return None
