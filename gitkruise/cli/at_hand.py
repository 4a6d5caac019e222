"""The repository that is at hand, and what it knows of a cluster's units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.errors import Finding, UsageProblem

if TYPE_CHECKING:
    from gitkruise.gitops.recorded import UnitNews
    from gitkruise.model.document import Commit
    from gitkruise.model.record import RolloutStep
    from gitkruise.wire.names import ObjectKey


config_option: Final = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    default=Path("gitkruise.yaml"),
    show_default=True,
    help="File or directory with GitSource, Unit, Sink and Receiver documents.",
)


config_instead: Final = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help="Instead of the gitkruise.yaml in the repository.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What the status branch of one cluster tells; empty where there is none.

    `commits` are those the objects stand on, as far as the repository has them.
    """

    units: tuple[UnitNews, ...] = ()
    steps: tuple[tuple[ObjectKey, RolloutStep], ...] = ()
    commits: tuple[Commit, ...] = ()

    def commit(self, name: str) -> Commit | None:
        """The commit with this id, or its beginning."""
        known = [*self.commits, *(step.commit for _, step in self.steps)]
        return next((c for c in known if name and c.id.startswith(name)), None)


def record_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--config and --repo of commands that read the status branch, where one is at hand."""
    repo = "A repository with the status branch; or this directory."
    config = "Find the status branch through it; ./gitkruise.yaml when there is one."
    kind = click.Path(path_type=Path)
    command = click.option("--repo", default="", help=repo)(command)
    return click.option("--config", "config_path", type=kind, help=config)(command)


def repository_at_hand(config_path: Path | None, repo: str) -> tuple[str, str]:
    """(name, path) of the repository that is at hand: --repo, the configuration's, or this one."""
    from gitkruise.gitops.recorded import local_repository  # noqa: PLC0415

    if repo:
        found = local_repository(repo)
        if not found:
            raise UsageProblem(Finding(code="GK7011", message=f"there is no repository at {repo}"))
        return Path(found).name.removesuffix(".git"), found
    chosen = config_path or Path("gitkruise.yaml")
    if config_path or chosen.exists():
        from gitkruise.gitops.config import load_config  # noqa: PLC0415  imports jsonschema

        for source in load_config(chosen).sources.values():
            found = local_repository(source.spec.url)
            if found:
                return source.name, found
    here = Path.cwd()
    return (here.name, str(here)) if (here / ".git").exists() else ("", "")


def units_at_hand(cluster: str, path: str) -> list[UnitNews]:
    """Units as recorded for this cluster in the repository at `path`."""
    from gitkruise.git.repo import Repository  # noqa: PLC0415
    from gitkruise.gitops.recorded import read_units, status_branches  # noqa: PLC0415

    with Repository.open(path) as repository:
        ref = status_branches(repository).get(cluster)
        return read_units(repository, ref) if ref else []


def records_at_hand(cluster: str, path: str, commits: frozenset[str]) -> Records:
    """Units and steps recorded for this cluster, and what `commits` say of themselves."""
    if not path:
        return Records()
    from gitkruise.git.repo import Repository  # noqa: PLC0415
    from gitkruise.gitops.recorded import read_steps, read_units, status_branches  # noqa: PLC0415

    with Repository.open(path) as repository:
        ref = status_branches(repository).get(cluster)
        here = [c for c in sorted(commits) if len(c) >= 40 and repository.has(c)]
        return Records(
            units=tuple(read_units(repository, ref)) if ref else (),
            steps=tuple(read_steps(repository, ref)) if ref else (),
            commits=tuple(repository.commit(c) for c in here),
        )
