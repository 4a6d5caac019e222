"""Kustomize, run on a private copy of what a kustomization names, without network."""

from __future__ import annotations

import dataclasses
import functools
import json
import posixpath
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gitkruise.errors import Finding, InvalidManifests, RendererMissing, SourcePlace
from gitkruise.git.kustomize.allowed_files import check
from gitkruise.git.kustomize.remote_bases import NONE, FoundBase, RemoteBases, root_of
from gitkruise.git.parsing.documents import RENDERED, Parsed, parse_file
from gitkruise.git.parsing.parse_cache import ParseCache
from gitkruise.git.plumbing import process
from gitkruise.git.plumbing.trees import TreeEntry
from gitkruise.git.rendering.copied_files import CopiedFiles
from gitkruise.git.rendering.program import BYTES_MAX, MEMORY_MIB, RENDER_S, refused, run
from gitkruise.git.repository.repository import Repository
from gitkruise.model.gitops.document import Document
from gitkruise.model.gitops.record import BaseRecord
from gitkruise.printable import shown
from gitkruise.wire.primitives.names import KUSTOMIZATION_NAMES

_FOLDERS_MAX: Final = 200
_REMOTE_MAX: Final = 20
_SECRET: Final = re.compile(rb"secret|sops|\\[xu]|PRIVATE KEY", re.IGNORECASE)
_LOGGED: Final = re.compile(
    r'^[EF]\d{4} [^\]\n]+\] "[^"]+" err=(?:<\n(.+?)\n >|"(.+)"$)', re.MULTILINE | re.DOTALL
)
_COMMANDS: Final = (("kustomize", ("build",)), ("kubectl", ("kustomize",)))


@dataclass(frozen=True, slots=True)
class Rendered:
    """The output of kustomize, the digest of all its input, and the folders with that input."""

    parsed: Parsed
    tree: str
    folders: tuple[str, ...]


class Renderer:
    """Renders kustomizations of one repository."""

    def __init__(
        self, repository: Repository, cache: ParseCache, *, bases: RemoteBases = NONE,
        search: str = process.SEARCH_PATH,
    ) -> None:  # fmt: skip
        self._repository, self._cache, self._bases = repository, cache, bases
        self._search = search
        self._remote: dict[str, CopiedFiles] = {}  # the last that had a file of a remote base

    def render(self, commit: str, path: str) -> Rendered:
        """The objects of the kustomization at `path`, each placed in its most likely source file.

        What was rendered once from equal content is not rendered again. Raises InvalidManifests
        (GK34xx) for what the repository does wrong, RendererMissing GK3401 where neither kustomize
        nor kubectl is installed.
        """
        needed = self._needed(commit, path)
        tree = needed.digest()
        known = self._cache.rendered(tree)
        if known is None:
            known = self._render(needed, path)
            self._cache.keep_rendered(tree, known)
        return Rendered(known, tree, needed.own_folders())

    def content(
        self, commit: str, path: str
    ) -> tuple[str, tuple[str, ...], tuple[BaseRecord, ...]]:
        """(digest, folders, remote bases) of all that the kustomization is made of. Raises
        InvalidManifests."""
        needed = self._needed(commit, path)
        return needed.digest(), needed.own_folders(), needed.bases()

    def kustomizations(self, commit: str, path: str) -> tuple[Document, ...]:
        """The kustomizations that are read, the outermost first. Raises InvalidManifests."""
        return tuple(self._needed(commit, path).kustomizations)

    def remote_file(self, path: str) -> bytes:
        """Return a file of a remote base that was rendered."""
        return self._remote[root_of(path)].read(path)

    def _needed(self, commit: str, path: str) -> _Needed:
        needed = _Needed(self._repository, commit, self._cache, self._bases)
        needed.collect(path)
        self._remote |= dict.fromkeys(
            filter(None, map(root_of, needed.folders)), needed.copied_files
        )
        return needed

    def _render(self, needed: _Needed, path: str) -> Parsed:
        program = self._program()
        import tempfile  # noqa: PLC0415  slow to import, and seldom needed

        with tempfile.TemporaryDirectory(prefix="gitkruise-render-") as name:
            root = Path(name) / "tree"
            given = {path: json.dumps(obj).encode() for path, obj in needed.checked.items()}
            needed.copied_files.write(root, given)
            result = run(
                [*program, str(root / path)], Path(name), path,
                timeout_s=RENDER_S, memory_mib=MEMORY_MIB, output_max=BYTES_MAX,
            )  # fmt: skip
        if result.status != 0:
            tried = f"{posixpath.basename(program[0])} {program[1]} {shown(path or '.')}"
            output = result.errors.replace(f"{root}/", "").replace(str(root), ".")
            raise _refused(output, path, needed, tried)
        parsed = parse_file(result.output, f"{path}/kustomization", RENDERED)
        sources = Sources(needed.inputs(), needed.kustomizations)
        placed = tuple(sources.placed(document) for document in parsed.documents)
        return Parsed(placed, tuple(f for f in parsed.findings if f.is_error))

    def _program(self) -> list[str]:
        for name, words in _COMMANDS:
            found = shutil.which(name, path=self._search)
            if found:
                return [found, *words]
        next_step = "install kubectl or kustomize, or set render.kind: plain"
        message = "a kustomization needs kustomize or kubectl, and neither is installed"
        raise RendererMissing(Finding(code="GK3401", message=message, notes=(("next", next_step),)))


def _refused(output: str, path: str, needed: _Needed, tried: str) -> InvalidManifests:
    """GK3403 in the words of kustomize, which quotes values: only without a secret to quote.

    `tried` is the command that says the same in a checkout.
    """
    if needed.may_hold_secret():
        named = sorted(name for name in needed.files if name in output)[:3]
        where = f", at {', '.join(map(shown, named))}" if named else ""
        place = SourcePlace(file=path or ".")
        return InvalidManifests(
            Finding(
                code="GK3403",
                message=f"kustomize cannot build {shown(path or '.')}{where}",
                places=(place,),
                notes=(
                    ("why", "its words are not shown: they may quote a Secret it generates"),
                    ("next", f"see what it says: {tried}"),
                ),
            )
        )
    message = f"kustomize cannot build {shown(path or '.')}: {shown(_words(output), 400)}"
    notes = (("next", f"correct it, and try: {tried}"),)
    return InvalidManifests(
        Finding(
            code="GK3403", message=message, places=(SourcePlace(file=path or "."),), notes=notes
        )
    )


def _words(output: str) -> str:
    """Return the first line of an error, without warnings, and without the time and process of a
    log line, as some versions of kubectl write one."""
    logged = _LOGGED.search(output)
    if logged is not None:
        output = logged[1] or logged[2].replace('\\"', '"')
    lines = (line.strip() for line in output.splitlines())
    first = next((line for line in lines if line and not line.startswith("# Warning")), "nothing")
    return re.sub(r"^error: ", "", first, flags=re.IGNORECASE)


class _Needed:
    """The folders a kustomization reaches, found by reading kustomizations as we read manifests."""

    def __init__(
        self, repository: Repository, commit: str, cache: ParseCache, bases: RemoteBases
    ) -> None:
        self.copied_files = CopiedFiles(repository, commit)
        self.folders: list[str] = []
        self.kustomizations: list[Document] = []
        self.checked: dict[str, Mapping[str, Any]] = {}  # by file, what kustomize is given
        self._cache, self._bases = cache, bases
        self._remote: dict[str, FoundBase] = {}  # by what a kustomization names

    def collect(self, path: str) -> None:
        """Gather from `path`. Raises InvalidManifests for what is not allowed, missing or too
        much, and SourceFailed for a remote base that cannot be fetched."""
        waiting = [path]
        while waiting:
            folder = waiting.pop()
            if folder in self.folders:
                continue
            self.folders.append(folder)
            if len(self.folders) > _FOLDERS_MAX:
                raise refused("GK3406", f"more than {_FOLDERS_MAX} kustomizations", path)
            document = self.kustomization(folder)
            checked = check(self, folder, document)
            self.kustomizations.append(document)
            self.checked[document.file] = checked.obj
            waiting += checked.folders

    @property
    def files(self) -> Mapping[str, TreeEntry]:
        """The files that kustomize is given."""
        return self.copied_files.entries

    def own_folders(self) -> tuple[str, ...]:
        """The folders of the unit's own repository."""
        return tuple(folder for folder in self.folders if not root_of(folder))

    def digest(self) -> str:
        """A name for the content: equal digest, equal result."""
        led = (f"{base}={found.path}" for base, found in sorted(self._remote.items()))
        return self.copied_files.digest([*self.folders, *led])

    def bases(self) -> tuple[BaseRecord, ...]:
        """Return each commit of another repository once, in the order of their addresses."""
        found = (self._remote[base].record for base in sorted(self._remote))
        return tuple(dict.fromkeys(found))

    def may_hold_secret(self) -> bool:
        """Return whether a file among them is, generates or encrypts a Secret."""
        return any(_SECRET.search(self.copied_files.read(path)) for path in self.files)

    def inputs(self) -> Iterator[Document]:
        """Manifests among the files; what is no manifest is kustomize's to judge."""
        for path, entry in sorted(self.files.items()):
            if path.lower().endswith((".yaml", ".yml", ".json")):
                read = functools.partial(self.copied_files.read, path)
                yield from self._cache.parse(entry.id, path, read).documents

    def entry(self, path: str) -> TreeEntry | None:
        return self.copied_files.find(path)

    def remote(self, base: str) -> str:
        if base not in self._remote:
            if len(self._remote) >= _REMOTE_MAX:
                raise refused("GK3406", f"more than {_REMOTE_MAX} remote bases", "")
            found = self._bases.find(base)
            self.copied_files.mount(found.root, found.repository, found.commit)
            self._remote[base] = found
        return self._remote[base].path

    def copied(self, path: str) -> bool:
        return path in self.files

    def parse(self, path: str) -> Parsed:
        return self.copied_files.parse(path)

    def kustomization(self, folder: str) -> Document:
        """The kustomization of a folder, whose files are from now on copied."""
        self.copied_files.take_folder(folder)
        for name in KUSTOMIZATION_NAMES:
            path = posixpath.join(folder, name)
            if path in self.files:
                if (found := self.parse(path).one_object()) is not None:
                    return found
                raise refused("GK3403", f"{shown(path)} is not one kustomization", path)
        raise refused("GK3404", f"there is no kustomization in {shown(folder or '.')}", folder)


class Sources:
    """The likely file of each rendered object: by kind and name, deepest base first."""

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
            private=rendered.private or source.private,
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
