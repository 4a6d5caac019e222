"""Places of a kustomization that set one field of one object: patches and replacements."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from gitkruise.git.parsing.documents import parse_file
from gitkruise.model.gitops.document import Document, FieldPath
from gitkruise.wire.primitives.names import Obj, split_api_version
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.schema.patterns import BadPattern, PatternTooCostly, compile_pattern

_FIELD: Final = re.compile(r"(?:\\.|\[[^\]]*\]|[^.\\\[])+")
_SELECTED: Final = re.compile(r"\[([^=\]]+)=([^\]]*)\]")
_INLINE: Final = "patch.yaml"  # the name that an inline patch is parsed under


class NamedItem(NamedTuple):
    """An item of a list that is found by its name, as strategic merge finds it."""

    name: str


Steps: TypeAlias = tuple[str | int | NamedItem, ...]
Read: TypeAlias = Callable[[str], Sequence[Document]]  # the documents of a file


@dataclass(frozen=True, slots=True)
class Setter:
    """The place of a value: a path of a document, which may be a text at `outer`."""

    document: Document
    path: FieldPath
    outer: tuple[Document, FieldPath] | None = None


class Replacement(NamedTuple):
    """One replacement: its source, and the options of the target that it writes to."""

    source: Obj
    options: Obj
    place: Setter


def steps_of(obj: Any, path: FieldPath) -> Steps:
    """Return `path` of an object with items of lists by their names, where they have one."""
    steps: list[str | int | NamedItem] = []
    for part in path:
        obj = get(obj, part)
        name = obj.get("name") if isinstance(part, int) and isinstance(obj, Mapping) else None
        steps.append(NamedItem(name) if isinstance(name, str) else part)
    return tuple(steps)


def within(obj: Any, steps: Steps) -> FieldPath | None:
    """Return the path that `steps` lead to in an object; None where it has no such field."""
    path: list[str | int] = []
    for step in steps:
        part: str | int | None = step if not isinstance(step, NamedItem) else _index(obj, step.name)
        known = (
            (isinstance(obj, list) and isinstance(part, int) and part < len(obj))
            or (isinstance(obj, Mapping) and isinstance(part, str) and part in obj)
        )  # fmt: skip
        if part is None or not known:
            return None
        obj = obj[part]
        path.append(part)
    return tuple(path)


def _index(items: Any, name: str) -> int | None:
    found = enumerate(items if isinstance(items, list) else ())
    return next((n for n, i in found if isinstance(i, Mapping) and i.get("name") == name), None)


# Patches ------------------------------------------------------------------------------------------


def patched_by(
    kustomization: Document, obj: Obj, names: set[str], steps: Steps, read: Read
) -> Setter | None:
    """Return the patch of a kustomization that sets the field, the last one to be applied."""
    for patch, target in _patches(kustomization, read):
        content: Any = patch.document.obj  # a patch is no manifest: a list of operations, say
        if isinstance(content, list):
            found = _operation(patch, obj, steps) if _selects(target, obj, names) else None
        else:
            merges = isinstance(content, Mapping)
            found = _merged(patch, obj, names, steps, target) if merges else None
        if found is not None:
            return found
    return None


def _patches(kustomization: Document, read: Read) -> Iterator[tuple[Setter, Obj | None]]:
    """Yield each patch and its target, in the reverse of the order in which kustomize applies
    them."""
    for name in ("patchesJson6902", "patches", "patchesStrategicMerge"):
        listed = kustomization.obj.get(name)
        entries = list(enumerate(listed)) if isinstance(listed, list) else []
        for number, entry in reversed(entries):
            at: FieldPath = (name, number)
            target = entry.get("target") if isinstance(entry, Mapping) else None
            text, file = _text(entry)
            if text:
                at = at if isinstance(entry, str) else (*at, "patch")
                inner = parse_file(text.encode("utf-8", "surrogatepass"), _INLINE).documents
                parts = [Setter(d, (), (kustomization, at)) for d in inner]
            else:
                folder = posixpath.dirname(kustomization.file)
                parts = [Setter(d, ()) for d in read(posixpath.join(folder, file))]
            for part in reversed(parts):
                yield part, target


def _text(entry: Any) -> tuple[str, str]:
    """Return (the patch itself, "") or ("", its file)."""
    if isinstance(entry, Mapping):
        patch, file = entry.get("patch"), entry.get("path")
        return (patch, "") if isinstance(patch, str) and patch else ("", str(file or ""))
    text = str(entry)
    return (text, "") if "\n" in text or ":" in text else ("", text)


def _merged(
    patch: Setter, obj: Obj, names: set[str], steps: Steps, target: Obj | None
) -> Setter | None:
    """Return the field of a strategic merge patch."""
    found = patch.document.obj
    if target is None:
        same = (found.get("kind"), _group(found)) == (obj.get("kind"), _group(obj))
        if not same or get(found, "metadata", "name") not in names:
            return None
    elif not _selects(target, obj, names):
        return None
    path = within(found, steps)
    return Setter(patch.document, path, patch.outer) if path is not None else None


def _operation(patch: Setter, obj: Obj, steps: Steps) -> Setter | None:
    """Return the value of the last JSON patch operation that sets the field."""
    where = within(obj, steps)
    if where is None:
        return None
    for number, operation in reversed(list(enumerate(patch.document.obj))):
        fields = operation if isinstance(operation, Mapping) else {}
        if fields.get("op") not in {"add", "replace"}:
            continue
        pointer = [_unescaped(part) for part in str(fields.get("path", "")).split("/")[1:]]
        depth = len(pointer)
        if [str(part) for part in where[:depth]] != pointer:
            continue
        rest = within(fields.get("value"), steps[depth:])
        if rest is not None:
            return Setter(patch.document, (number, "value", *rest), patch.outer)
    return None


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _group(obj: Obj) -> str:
    return split_api_version(str(obj.get("apiVersion", "")))[0]


def _selects(target: Any, obj: Obj, names: set[str]) -> bool:
    """Return whether a target or selector means the object; selectors of labels may mean it."""
    if not isinstance(target, Mapping):
        return False
    group, version = split_api_version(str(obj.get("apiVersion", "")))
    has = {
        "group": {group},
        "version": {version},
        "kind": {str(obj.get("kind"))},
        "name": names,
        "namespace": {str(get(obj, "metadata", "namespace", default=""))},
    }
    return all(
        any(_matches(str(target[field]), value) for value in values)
        for field, values in has.items()
        if target.get(field)
    )


def _matches(pattern: str, value: str) -> bool:
    """Return whether kustomize takes a value for selected: RE2, for the whole of it."""
    try:
        return compile_pattern(f"^(?:{pattern})$").search(value)
    except (BadPattern, PatternTooCostly):
        return pattern == value


# Replacements -------------------------------------------------------------------------------------


def replaced_by(
    kustomization: Document, obj: Obj, names: set[str], steps: Steps, read: Read
) -> Replacement | None:
    """Return the replacement of a kustomization that sets the field, the last one."""
    where = within(obj, steps)
    listed = kustomization.obj.get("replacements")
    entries = list(enumerate(listed)) if isinstance(listed, list) else []
    for number, entry in reversed(entries):
        if not isinstance(entry, Mapping) or where is None:
            continue
        at: FieldPath = ("replacements", number)
        folder = posixpath.dirname(kustomization.file)
        parts: list[tuple[Any, Setter]] = [(entry, Setter(kustomization, at))]
        if entry.get("path"):
            parts = [
                (replacement, Setter(d, ()))
                for d in read(posixpath.join(folder, str(entry["path"])))
                for replacement in _items(d.obj)
            ]
        for replacement, place in reversed(parts):
            targets = get(replacement, "targets")
            for target in reversed(targets if isinstance(targets, list) else []):
                if _writes(target, obj, names, where):
                    return Replacement(
                        replacement.get("source") or {}, target.get("options") or {}, place
                    )
    return None


def _items(content: Any) -> list[Any]:
    """A file of replacements is a list of them, or one."""
    return content if isinstance(content, list) else [content]


def _writes(target: Any, obj: Obj, names: set[str], where: FieldPath) -> bool:
    """Return whether a target of a replacement writes to the field at `where`."""
    if not isinstance(target, Mapping) or not _selects(target.get("select"), obj, names):
        return False
    if any(_selects(reject, obj, names) for reject in target.get("reject") or ()):
        return False
    fields = target.get("fieldPaths") or ()
    return any(where in list(resolved(obj, str(field))) for field in fields)


def resolved(obj: Any, field: str) -> Iterator[FieldPath]:
    """Yield the paths that a field path of kustomize leads to."""
    ways: list[tuple[FieldPath, Any]] = [((), obj)]
    for part in _FIELD.findall(field):
        chosen = _SELECTED.fullmatch(part)
        key = re.sub(r"\\(.)", r"\1", part)
        after: list[tuple[FieldPath, Any]] = []
        for path, value in ways:
            items = list(enumerate(value)) if isinstance(value, list) else []
            if chosen:
                after += [((*path, n), i) for n, i in items if _has(i, chosen[1], chosen[2])]
            elif isinstance(value, list):
                after += [((*path, n), i) for n, i in items if part in {"*", str(n)}]
            elif isinstance(value, Mapping) and key in value:
                after.append(((*path, key), value[key]))
        ways = after
    yield from (path for path, _ in ways)


def _has(item: Any, key: str, value: str) -> bool:
    return isinstance(item, Mapping) and str(item.get(key)) == value


def source_value(now: str, was: str, wanted: str, source: Obj, target: Obj) -> str | None:
    """Return what the source of a replacement has to be, so that it writes `wanted`.

    `now` is the source's value, `was` what the target has; None where other parts of the target
    would have to change as well.
    """
    part = _part(was, wanted, target)
    return None if part is None else _with_part(now, part, source)


def _part(was: str, wanted: str, options: Obj) -> str | None:
    delimiter = str(options.get("delimiter") or "")
    if not delimiter:
        return wanted
    old, new, index = was.split(delimiter), wanted.split(delimiter), int(options.get("index") or 0)
    if len(old) != len(new) or not 0 <= index < len(new):
        return None
    return new[index] if old[:index] + old[index + 1 :] == new[:index] + new[index + 1 :] else None


def _with_part(now: str, part: str, options: Obj) -> str | None:
    delimiter = str(options.get("delimiter") or "")
    if not delimiter:
        return part
    parts, index = now.split(delimiter), int(options.get("index") or 0)
    if not 0 <= index < len(parts):
        return None
    return delimiter.join([*parts[:index], part, *parts[index + 1 :]])


# Generators and images ----------------------------------------------------------------------------


def generated_by(kustomization: Document, source: Obj, field: str) -> tuple[Setter, str] | None:
    """Return the literal of a generator that is the source of a replacement, and its value."""
    name = {"ConfigMap": "configMapGenerator", "Secret": "secretGenerator"}.get(
        str(source.get("kind")), ""
    )
    key = re.sub(r"\\(.)", r"\1", field.partition("data.")[2])
    listed = kustomization.obj.get(name)
    for number, generator in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(generator, Mapping) or generator.get("name") != source.get("name"):
            continue
        for literal, text in enumerate(generator.get("literals") or ()):
            if str(text).partition("=")[0] == key:
                path: FieldPath = (name, number, "literals", literal)
                return Setter(kustomization, path), str(text).partition("=")[2]
    return None


def image_parts(image: str) -> tuple[str, str, str]:
    """Return name, tag and digest."""
    rest, _, digest = image.partition("@")
    head, slash, last = rest.rpartition("/")
    last, _, tag = last.partition(":")
    return head + slash + last, tag, digest


def image_entry(kustomization: Document, name: str) -> tuple[int, Obj] | None:
    """Return the entry of `images:` that gives an image this name, and its place."""
    listed = kustomization.obj.get("images")
    for number, entry in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(entry, Mapping) and (entry.get("newName") or entry.get("name")) == name:
            return number, entry
    return None
