"""gitkruise history: which commit asked what of an object, and what came of it."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitkruise.cli.config import read_environment
from gitkruise.cli.style import Style, shorten, table
from gitkruise.errors import Finding, SourceFailed, UsageProblem
from gitkruise.kube.clock import SystemClock
from gitkruise.model.states import LOOKS, State
from gitkruise.wire.times import format_duration

if TYPE_CHECKING:
    from gitkruise.git.repo import Repository
    from gitkruise.model.record import RolloutStep
    from gitkruise.wire.names import ObjectKey


@click.command()
@click.argument("object_name", metavar="[TYPE/NAME]", default="")
@click.option("-n", "--namespace", default="", help="Namespace of the object.")
@click.option("--repo", default=".", show_default=True, help="The repository with the record.")
@click.option("--cluster", default="", help="Which cluster's record; needed if there are several.")
@click.option("--limit", default=20, show_default=True)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
def history(object_name: str, namespace: str, repo: str, cluster: str, **flags: Any) -> None:
    """Show what each commit asked and got. Reads the status branch; works offline.

    \b
    Examples:
      gitkruise history cloneset/checkout -n shop
      gitkruise history --repo /srv/git/shop-deploy.git --cluster prod
    """
    from gitkruise.git.repo import Repository  # noqa: PLC0415  imports GitPython

    kind, _, name = object_name.rpartition("/")
    style = Style.of(read_environment())
    url = str(Path(repo).resolve()) if Path(repo).exists() else repo
    with Repository.open(url) as repository:
        chosen = _branch(repository, cluster)
        rows = _steps(repository, chosen, name, namespace)
    if name and not rows:
        raise UsageProblem(
            Finding(
                code="GK7017",
                message=f"no record of {kind or 'cloneset'}/{name}",
                notes=(("next", "name its namespace with -n, or list all: gitkruise history"),),
            )
        )
    rows = rows[: flags["limit"]]
    if flags["output"] == "json":
        click.echo(json.dumps(_as_list(rows), indent=2, ensure_ascii=False))
    else:
        for line in _table(rows, style, several=not name):
            click.echo(line)


def _branch(repository: Repository, cluster: str) -> str:
    """The full ref of one cluster's status branch: here, or as a clone fetched it."""
    found = {
        name.partition("gitkruise/status/")[2]: name
        for pattern in ("refs/remotes/origin/gitkruise/status/", "refs/heads/gitkruise/status/")
        for name in repository.refs(pattern)
    }
    if cluster in found or (not cluster and len(found) == 1):
        return found.get(cluster) or next(iter(found.values()))
    what = "which cluster's record do you mean?" if found else "there is no status branch yet"
    raise SourceFailed(
        Finding(
            code="GK3205",
            message=what,
            notes=(
                ("recorded", ", ".join(sorted(found)) or "none"),
                ("next", "git fetch, or gitkruise history --cluster NAME"),
            ),
        )
    )


def _steps(
    repository: Repository, branch: str, name: str, namespace: str
) -> list[tuple[ObjectKey, RolloutStep]]:
    """Every step of the wanted objects, newest first."""
    from gitkruise.gitops.record_read import read_rollout  # noqa: PLC0415  imports libyaml

    tip = repository.resolve(branch)
    out: list[tuple[ObjectKey, RolloutStep]] = []
    for entry in repository.list_tree(tip):
        if "/rollouts/" not in entry.path:
            continue
        key, steps = read_rollout(repository.read_blob(entry.id))
        if name in {"", key.name} and namespace in {"", key.namespace}:
            out += [(key, step) for step in steps]
    return sorted(out, key=lambda pair: pair[1].started, reverse=True)


def _result(step: RolloutStep, style: Style) -> str:
    look = LOOKS[step.state]
    glyph = style.paint(look.glyph if style.unicode else look.ascii, look.colour)
    took = f" in {format_duration(step.done - step.started)}" if step.done else ""
    counts = f"{step.updated}/{step.asked}"
    if step.state is State.ROLLING and not step.message:
        return f"{glyph} {counts} so far"
    why = f" ({shorten(step.message, 60)})" if step.message else ""
    return f"{glyph} {counts}{took}{why}"


def _ago(then: datetime | None) -> str:
    if then is None:
        return "-"
    seconds = int((SystemClock().now() - then).total_seconds())
    for limit, unit, name in ((60, 1, "s"), (3600, 60, "m"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{max(seconds, 0) // unit} {name} ago"
    return f"{seconds // 86_400} d ago"


def _table(rows: list[tuple[ObjectKey, RolloutStep]], style: Style, *, several: bool) -> list[str]:
    if not rows:
        return ["no rollout has been recorded yet"]
    head = ("COMMIT", "WHEN", "WHO", "CHANGE", "REVISION", "ASKED", "RESULT")
    cells = [
        (
            step.commit.short,
            _ago(step.started),
            shorten(step.commit.author, 20),
            shorten(step.change or step.commit.subject, 44),
            step.revision.rpartition("-")[2],
            "all" if step.asked == step.replicas else f"{step.asked} of {step.replicas}",
            _result(step, style),
        )
        for _, step in rows
    ]
    if several:
        names = [f"{key.namespace}/{key.name}" for key, _ in rows]
        return table(("OBJECT", *head), [(n, *c) for n, c in zip(names, cells, strict=True)])
    return table(head, cells)


def _as_list(rows: list[tuple[ObjectKey, RolloutStep]]) -> dict[str, Any]:
    from gitkruise.gitops.record_files import step_obj  # noqa: PLC0415  imports libyaml

    items = [
        {"kind": key.kind, "namespace": key.namespace, "name": key.name, **step_obj(step)}
        for key, step in rows
    ]
    return {"apiVersion": "gitkruise.io/v1alpha1", "kind": "HistoryList", "items": items}
