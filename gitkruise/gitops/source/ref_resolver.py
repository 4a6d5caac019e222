"""Ref resolution: the current commit of each source of a repository, with one fetch for all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from gitkruise.errors import DiagnosticError, Finding, SourceFailed
from gitkruise.git.plumbing.errors import ref_missing
from gitkruise.git.plumbing.refs import full_ref
from gitkruise.git.repository.remote import HEAD, TAGS, RemoteRefs
from gitkruise.git.repository.repository import Repository
from gitkruise.model.gitops.config import GitRef, GitSource
from gitkruise.wire.values.semver_range import Range

LATEST: Final = "latest"  # the tag of a registry that a source without a ref follows
TAG: Final = "refs/tags/"


@dataclass(frozen=True, slots=True)
class ResolvedRef:
    """The commit of a source, which is in the repository, and the full ref that points to it.

    `tagged` are the commits of all tags, for a source that chooses a tag by range. `revision` names
    the artifact that the commit was imported from, as `latest@sha256:…`.
    """

    ref: str
    commit: str
    tagged: frozenset[str] = frozenset()
    revision: str = ""


def ref_of(source: GitSource) -> str:
    """Return the ref that a source follows, for records: the first set of commit, name, semver,
    tag, branch, or HEAD; of an artifact the first of digest, semver, tag, or latest."""
    ref = source.spec.ref
    if source.spec.is_artifact:
        return ref.digest or ref.semver or ref.tag or LATEST
    return ref.commit or ref.name or ref.semver or ref.tag or ref.branch or HEAD


def look(
    repository: Repository, sources: Sequence[GitSource]
) -> list[ResolvedRef | DiagnosticError]:
    """Resolve every source, or return why it cannot be resolved; one listing, one fetch. Blocking.

    For branches that were fetched before, listing and fetch are one exchange. Raises SourceFailed
    where the repository does not answer.
    """
    asked = [_attempt(_asked, source.spec.ref) for source in sources]
    names = {name for name in asked if isinstance(name, str)}
    announced = repository.follow(names) or repository.ls_refs(names)
    chosen = [
        _attempt(_choose, repository, source.spec.ref, name, announced)
        if isinstance(name, str)
        else name
        for source, name in zip(sources, asked, strict=True)
    ]
    meant = {name for name in chosen if isinstance(name, str)}
    commits = repository.fetch_refs({name: announced.refs[name] for name in sorted(meant)})
    tagged = frozenset(s.commit for name, s in announced.refs.items() if name.startswith(TAG))
    return [
        _attempt(_target, repository, source.spec.ref, name, commits, tagged)
        if isinstance(name, str)
        else name
        for source, name in zip(sources, chosen, strict=True)
    ]


_T = TypeVar("_T")


def _attempt(work: Callable[..., _T], *args: object) -> _T | DiagnosticError:
    try:
        return work(*args)
    except DiagnosticError as error:
        return error


def _asked(ref: GitRef) -> str:
    """Return the ref to list for a source: a full ref, every tag, or HEAD."""
    if ref.name and not ref.commit:
        return full_ref(ref.name)
    if ref.semver and not ref.commit:
        return TAGS
    if ref.tag and not ref.commit:
        return full_ref(TAG + ref.tag)
    return full_ref(ref.branch) if ref.branch else HEAD


def pinned(ref: GitRef, tags: Iterable[str]) -> str:
    """Return the commit, or the full ref of the tag among `tags`, that a source follows; "" for a
    branch, and where no tag suits."""
    if ref.commit:
        return ref.commit
    asked = _asked(ref)
    if asked == TAGS:
        return _best(ref, [name.removeprefix(TAG) for name in tags])
    return asked if asked.startswith(TAG) else ""


def _best(ref: GitRef, tags: Collection[str]) -> str:
    """Return the full ref of the best of the tags in the range of a source; "" for none."""
    best = Range(ref.semver).best(tags)
    return TAG + best if best is not None else ""


def _choose(repository: Repository, ref: GitRef, asked: str, announced: RemoteRefs) -> str:
    """Return the full ref of a source, among those listed. Raises GK3201 or GK3207."""
    if asked == TAGS:
        tags = [name.removeprefix(TAG) for name in announced.refs if name.startswith(TAG)]
        if best := _best(ref, tags):
            return best
        raise _nothing_in(repository, ref.semver, len(tags))
    name = announced.head if asked == HEAD else asked
    if name not in announced.refs:
        raise ref_missing(repository.url, ref.tag or ref.name or ref.branch or HEAD, [])
    return name


def _nothing_in(repository: Repository, semver: str, count: int) -> SourceFailed:
    message = f"no tag of {repository.url} is a version in {semver}"
    notes = (
        ("found", f"{count} tags; a pre-release counts only where the range names one"),
        ("unchanged", "what runs stays as it is"),
        ("next", "push a tag such as v1.2.3, or widen ref.semver"),
    )
    return SourceFailed(Finding(code="GK3207", message=message, notes=notes))


def _target(
    repository: Repository,
    ref: GitRef,
    name: str,
    commits: dict[str, str],
    tagged: frozenset[str],
) -> ResolvedRef:
    if ref.commit:
        if not repository.here(ref.commit):
            repository.bring_commit(ref.commit)
        return ResolvedRef("", repository.resolve(ref.commit))
    return ResolvedRef(name, commits[name], tagged if ref.semver else frozenset())
