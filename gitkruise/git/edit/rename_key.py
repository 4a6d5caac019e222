"""Keys renamed in a file's bytes; everything else stays as it was written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gitkruise.errors import Finding, InvalidManifests
from gitkruise.git.parsing.documents import parse_file
from gitkruise.model.gitops.document import Document, FieldPath, Position
from gitkruise.printable import shown
from gitkruise.wire.primitives.paths import get, put

_BOM: Final = "\ufeff"
_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")

# (which document of the file, path from that document's root, new name of the path's last key)
Renaming = tuple[int, FieldPath, str]


def rename_keys(data: bytes, file: str, renamings: Sequence[Renaming]) -> bytes:
    """`data` with the keys renamed: only their own characters differ.

    Raises InvalidManifests: what does not parse, GK3602 where more than the keys would change
    (two objects share the text by an alias, a key is not there or not written plainly).
    """
    parsed = parse_file(data, file).checked()
    roots = {d.index: d for d in parsed.documents}
    text = data.decode("utf-8")
    bom, text = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
    lines = [line for line in _LINE.findall(text) if line]
    for position, old, new in sorted(_positions(roots, renamings, file), reverse=True):
        line = lines[position.line - 1]
        head, written = line[: position.column - 1], line[position.column - 1 :][: position.length]
        quote = written[:1] if written[:1] in {'"', "'"} else ""
        if written != f"{quote}{old}{quote}":
            raise _refused(file, old)
        lines[position.line - 1] = f"{head}{quote}{new}{quote}{line[len(head) + len(written) :]}"
    result = (bom + "".join(lines)).encode("utf-8")
    wanted = {index: d.obj for index, d in roots.items()}
    for index, path, name in renamings:
        wanted[index] = _renamed(wanted[index], path, name)
    if {d.index: d.obj for d in parse_file(result, file).documents} != wanted:
        raise _refused(file, str(renamings[0][1][-1]))
    return result


def _positions(
    roots: Mapping[int, Document], renamings: Sequence[Renaming], file: str
) -> set[tuple[Position, str, str]]:
    out = set()
    for index, path, new in renamings:
        mark = roots[index].marks.get(path) if index in roots else None
        if mark is None or mark.key is None:
            raise _refused(file, str(path[-1]))
        out.add((mark.key, str(path[-1]), new))
    return out


def _renamed(root: Any, path: FieldPath, name: str) -> Any:
    *at, old = path
    parent = get(root, *at) if at else root
    new = {name if key == old else key: value for key, value in parent.items()}
    return put(root, tuple(at), new) if at else new


def _refused(file: str, name: str) -> InvalidManifests:
    message = f'{shown(file)}: "{name}" cannot be renamed without changing more than that'
    notes = (("unchanged", "the file"), ("next", "edit this field by hand"))
    return InvalidManifests(Finding(code="GK3602", message=message, notes=notes))
