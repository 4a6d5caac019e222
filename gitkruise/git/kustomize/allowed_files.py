"""The closed list of what a kustomization may name: files and folders of its commit.

kustomize fetches whatever looks like a URL, in any field that holds a path, and never through a
proxy when the address is loopback. So every path is looked up here before it runs, and kustomize
is given what was read here (as JSON), not the text: a second reading cannot differ from the first.

The tables follow `Kustomization` and the built-in plugins of kustomize's api/types, version 5.
encoding/json ignores the case of keys, so a key that only folds to a known one is refused.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias

from gitkruise.errors import InvalidManifests, SourceFailed
from gitkruise.git.kustomize.remote_bases import root_of
from gitkruise.git.parsing.documents import Parsed, parse_file
from gitkruise.git.plumbing.trees import TreeEntry, clean_path
from gitkruise.git.rendering.program import refused
from gitkruise.model.gitops.document import Document, FieldPath
from gitkruise.printable import shown
from gitkruise.wire.primitives.names import Obj

_EVERY: Final = "*"
_PLUGIN_DEPTH: Final = 8  # folders of plugins in folders of plugins
# A URL to Load(), which knows http and https; `https:x` has no host, and is refused as well.
_URL: Final = re.compile(r"\s*(?:git::)?https?:", re.IGNORECASE)
# What New() clones, in the spellings of every version of kustomize and of go-getter.
_REPOSITORY: Final = re.compile(
    r"\s*(?:[a-z0-9+.-]+::|[\w.-]+@[^/]*[:/]|(?:gh|gist|file|ssh|git|s3|gcs|hg):"
    r"|(?:www\.)?(?:github\.com|gitlab\.com|bitbucket\.org)[/:])"
    r"|.*(?:\?(?:ref|version|timeout|submodules|sshkey|depth|archive|checksum)=|//)",
    re.IGNORECASE | re.DOTALL,
)


class _Names(Enum):
    """The kinds of value that name something."""

    FILE = "a file"
    KEYED_FILE = "a file, or key=file"
    PATCH = "a file, or the patch itself"
    BASE = "a file or a folder with a kustomization"
    FOLDER = "a folder with a kustomization"
    PLUGIN = "a file or folder of plugins, or the plugins themselves"


_BASES: Final = (_Names.BASE, _Names.FOLDER)
_Fields: TypeAlias = Mapping[tuple[str, ...], _Names]

_NO_FIELDS: Final[_Fields] = {}
_GENERATOR: Final[_Fields] = {
    ("files", _EVERY): _Names.KEYED_FILE,
    ("envs", _EVERY): _Names.FILE,
    ("env",): _Names.FILE,
}
_FIELDS: Final[_Fields] = {
    ("openapi", "path"): _Names.FILE,
    ("crds", _EVERY): _Names.FILE,
    ("configurations", _EVERY): _Names.FILE,
    ("patches", _EVERY, "path"): _Names.FILE,
    ("patchesJson6902", _EVERY, "path"): _Names.FILE,
    ("patchesStrategicMerge", _EVERY): _Names.PATCH,
    ("replacements", _EVERY, "path"): _Names.FILE,
    ("resources", _EVERY): _Names.BASE,
    ("bases", _EVERY): _Names.BASE,
    ("components", _EVERY): _Names.FOLDER,
    ("generators", _EVERY): _Names.PLUGIN,
    ("transformers", _EVERY): _Names.PLUGIN,
    ("validators", _EVERY): _Names.PLUGIN,
    **{("configMapGenerator", _EVERY, *path): names for path, names in _GENERATOR.items()},
    **{("secretGenerator", _EVERY, *path): names for path, names in _GENERATOR.items()},
}
_PLUGINS: Final[Mapping[str, _Fields]] = {
    **dict.fromkeys(
        (
            "AnnotationsTransformer", "HashTransformer", "IAMPolicyGenerator",
            "ImageTagTransformer", "LabelTransformer", "NamespaceTransformer",
            "PrefixSuffixTransformer", "PrefixTransformer", "ReplicaCountTransformer",
            "SuffixTransformer",
        ),
        _NO_FIELDS,
    ),
    "ConfigMapGenerator": _GENERATOR,
    "SecretGenerator": _GENERATOR,
    "PatchJson6902Transformer": {("path",): _Names.FILE},
    "PatchStrategicMergeTransformer": {("paths", _EVERY): _Names.PATCH},
    "PatchTransformer": {("path",): _Names.FILE},
    "ReplacementTransformer": {("replacements", _EVERY, "path"): _Names.FILE},
    "ValueAddTransformer": {("targetFilePath",): _Names.FILE},
}  # fmt: skip
_HELM: Final = ("helmCharts", "helmChartInflationGenerator", "helmGlobals")
_COPY: Final = "commit a copy; only resources, bases and components may be remote"
_IDENTITY: Final = frozenset({"apiVersion", "kind", "metadata"})
_KNOWN: Final = frozenset(path[0] for path in _FIELDS) | _IDENTITY | {
    "buildMetadata", "commonAnnotations", "commonLabels", "generatorOptions", "images",
    "imageTags", "labels", "namePrefix", "nameSuffix", "namespace", "replicas", "sortOptions",
    "vars",
}  # fmt: skip
_PLUGIN_FOLDER: Final = _IDENTITY | {"resources", "bases"}


class CommitFiles(Protocol):
    """The commit that is rendered, as far as it is read here, and those of its remote bases."""

    def entry(self, path: str) -> TreeEntry | None:
        """Return the entry at a path, if the commit has one."""

    def copied(self, path: str) -> bool:
        """Return whether the file is among those that kustomize is given."""

    def parse(self, path: str) -> Parsed:
        """Return the documents of a file."""

    def kustomization(self, folder: str) -> Document:
        """Return the kustomization of a folder. Raises InvalidManifests where there is no one."""

    def remote(self, base: str) -> str:
        """Return the folder of a remote base. Raises InvalidManifests for one that is not allowed,
        and SourceFailed for one that cannot be fetched."""


@dataclass(slots=True)
class CheckedKustomization:
    """A kustomization that names nothing but what its commit has."""

    obj: dict[str, Any]  # for kustomize: plugins are inline
    folders: list[str] = field(default_factory=list)  # of further kustomizations


def check(commit: CommitFiles, folder: str, document: Document) -> CheckedKustomization:
    """Check everything a kustomization names. Raises InvalidManifests (GK3402 to GK3407)."""
    return _Check(commit, folder, document).run()


class _Check:
    def __init__(self, commit: CommitFiles, folder: str, document: Document) -> None:
        self._commit, self._folder, self._document = commit, folder, document
        self._checked = CheckedKustomization(dict(document.obj))

    def run(self) -> CheckedKustomization:
        obj = self._document.obj
        for key in obj:
            if key in _HELM:
                raise self._error("GK3405", "charts in a kustomization are not rendered", (key,))
            if key not in _KNOWN:
                message = f"{shown(key)} is not a field of a kustomization that is known here"
                raise self._error("GK3407", message, (key,))
        for path, value, names in self._named(_FIELDS, obj, ()):
            if names is _Names.PLUGIN:
                continue
            self._named_value(value, names, path)
        for name in ("generators", "transformers", "validators"):
            listed = obj.get(name)
            if isinstance(listed, list):
                self._checked.obj[name] = [
                    inline
                    for number, value in enumerate(listed)
                    for inline in self._inline(value, (name, number))
                ]
        return self._checked

    def _error(self, code: str, message: str, path: FieldPath) -> InvalidManifests:
        label = "not supported" if code in ("GK3405", "GK3407") else "here"
        key = code in ("GK3405", "GK3407")
        place = self._document.place(path, key=key, label=label)
        error = refused(code, message, "", place)
        if code != "GK3402":
            return error
        return InvalidManifests(*(replace(f, notes=(("next", _COPY),)) for f in error.findings))

    def _named(
        self, fields: _Fields, obj: Any, at: FieldPath
    ) -> Iterator[tuple[FieldPath, str, _Names]]:
        """Every value that names something, and where it is written."""
        for steps, names in fields.items():
            for path, value in self._found(obj, steps, at):
                if isinstance(value, str) and value:
                    yield path, value, names

    def _found(
        self, value: Any, steps: tuple[str, ...], at: FieldPath
    ) -> Iterator[tuple[FieldPath, Any]]:
        if not steps:
            yield at, value
        elif steps[0] == _EVERY:
            for number, item in enumerate(value if isinstance(value, list) else ()):
                yield from self._found(item, steps[1:], (*at, number))
        elif isinstance(value, dict):
            for key in value:
                if key != steps[0] and key.casefold() == steps[0].casefold():
                    message = f"{shown(key)} is read as {steps[0]}: write it so"
                    raise self._error("GK3407", message, (*at, key))
            if steps[0] in value:
                yield from self._found(value[steps[0]], steps[1:], (*at, steps[0]))

    def _named_value(self, value: str, names: _Names, path: FieldPath) -> None:
        inline = names is _Names.PATCH and _objects(value) is not None
        if _URL.match(value) or ("://" in value and not inline):
            if names not in _BASES:
                raise self._error("GK3402", f"a URL is not fetched: {shown(value)}", path)
            self._remote(value, path)
            return
        if inline:
            return
        if names is _Names.KEYED_FILE:
            self._file(value.partition("=")[2] or value, path)
        elif names in _BASES:
            self._base(value, names, path)
        else:
            self._file(value, path)

    def _file(self, value: str, path: FieldPath) -> None:
        self._copied(self._target(value, path), value, path)

    def _copied(self, where: str, value: str, path: FieldPath) -> None:
        """Refuse a name that is not one of the files kustomize is given."""
        if self._commit.copied(where):
            return
        if _REPOSITORY.match(value):
            raise self._error("GK3402", f"a remote file is not fetched: {shown(value)}", path)
        if self._commit.entry(where) is None:
            raise self._error("GK3404", f"{shown(value)} is not in the repository", path)
        message = f"{shown(value)} is not a file in or below the folder of the kustomization"
        raise self._error("GK3404", message, path)

    def _base(self, value: str, names: _Names, path: FieldPath) -> None:
        if _REPOSITORY.match(value):
            self._remote(value, path)
            return
        where = self._target(value, path)
        entry = self._commit.entry(where)
        if entry is not None and entry.is_tree:
            self._checked.folders.append(where)
        elif entry is not None and names is _Names.FOLDER:
            raise self._error("GK3404", f"{shown(value)} is not a folder", path)
        else:
            self._file(value, path)

    def _remote(self, value: str, path: FieldPath) -> None:
        """Put the folder of a remote base in the place of its address."""
        try:
            where = self._commit.remote(value)
        except (InvalidManifests, SourceFailed) as error:
            place = self._document.place(path, label="here")
            raise type(error)(*(replace(f, places=(place,)) for f in error.findings)) from error
        entry = self._commit.entry(where)
        if entry is None or not entry.is_tree:
            message = f"{shown(value)} names no folder: what is fetched are bases, not files"
            raise self._error("GK3404", message, path)
        self._checked.folders.append(where)
        field_name, number = path
        assert isinstance(number, int), "bases are items of a list"
        listed = [*self._checked.obj[str(field_name)]]
        listed[number] = posixpath.relpath(where, self._folder or ".")
        self._checked.obj[str(field_name)] = listed

    def _target(self, value: str, path: FieldPath, folder: str | None = None) -> str:
        """The path from the repository's root."""
        around = self._folder if folder is None else folder
        target = posixpath.normpath(posixpath.join(around, value))
        outside = target.startswith(("../", "/")) or target == ".."
        if outside or root_of(target) != root_of(around):
            raise self._error("GK3404", f"{shown(value)} is outside the repository", path)
        return clean_path("" if target == "." else target)

    def _inline(self, value: Any, path: FieldPath) -> list[str]:
        """The plugins that an entry of a list of plugins names or is, as inline JSON."""
        if not isinstance(value, str):
            raise self._error("GK3407", "a plugin is a path or a text", path)
        objects = _objects(value)
        if _URL.match(value) or (objects is None and ("://" in value or _REPOSITORY.match(value))):
            raise self._error("GK3402", f"a remote plugin is not fetched: {shown(value)}", path)
        if objects is None:
            where = self._target(value, path)
            objects = self._plugins_at(where, value, path, _PLUGIN_DEPTH)
        for obj in objects:
            self._plugin(obj, path)
        return ["\n---\n".join(map(json.dumps, objects))] if objects else []

    def _plugins_at(self, where: str, value: str, path: FieldPath, depth: int) -> list[Obj]:
        """The plugins of a file, or of the files that a folder's kustomization lists."""
        entry = self._commit.entry(where)
        if entry is None or not entry.is_tree:
            self._copied(where, value, path)
            return [document.obj for document in self._commit.parse(where).checked().documents]
        if depth == 0:
            raise self._error("GK3406", f"more than {_PLUGIN_DEPTH} levels of plugins", path)
        self._checked.folders.append(where)
        listing = self._commit.kustomization(where).obj
        if not listing.keys() <= _PLUGIN_FOLDER:
            message = f"{shown(value)} computes plugins: list files of plugins as its resources"
            raise self._error("GK3407", message, path)
        names = [
            name
            for steps in (("resources", _EVERY), ("bases", _EVERY))
            for _, name in self._found(listing, steps, path)
        ]
        return [
            obj
            for name in map(str, names)
            for obj in self._plugins_at(self._target(name, path, where), name, path, depth - 1)
        ]

    def _plugin(self, obj: Any, path: FieldPath) -> None:
        kind = obj.get("kind") if isinstance(obj, dict) else None
        if kind in ("HelmChartInflationGenerator", "ChartInflator"):
            raise self._error("GK3405", "charts in a kustomization are not rendered", path)
        fields = _PLUGINS.get(kind) if isinstance(kind, str) else None
        if fields is None or obj.get("apiVersion") != "builtin":
            name = f"{obj.get('apiVersion')}/{kind}" if isinstance(obj, dict) else "this"
            message = f"{shown(name)} is not a built-in plugin of kustomize that is known here"
            raise self._error("GK3407", message, path)
        for steps in ("apiVersion", "kind"):
            list(self._found(obj, (steps,), path))  # refuses another spelling of the key
        for _, value, names in self._named(fields, obj, path):
            self._named_value(value, names, path)


def _objects(text: str) -> list[Obj] | None:
    """The objects that a text is, or None when it is the name of a file."""
    parsed = parse_file(text.encode("utf-8", "surrogatepass"), "inline")
    objects = [document.obj for document in parsed.documents]
    if not parsed.ok or not objects or not all(isinstance(obj, dict) for obj in objects):
        return None
    return objects
