"""gitkruise plan: what a commit would do, object by object and pod by pod, touching nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.config import read_environment
from gitkruise.cli.connect import ClusterChoice, cluster_options, connected
from gitkruise.cli.output import say, say_json, tell
from gitkruise.cli.style import Style
from gitkruise.cli.verb import Verb
from gitkruise.errors import Finding, InvalidManifests, SourceFailed, UsageProblem

if TYPE_CHECKING:
    from gitkruise.git.repo import Repository
    from gitkruise.gitops.planning import Side
    from gitkruise.gitops.prospect import Preview
    from gitkruise.model.report import PlanReport
    from gitkruise.model.settings import Gates
    from gitkruise.wire.catalog import Catalog

_NO_SERVER: Final = Finding(
    code="GK7010",
    message="--server asks a cluster, and none is named",
    notes=(("next", "name one: --sandbox, --kubeconfig or --context, and not --offline"),),
)


@click.command(cls=Verb, exits=(1, 3, 4, 5), says="with --exit-code: something would change")
@click.argument("commits", metavar="[COMMIT|FROM..TO]", default="")
@click.option("--repo", default=".", show_default=True, help="The repository to read.")
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help="Instead of the one in the repository.",
)
@click.option("--from", "base", default="", metavar="REV", help="Compare with this commit.")
@click.option("--to", "target", default="", metavar="REV", help="The commit to plan.")
@click.option("--include-dirty", is_flag=True, help="Plan the working tree, not yet committed.")
@click.option("--offline", is_flag=True, help="Use no cluster even if one is named.")
@click.option("--server", is_flag=True, help="Let the cluster try the changes out (dry run).")
@click.option("--exit-code", is_flag=True, help="Exit 1 when something would change.")
@click.option("--feature-gates", default="", metavar="Name=true,…", help="OpenKruise's gates.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "markdown", "html"]), default="text"
)
@cluster_options
@click.pass_context
def plan(ctx: click.Context, /, commits: str, cluster: ClusterChoice, **flags: Any) -> None:
    """Show what a commit would do.

    \b
    Examples:
      gitkruise plan                         your branch against the followed one
      gitkruise plan 4f2c9e1                 one commit against its parent
      gitkruise plan main..canary --sandbox  with pods by name

    Offline unless a cluster is named (--sandbox, --kubeconfig, --context): then pods are counted,
    not named.
    """
    from gitkruise.model.settings import parse_gates  # noqa: PLC0415  not for --help

    first, dots, second = commits.partition("..")
    wishes = _Wishes(
        repo=flags["repo"],
        config_path=flags["config_path"],
        base=flags["base"] or (first if dots else ""),
        target=flags["target"] or (second if dots else first),
        include_dirty=flags["include_dirty"],
        gates=parse_gates(flags["feature_gates"]),
        cluster=cluster if cluster.given and not flags["offline"] else None,
        server=flags["server"],
    )
    if wishes.server and wishes.cluster is None:
        raise UsageProblem(_NO_SERVER)
    made = _plan(wishes)
    _print(made, flags["output"], dirty=wishes.include_dirty)
    if any(f.severity == "error" for f in made.preview.unplayed):
        ctx.exit(3)
    changes = any(c.kind != "unchanged" for c in made.preview.changes)
    ctx.exit(1 if flags["exit_code"] and changes else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wishes:
    repo: str
    config_path: Path | None
    base: str
    target: str
    include_dirty: bool
    gates: Gates
    cluster: ClusterChoice | None
    server: bool

    @property
    def implicit(self) -> bool:
        """Whether the user named no commit to plan, so that the working tree is what is meant."""
        return not self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    base: Side | None
    target: Side
    preview: Preview
    cluster: str = ""


def _print(made: _Made, output: str, *, dirty: bool) -> None:
    from gitkruise.cli.findings import finding_obj, findings_text  # noqa: PLC0415
    from gitkruise.gitops.plan_report import report_of  # noqa: PLC0415  imports the model

    style = Style.of(read_environment())
    report = report_of(made.preview, made.base, made.target, cluster=made.cluster, dirty=dirty)
    if output == "json":
        from gitkruise.gitops.plan_json import plan_obj  # noqa: PLC0415

        findings = [finding_obj(f) for f in report.findings]
        say_json({**plan_obj(report), "findings": findings}, style)
        return
    _WRITERS[output](report, style)
    if report.findings:
        tell(findings_text(report.findings, Style.of_errors(read_environment())))


def _text(report: PlanReport, style: Style) -> None:
    from gitkruise.cli.plan_text import plan_lines  # noqa: PLC0415  imports the model

    say(plan_lines(report, style), style)


def _markdown(report: PlanReport, _style: Style) -> None:
    from gitkruise.gitops.plan_markdown import plan_markdown  # noqa: PLC0415  not for text

    click.echo(plan_markdown(report).encode(), nl=False, color=False)


def _html(report: PlanReport, _style: Style) -> None:
    from gitkruise.gitops.plan_html import plan_html  # noqa: PLC0415  not for text

    click.echo(plan_html(report).encode(), nl=False, color=False)


_WRITERS: Final = {"text": _text, "markdown": _markdown, "html": _html}


def _plan(wishes: _Wishes) -> _Made:
    from gitkruise.kube.data import load_catalog  # noqa: PLC0415  imports the schemas

    base, target = _sides(wishes, load_catalog())
    if wishes.cluster is None:
        from gitkruise.gitops.prospect import offline_preview  # noqa: PLC0415  imports the model

        preview = offline_preview(base, target, load_catalog(), wishes.gates)
        return _Made(base=base, target=target, preview=preview)
    import asyncio  # noqa: PLC0415  slow to import, and not needed offline

    return asyncio.run(_with_cluster(base, target, wishes))


def _sides(wishes: _Wishes, catalog: Catalog) -> tuple[Side | None, Side]:
    """The two commits, read and checked. Raises InvalidManifests when the target is broken."""
    from gitkruise.git.repo import Repository  # noqa: PLC0415  imports GitPython
    from gitkruise.gitops.config import load_config  # noqa: PLC0415
    from gitkruise.gitops.planning import config_at, read_side  # noqa: PLC0415

    url, snapshot = _work_tree(wishes)
    with Repository.open(url) as repository:
        given = load_config(wishes.config_path) if wishes.config_path else None
        old, new = _range(repository, wishes, snapshot)
        config = given or config_at(repository, new)
        target = read_side(repository, new, config, catalog, wishes.gates)
        errors = [f for f in target.findings if f.severity == "error"]
        if errors:
            raise InvalidManifests(*map(_unplanned, errors))
        if not old:
            return None, target
        config = given or config_at(repository, old)
        return read_side(repository, old, config, catalog, wishes.gates), target


def _unplanned(finding: Finding) -> Finding:
    """With what stayed as it was and what to do next, where the finding does not say."""
    told = dict(finding.notes)
    notes = list(finding.notes)
    if "unchanged" not in told:
        end = next((i for i, (label, _) in enumerate(notes) if label == "next"), len(notes))
        notes.insert(end, ("unchanged", "nothing was planned, and a plan applies nothing"))
    if "next" not in told and finding.places:
        notes.append(("next", f"gitkruise validate {finding.places[0].file}"))
    return replace(finding, notes=tuple(notes))


def _work_tree(wishes: _Wishes) -> tuple[str, str]:
    """(path or URL of the repository, a commit of its working tree or "").

    Raises SourceFailed GK3203 when the tree is dirty and nobody said what to do about it.
    """
    folder = Path(wishes.repo)
    if not folder.exists():
        return wishes.repo, ""
    from gitkruise.git.worktree import WorkTree, dirty_tree  # noqa: PLC0415  runs git

    if not wishes.implicit and not wishes.include_dirty:
        return _top_of(folder), ""
    try:
        tree = WorkTree(folder)
    except SourceFailed:
        return str(folder.resolve()), ""  # bare, or no repository at all
    if wishes.include_dirty:
        return str(tree.top), tree.snapshot()
    dirty = tree.dirty()
    if dirty:
        raise dirty_tree(
            dirty,
            unchanged="nothing was planned",
            next_="gitkruise plan --include-dirty, or git stash, or name a commit",
        )
    return str(tree.top), ""


def _top_of(folder: Path) -> str:
    """The repository a folder is in; a bare one is itself."""
    here = folder.resolve()
    return str(next((p for p in (here, *here.parents) if (p / ".git").exists()), here))


def _range(repository: Repository, wishes: _Wishes, snapshot: str) -> tuple[str, str]:
    """(from, to) as commit ids; from is "" for a first commit."""
    from gitkruise.gitops.planning import default_range  # noqa: PLC0415

    if not wishes.base and not wishes.target and not snapshot:
        return default_range(repository, "main")
    new = snapshot or _commit(repository, wishes.target or repository.default_branch())
    if wishes.base:
        return _commit(repository, wishes.base), new
    parents = repository.commit(new).parents
    return (parents[0] if parents else "", new)


def _commit(repository: Repository, revision: str) -> str:
    from gitkruise.git.worktree import commit_id  # noqa: PLC0415  runs git

    return commit_id(repository.git_dir, revision)


async def _with_cluster(base: Side | None, target: Side, wishes: _Wishes) -> _Made:
    from gitkruise.gitops.prospect import live_preview  # noqa: PLC0415  imports the model
    from gitkruise.kube.data import load_catalog  # noqa: PLC0415

    assert wishes.cluster is not None
    async with connected(wishes.cluster, read_environment()) as chosen:
        preview = await live_preview(
            (chosen.transport, chosen.clock.now()),
            base,
            target,
            load_catalog(),
            wishes.gates,
            tried_on=chosen.name if wishes.server else "",
        )
        return _Made(base=base, target=target, preview=preview, cluster=chosen.name)
