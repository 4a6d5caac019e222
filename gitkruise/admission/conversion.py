"""One object in another version of its kind: pure functions, looked up by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gitkruise.wire.names import GroupKind, Obj, join_api_version, split_api_version

Conversion = Callable[[Obj, str, str], Obj]  # (object, version it has, version wanted)

CONVERSIONS: Final[Mapping[GroupKind, Conversion]] = {}


def convert(obj: Obj, to_version: str) -> Obj:
    """`obj` in `to_version` of its group ("v1beta1"); shared and unchanged where nothing differs.

    Kinds without an entry differ in `apiVersion` alone.
    """
    group, version = split_api_version(obj["apiVersion"])
    if version == to_version:
        return obj
    change = CONVERSIONS.get(GroupKind(group, obj["kind"]))
    changed = change(obj, version, to_version) if change else obj
    return {**changed, "apiVersion": join_api_version(group, to_version)}
