"""A text inside of a YAML file, such as an inline patch, changed where it is written."""

from __future__ import annotations

from typing import Final

from gitkruise.git.edit.set_field import edit_document, refused
from gitkruise.git.parsing.documents import parse_file
from gitkruise.model.gitops.document import Document, FieldPath
from gitkruise.wire.primitives.paths import get, put

_BLOCK: Final = "|"


def edit_inline(data: bytes, file: str, path: FieldPath, text: str) -> bytes:
    """Return `data` with `text` as the value at `path` of its first document.

    The value is a literal block, of which only the lines that differ are written, or a text of one
    line. Raises InvalidManifests GK3602 for any other form.
    """
    document = parse_file(data, file).documents[0]
    old = get(document.obj, *path)
    mark = document.marks.get(path)
    if mark is None or not document.written(path).startswith(_BLOCK):
        return edit_document(data, file, path, text)
    lines = data.decode("utf-8").splitlines(keepends=True)
    start, before, after = mark.value.line, old.splitlines(), text.splitlines()
    written = [line.rstrip("\r\n") for line in lines[start : start + len(before)]]
    first = next((n for n, line in enumerate(before) if line.strip()), None)
    if first is None or len(before) != len(after) or not written[first].endswith(before[first]):
        raise _refusal(document, path)
    indent = written[first][: -len(before[first])]
    for number, (was, line) in enumerate(zip(before, after, strict=True)):
        if was != line:
            here = lines[start + number]
            end = here[len(here.rstrip("\r\n")) :]
            lines[start + number] = indent + line + end
    result = "".join(lines).encode("utf-8")
    if [d.obj for d in parse_file(result, file).documents] != [put(document.obj, path, text)]:
        raise _refusal(document, path)
    return result


def _refusal(document: Document, path: FieldPath) -> Exception:
    return refused("GK3602", "cannot change only this text", document, path)
