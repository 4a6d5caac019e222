"""One field of one object changed in a file's bytes; everything else stays as it was written."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, SingleQuotedScalarString

from gitkruise.errors import Finding, InvalidManifests
from gitkruise.git.parsing.documents import Parsed, parse_file
from gitkruise.git.parsing.json_events import looks_like_json
from gitkruise.git.parsing.yaml_scalars import resolve
from gitkruise.model.gitops.document import Document, FieldPath, Position
from gitkruise.printable import shown
from gitkruise.wire.primitives.names import ObjectKey, key_of
from gitkruise.wire.primitives.paths import get, put

_BOM: Final = "\ufeff"
_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./](?:[\w./@%+-]|:(?=\S))*")
_SIMPLE_KEY: Final = re.compile(r"[A-Za-z_][\w.-]*(?:/[\w.-]+)?")
_PROPERTIES: Final = re.compile(r"(?:[&!]\S*[ \t]+)*")
_WIDTH: Final = 1 << 20  # never fold


def edit_field(data: bytes, file: str, key: ObjectKey, path: FieldPath, value: Any) -> bytes:
    """`data` with the scalar `value` at `path` of the object `key`.

    Comments, quotes and layout stay; only lines of the field itself differ. A missing field is
    added to the nearest mapping that is there. An object without a namespace matches any.
    Raises InvalidManifests: what does not parse, GK3601 no such object, GK3602 no safe edit.
    """
    parsed = parse_file(data, file).checked()
    document = find_object(parsed, key, file)
    return _edited(data, file, parsed, document, path, value, named=str(key))


def edit_document(data: bytes, file: str, path: FieldPath, value: Any, *, index: int = 0) -> bytes:
    """`data` with the scalar `value` at `path` of its document `index`, which may have no name.

    Raises InvalidManifests as `edit_field` does.
    """
    parsed = parse_file(data, file).checked()
    document = next(d for d in parsed.documents if d.index >= index)
    return _edited(data, file, parsed, document, path, value, named=shown(file))


def _edited(
    data: bytes, file: str, parsed: Parsed, document: Document, path: FieldPath, value: Any,
    *, named: str,
) -> bytes:  # fmt: skip
    assert path
    assert isinstance(value, str | int | float | bool | None)
    if get(document.obj, *path) == value and type(get(document.obj, *path)) is type(value):
        return data
    text = data.decode("utf-8")
    bom, text = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
    target = _Target(file, text, document, (*document.base, *path), value)
    wanted = _expected(parsed, document, target)
    for attempt in (_round_trip, _in_place):
        edited = attempt(target)
        if edited is not None and _only_the_field(target, edited):
            result = (bom + edited).encode("utf-8")
            if [d.obj for d in parse_file(result, file).documents] == wanted:
                return result
    raise refused("GK3602", f"cannot change only {_dotted(path)} of {named}", document, path)


@dataclasses.dataclass(frozen=True, slots=True)
class _Target:
    """The field to change. `path` starts at the document's root."""

    file: str
    text: str
    document: Document
    path: FieldPath
    value: Any

    def lines(self) -> list[str]:
        """Lines with their ends."""
        return [line for line in _LINE.findall(self.text) if line]

    @property
    def json(self) -> bool:
        return looks_like_json(self.text, self.file)


def find_object(parsed: Parsed, key: ObjectKey, file: str) -> Document:
    """The document (or item of a list) that is `key`; raises InvalidManifests GK3601."""
    for document in parsed.documents:
        for candidate in _with_items(document):
            obj = candidate.obj
            if not (isinstance(obj, dict) and isinstance(obj.get("apiVersion"), str)):
                continue
            if not isinstance(obj.get("kind"), str) or not isinstance(obj.get("metadata"), dict):
                continue
            found = key_of(obj)
            if found._replace(namespace=found.namespace or key.namespace) == key:
                return candidate
    message = f"there is no {key} in {shown(file)}"
    raise InvalidManifests(Finding(code="GK3601", message=message))


def _with_items(document: Document) -> Iterator[Document]:
    yield document
    items = document.obj.get("items") if isinstance(document.obj, dict) else None
    for number, item in enumerate(items if isinstance(items, list) else ()):
        yield dataclasses.replace(document, obj=item, base=("items", number))


def _expected(parsed: Parsed, document: Document, target: _Target) -> list[Any]:
    return [
        put(d.obj, target.path, target.value) if d.index == document.index else d.obj
        for d in parsed.documents
    ]


def refused(code: str, message: str, document: Document, path: FieldPath) -> InvalidManifests:
    """The error for an edit that cannot be made safely, with the line it is about."""
    place = document.place(path, label="here")
    notes = (("unchanged", "the file"), ("next", "edit this line by hand"))
    return InvalidManifests(Finding(code=code, message=message, places=(place,), notes=notes))


def _dotted(path: FieldPath) -> str:
    return ".".join(str(part) for part in path)


def _only_the_field(target: _Target, edited: str) -> bool:
    """Return whether the lines that differ are the field's own, or new ones next to the rest."""
    old, new = target.lines(), [line for line in _LINE.findall(edited) if line]
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    removed = len(old) - tail - head
    mark = target.document.marks.get(target.path)
    if removed == 0:
        return mark is None or mark.value.line == 0
    line = target.document.place(target.path[len(target.document.base) :]).line
    return removed == 1 and head + 1 == line and len(new) - tail - head >= 1


# -- with ruamel.yaml -------------------------------------------------------------------------


def _round_trip(target: _Target) -> str | None:
    """The file dumped again by ruamel.yaml; None where that cannot keep its form."""
    if target.json or "\r" in target.text or target.path not in target.document.marks:
        return None
    yaml = YAML(typ="rt", pure=True)
    yaml.preserve_quotes = True
    yaml.width = _WIDTH
    yaml.indent(**_indentation(target.text))
    yaml.explicit_start = target.text.lstrip().startswith("---")
    out = io.StringIO()
    try:
        documents = list(yaml.load_all(target.text))
        node = documents[target.document.index]
        for part in target.path[:-1]:
            node = node[part]
        node[target.path[-1]] = _in_style_of(node[target.path[-1]], target.value)
        yaml.dump_all(documents, out)
    except (YAMLError, KeyError, IndexError, TypeError, ValueError):
        return None  # it reads YAML otherwise than we do: the other way is tried
    return out.getvalue()


def _in_style_of(old: Any, value: Any) -> Any:
    if isinstance(value, str) and isinstance(
        old, DoubleQuotedScalarString | SingleQuotedScalarString
    ):
        return type(old)(value)
    return value


def _indentation(text: str) -> Mapping[str, int]:
    """Return the indentation of lists and mappings in this file, from the first of each."""
    dash = re.search(r"^( *)[^\s#-][^\n]*:[ ]*\n(?:[ ]*(?:#[^\n]*)?\n)*( *)- ", text, re.MULTILINE)
    inner = re.search(r"^( *)[^\s#-][^\n]*:[ ]*\n\1( +)[^\s#-]", text, re.MULTILINE)
    offset = max(0, len(dash[2]) - len(dash[1])) if dash else 0
    return {"mapping": len(inner[2]) if inner else 2, "sequence": offset + 2, "offset": offset}


# -- by position ------------------------------------------------------------------------------


def _in_place(target: _Target) -> str | None:
    """The scalar's own characters replaced, or lines for a new field put in."""
    mark = target.document.marks.get(target.path)
    if mark is None:
        return _insert(target)
    old = get(_root_obj(target), *target.path)
    if isinstance(old, dict | list):
        return None
    lines = target.lines()
    line, column = mark.value.line - 1, mark.value.column - 1
    written = target.document.written(target.path[len(target.document.base) :])
    if old is None and not _means(written, None):
        key = mark.key
        if key is None:
            return None
        after = lines[key.line - 1].index(":", key.column - 1 + key.length) + 1
        lines[key.line - 1] = (
            lines[key.line - 1][:after]
            + " " + _scalar(target.value, "", json_rules=target.json)
            + lines[key.line - 1][after:]
        )  # fmt: skip
        return "".join(lines)
    skip = len((_PROPERTIES.match(written) or [""])[0])
    if not _means(written[skip:], old):
        return None
    new = _scalar(target.value, written[skip:], json_rules=target.json)
    head, rest = lines[line][: column + skip], lines[line][column + len(written) :]
    lines[line] = head + new + rest
    return "".join(lines)


def _root_obj(target: _Target) -> Any:
    """The document's root, whatever item of it was found."""
    whole = parse_file(target.text.encode("utf-8"), target.file).documents
    return next(d.obj for d in whole if d.index == target.document.index)


def _means(written: str, value: Any) -> bool:
    """Return whether the characters are the whole scalar `value`: no part of it, no alias."""
    if written.startswith("*"):
        return True  # the alias is replaced; what it stood for stays where it is
    if written[:1] in {'"', "'"}:
        return len(written) > 1 and written[-1] == written[0]
    if written[:1] in {"|", ">"} or not written:
        return False
    try:
        return bool(resolve(written) == value)
    except ValueError:
        return False


def _scalar(value: Any, old: str, *, json_rules: bool) -> str:
    if json_rules or not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if old[:1] == "'" and "'" not in value and value.isprintable():
        return f"'{value}'"
    if old[:1] == '"' or not _PLAIN.fullmatch(value) or resolve(value) != value:
        return json.dumps(value, ensure_ascii=False)
    return value


def _insert(target: _Target) -> str | None:
    """New lines for a field that is not there yet, in the nearest mapping that is."""
    marks, root = target.document.marks, _root_obj(target)
    depth = len(target.path) - 1
    while depth > 0 and not isinstance(get(root, *target.path[:depth]), dict):
        depth -= 1
    parent_path, missing = target.path[:depth], target.path[depth:]
    parent = get(root, *parent_path) if depth else root
    if not all(isinstance(part, str) and _SIMPLE_KEY.fullmatch(part) for part in missing):
        return None
    if missing[0] in parent or parent_path not in marks:
        return None  # an empty value, or one that an alias or a merge brought here
    lines = target.lines()
    start = marks[parent_path].value
    if lines[start.line - 1][start.column - 1 : start.column] == "{":
        return _into_braces(target, lines, start, missing, parent)
    keys = sorted(
        mark.key for name in parent if (mark := marks.get((*parent_path, name))) and mark.key
    )
    own_line = (k for k in keys if not lines[k.line - 1][: k.column - 1].strip())
    before = next(own_line, None)
    if before is None:
        return None
    end = "\r\n" if "\r\n" in target.text else "\n"
    scalar = _scalar(target.value, "", json_rules=False)
    new = [
        " " * (before.column - 1 + 2 * step)
        + f"{name}:" + (f" {scalar}" if step == len(missing) - 1 else "") + end
        for step, name in enumerate(missing)
    ]  # fmt: skip
    return "".join([*lines[: before.line - 1], *new, *lines[before.line - 1 :]])


def _into_braces(
    target: _Target, lines: list[str], start: Position, missing: FieldPath,
    parent: Mapping[str, Any],
) -> str:  # fmt: skip
    text = _scalar(target.value, "", json_rules=target.json)
    for name in reversed(missing[1:]):
        text = "{" + (json.dumps(name) if target.json else str(name)) + f": {text}" + "}"
    first = json.dumps(missing[0]) if target.json else str(missing[0])
    added = f"{first}: {text}" + (", " if parent else "")
    line = lines[start.line - 1]
    lines[start.line - 1] = line[: start.column] + added + line[start.column :]
    return "".join(lines)
