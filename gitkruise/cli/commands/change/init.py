"""gitkruise init: write a gitkruise.yaml for a checkout."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gitkruise.cli.console.command import ExitCodesCommand
from gitkruise.cli.console.output import say_on_stderr
from gitkruise.errors import Finding, UsageProblem
from gitkruise.printable import many, shown
from gitkruise.wire.primitives.names import CONFIG_FILE

if TYPE_CHECKING:
    from gitkruise.gitops.config.repository_layout import RepositoryLayout, UnitFolder

_KEPT: Final = ("unchanged", "no file was written")


@click.command(cls=ExitCodesCommand, exits=(4,))
@click.option("--repo", default=".", show_default=True, help="Checkout to write for.")
@click.option("--path", "paths", multiple=True, metavar="FOLDER",
              help="Folder of a unit; repeatable [default: all of them].")  # fmt: skip
@click.option("--branch", default="", metavar="NAME", help="Branch to follow [default: current].")
@click.option("--print", "prints", is_flag=True, help="Print the file; write nothing.")
def init(repo: str, paths: tuple[str, ...], branch: str, *, prints: bool) -> None:
    """Write a commented gitkruise.yaml for the manifests of a checkout.

    \b
    Examples:
      gitkruise init
      gitkruise init --print
      gitkruise init --path apps --path envs/production

    The command reads files that are not committed, too, and commits nothing. A kustomization that
    no other one uses becomes a unit, and so does every folder of other manifests at the top.
    """
    from gitkruise.git.push.worktree import WorkTree  # noqa: PLC0415  runs git
    from gitkruise.git.repository.repository import Repository  # noqa: PLC0415
    from gitkruise.gitops.config.repository_layout import chosen_units, config_text, layout_of  # noqa: PLC0415
    from gitkruise.gitops.preview.inputs import DEFAULT_BRANCH  # noqa: PLC0415

    tree = WorkTree.holding(Path(repo))
    file = tree.top / CONFIG_FILE
    if file.exists() and not prints:
        raise _written_before(f"{CONFIG_FILE} exists")
    with Repository.open(str(tree.top)) as repository:
        commit = tree.snapshot()
        layout = chosen_units(repository, commit, paths) if paths else layout_of(repository, commit)
    if layout.declared and not prints:
        raise _written_before(f"units are declared in {', '.join(map(shown, layout.declared))}")
    _check(layout)
    born, current = tree.head()
    followed = branch or current or DEFAULT_BRANCH
    text = config_text(tree.top.name, followed, [unit.path for unit in layout.units])
    if prints:
        click.echo(text, nl=False)
    else:
        file.write_text(text, encoding="utf-8")
        say_on_stderr(
            f"wrote {CONFIG_FILE}: {many(len(layout.units), 'unit')} of branch {followed}"
        )
    say_on_stderr(_lines(layout))
    if not prints:
        added = CONFIG_FILE if born else "--all"
        say_on_stderr(["next:", *(f"  {line}" for line in _next(CONFIG_FILE, followed, added))])


def _check(layout: RepositoryLayout) -> None:
    """Raise UsageProblem GK7062 for a checkout that says too little."""
    if layout.alternatives:
        raise _alternatives(layout)
    if not layout.units:
        notes = [_KEPT]
        if layout.charts:
            charts = ", ".join(map(shown, layout.charts))
            notes.append(("why", f"a Helm chart needs a unit with render.kind: helm: {charts}"))
        notes.append(("next", "gitkruise demo plays a repository with manifests"))
        message = "the checkout has no folder of manifests that can be a unit"
        raise UsageProblem(Finding(code="GK7062", message=message, notes=tuple(notes)))


def _written_before(message: str) -> UsageProblem:
    notes = (_KEPT, ("next", "edit it; gitkruise init --print shows what the command would write"))
    return UsageProblem(Finding(code="GK7061", message=message, notes=notes))


def _alternatives(layout: RepositoryLayout) -> UsageProblem:
    first, *others = layout.alternatives
    chosen = [*(unit.path for unit in layout.units), first[0], *(group[0] for group in others)]
    words = " ".join(f"--path {shlex.quote(path)}" for path in chosen)
    message = f"{', '.join(map(shown, first))} share a base: a cluster gets one of them"
    notes = (_KEPT, ("next", f"name the folders that become units: gitkruise init {words}"))
    return UsageProblem(Finding(code="GK7062", message=message, notes=notes))


def _lines(layout: RepositoryLayout) -> list[str]:
    lines = [f"  {shown(unit.path)}   {_content(unit)}" for unit in layout.units]
    lines += [
        f"not in a unit: {shown(path)} has manifests next to folders that are rendered"
        for path in layout.left_out
    ]
    return [
        *lines,
        *(
            f"not in a unit: {shown(path)} is a Helm chart, which needs render.kind: helm"
            for path in layout.charts
        ),
    ]


def _content(unit: UnitFolder) -> str:
    return "kustomization" if unit.objects is None else many(unit.objects, "object")


def _next(file: str, branch: str, added: str) -> list[str]:
    return [
        "gitkruise validate",
        f"git add {added} && git commit -m {shlex.quote(f'gitkruise: follow {branch}')}",
        f"gitkruise run --config {file}",
    ]
