"""The repository and the configuration seen through a doctor's eyes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

from gitkruise.errors import BranchNotReady, DiagnosticError, SourceFailed
from gitkruise.git.plumbing.refs import full_ref, hide_password
from gitkruise.git.push.user_push import Publisher
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.config.loader import load_config
from gitkruise.gitops.inspect.doctor_cluster import Check, bad, good, warn
from gitkruise.gitops.inspect.wait import (
    NO_RECORD,
    NO_SINK,
    unrecorded_units,
    unwritten_units,
)
from gitkruise.gitops.preview.inputs import DEFAULT_BRANCH, config_at, whole_repository
from gitkruise.gitops.status.reader import RecordedUnit, read_units, status_branches
from gitkruise.model.gitops.config import Config, GitRef, GitSource
from gitkruise.model.gitops.unit_state import State
from gitkruise.printable import many, shown
from gitkruise.wire.primitives.names import CONFIG_FILE

_IN_CHECKOUT: Final = "run it in a checkout, or name one with --repo"
_GIVE_SINK: Final = "name a Sink with git in spec.sinkRef"
_ANSWER_S: Final = 10.0
_AT_ONCE: Final = 8
_NO_PROMPT: Final = {"GIT_TERMINAL_PROMPT": "0"}
_SEEN: Final = "gitkruise get units and its log show whether it can"
_NEW: Final = "push it; gitkruise run reads gitkruise.yaml when it starts"


def git_checks(folder: Path, variables: Mapping[str, str]) -> Iterator[Check]:
    """Check the repository, the committer, the remote, the branch, and the status branch."""
    try:
        publisher = Publisher(folder, variables)
    except SourceFailed as error:
        yield _bad("git", "repository", error, _IN_CHECKOUT)
        return
    yield good("git", "repository", str(publisher.folder))
    who = publisher.identity()
    if who:
        yield good("git", "identity", who)
    else:
        next_ = 'git config user.name "…" and user.email "…"'
        yield warn("git", "identity", "git does not know who you are: no commits", next_)
    yield from _branch(publisher)
    yield from _records(publisher)


def _branch(publisher: Publisher) -> Iterator[Check]:
    remotes = publisher.remotes()
    if not remotes:
        yield good("git", "remote", "none: commits stay in this repository")
        return
    name = publisher.current()
    try:
        branch = publisher.ready_branch(name) if name else None
    except BranchNotReady as error:
        yield good("git", "remote", f"{', '.join(remotes)} answers")
        finding = error.findings[0]
        yield warn("git", "branch", finding.message, dict(finding.notes).get("next", ""))
        return
    except SourceFailed as error:
        yield _bad("git", "remote", error)
        return
    yield good("git", "remote", f"{branch.remote if branch else remotes[0]} answers")
    if branch is None:
        yield warn("git", "branch", "HEAD is on no branch", "git switch main")
    else:
        yield good("git", "branch", f"{name} is clean, at {branch.tip[:7]} here and there")


def _records(publisher: Publisher) -> Iterator[Check]:
    try:
        publisher.fetch_status()
        with Repository.open(str(publisher.folder)) as repository:
            found = status_branches(repository)
            for cluster, ref in found.items():
                units = read_units(repository, ref)
                commit = repository.commit(repository.resolve(ref))
                when = f", last written {commit.time:%Y-%m-%d %H:%M} UTC" if commit.time else ""
                yield good("git", "record", f"cluster {cluster}: {many(len(units), 'unit')}{when}")
                yield from filter(None, map(_unit, units))
    except SourceFailed as error:
        yield _bad("git", "record", error)
        return
    if not found:
        yield warn("git", "record", "no status branch: nothing was written back yet")


def _unit(unit: RecordedUnit) -> Check | None:
    """Return a check of a unit that needs a user, or waits; None for the others."""
    at = f" at {unit.attempted.short}" if unit.attempted else ""
    next_ = unit.next or "gitkruise status --all-clusters"
    if unit.state in {State.REJECTED, State.STUCK}:
        why = unit.problems[0] if unit.problems else unit.message
        return bad("git", "unit", f"{unit.unit} is {unit.state}{at}: {why}", next_)
    if unit.waits:
        return warn("git", "unit", f"{unit.unit}{at} waits for {unit.waits}", next_)
    if unit.state in {State.DRIFTED, State.UNKNOWN} or unit.problems:
        why = unit.problems[0] if unit.problems else unit.message
        return warn("git", "unit", f"{unit.unit} is {unit.state}{at}: {why}", next_)
    return None


def directory_checks(folder: Path, path: Path | None, areas: Collection[str]) -> Iterator[Check]:
    """Check the configuration of a directory that is no checkout, as `gitkruise run` reads it: its
    units may follow artifacts and repositories elsewhere."""
    if "git" in areas:
        message = f"{folder} is in no checkout: nothing that needs one was checked"
        yield warn("git", "repository", message, _IN_CHECKOUT)
    if "config" in areas:
        try:
            yield good("config", "documents", _counted(load_config(path or folder / CONFIG_FILE)))
        except DiagnosticError as error:
            yield _bad("config", "documents", error, "gitkruise validate gitkruise.yaml")


def config_checks(folder: Path, path: Path | None, variables: Mapping[str, str]) -> Iterator[Check]:
    """The configuration can be read, its sources answer, and its units' folders are there."""
    try:
        with Repository.open(str(folder)) as repository:
            head = repository.named("HEAD")
            config = load_config(path) if path else config_at(repository, head)
            yield good("config", "documents", _stated(config))
            if config != whole_repository():
                yield from _sources(config, Publisher(folder, {**variables, **_NO_PROMPT}))
            for unit in config.units.values():
                if repository.find(head, unit.spec.path) is None:
                    message = f"{unit.id}: there is no folder {unit.spec.path} at {head[:7]}"
                    yield bad("config", "unit", message, "correct spec.path, or its GitSource")
            branches = status_branches(repository).items()
            recorded = {cluster: _names(repository, ref) for cluster, ref in branches}
            for name in sorted(unwritten_units(config, [*chain(*recorded.values())])):
                yield warn("config", "unit", f"{name}: {NO_SINK}", _GIVE_SINK)
            for cluster, names in recorded.items():
                for name in sorted(unrecorded_units(config, names)):
                    yield warn("config", "unit", f"{name}: {NO_RECORD} (cluster {cluster})", _NEW)
    except SourceFailed as error:
        yield _bad("config", "documents", error)
    except DiagnosticError as error:
        yield _bad("config", "documents", error, "gitkruise validate gitkruise.yaml")


def _sources(config: Config, publisher: Publisher) -> Iterator[Check]:
    """Ask each git repository that is followed, with the credentials of this user."""
    followed = [one for _, one in sorted(config.sources.items()) if not one.spec.is_artifact]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        yield from pool.map(partial(_source, publisher), followed)


def _source(publisher: Publisher, source: GitSource) -> Check:
    url, refs = source.spec.url, _followed_refs(source.spec.ref)
    name, shown_url = f"{source.namespace}/{source.name}", shown(hide_password(url))
    try:
        found = publisher.heads(url, refs or ("HEAD",), _ANSWER_S)
    except SourceFailed as error:
        secret = source.spec.secret_ref
        if secret is None:
            return _bad("config", "source", error)
        message = f"{name}: {error.findings[0].with_cause}, asked with the credentials of this user"
        return warn(
            "config", "source", message, f"the controller reads Secret {secret.name}; {_SEEN}"
        )
    if refs and not found:
        message = f"{name}: {shown_url} has no {refs[0]}"
        return bad("config", "source", message, "push it, or correct spec.ref")
    return good("config", "source", f"{name}: {shown_url} answers")


def _followed_refs(ref: GitRef) -> tuple[str, ...]:
    """Return the ref that a source names, () where it names a commit or a range of versions."""
    if ref.commit or ref.semver:
        return ()
    if ref.name:
        return (ref.name,)
    return (f"refs/tags/{ref.tag}",) if ref.tag else (full_ref(ref.branch or DEFAULT_BRANCH),)


def _stated(config: Config) -> str:
    """The number of documents, or that there are none: the repository then counts as one unit."""
    if config == whole_repository():
        return f"none: the repository counts as one unit; gitkruise init writes {CONFIG_FILE}"
    return _counted(config)


def _names(repository: Repository, ref: str) -> list[str]:
    return [news.unit for news in read_units(repository, ref)]


def _counted(config: Config) -> str:
    counts = ((len(config.sources), "source"), (len(config.units), "unit"),
              (len(config.sinks), "sink"), (len(config.receivers), "receiver"))  # fmt: skip
    return ", ".join(many(n, word) for n, word in counts)


def _bad(area: str, name: str, error: DiagnosticError, next_: str = "") -> Check:
    finding = error.findings[0]
    return bad(area, name, finding.with_cause, next_ or dict(finding.notes).get("next", ""))
