"""patchPodMetadata: annotations a SidecarSet writes on pods, at birth and at each upgrade."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from gitkruise.wire.primitives.gojson import compact
from gitkruise.wire.primitives.json_text import decode_problem
from gitkruise.wire.primitives.names import Obj

RETAIN, OVERWRITE, MERGE_PATCH_JSON = "Retain", "Overwrite", "MergePatchJson"
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[ \t\r\n]+', re.DOTALL)
_ESCAPED: Final = re.compile("[<>&\u2028\u2029]")
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_DEPTH_MAX: Final = 100


def patched_annotations(notes: Mapping[str, str], patches: Iterable[Obj]) -> dict[str, str]:
    """A pod's annotations with every element of `patchPodMetadata` applied in order.

    Retain sets what is not there, Overwrite sets, MergePatchJson merges JSON into JSON (RFC 7386);
    other policies do nothing. Raises ValueError, naming the annotation, on what is no JSON.
    """
    out = dict(notes)
    for patch in patches:
        policy = patch.get("patchPolicy") or RETAIN
        for key, value in (patch.get("annotations") or {}).items():
            if policy == OVERWRITE or (policy == RETAIN and key not in out):
                out[key] = value
            elif policy == MERGE_PATCH_JSON:
                out[key] = _merged_note(key, out.get(key, ""), value)
    return out


def _merged_note(key: str, before: str, patch: str) -> str:
    if not before:
        return patch  # as it is, whatever it is
    try:
        return merged_text(before, patch)
    except ValueError as error:
        raise ValueError(f"annotation {key}: {error}") from error


def merged_text(before: str, patch: str) -> str:
    """RFC 7386 on JSON texts as Go's json-patch answers: members that no patch names keep their
    spelling, keys of merged objects are sorted, no spaces. Raises ValueError.
    """
    kinds = _kind(before, "the present value"), _kind(patch, "the patch")
    if "null" in kinds:
        raise ValueError("null is nothing to merge")
    if kinds[1] != "object":
        return patch if kinds[1] == "scalar" else _pruned(patch, 0)
    return _merge(before, patch, 0) if kinds[0] == "object" else _pruned(patch, 0)


def _kind(text: str, what: str) -> str:
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is no JSON: {decode_problem(error)}") from error
    if value is None:
        return "null"
    return "object" if isinstance(value, dict) else "list" if isinstance(value, list) else "scalar"


def _merge(before: str, patch: str, depth: int) -> str:
    """Both are objects."""
    out = {key: _spelled(raw) for key, raw in _members(before, depth).items()}
    for key, raw in _members(patch, depth).items():
        text = bytes(raw).decode()
        there = out.get(key, "null")
        if text.strip() == "null":
            out.pop(key, None)
        elif _is_object(there) and _is_object(text):
            out[key] = _merge(there, text, depth + 1)
        elif _is_object(there):
            out[key] = _spelled(text)  # a list in place of an object keeps its nulls
        else:
            out[key] = _pruned(text, depth + 1)
    return _object(out)


def _pruned(text: str, depth: int) -> str:
    """A value of the patch without the nulls of its objects; scalars keep their spelling."""
    if _is_object(text):
        kept = {
            key: _pruned(bytes(raw).decode(), depth + 1)
            for key, raw in _members(text, depth).items()
            if bytes(raw).strip() != b"null"
        }
        return _object(kept)
    if text.strip().startswith("["):
        items = msgspec.json.decode(text, type=list[msgspec.Raw])
        _check_depth(depth)
        return "[" + ",".join(_pruned(bytes(raw).decode(), depth + 1) for raw in items) + "]"
    return _spelled(text)


def _members(text: str, depth: int) -> dict[str, msgspec.Raw]:
    _check_depth(depth)
    return _MEMBERS.decode(text)


def _check_depth(depth: int) -> None:
    if depth > _DEPTH_MAX:
        raise ValueError(f"nested deeper than {_DEPTH_MAX} levels")


def _is_object(text: str) -> bool:
    return text.lstrip().startswith("{")


def _object(members: Mapping[str, str]) -> str:
    named = (f"{compact(key).decode()}:{members[key]}" for key in sorted(members))
    return "{" + ",".join(named) + "}"


def _spelled(raw: Any) -> str:
    """A JSON text as Go compacts it: no spaces outside strings, HTML escaped."""
    text = raw if isinstance(raw, str) else bytes(raw).decode()
    tight = _TOKEN.sub(lambda found: found[0] if found[0][0] == '"' else "", text)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", tight)
