"""Objects as kustomize renders them, and edits of the places that set their fields."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from gitkruise.errors import InvalidManifests, SourcePlace
from gitkruise.git.edit.inline_text import edit_inline
from gitkruise.git.edit.set_field import edit_document, refused
from gitkruise.git.kustomize.remote_bases import NONE, RemoteBases, root_of
from gitkruise.git.kustomize.render import Renderer
from gitkruise.git.manifests.reader import ParseCache
from gitkruise.git.parsing.documents import parse_file
from gitkruise.git.plumbing.trees import clean_path
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.kustomize_setters import (
    NamedItem,
    Replacement,
    Setter,
    Steps,
    generated_by,
    image_entry,
    image_parts,
    patched_by,
    replaced_by,
    resolved,
    source_value,
    steps_of,
    within,
)
from gitkruise.gitops.build.base_mirrors import bases_of
from gitkruise.model.gitops.config import Unit
from gitkruise.model.gitops.document import Document, FieldPath
from gitkruise.wire.primitives.names import KUSTOMIZATION_NAMES, ObjectKey, is_object
from gitkruise.wire.primitives.paths import get

_DEPTH_MAX: Final = 8  # replacements of replacements
_Parts: TypeAlias = tuple[str, str, str]  # of an image: name, tag, digest
_Change: TypeAlias = tuple[_Parts, _Parts]  # an image as it is, and as it is to be


@dataclass(frozen=True, slots=True)
class KustomizedFolder:
    """The path of a unit that kustomize may render, and the remote bases that it may name."""

    path: str
    bases: RemoteBases = NONE

    @classmethod
    def of(cls, unit: Unit) -> KustomizedFolder | None:
        """Return that of a unit; None where its files are taken as they are, or by helm."""
        if unit.spec.render.kind in {"plain", "helm"}:
            return None
        return cls(unit.spec.path, bases_of(unit))


class Kustomized:
    """A unit's kustomization over the commits of a repository. Raises SourceFailed."""

    def __init__(self, repository: Repository, given: KustomizedFolder) -> None:
        self._repository, self.given, self.folder = repository, given, clean_path(given.path)
        self._renderer = _renderer(repository, given.bases)

    @classmethod
    def of(
        cls, repository: Repository, commit: str, folder: KustomizedFolder | None
    ) -> Kustomized | None:
        """Return the kustomization in `folder`; None where a unit takes files as they are."""
        if folder is None:
            return None
        where = clean_path(folder.path)
        names = (posixpath.join(where, name) for name in KUSTOMIZATION_NAMES)
        found = any(repository.find(commit, name) for name in names)
        return cls(repository, folder) if found else None

    def folders(self, commit: str) -> tuple[str, ...]:
        """Return every folder that is read. Raises InvalidManifests."""
        return self._renderer.content(commit, self.folder)[1]

    def document(self, commit: str, key: ObjectKey) -> Document | None:
        """Return the rendered object, placed in its most likely source. Raises InvalidManifests."""
        parsed = self._renderer.render(commit, self.folder).parsed.checked()
        return next((d for d in parsed.documents if is_object(d.obj, key)), None)

    def edits(self, commit: str) -> KustomizedEdits:
        """Return edits of the kustomization at a commit. Raises InvalidManifests."""
        return KustomizedEdits(
            repository=self._repository,
            commit=commit,
            kustomizations=self._renderer.kustomizations(commit, self.folder),
            folders=self.folders(commit),
            remote=self._renderer.remote_file,
        )


@lru_cache(maxsize=1)
def _renderer(repository: Repository, bases: RemoteBases) -> Renderer:
    """One for all questions of an action: it renders equal content one time (0.2 s each)."""
    return Renderer(repository, ParseCache(), bases=bases)


class _FieldTarget(NamedTuple):
    """A field of an object: the object as it is rendered, as its own file has it, the names that
    kustomizations know it by, and the steps to the field."""

    rendered: Document
    own: Document
    names: set[str]
    steps: Steps


@dataclass(slots=True, kw_only=True)
class KustomizedEdits:
    """Files with the fields that were set so far."""

    repository: Repository
    commit: str
    kustomizations: Sequence[Document]  # the outermost first
    folders: Sequence[str]
    remote: Callable[[str], bytes]  # reads a file of a remote base
    files: dict[str, bytes] = field(default_factory=dict)

    def set(self, rendered: Document, path: FieldPath, value: Any, wanted: Any = None) -> None:
        """Edit the place that sets `path` of a rendered object, so that it has `value`.

        `wanted` is the object whose items `path` counts, if not the rendered one. Raises
        InvalidManifests GK3602, which names the place, where its value alone cannot be changed.
        """
        self._set(self._target(rendered, path, wanted), value, _DEPTH_MAX)

    def elsewhere(self, rendered: Document, path: FieldPath, wanted: Any) -> bool:
        """Return whether a kustomization sets the field, and not the object's own file."""
        target = self._target(rendered, path, wanted)
        return any(
            self._replacement(one, target)
            or self._patch(one, target)
            or (_is_image(target.steps) and image_entry(one, _image(target)[0]))
            for one in self.kustomizations
        )

    def _target(self, rendered: Document, path: FieldPath, wanted: Any) -> _FieldTarget:
        own = self.own(rendered)
        names = {str(get(d.obj, "metadata", "name", default="")) for d in (rendered, own)}
        steps = steps_of(rendered.obj if wanted is None else wanted, path)
        return _FieldTarget(rendered, own, names, steps)

    def own(self, rendered: Document, commit: str = "") -> Document:
        """Return the object as the file has it that it is rendered from, here or at a commit."""
        documents = self._documents(rendered.file, commit)
        found = next(d for d in documents if d.index >= rendered.index)
        obj = get(found.obj, *rendered.base)
        return replace(found, obj=obj if obj is not None else {}, base=rendered.base)

    def _set(self, target: _FieldTarget, value: Any, depth: int) -> None:
        image = (_image(target), image_parts(str(value))) if _is_image(target.steps) else None
        for kustomization in self.kustomizations:
            replacement = self._replacement(kustomization, target)
            if replacement is not None:
                self._follow(replacement, target, value, depth)
                return
            if image is not None:
                image = self._retag(kustomization, *image)
                if image is None:
                    return
                value = _joined(image[1])
            patch = self._patch(kustomization, target)
            if patch is not None:
                self._write(patch, value)
                return
        path = within(target.own.obj, target.steps) or _missing(target)
        self._write(Setter(target.own, path), value)

    def _replacement(self, kustomization: Document, target: _FieldTarget) -> Replacement | None:
        obj, names, steps = target.rendered.obj, target.names, target.steps
        return replaced_by(kustomization, obj, names, steps, self._documents)

    def _patch(self, kustomization: Document, target: _FieldTarget) -> Setter | None:
        obj, names, steps = target.rendered.obj, target.names, target.steps
        return patched_by(kustomization, obj, names, steps, self._documents)

    # Images -------------------------------------------------------------------------------------

    def _retag(self, kustomization: Document, now: _Parts, want: _Parts) -> _Change | None:
        """Edit the entry of `images:` that sets the image; return what is left for inner ones."""
        found = image_entry(kustomization, now[0])
        if found is None:
            return now, want
        number, entry = found
        at: FieldPath = ("images", number)
        if now[0] != want[0]:
            self._entry(kustomization, (*at, "newName"), want[0])
        sets = [name for name in ("newTag", "digest") if entry.get(name)]
        if now[1:] == want[1:]:
            return None
        if not sets:
            name = str(entry["name"])
            return (name, *now[1:]), (name, *want[1:])
        known = {"newTag": want[1], "digest": want[2]}
        if [name for name, text in known.items() if text] != sets:
            raise refused("GK3602", f"cannot set image {now[0]} here", kustomization, at)
        for name in sets:
            self._entry(kustomization, (*at, name), known[name])
        return None

    def _entry(self, kustomization: Document, path: FieldPath, text: str) -> None:
        if not get(kustomization.obj, *path):
            raise refused("GK3602", f"cannot set image {text} here", kustomization, path[:2])
        self._write(Setter(kustomization, path), text)

    # Replacements -------------------------------------------------------------------------------

    def _follow(self, found: Replacement, target: _FieldTarget, value: Any, depth: int) -> None:
        """Edit the source of a replacement."""
        field_path = str(found.source.get("fieldPath") or "metadata.name")
        was = str(get(target.rendered.obj, *(within(target.rendered.obj, target.steps) or ())))
        options = found.source.get("options") or {}
        for kustomization in self.kustomizations:
            literal = generated_by(kustomization, found.source, field_path)
            if literal is not None:
                place, now = literal
                text = source_value(now, was, str(value), options, found.options)
                if text is None:
                    break
                key = str(get(place.document.obj, *place.path)).partition("=")[0]
                self._write(place, f"{key}={text}")
                return
        source = self._source(found.source)
        for path in resolved(source.obj, field_path) if source and depth else ():
            assert source is not None
            text = source_value(
                str(get(source.obj, *path)), was, str(value), options, found.options
            )
            if text is None:
                break
            name = str(get(source.obj, "metadata", "name", default=""))
            steps = steps_of(source.obj, path)
            self._set(_FieldTarget(source, source, {name}, steps), text, depth - 1)
            return
        message = f"cannot change the source of the replacement that sets {_dotted(target.steps)}"
        raise refused("GK3602", message, found.place.document, found.place.path)

    def _source(self, source: Mapping[str, Any]) -> Document | None:
        """The resource that a replacement reads."""
        wanted = {name: str(source[name]) for name in ("kind", "name") if source.get(name)}
        for folder in self.folders:
            for entry in self.repository.list_tree(self.commit, folder):
                if not entry.is_file or not entry.path.lower().endswith((".yaml", ".yml", ".json")):
                    continue
                for document in self._documents(entry.path):
                    name = get(document.obj, "metadata", "name")
                    identity = {"kind": get(document.obj, "kind"), "name": name}
                    if all(identity[field] == text for field, text in wanted.items()):
                        return document
        return None

    # Files --------------------------------------------------------------------------------------

    def place(self, rendered: Document, path: FieldPath) -> tuple[Document, FieldPath]:
        """Return the place that sets a field, or the nearest field around it."""
        for end in range(len(path), 1, -1):
            target = self._target(rendered, path[:end], None)
            for one in self.kustomizations:
                patch = self._patch(one, target)
                if patch is not None:
                    return patch.outer or (patch.document, patch.path)
        return rendered, path

    def _documents(self, file: str, commit: str = "") -> Sequence[Document]:
        """The documents of a file as the commit has it; () where it has none."""
        if root_of(file):
            return parse_file(self.remote(file), file).documents
        entry = self.repository.find(commit or self.commit, file)
        if entry is None or not entry.is_file:
            return ()
        return parse_file(self.repository.read_blob(entry.id), file).documents

    def data(self, file: str) -> bytes:
        """Return a file with the edits so far."""
        if file not in self.files:
            entry = self.repository.find(self.commit, file)
            assert entry is not None  # it was read at this commit
            self.files[file] = self.repository.read_blob(entry.id)
        return self.files[file]

    def _write(self, place: Setter, value: Any) -> None:
        document, path = place.document, (*place.document.base, *place.path)
        if root_of((place.outer[0] if place.outer else document).file):
            raise _remote_refusal(document, place.path)
        if place.outer is None:
            data = self.data(document.file)
            self.files[document.file] = edit_document(
                data, document.file, path, value, index=document.index
            )
            return
        outer, where = place.outer
        data = self.data(outer.file)
        text = str(get(parse_file(data, outer.file).documents[0].obj, *where))
        try:
            edited = edit_document(
                text.encode("utf-8"), document.file, path, value, index=document.index
            ).decode("utf-8")
            end = "" if text.endswith("\n") else "\n"  # one is added to the last line
            edited = edited.removesuffix(end)
            self.files[outer.file] = edit_inline(data, outer.file, where, edited)
        except InvalidManifests as error:
            raise _inline_refusal(outer, where, document.place(path).line) from error


def _remote_refusal(document: Document, path: FieldPath) -> InvalidManifests:
    """GK3602 at the line of a remote base, which has its own repository."""
    error = refused("GK3602", "a remote base sets this field", document, path)
    notes = (("unchanged", "every file"), ("next", "add a patch to the unit's kustomization"))
    return InvalidManifests(*(replace(finding, notes=notes) for finding in error.findings))


def _inline_refusal(outer: Document, where: FieldPath, line: int) -> InvalidManifests:
    """GK3602 at the line of the file that an inline patch is written in."""
    error = refused("GK3602", "cannot change only this field of the inline patch", outer, where)
    (finding,) = error.findings
    (place,) = finding.places
    if outer.written(where).startswith("|"):
        place = SourcePlace(file=place.file, line=place.line + line)
    return InvalidManifests(replace(finding, places=(place,)))


def _missing(target: _FieldTarget) -> FieldPath:
    """The path of a field that nothing sets yet. Raises InvalidManifests GK3602 in a list."""
    path = tuple(step for step in target.steps if not isinstance(step, NamedItem))
    if len(path) == len(target.steps) and not any(isinstance(step, int) for step in path):
        return path
    message = f"cannot find the place that sets {_dotted(target.steps)}"
    raise refused("GK3602", message, target.own, ())


def _is_image(steps: Steps) -> bool:
    lists = {"containers", "initContainers"}
    return len(steps) > 2 and steps[-1] == "image" and steps[-3] in lists


def _image(target: _FieldTarget) -> _Parts:
    path = within(target.rendered.obj, target.steps)
    return image_parts(str(get(target.rendered.obj, *path)) if path else "")


def _joined(parts: _Parts) -> str:
    name, tag, digest = parts
    return name + (tag and f":{tag}") + (digest and f"@{digest}")


def _dotted(steps: Steps) -> str:
    return ".".join(step.name if isinstance(step, NamedItem) else str(step) for step in steps)
