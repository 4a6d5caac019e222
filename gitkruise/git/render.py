"""Kustomize, run on a private copy of what a kustomization names, without network."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import posixpath
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gitkruise.errors import Finding, InvalidManifests, Place, SourceFailed
from gitkruise.git import process
from gitkruise.git.documents import LIMITS, Limits, Parsed, parse_file
from gitkruise.git.parse_cache import ParseCache
from gitkruise.git.repo import Repository
from gitkruise.git.tree import TreeEntry, clean_path, entry_trouble
from gitkruise.model.document import Document
from gitkruise.wire.visible import shown

KUSTOMIZATION_NAMES: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
RENDER_S: Final = 60.0
MEMORY_MIB: Final = 1_024
FILES_MAX: Final = 10_000
BYTES_MAX: Final = 64 << 20
_FOLDERS_MAX: Final = 200
_OUTPUT: Final = Limits(
    file_bytes=64 << 20, documents=20_000, nodes=5_000_000, items=1_000_000, map_keys=100_000
)
_REMOTE: Final = re.compile(
    r"^[a-z+]+::|://|^git@|^[\w.-]+@[\w.-]+:|\?(?:ref|version|timeout|submodules)=|//|"
    r"^(?:github\.com|gitlab\.com|bitbucket\.org)[/:]"
)
_HELM: Final = ("helmCharts", "helmChartInflationGenerator", "helmGlobals")
_COMMANDS: Final = (("kustomize", ("build",)), ("kubectl", ("kustomize",)))
_DEAD_PROXY: Final = "http://127.0.0.1:9"  # nothing listens there


@dataclass(frozen=True, slots=True)
class Rendered:
    """What kustomize made, the digest of all it was made of, and the folders that holds."""

    parsed: Parsed
    tree: str
    folders: tuple[str, ...]


class Renderer:
    """Renders kustomizations of one repository."""

    def __init__(
        self, repository: Repository, cache: ParseCache, *, search: str = process.SEARCH_PATH
    ) -> None:
        self._repository, self._cache, self._search = repository, cache, search

    def render(self, commit: str, path: str) -> Rendered:
        """The objects of the kustomization at `path`, each placed in its most likely source file.

        What was rendered once from equal content is not rendered again. Raises InvalidManifests
        (GK34xx) for what the repository does wrong, SourceFailed GK3401 where neither kustomize
        nor kubectl is installed.
        """
        needed = self._needed(commit, path)
        tree = needed.digest()
        known = self._cache.rendered(tree)
        if known is None:
            known = self._render(needed, path)
            self._cache.keep_rendered(tree, known)
        return Rendered(known, tree, tuple(needed.folders))

    def content(self, commit: str, path: str) -> tuple[str, tuple[str, ...]]:
        """(digest, folders) of all that the kustomization is made of. Raises InvalidManifests."""
        needed = self._needed(commit, path)
        return needed.digest(), tuple(needed.folders)

    def _needed(self, commit: str, path: str) -> _Needed:
        needed = _Needed(self._repository, commit, self._cache)
        needed.collect(path)
        return needed

    def _render(self, needed: _Needed, path: str) -> Parsed:
        program = self._program()
        import tempfile  # noqa: PLC0415  slow to import, and seldom needed

        with tempfile.TemporaryDirectory(prefix="gitkruise-render-") as name:
            root = Path(name) / "tree"
            for entry in needed.files.values():
                target = root / entry.path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(self._repository.read_blob(entry.id))
            output = self._run([*program, str(root / path)], Path(name), path)
        parsed = parse_file(output, f"{path}/kustomization", _OUTPUT)
        sources = Sources(needed.inputs(), needed.kustomizations)
        placed = tuple(sources.placed(document) for document in parsed.documents)
        return Parsed(placed, tuple(f for f in parsed.findings if f.severity == "error"))

    def _program(self) -> list[str]:
        for name, words in _COMMANDS:
            found = shutil.which(name, path=self._search)
            if found:
                return [found, *words]
        next_step = "install kubectl or kustomize, or set render.kind: plain"
        message = "a kustomization needs kustomize or kubectl, and neither is installed"
        raise SourceFailed(Finding(code="GK3401", message=message, notes=(("next", next_step),)))

    def _run(self, words: list[str], home: Path, path: str) -> bytes:
        env = {
            "PATH": "/nonexistent", "HOME": str(home), "KUBECONFIG": "/dev/null", "LC_ALL": "C",
            "GOMEMLIMIT": "512MiB", "HTTP_PROXY": _DEAD_PROXY, "HTTPS_PROXY": _DEAD_PROXY,
            "TMPDIR": str(home),
        }  # fmt: skip
        child = subprocess.Popen(  # noqa: S603  a full path and our own words
            [*process.limited(memory_mib=MEMORY_MIB), *words], env=env, cwd=home,
            start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        result = process.collect(child, timeout_s=RENDER_S, output_max=BYTES_MAX)
        if result.stopped:
            limit = f"{RENDER_S:g} s" if result.stopped == "time" else f"{BYTES_MAX >> 20} MiB"
            raise _bad("GK3406", f"rendering {path} is beyond a limit: {limit}", path)
        if result.status != 0:
            said = result.errors.replace(str(home / "tree") + "/", "").strip()
            said = shown(said.removeprefix("error: ").splitlines()[0] if said else "nothing", 400)
            raise _bad("GK3403", f"kustomize cannot build {path}: {said}", path)
        return result.output


def _bad(code: str, message: str, file: str, place: Place | None = None) -> InvalidManifests:
    spot = place or Place(file=file or ".")
    return InvalidManifests(Finding(code=code, message=message, places=(spot,)))


class _Needed:
    """The folders a kustomization reaches, found by reading kustomizations as we read manifests."""

    def __init__(self, repository: Repository, commit: str, cache: ParseCache) -> None:
        self.files: dict[str, TreeEntry] = {}
        self.folders: list[str] = []
        self.kustomizations: list[Document] = []
        self._repository, self._commit, self._cache = repository, commit, cache
        self._sizes = 0

    def collect(self, path: str) -> None:
        """Gather from `path`; raises InvalidManifests for what is remote, missing or too much."""
        waiting = [path]
        while waiting:
            folder = waiting.pop()
            if folder in self.folders:
                continue
            self.folders.append(folder)
            if len(self.folders) > _FOLDERS_MAX:
                raise _bad("GK3406", f"more than {_FOLDERS_MAX} kustomizations", path)
            self._take_folder(folder)
            kustomization = self._kustomization(folder)
            self.kustomizations.append(kustomization)
            waiting += self._references(folder, kustomization)

    def digest(self) -> str:
        """A name for the content: equal digest, equal result."""
        lines = sorted(f"{entry.path}\0{entry.id}\n" for entry in self.files.values())
        told = "\n".join(self.folders) + "\0" + "".join(lines)
        return hashlib.sha256(told.encode("utf-8")).hexdigest()

    def inputs(self) -> Iterator[Document]:
        """Manifests among the files; what is no manifest is kustomize's to judge."""
        for path, entry in sorted(self.files.items()):
            if path.lower().endswith((".yaml", ".yml", ".json")):
                read = functools.partial(self._repository.read_blob, entry.id)
                yield from self._cache.parse(entry.id, path, read).documents

    def _take_folder(self, folder: str) -> None:
        entries = self._repository.list_tree(self._commit, folder, enter=_not_hidden)
        new = [entry for entry in entries if entry.path not in self.files]
        for entry in new:
            trouble = entry_trouble(entry)
            if trouble is not None:
                raise _bad(trouble[0], f"{shown(entry.path)}: {trouble[1]}", shown(entry.path))
        sizes = self._repository.sizes([entry.id for entry in new])
        self._sizes += sum(sizes[entry.id] for entry in new)
        if len(self.files) + len(new) > FILES_MAX or self._sizes > BYTES_MAX:
            raise _bad("GK3406", f"{FILES_MAX:,} files or {BYTES_MAX >> 20} MiB to render", folder)
        self.files.update((entry.path, entry) for entry in new)

    def _kustomization(self, folder: str) -> Document:
        for name in KUSTOMIZATION_NAMES:
            entry = self.files.get(posixpath.join(folder, name))
            if entry is not None:
                if self._repository.sizes([entry.id])[entry.id] > LIMITS.file_bytes:
                    raise _bad("GK9005", f"{entry.path} is too large", entry.path)
                parsed = parse_file(self._repository.read_blob(entry.id), entry.path)
                if not parsed.ok:
                    raise InvalidManifests(*(f for f in parsed.findings if f.severity == "error"))
                if len(parsed.documents) == 1 and isinstance(parsed.documents[0].obj, dict):
                    return parsed.documents[0]
                raise _bad("GK3403", f"{entry.path} is not one kustomization", entry.path)
        raise _bad("GK3404", f"there is no kustomization in {folder or '.'}", folder)

    def _references(self, folder: str, document: Document) -> Iterator[str]:
        """Folders named by resources, bases and components; anything remote is refused."""
        for name in _HELM:
            if name in document.obj:
                place = document.place((name,), key=True, label="not supported")
                raise _bad("GK3405", "charts in a kustomization are not rendered", "", place)
        for field in ("resources", "bases", "components", "generators", "transformers"):
            listed = document.obj.get(field) or ()
            for number, value in enumerate(listed if isinstance(listed, list) else ()):
                if isinstance(value, str) and "\n" not in value:
                    yield from self._reference(folder, value, document, (field, number))

    def _reference(
        self, folder: str, value: str, document: Document, path: tuple[str | int, ...]
    ) -> Iterator[str]:
        place = document.place(path, label="here")
        if _REMOTE.search(value):
            message = f"a remote base is not fetched: {shown(value)}"
            raise _bad("GK3402", message, document.file, place)
        target = posixpath.normpath(posixpath.join(folder, value))
        if target.startswith(("../", "/")) or target == "..":
            raise _bad("GK3404", f"{shown(value)} is outside the repository", "", place)
        where = clean_path("" if target == "." else target)
        entry = self._repository.find(self._commit, where)
        if entry is None:
            message = f"{shown(value)} is not in the repository"
            raise _bad("GK3404", message, document.file, place)
        if entry.is_tree:
            yield where


def _not_hidden(folder: str) -> bool:
    return not folder.rpartition("/")[2].startswith(".")


class Sources:
    """Which file a rendered object most likely came from: by kind and name, deepest base first."""

    def __init__(self, inputs: Iterator[Document], kustomizations: Sequence[Document]) -> None:
        self._by_kind: dict[str, list[Document]] = {}
        self._kustomizations = kustomizations
        order = {posixpath.dirname(d.file): n for n, d in enumerate(kustomizations)}
        known = [d for d in inputs if isinstance(d.obj, dict) and _name(d.obj)]
        known.sort(key=lambda d: (-order.get(posixpath.dirname(d.file), 0), -len(d.obj)))
        for document in known:
            self._by_kind.setdefault(str(document.obj.get("kind")), []).append(document)

    def placed(self, rendered: Document) -> Document:
        """`rendered` with the file and marks of its source, else of the kustomization."""
        source = self._source(rendered.obj)
        base = source.base
        if source in self._kustomizations:
            base = self._generator(source, rendered.obj)
        return dataclasses.replace(
            rendered, file=source.file, index=source.index, marks=source.marks,
            lines=source.lines, base=base, line=source.line,
        )  # fmt: skip

    def _source(self, obj: Mapping[str, Any]) -> Document:
        name = _name(obj)
        same_kind = self._by_kind.get(str(obj.get("kind")), [])
        exact = [d for d in same_kind if _name(d.obj) == name]
        parts = [d for d in same_kind if _name(d.obj) in name]
        longest = max((len(_name(d.obj)) for d in parts), default=0)
        inside = [d for d in parts if len(_name(d.obj)) == longest]
        generating = [d for d in self._kustomizations if self._generator(d, obj)]
        return (exact or generating or inside or list(self._kustomizations))[0]

    def _generator(self, document: Document, obj: Mapping[str, Any]) -> tuple[str | int, ...]:
        field = {"ConfigMap": "configMapGenerator", "Secret": "secretGenerator"}.get(
            str(obj.get("kind")), ""
        )
        listed = document.obj.get(field)
        for number, item in enumerate(listed if isinstance(listed, list) else ()):
            wanted = item.get("name") if isinstance(item, dict) else None
            if isinstance(wanted, str) and wanted in _name(obj):
                return (field, number)
        return ()


def _name(obj: Mapping[str, Any]) -> str:
    meta = obj.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    return name if isinstance(name, str) else ""
