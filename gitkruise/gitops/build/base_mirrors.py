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

from gitkruise.errors import SourceFailed
from gitkruise.git.helm.release import Release
from gitkruise.git.kustomize.remote_bases import (
    BaseOrigin,
    ListedBase,
    RemoteBases,
    bad_ref,
    no_ref,
    not_fetched,
)
from gitkruise.git.manifests.reader import Rendering
from gitkruise.git.plumbing.process import SEARCH_PATH, GitCredentials
from gitkruise.git.plumbing.refs import is_object_id
from gitkruise.git.repository.mirror import mirrors_read_with
from gitkruise.git.repository.remote import Keyring
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
_NO_SECRET: Final = "it is not in the state directory, and its Secret was not read in a cluster"  # noqa: S105  a reason
_NOT_SHOWN: Final = "the plan of a stranger's pull request does not show what a Secret reads"
_CORRECT: Final = "correct the server or the address, or commit a copy"
# Steps for failures that are not about rights; the others fit as they are.
_FOLLOWING: Final = {"GK3101": _CORRECT, "GK3107": "wait, or commit a copy"}


@dataclass(slots=True)
class _Mirror:
    """One repository of bases. Readers of other repositories do not wait for it."""

    turn: threading.Lock = field(default_factory=threading.Lock)
    keyring: Keyring = field(default_factory=lambda: Keyring(GitCredentials()))
    repository: Repository | None = None
    failed: SourceFailed | None = None
    failed_at: float = 0.0
    failed_with: GitCredentials | None = None


class BaseMirrors:
    """Repositories of bases, fetched when a new commit of one is named. Blocking."""

    # Set when a process starts that renders: by plans, by the controller, by its workers.
    shared: ClassVar[BaseOrigin | None] = None
    # Credentials as the cluster had them last. A worker process has none.
    secrets: ClassVar[dict[ListedBase, GitCredentials]] = {}

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        self._folder, self._clock = folder, clock
        self._mirrors: dict[ListedBase, _Mirror] = {}
        self._lock = threading.Lock()
        self.kept = KeptBases(self)

    def commit(self, listed: ListedBase, ref: str) -> tuple[Repository, str]:
        """Return a commit of a listed repository, fetched if it is new. Raises as
        `BaseOrigin.commit`; GK3420 only where the Secret was not read."""
        return self._commit(listed, ref, fetching=True)

    def repository(self, listed: ListedBase) -> Repository:
        """Return a listed repository, which brings files of commits that are here."""
        mirror = self._mirror(listed)
        with mirror.turn:
            return self._opened(mirror, listed)

    def close(self) -> None:
        """End the programs that read the mirrors."""
        for mirror in self._mirrors.values():
            if mirror.repository is not None:
                mirror.repository.close()

    def _commit(self, listed: ListedBase, ref: str, *, fetching: bool) -> tuple[Repository, str]:
        mirror = self._mirror(listed)
        with mirror.turn:
            repository = self._opened(mirror, listed)
            found = _known(repository, ref)
            if found:
                return repository, found
            if not fetching:
                raise not_fetched(listed, ref)
            if listed.secret and listed not in self.secrets:
                raise not_fetched(listed, ref, why=_NO_SECRET)
            return repository, self._fetched(mirror, repository, listed, ref)

    def _mirror(self, listed: ListedBase) -> _Mirror:
        with self._lock:
            return self._mirrors.setdefault(listed, _Mirror())

    def _opened(self, mirror: _Mirror, listed: ListedBase) -> Repository:
        """Return the repository of a mirror, which asks with the credentials of now."""
        mirror.keyring.now = self.secrets.get(listed, mirror.keyring.now)
        if mirror.repository is None:
            folder = mirrors_read_with(listed.secret, self._folder)
            try:
                mirror.repository = Repository.open(
                    listed.url, mirrors=folder, credentials=mirror.keyring, timeout_s=_TIMEOUT_S
                )
            except SourceFailed as error:
                raise _about(listed, error) from error
        return mirror.repository

    def _fetched(
        self, mirror: _Mirror, repository: Repository, listed: ListedBase, ref: str
    ) -> str:
        """Ask the server, unless it failed a moment ago. Raises SourceFailed."""
        import logging  # noqa: PLC0415  slow to import, and not needed for what is kept

        from gitkruise.kube.system.clock import SystemClock  # noqa: PLC0415  as above

        self._clock = self._clock or SystemClock()
        now = self._clock.monotonic()
        same = mirror.failed_with == mirror.keyring.now
        if mirror.failed is not None and same and now < mirror.failed_at + _SILENT_S:
            raise mirror.failed
        try:
            found = _fetch(repository, ref)
        except SourceFailed as error:
            failed = _about(listed, error)
            mirror.failed, mirror.failed_at = failed, self._clock.monotonic()
            mirror.failed_with = mirror.keyring.now
            raise failed from error
        mirror.failed = None
        log = logging.getLogger(__name__)
        log.info(log_line("base-fetched", url=repository.url, ref=ref, commit=found))
        return found


@dataclass(frozen=True, slots=True)
class KeptBases:
    """The bases that were fetched before: nothing is asked. Strangers see public ones alone."""

    mirrors: BaseMirrors
    stranger: bool = False

    def commit(self, listed: ListedBase, ref: str) -> tuple[Repository, str]:
        """Return a commit that was fetched. Raises InvalidManifests GK3420 for another."""
        if self.stranger and listed.secret:
            raise not_fetched(listed, ref, why=_NOT_SHOWN)
        return self.mirrors._commit(listed, ref, fetching=False)  # noqa: SLF001  its other half


def bases_of(unit: Unit) -> RemoteBases:
    """Return the bases that kustomizations of a unit may name, as this process has them."""
    return RemoteBases(listed_bases([unit]), BaseMirrors.shared)


def rendering_of(unit: Unit, release: Release | None, *, search: str = SEARCH_PATH) -> Rendering:
    """Return the rendering that a unit asks for; `release` is that of its chart."""
    kind, bases = unit.spec.render.kind, bases_of(unit)
    return Rendering(kind=kind, release=release, bases=bases, search=search)


def listed_bases(units: Iterable[Unit]) -> tuple[ListedBase, ...]:
    """Return the repositories that units allow bases of."""
    found: dict[ListedBase, None] = {}
    for unit in units:
        for one in (unit.spec.render.kustomize or Kustomize()).remote_bases:
            secret = f"{unit.namespace}/{one.secret_ref.name}" if one.secret_ref else ""
            found[ListedBase(one.url, secret)] = None
    return tuple(found)


def _about(listed: ListedBase, error: SourceFailed) -> SourceFailed:
    """Make a failed conversation with git one about a base, read with its Secret or with none."""
    secret = f"Secret {listed.secret}" if listed.secret else "no Secret: remoteBases names none"
    unchanged = ("unchanged", "what runs stays as it is; the commit is tried again")
    findings = []
    for one in error.findings:
        git_notes = [note for note in one.notes if note[0] == "git said"]
        following = _FOLLOWING.get(one.code) or dict(one.notes).get("next", _CORRECT)
        notes = (*git_notes, ("read with", secret), unchanged, ("next", following))
        findings.append(replace(one, notes=notes))
    return SourceFailed(*findings)


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
