"""One field of an object taken over from another version of its file, as it was written there."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from gitkruise.errors import InvalidManifests
from gitkruise.git.edit.set_field import find_object, refused
from gitkruise.git.parsing.documents import parse_file
from gitkruise.git.parsing.json_events import looks_like_json
from gitkruise.model.gitops.document import Document, FieldPath
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.paths import get, put

_BOM: Final = "\ufeff"
_IDLE: Final = re.compile(r"\s*(?:#.*)?")
_BREAK: Final = re.compile(r"\r\n|\r|\n")


class _Block(NamedTuple):
    """Lines of a field, from its key's to the last of its value; `indent` is the key's."""

    start: int
    end: int
    indent: int


def graft(data: bytes, file: str, key: ObjectKey, path: FieldPath, source: bytes) -> bytes:
    """Return `data` with the block at `path` of the object `key` copied from `source`.

    `source` is the file at another commit; its comments come along, and nothing else of `data`
    differs. Raises InvalidManifests: GK3601 no such object, GK3602 where lines cannot be swapped
    (flow style, JSON, anchors of other lines).
    """
    old, new = _parsed(data, file, key), _parsed(source, file, key)
    here, there = _block(old, path), _block(new, path)
    if here is None or there is None or looks_like_json(_text(data), file):
        raise _refusal(old, path, key)
    text = _text(data)
    end = "\r\n" if "\r\n" in text else "\n"
    lines = _BREAK.split(text)
    shift = here.indent - there.indent
    taken = [_shifted(line, shift) for line in _BREAK.split(_text(source))[there.start : there.end]]
    edited = end.join([*lines[: here.start], *taken, *lines[here.end :]])
    bom = _BOM if data.startswith(_BOM.encode()) else ""
    result = (bom + edited).encode("utf-8")
    wanted = put(old.obj, path, get(new.obj, *path))
    made = parse_file(result, file)
    before = parse_file(data, file)
    expected = [wanted if d.index == old.index else d.obj for d in before.documents]
    if old.base or [d.obj for d in made.documents] != expected:
        raise _refusal(old, path, key)
    return result


def _text(data: bytes) -> str:
    return data.decode("utf-8").removeprefix(_BOM)


def _parsed(data: bytes, file: str, key: ObjectKey) -> Document:
    return find_object(parse_file(data, file).checked(), key, file)


def _refusal(document: Document, path: FieldPath, key: ObjectKey) -> InvalidManifests:
    dotted = ".".join(str(part) for part in path)
    return refused("GK3602", f"cannot put {dotted} of {key} back as it was", document, path)


def _block(document: Document, path: FieldPath) -> _Block | None:
    """Return the lines of the field; None unless it is a block of its own below its key."""
    mark = document.marks.get((*document.base, *path))
    if mark is None or mark.key is None or mark.value.line <= mark.key.line:
        return None
    indent = mark.key.column - 1
    lines = document.lines
    if lines[mark.key.line - 1][:indent].strip():
        return None  # it shares its line with something before it
    listed = isinstance(get(document.obj, *path), list)  # its dashes may stand below the key
    end = mark.key.line
    for number in range(mark.key.line, len(lines)):
        line = lines[number]
        if line.startswith(("---", "...")):
            break
        depth = len(line) - len(line.lstrip(" "))
        if _IDLE.fullmatch(line):
            continue
        item = listed and depth == indent and (line[depth:] + " ").startswith("- ")
        if depth <= indent and not item:
            break
        end = number + 1
    return _Block(mark.key.line - 1, end, indent)


def _shifted(line: str, by: int) -> str:
    if not line.strip():
        return line
    return " " * by + line if by >= 0 else line[min(-by, len(line) - len(line.lstrip(" "))) :]
