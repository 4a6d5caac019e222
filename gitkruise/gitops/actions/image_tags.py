"""Image tags that `images:` of a kustomization sets: read, and edited where they are set."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gitkruise.git.edit.set_field import edit_document, refused
from gitkruise.git.kustomize.render import KUSTOMIZATION_NAMES, Renderer
from gitkruise.git.manifests.reader import ParseCache
from gitkruise.git.parsing.documents import parse_file
from gitkruise.git.plumbing.trees import clean_path
from gitkruise.git.repository.repository import Repository
from gitkruise.model.gitops.document import Document
from gitkruise.wire.primitives.names import Obj

_LISTS: Final = ("containers", "initContainers")
_SET: Final = ("newName", "newTag", "digest")
Kustomizations = Sequence[Document]  # of one unit at one commit, the outermost first


def kustomizations(repository: Repository, commit: str, folder: str | None) -> Kustomizations:
    """Return what kustomize reads for the unit in `folder`; () without a kustomization there.

    Raises InvalidManifests and SourceFailed.
    """
    if folder is None:
        return ()
    where = clean_path(folder)
    names = (posixpath.join(where, name) for name in KUSTOMIZATION_NAMES)
    if not any(repository.find(commit, name) for name in names):
        return ()
    return Renderer(repository, ParseCache()).kustomizations(commit, where)


def with_images(obj: Obj, setters: Kustomizations) -> Obj:
    """Return `obj` with the images that the kustomizations set, the innermost first."""
    for setter in reversed(setters):
        obj = _rewritten(obj, _entries(setter))
    return obj


def tags_as_they_were(
    repository: Repository, obj: Obj, now: tuple[str, Kustomizations], then: Kustomizations
) -> dict[str, bytes]:
    """Return the kustomizations of commit `now` that set images of `obj`, with the values that
    they had `then`.

    Raises InvalidManifests GK3602 where an entry came or went.
    """
    commit, setters = now
    past = {setter.file: _entries(setter) for setter in then}
    edited: dict[str, bytes] = {}
    for setter in reversed(setters):
        used = {_split(image)[0] for image in _images(obj)}
        here, there = _entries(setter), past.get(setter.file, {})
        for name in used & (here.keys() | there.keys()):
            if here.get(name, (0, {}))[1] != there.get(name, (0, {}))[1]:
                data = edited.get(setter.file) or _read(repository, commit, setter.file)
                edited[setter.file] = _as_it_was(data, setter, name, there)
        obj = _rewritten(obj, here)
    return edited


def reparsed(setters: Kustomizations, files: Mapping[str, bytes]) -> Kustomizations:
    """Return the kustomizations with the content of `files`."""
    return [
        parse_file(files[s.file], s.file).documents[0] if s.file in files else s for s in setters
    ]


def _as_it_was(
    data: bytes, setter: Document, name: str, there: Mapping[str, tuple[int, Obj]]
) -> bytes:
    now = _entries(setter).get(name)
    place = ("images", now[0]) if now else ("images",)
    wanted = there[name][1] if name in there else {}
    if now is None or any(now[1].get(field) and not wanted.get(field) for field in _SET):
        raise refused("GK3602", f"cannot put image {name} back as it was", setter, place)
    for field in _SET:
        if wanted.get(field) and wanted[field] != now[1].get(field):
            data = edit_document(data, setter.file, (*place, field), wanted[field])
    return data


def _entries(setter: Document) -> dict[str, tuple[int, Obj]]:
    """Return the entries of `images:` by image name, each with its place in the list."""
    listed = setter.obj.get("images")
    return {
        entry["name"]: (number, {f: str(entry[f]) for f in _SET if entry.get(f)})
        for number, entry in enumerate(listed if isinstance(listed, list) else ())
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str)
    }


def _rewritten(value: Any, entries: Mapping[str, tuple[int, Obj]]) -> Any:
    """Return `value` with the images of every list of containers in it."""
    if isinstance(value, list):
        return [_rewritten(item, entries) for item in value]
    if not isinstance(value, Mapping):
        return value
    out = {key: _rewritten(inner, entries) for key, inner in value.items()}
    for key in _LISTS:
        if isinstance(out.get(key), list):
            out[key] = [_container(item, entries) for item in out[key]]
    return out


def _container(item: Any, entries: Mapping[str, tuple[int, Obj]]) -> Any:
    if not isinstance(item, Mapping) or not isinstance(item.get("image"), str):
        return item
    name, tag, digest = _split(item["image"])
    if name not in entries:
        return item
    told = entries[name][1]
    if told.get("newTag") or told.get("digest"):
        tag, digest = told.get("newTag", ""), told.get("digest", "")
    image = told.get("newName", name) + (tag and f":{tag}") + (digest and f"@{digest}")
    return {**item, "image": image}


def _images(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _images(item)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key in _LISTS and isinstance(inner, list):
                found = (item.get("image") for item in inner if isinstance(item, Mapping))
                yield from (image for image in found if isinstance(image, str))
            yield from _images(inner)


def _split(image: str) -> tuple[str, str, str]:
    """Return name, tag and digest."""
    rest, _, digest = image.partition("@")
    head, slash, last = rest.rpartition("/")
    last, _, tag = last.partition(":")
    return head + slash + last, tag, digest


def _read(repository: Repository, commit: str, file: str) -> bytes:
    entry = repository.find(commit, file)
    assert entry is not None  # it was read at this commit
    return repository.read_blob(entry.id)
