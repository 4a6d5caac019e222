"""Which commit each source of a repository means now: asked together, fetched together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gitkruise.errors import Finding, Reported, SourceFailed
from gitkruise.git.refs import full_ref
from gitkruise.git.remote import HEAD, TAGS, Announced
from gitkruise.git.repo import Repository
from gitkruise.git.trouble import ref_missing
from gitkruise.git.versions import Range
from gitkruise.model.config import GitRef, GitSource

_TAG = "refs/tags/"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a source stands: a commit that is here, and the full ref that leads to it.

    `tagged` are the commits all tags of the repository lead to, for a source that chooses one.
    """

    ref: str
    commit: str
    tagged: frozenset[str] = frozenset()


def ref_of(source: GitSource) -> str:
    """What a source follows, for records: the first it sets of commit, name, semver, tag, branch,
    or HEAD."""
    ref = source.spec.ref
    return ref.commit or ref.name or ref.semver or ref.tag or ref.branch or HEAD


def look(repository: Repository, sources: Sequence[GitSource]) -> list[Target | Reported]:
    """Where each source stands now, or why that cannot be told; one question, one fetch. Blocking.

    Of branches that were fetched before, question and fetch are one conversation.

    Raises SourceFailed where the repository does not answer at all.
    """
    asked = [_attempt(_asked, source.spec.ref) for source in sources]
    names = {name for name in asked if isinstance(name, str)}
    announced = repository.follow(names) or repository.announce(names)
    chosen = [
        _attempt(_choose, repository, source.spec.ref, name, announced)
        if isinstance(name, str)
        else name
        for source, name in zip(sources, asked, strict=True)
    ]
    meant = {name for name in chosen if isinstance(name, str)}
    commits = repository.bring({name: announced.refs[name] for name in sorted(meant)})
    tagged = frozenset(s.commit for name, s in announced.refs.items() if name.startswith(_TAG))
    return [
        _attempt(_target, repository, source.spec.ref, name, commits, tagged)
        if isinstance(name, str)
        else name
        for source, name in zip(sources, chosen, strict=True)
    ]


_T = TypeVar("_T")


def _attempt(work: Callable[..., _T], *args: object) -> _T | Reported:
    try:
        return work(*args)
    except Reported as error:
        return error


def _asked(ref: GitRef) -> str:
    """What to ask the repository for a source: a full ref, every tag, or its HEAD."""
    if ref.name and not ref.commit:
        return full_ref(ref.name)
    if ref.semver and not ref.commit:
        return TAGS
    if ref.tag and not ref.commit:
        return full_ref(_TAG + ref.tag)
    return full_ref(ref.branch) if ref.branch else HEAD


def _choose(repository: Repository, ref: GitRef, asked: str, announced: Announced) -> str:
    """The full ref a source means, among those announced. Raises GK3201 or GK3207."""
    if asked == TAGS:
        tags = [name.removeprefix(_TAG) for name in announced.refs if name.startswith(_TAG)]
        best = Range(ref.semver).best(tags)
        if best is None:
            raise _nothing_in(repository, ref.semver, len(tags))
        return _TAG + best
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
) -> Target:
    if ref.commit:
        if not repository.here(ref.commit):
            repository.bring_commit(ref.commit)
        return Target("", repository.resolve(ref.commit))
    return Target(name, commits[name], tagged if ref.semver else frozenset())
