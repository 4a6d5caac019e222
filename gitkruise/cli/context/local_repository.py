"""The local repository of a command, and its records of the units of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gitkruise.cli.console.ages import ago
from gitkruise.cli.console.command import config_path_option, with_options
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.findings import print_findings
from gitkruise.cli.console.output import say_on_stderr
from gitkruise.errors import SourceFailed
from gitkruise.wire.primitives.names import CONFIG_FILE

if TYPE_CHECKING:
    from gitkruise.errors import Finding
    from gitkruise.git.repository.repository import Repository
    from gitkruise.gitops.status.reader import RecordedUnit
    from gitkruise.model.gitops.document import GitCommit
    from gitkruise.model.gitops.record import Intervention, RolloutStep
    from gitkruise.wire.primitives.names import ObjectKey


_FETCH_S: Final = 15.0  # a command that only reads goes on with what it has

config_option: Final = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    default=Path(CONFIG_FILE),
    show_default=True,
    help="File or directory with GitSource, Unit, Sink and Receiver documents.",
)


config_instead: Final = config_path_option(
    "Configuration file [default: gitkruise.yaml of the repository]."
)
config_at_hand_option: Final = config_path_option(
    "Configuration file [default: gitkruise.yaml of the directory or its checkout]."
)
record_options: Final = with_options(  # of a command that reads the status branch if it finds one
    config_at_hand_option,
    click.option(
        "--repo",
        default="",
        help="Repository with the status branch [default: the current directory].",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records of the status branch of one cluster; empty without such a branch.

    `commits` are the applied commits, as far as the repository contains them. `elsewhere` are the
    other clusters with a record of a unit that this one has no record of. `unread` are warnings
    about files of the branch that are no records.
    """

    units: tuple[RecordedUnit, ...] = ()
    steps: tuple[tuple[ObjectKey, RolloutStep], ...] = ()
    commits: tuple[GitCommit, ...] = ()
    elsewhere: tuple[str, ...] = ()
    unread: tuple[Finding, ...] = ()

    def commit(self, name: str) -> GitCommit | None:
        """Return the commit with this id or prefix."""
        known = [*self.commits, *(step.commit for _, step in self.steps)]
        return next((c for c in known if name and c.id.startswith(name)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecord:
    """Everything on the status branch of one cluster; `tip` is its newest commit.

    `unread` as for Records.
    """

    cluster: str
    tip: str
    written: datetime | None
    units: tuple[RecordedUnit, ...] = ()
    steps: tuple[tuple[ObjectKey, RolloutStep], ...] = ()
    interventions: tuple[Intervention, ...] = ()
    unread: tuple[Finding, ...] = ()


def repository_at_hand(config_path: Path | None, repo: str) -> tuple[str, str]:
    """Find the repository: --repo, that of the configuration, or the current directory.

    Returns (name, path), ("", "") without one. Raises SourceFailed GK3001, GK3103.
    """
    from gitkruise.gitops.status.reader import local_repository  # noqa: PLC0415

    if repo:
        from gitkruise.git.repository.mirror import local_folder  # noqa: PLC0415  runs git

        found = str(checkout_of(local_folder(repo)))
        return Path(found).name.removesuffix(".git"), found
    chosen = config_path or config_at_hand()
    if config_path or chosen.exists():
        from gitkruise.gitops.config.loader import load_config  # noqa: PLC0415  imports jsonschema

        for source in load_config(chosen).sources.values():
            found = local_repository(source.spec.url)
            if found:
                return source.name, found
    here = checkout_of(Path.cwd())
    return (here.name, str(here)) if (here / ".git").exists() else ("", "")


def checkout_of(folder: Path) -> Path:
    """Return the top of the checkout that holds an existing folder, as git finds it.

    A bare repository, and a folder that no checkout holds, are returned as they are.
    """
    folder = folder.resolve()
    if (folder / "HEAD").is_file() and (folder / "objects").is_dir():
        return folder
    above = (folder, *folder.parents)
    return next((place for place in above if (place / ".git").exists()), folder)


def config_at_hand() -> Path:
    """Return gitkruise.yaml of the current directory, or else of the checkout that holds it."""
    here = Path(CONFIG_FILE)
    return here if here.exists() else checkout_of(Path.cwd()) / here


def fetch_records(path: str, cluster: str) -> None:
    """Fetch the status branches as `why_stale` does; its lines go to standard error."""
    for line in why_stale(path, cluster):
        say_on_stderr(line)


def why_stale(path: str, cluster: str, limit_s: float = _FETCH_S) -> list[str]:
    """Fetch the status branches into the repository at `path`, if it has a remote.

    Records are not fresh if that fails: two lines give the reason and their age, otherwise none.
    """
    from gitkruise.git.push.user_push import Publisher  # noqa: PLC0415
    from gitkruise.git.repository.mirror import is_git_dir  # noqa: PLC0415

    if is_git_dir(Path(path)):
        return []  # a bare repository is what others read
    try:
        Publisher(Path(path), read_environment().variables).fetch_status(limit_s)
    except SourceFailed as error:
        why = error.findings[0].with_cause
        warning = f"warning: the status branch is not up to date: {why}"
        return [warning, f"   = {_age_of_records(path, cluster)}"]
    return []


def _age_of_records(path: str, cluster: str) -> str:
    """Return when the fetched records were written, for each cluster or the chosen one."""
    from gitkruise.git.repository.repository import Repository  # noqa: PLC0415
    from gitkruise.gitops.status.reader import status_branches  # noqa: PLC0415
    from gitkruise.kube.system.clock import SystemClock  # noqa: PLC0415  imports asyncio

    now, ages = SystemClock().now(), []
    with Repository.open(path) as repository:
        for name, ref in sorted(status_branches(repository).items()):
            if cluster in {"", name}:
                written = repository.commit(repository.resolve(ref)).time
                ages.append(f"the record of cluster {name} was written {ago(written, now)}")
    return "; ".join(ages) or "no record was fetched before"


def units_at_hand(cluster: str, path: str) -> list[RecordedUnit]:
    """Fetch and return the units recorded for this cluster in the repository at `path`."""
    fetch_records(path, cluster)
    return [*recorded_units(cluster, path).units]


@dataclass(frozen=True, slots=True)
class RecordedUnits:
    """The units on a status branch, and its commit; "" for no branch."""

    commit: str = ""
    units: Sequence[RecordedUnit] = ()


def recorded_units(
    cluster: str, path: str, before: RecordedUnits = RecordedUnits()
) -> RecordedUnits:
    """Return the units recorded for this cluster in the repository at `path`, as last fetched.

    A commit that was read `before` is not read again: a fleet has thousands of records.
    """
    from gitkruise.git.repository.repository import Repository  # noqa: PLC0415
    from gitkruise.gitops.status.reader import read_units, status_branches  # noqa: PLC0415

    with Repository.open(path) as repository:
        ref = status_branches(repository).get(cluster)
        if not ref:
            return RecordedUnits()
        commit = repository.resolve(ref)
        if commit == before.commit:
            return before
        return RecordedUnits(commit, read_units(repository, ref))


@contextmanager
def history_at_hand(path: str) -> Iterator[Callable[[str, str], bool]]:
    """Yield whether the repository at `path` knows that its second commit builds on its first."""
    if not path:
        yield lambda _old, _new: False
        return
    from gitkruise.git.repository.repository import Repository  # noqa: PLC0415  imports GitPython
    from gitkruise.gitops.source.ancestry import leads_to  # noqa: PLC0415

    with Repository.open(path) as repository:
        yield partial(leads_to, repository)


def clusters_recording(units: Collection[str], path: str) -> tuple[str, ...]:
    """Return the clusters with a record of one of `units` in the repository at `path`, as last
    fetched."""
    if not path or not units:
        return ()
    from gitkruise.git.repository.repository import Repository  # noqa: PLC0415
    from gitkruise.gitops.status.reader import clusters_with  # noqa: PLC0415

    with Repository.open(path) as repository:
        return clusters_with(repository, units)


def records_at_hand(cluster: str, path: str, commits: frozenset[str]) -> Records:
    """Fetch and return the units and steps recorded for this cluster, and the data of `commits`."""
    if path:
        fetch_records(path, cluster)
    found = known_records(cluster, path, commits)
    print_findings(found.unread)
    return found


def known_records(cluster: str, path: str, commits: frozenset[str]) -> Records:
    """Return the same as last fetched."""
    if not path:
        return Records()
    from gitkruise.git.repository.repository import Repository  # noqa: PLC0415
    from gitkruise.gitops.status.reader import read_steps, read_units, status_branches  # noqa: PLC0415

    with Repository.open(path) as repository:
        ref = status_branches(repository).get(cluster)
        here = [c for c in sorted(commits) if len(c) >= 40 and repository.has(c)]
        unread: dict[str, Finding] = {}
        return Records(
            units=tuple(read_units(repository, ref)) if ref else (),
            steps=tuple(read_steps(repository, ref, unread)) if ref else (),
            commits=tuple(repository.commit(c) for c in here),
            unread=tuple(unread.values()),
        )


def cluster_records(
    path: str, known: Mapping[str, ClusterRecord]
) -> tuple[Mapping[str, ClusterRecord], list[str]]:
    """Return (records, warnings) of every cluster that has a status branch in the repository at
    `path`, as last fetched.

    Those of `known` whose branch did not move, or cannot be read any more, are returned as they
    are.
    """
    from gitkruise.git.repository.repository import Repository  # noqa: PLC0415  imports GitPython
    from gitkruise.gitops.status.reader import status_branches  # noqa: PLC0415

    found: dict[str, ClusterRecord] = {}
    warnings: list[str] = []
    with Repository.open(path) as repository:
        for cluster, ref in sorted(status_branches(repository).items()):
            before, tip = known.get(cluster), repository.resolve(ref)
            if before is not None:
                found[cluster] = before
            if before is None or before.tip != tip:
                try:
                    found[cluster] = cluster_record(repository, cluster, ref, tip)
                except SourceFailed as error:
                    warnings += warning_lines(error.findings)
    return found, warnings


def warning_lines(findings: Iterable[Finding]) -> list[str]:
    """Return a line for each finding about what could not be read."""
    return [f"warning: {finding.code}: {finding.message}" for finding in findings]


def cluster_record(repository: Repository, cluster: str, ref: str, tip: str) -> ClusterRecord:
    """Return everything on the status branch of a cluster. Raises SourceFailed."""
    from gitkruise.gitops.status.reader import interventions, read_steps, read_units  # noqa: PLC0415

    unread: dict[str, Finding] = {}
    return ClusterRecord(
        cluster=cluster,
        tip=tip,
        written=repository.commit(tip).time,
        units=tuple(read_units(repository, ref)),
        steps=tuple(read_steps(repository, ref, unread)),
        interventions=tuple(interventions(repository, ref, unread)),
        unread=tuple(unread.values()),
    )


def named_commit(path: str, id_: str) -> str:
    """Return the full id of a commit of the repository at `path`. Raises SourceFailed GK3201."""
    from gitkruise.git.repository.repository import Repository  # noqa: PLC0415  imports GitPython

    with Repository.open(path) as repository:
        return repository.named(id_)
