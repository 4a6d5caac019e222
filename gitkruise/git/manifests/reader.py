"""The objects a path of a repository asks for at one commit."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from gitkruise.errors import Finding, InvalidManifests, SourcePlace
from gitkruise.git.helm.release import Release
from gitkruise.git.helm.render import ChartRenderer
from gitkruise.git.kustomize.remote_bases import NONE, RemoteBases
from gitkruise.git.kustomize.render import Renderer
from gitkruise.git.manifests.ignore import Ignored
from gitkruise.git.parsing.documents import LIMITS, Parsed, expanded, finding_at, too_large
from gitkruise.git.parsing.parse_cache import ParseCache
from gitkruise.git.plumbing import process
from gitkruise.git.plumbing.trees import TreeEntry, clean_path, entry_problem
from gitkruise.git.repository.repository import Repository
from gitkruise.model.gitops.config import RenderKind
from gitkruise.model.gitops.document import Document
from gitkruise.model.gitops.record import BaseRecord
from gitkruise.printable import shown
from gitkruise.wire.primitives.names import CONFIG_FILE, KUSTOMIZATION_NAMES, OWN_GROUP

__all__ = ["Content", "Manifests", "ParseCache", "content_at", "read_desired", "refusal"]

FILES_MAX: Final = 10_000
BYTES_MAX: Final = 64 << 20
DOCUMENTS_MAX: Final = 20_000
FINDINGS_SHOWN: Final = 20
_AT_ONCE: Final = 64
_AHEAD_BYTES: Final = 4 << 20  # of files that are read before they are parsed
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_BACKUP_ENDINGS: Final = ("~", ".bak", ".orig", ".swp", ".tmp", "#")
_ELSEWHERE: Final = "name a folder in spec.path of the unit, or commit plain files in its place"
_NEEDED: Final = ("next", "every object needs apiVersion, kind and metadata.name")
_KUSTOMIZE: Final = "kustomize.config.k8s.io"
_RENDERED_ELSEWHERE: Final = frozenset({*KUSTOMIZATION_NAMES, "Chart.yaml"})
_KUSTOMIZED: Final = (
    "write a unit with the path {folder} and list {folder}/ in .gitkruiseignore, "
    "or set render.kind: plain, which reads its files as they are"
)
_CHART_BELOW: Final = (
    "write a unit with the path {folder} and render.kind: helm, "
    "and list {folder}/ in .gitkruiseignore"
)
_CHART_HERE: Final = "set render.kind: helm in this unit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Content of a path at a commit. `tree` is its id: equal id, equal result.

    `inputs` are the folders that are read: a kustomization may reach outside its path, and take
    `bases` from other repositories.
    """

    tree: str
    inputs: tuple[str, ...]
    rendering: bool = False
    bases: tuple[BaseRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifests:
    """Documents of a path at a commit. `tree`, `inputs` and `bases` are those of its Content.

    `config` are documents of gitkruise's own group in a gitkruise.yaml; `rendered` documents come
    from no single file.
    """

    commit: str
    path: str
    tree: str
    inputs: tuple[str, ...]
    documents: tuple[Document, ...]
    config: tuple[Document, ...] = ()
    findings: tuple[Finding, ...] = ()
    rendered: bool = False
    bases: tuple[BaseRecord, ...] = ()

    def errors(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.is_error)

    def checked(self) -> Manifests:
        """Itself; raises InvalidManifests with the first 20 errors and a count of the rest."""
        if self.errors():
            raise refusal(self.errors())
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """Rendering of a path: `auto` renders where it has a kustomization, kind helm the chart at the
    path as `release`, which no other kind reads.

    Kustomizations may take `bases` from other repositories. Renderers are looked for in the folders
    of `search`.
    """

    kind: RenderKind = "auto"
    release: Release | None = None
    bases: RemoteBases = NONE
    search: str = process.SEARCH_PATH


AUTO: Final = Rendering()
PLAIN: Final = Rendering(kind="plain")


def refusal(errors: Sequence[Finding]) -> InvalidManifests:
    """One exception for all `errors`; more than 20 are counted, not listed."""
    rest = len(errors) - FINDINGS_SHOWN
    listed = list(errors[:FINDINGS_SHOWN])
    if rest > 0:
        listed.append(Finding(code="GK1000", message=f"and {rest} more problems"))
    return InvalidManifests(*listed)


def read_desired(
    repository: Repository,
    commit: str,
    path: str = "",
    *,
    rendering: Rendering = AUTO,
    ignore: Sequence[str] = (),
    cache: ParseCache | None = None,
) -> Manifests:
    """The objects at `path`: read as they are (kind plain) or rendered (kustomize, helm).

    `ignore` are lines as in an ignore file at the repository's root, which have the last word.
    Problems are findings; call `checked()` to
    refuse them. Raises SourceFailed (GK3202: no such path) and InvalidManifests for what stops the
    reading itself (GK9020, and all that goes wrong in rendering).
    """
    where = clean_path(path)
    reading = _Reading(repository, commit, where, rendering, ignore, cache or ParseCache())
    content = reading.content()
    if content.rendering:
        reading.take(reading.rendered())
    else:
        reading.read()
    return Manifests(
        commit=commit,
        path=where,
        tree=content.tree,
        inputs=content.inputs,
        documents=tuple(reading.documents),
        config=tuple(reading.config),
        findings=tuple(reading.findings),
        rendered=content.rendering,
        bases=content.bases,
    )


def content_at(
    repository: Repository,
    commit: str,
    path: str = "",
    *,
    rendering: Rendering = AUTO,
    ignore: Sequence[str] = (),
    cache: ParseCache | None = None,
) -> Content:
    """Return the content that `read_desired` would read, unread. Raises as that does."""
    where = clean_path(path)
    reading = _Reading(repository, commit, where, rendering, ignore, cache or ParseCache())
    return reading.content()


class _Reading:
    """One pass over a path."""

    def __init__(
        self, repository: Repository, commit: str, path: str, rendering: Rendering,
        ignore: Sequence[str], cache: ParseCache,
    ) -> None:  # fmt: skip
        self.cache = cache
        self.documents: list[Document] = []
        self.config: list[Document] = []
        self.findings: list[Finding] = []
        self._repository, self._commit, self._path = repository, commit, path
        self.ignored = Ignored(repository, commit, path, ignore)
        self._how, search = rendering, rendering.search
        self._charts = ChartRenderer(repository, cache, search=search)
        self._kustomizations = Renderer(repository, cache, bases=rendering.bases, search=search)

    def content(self) -> Content:
        """Return the content, and whether it is rendered first."""
        kind, release = self._how.kind, self._how.release
        repository, commit, path = self._repository, self._commit, self._path
        tree = repository.tree_id(commit, path)
        if kind == "helm":
            assert release is not None
            tree, inputs = self._charts.content(commit, path, release)
            return Content(tree=tree, inputs=inputs, rendering=True)
        if kind == "kustomize" or (kind == "auto" and self._has_kustomization()):
            tree, inputs, bases = self._kustomizations.content(commit, path)
            return Content(tree=tree, inputs=inputs, rendering=True, bases=bases)
        return Content(tree=self.ignored.digest(tree), inputs=(path, *self.ignored.files()))

    def rendered(self) -> Parsed:
        """Return what the path renders to. Raises InvalidManifests and RendererMissing."""
        if self._how.kind == "helm":
            assert self._how.release is not None
            return self._charts.render(self._commit, self._path, self._how.release)
        return self._kustomizations.render(self._commit, self._path).parsed

    def _has_kustomization(self) -> bool:
        return any(self._find(name) for name in KUSTOMIZATION_NAMES)

    def _find(self, name: str) -> TreeEntry | None:
        below = f"{self._path}/{name}" if self._path else name
        entry = self._repository.find(self._commit, below)
        return entry if entry and entry.is_file else None

    def read(self) -> None:
        """Read every manifest below the path as it is."""
        entries = self._repository.list_tree(self._commit, self._path, enter=self._enter)
        if self._how.kind == "auto":
            entries = self._without_unrendered(entries)
        wanted = [entry for entry in entries if self._wanted(entry)]
        sizes = self._repository.sizes([entry.id for entry in wanted])
        if self._over_totals(len(wanted), sum(sizes[entry.id] for entry in wanted)):
            return
        for at in range(0, len(wanted), _AT_ONCE):
            some = wanted[at : at + _AT_ONCE]
            self._read_ahead(some, sizes)
            for entry in some:
                self._parse(entry, sizes[entry.id])
            if len(self.documents) > DOCUMENTS_MAX:
                self._limit(f"{DOCUMENTS_MAX:,} documents a source")
                break
        self.cache.save()

    def _without_unrendered(self, entries: list[TreeEntry]) -> list[TreeEntry]:
        """Refuse folders that only kustomize or helm can read, and return the files of the others.

        Their files as they are would be other objects: without the names and patches of the
        kustomization. A unit of kind plain reads them all the same.
        """
        suspects = [
            e.path
            for e in entries
            if e.path.rpartition("/")[2] in _RENDERED_ELSEWHERE and e.path not in self.ignored
        ]
        if not suspects:  # as almost always: a repository may have many files
            return entries
        paths = (entry.path for entry in entries if entry.path not in self.ignored)
        templates = {path.partition("/templates/")[0] for path in paths if "/templates/" in path}
        found: dict[PurePosixPath, Finding] = {}
        for path in suspects:
            folder, _, name = path.rpartition("/")
            if name in KUSTOMIZATION_NAMES:
                found[PurePosixPath(folder)] = _unrendered(path, "kustomization", _KUSTOMIZED)
            elif folder in templates:
                next_ = _CHART_HERE if folder == self._path else _CHART_BELOW
                found[PurePosixPath(folder)] = _unrendered(path, "Helm chart", next_)
        outer = {folder for folder in found if found.keys().isdisjoint(folder.parents)}
        self.findings += (found[folder] for folder in sorted(outer))
        return [e for e in entries if outer.isdisjoint(PurePosixPath(e.path).parents)]

    def _read_ahead(self, entries: Sequence[TreeEntry], sizes: Mapping[str, int]) -> None:
        """Read all files not parsed yet in one exchange: one by one takes longer."""
        fresh = self.cache.missing((entry.id, entry.path) for entry in entries)
        if len(fresh) > 1 and sum(sizes[blob] for blob in fresh) <= _AHEAD_BYTES:
            self._repository.read_ahead(fresh)

    def _parse(self, entry: TreeEntry, size: int) -> None:
        if size > LIMITS.file_bytes:
            self.findings.append(too_large(entry.path, size))
            return
        read = functools.partial(self._repository.read_blob, entry.id)
        self.take(self.cache.parse(entry.id, entry.path, read))

    def _over_totals(self, files: int, size: int) -> bool:
        if files > FILES_MAX:
            self._limit(f"{FILES_MAX:,} files a source ({files:,})")
        elif size > BYTES_MAX:
            self._limit(f"{BYTES_MAX >> 20} MiB a source ({size >> 20} MiB)")
        else:
            return False
        return True

    def _limit(self, limit: str) -> None:
        place = SourcePlace(file=self._path or ".")
        message = f"the source is beyond a limit: {limit}"
        self.findings.append(Finding(code="GK9006", message=message, places=(place,)))

    def _enter(self, folder: str) -> bool:
        name = folder.rpartition("/")[2]
        return not name.startswith(".") and folder + "/" not in self.ignored

    def _wanted(self, entry: TreeEntry) -> bool:
        if entry.path in self.ignored:
            return False
        problem = entry_problem(entry)
        if problem is not None:
            code, why = problem
            place = SourcePlace(file=shown(entry.path))
            message = f"{shown(entry.path)}: {self._link(entry)}{why}"
            notes = (("next", _ELSEWHERE),) if entry.path == self._path else ()
            finding = Finding(code=code, message=message, places=(place,), notes=notes)
            self.findings.append(finding)
            return False
        name = entry.path.rpartition("/")[2]
        if name in KUSTOMIZATION_NAMES or _hidden_or_backup(name):
            return False
        return name.lower().endswith(_SUFFIXES)

    def _link(self, entry: TreeEntry) -> str:
        if entry.is_file or entry.mode != 0o120000:
            return ""
        target = self._repository.read_blob(entry.id).decode("utf-8", "replace")
        return f"-> {shown(target)}: "

    def take(self, parsed: Parsed) -> None:
        """Sort a file's documents: objects, our own configuration, and what is neither."""
        self.findings.extend(parsed.findings)
        for document in parsed.documents:
            for item in expanded(document):
                if isinstance(item, Finding):
                    self.findings.append(item)
                else:
                    self._take_one(item)

    def _take_one(self, document: Document) -> None:
        obj = document.obj
        api_version, kind = obj.get("apiVersion"), obj.get("kind")
        for name, value in (("apiVersion", api_version), ("kind", kind)):
            if not isinstance(value, str) or not value:
                what = "is missing" if value is None else "must be text"
                found = finding_at(document, "GK2001", f"{name} {what}", (name,))
                self.findings.append(replace(found, notes=(_NEEDED,)))
                return
        assert isinstance(api_version, str)
        group = api_version.rpartition("/")[0]
        if group == _KUSTOMIZE:
            return
        own = group == OWN_GROUP and PurePosixPath(document.file).name == CONFIG_FILE
        (self.config if own else self.documents).append(document)


def _unrendered(path: str, what: str, next_: str) -> Finding:
    folder = shown(path.rpartition("/")[0] or ".")
    return Finding(
        code="GK3421",
        message=f"{folder} has a {what}, which this unit does not render",
        places=(SourcePlace(file=shown(path)),),
        notes=(("next", next_.format(folder=folder)),),
    )


def _hidden_or_backup(name: str) -> bool:
    return name.startswith((".", "#")) or name.lower().endswith(_BACKUP_ENDINGS)
