"""Mirrors of the repositories that kustomizations take bases from, in the state directory.

A tag is read one time: its commit is kept, and a tag that moves later changes nothing that this
state directory knows. So bases cost no request after the first, and need no poll.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from gitkruise.errors import Finding, SourceFailed
from gitkruise.git.helm.release import Release
from gitkruise.git.kustomize.remote_bases import (
    BaseOrigin,
    RemoteBases,
    bad_ref,
    no_ref,
    not_fetched,
)
from gitkruise.git.manifests.reader import Rendering
from gitkruise.git.plumbing.process import SEARCH_PATH, GitCredentials
from gitkruise.git.plumbing.refs import is_object_id
from gitkruise.git.repository.repository import Repository
from gitkruise.model.gitops.config import Kustomize, Unit
from gitkruise.printable import shown
from gitkruise.wire.primitives.log_line import log_line

if TYPE_CHECKING:
    from gitkruise.kube.system.clock import Clock

BASES: Final = "bases"  # folder of the state directory
_TIMEOUT_S: Final = 30.0  # of a conversation: others wait for the reader that fetches
_NOT_THERE: Final = "not our ref"  # git's words for an id that a server does not have
_SILENT_S: Final = 20.0  # in which a repository that failed is not asked again


@dataclass(slots=True)
class _Mirror:
    """One repository of bases. Readers of other repositories do not wait for it."""

    turn: threading.Lock = field(default_factory=threading.Lock)
    repository: Repository | None = None
    failed: SourceFailed | None = None
    failed_at: float = 0.0


class BaseMirrors:
    """Repositories of bases, fetched when a new commit of one is named. Blocking."""

    # Set when a process starts that renders: by plans, by the controller, by its workers.
    shared: ClassVar[BaseOrigin | None] = None

    def __init__(
        self, folder: Path, clock: Clock | None = None, *,
        credentials: GitCredentials | None = None,
    ) -> None:  # fmt: skip
        self._folder, self._clock = folder, clock
        self._credentials = credentials
        self._mirrors: dict[str, _Mirror] = {}
        self._lock = threading.Lock()
        self.kept = KeptBases(self)

    def commit(self, url: str, ref: str) -> tuple[Repository, str]:
        """Return a commit of the repository at `url`, fetched if it is new. Raises as
        `BaseOrigin.commit`, without GK3420."""
        return self._commit(url, ref, fetching=True)

    def repository(self, url: str) -> Repository:
        """Return the repository at `url`, which brings files of commits that are here."""
        mirror = self._mirror(url)
        with mirror.turn:
            return self._opened(mirror, url)

    def close(self) -> None:
        """End the programs that read the mirrors."""
        for mirror in self._mirrors.values():
            if mirror.repository is not None:
                mirror.repository.close()

    def _commit(self, url: str, ref: str, *, fetching: bool) -> tuple[Repository, str]:
        mirror = self._mirror(url)
        with mirror.turn:
            repository = self._opened(mirror, url)
            found = _known(repository, ref)
            if not found and not fetching:
                raise not_fetched(url, ref)
            return repository, found or self._fetched(mirror, repository, ref)

    def _mirror(self, url: str) -> _Mirror:
        with self._lock:
            return self._mirrors.setdefault(url, _Mirror())

    def _opened(self, mirror: _Mirror, url: str) -> Repository:
        if mirror.repository is None:
            mirror.repository = Repository.open(
                url, mirrors=self._folder, credentials=self._credentials, timeout_s=_TIMEOUT_S
            )
        return mirror.repository

    def _fetched(self, mirror: _Mirror, repository: Repository, ref: str) -> str:
        """Ask the server, unless it failed a moment ago. Raises SourceFailed."""
        import logging  # noqa: PLC0415  slow to import, and not needed for what is kept

        from gitkruise.kube.system.clock import SystemClock  # noqa: PLC0415  as above

        self._clock = self._clock or SystemClock()
        now = self._clock.monotonic()
        if mirror.failed is not None and now < mirror.failed_at + _SILENT_S:
            raise mirror.failed
        try:
            found = _fetch(repository, ref)
        except SourceFailed as error:
            failed = SourceFailed(*map(_without_secret, error.findings))
            mirror.failed, mirror.failed_at = failed, self._clock.monotonic()
            raise failed from error
        mirror.failed = None
        log = logging.getLogger(__name__)
        log.info(log_line("base-fetched", url=repository.url, ref=ref, commit=found))
        return found


@dataclass(frozen=True, slots=True)
class KeptBases:
    """The bases that were fetched before: nothing is asked."""

    mirrors: BaseMirrors

    def commit(self, url: str, ref: str) -> tuple[Repository, str]:
        """Return a commit that was fetched. Raises InvalidManifests GK3420 for another."""
        return self.mirrors._commit(url, ref, fetching=False)  # noqa: SLF001  its other half


def bases_of(unit: Unit) -> RemoteBases:
    """Return the bases that kustomizations of a unit may name, as this process has them."""
    return RemoteBases(base_urls([unit]), BaseMirrors.shared)


def rendering_of(unit: Unit, release: Release | None, *, search: str = SEARCH_PATH) -> Rendering:
    """Return the rendering that a unit asks for; `release` is that of its chart."""
    kind, bases = unit.spec.render.kind, bases_of(unit)
    return Rendering(kind=kind, release=release, bases=bases, search=search)


def base_urls(units: Iterable[Unit]) -> tuple[str, ...]:
    """Return the repositories that units allow bases of."""
    lists = ((unit.spec.render.kustomize or Kustomize()).remote_bases for unit in units)
    return tuple(dict.fromkeys(one.url for listed in lists for one in listed))


def _without_secret(finding: Finding) -> Finding:
    """Give a failed conversation with git a next step that fits: bases have no Secret."""
    said = [note for note in finding.notes if note[0] == "git said"]
    unchanged = ("unchanged", "what runs stays as it is; the commit is tried again")
    following = ("next", "bases are read without credentials: correct the server, or commit a copy")
    return replace(finding, notes=(*said, unchanged, following))


def _known(repository: Repository, ref: str) -> str:
    """Return the commit that a ref was fetched as; "" if it was not."""
    if is_object_id(ref):
        return ref if repository.here(ref) else ""
    name = f"refs/tags/{ref}"
    known = repository.refs(name) if repository.local else repository.tags()
    return repository.resolve(name) if name in known else ""


def _fetch(repository: Repository, ref: str) -> str:
    """Bring a tag or a commit here. Raises InvalidManifests GK3419, and SourceFailed."""
    if is_object_id(ref):
        try:
            brought = repository.bring_commit(ref)
        except SourceFailed as error:
            if _NOT_THERE not in dict(error.findings[0].notes).get("git said", ""):
                raise
            brought = False
        if not brought:
            raise no_ref(repository.url, f"commit {ref}")
        return ref
    tag, branch = f"refs/tags/{ref}", f"refs/heads/{ref}"
    there = repository.ls_refs([tag, branch]).refs
    if tag in there:
        return repository.fetch_refs({tag: there[tag]})[tag]
    if branch in there:
        raise bad_ref(repository.url, f"{shown(ref)} is a branch, which moves")
    raise no_ref(repository.url, f"tag {shown(ref)}")
