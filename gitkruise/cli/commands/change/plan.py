"""gitkruise plan: preview a commit, object by object and pod by pod, without any write."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.console.command import ExitCodesCommand, gates_option
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.output import say, say_json
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.cluster import (
    ClusterChoice,
    cluster_options,
    connected,
    units_and_kinds,
)
from gitkruise.cli.context.local_repository import config_instead
from gitkruise.cli.context.next_commands import carrying, joined, lines_carrying
from gitkruise.errors import DiagnosticError, Finding, Severity, SourceFailed, UsageProblem

if TYPE_CHECKING:
    from gitkruise.git.repository.repository import Repository
    from gitkruise.gitops.preview.inputs import PlanSide
    from gitkruise.gitops.preview.preview import Preview
    from gitkruise.model.gitops.config import Config
    from gitkruise.model.gitops.report import PlanReport
    from gitkruise.model.workloads.feature_gates import Gates
    from gitkruise.wire.catalog.catalog import Catalog

_NO_SERVER: Final = Finding(
    code="GK7010",
    message="--server excludes --offline",
    notes=(("next", "leave one of them out"),),
)


@click.command(
    cls=ExitCodesCommand, exits=(1, 3, 4, 5), says="with --exit-code: the commit changes something"
)
@click.argument("commits", metavar="[COMMIT|INTO..BRANCH]", default="")
@click.option("--repo", default=".", show_default=True, help="Repository to read.")
@config_instead
@click.option(
    "--from",
    "base",
    default="",
    metavar="REV",
    help="Commit to compare with [default: the parent of the planned commit].",
)
@click.option("--to", "target", default="", metavar="REV", help="Commit to plan [default: HEAD].")
@click.option("--include-dirty", is_flag=True, help="Plan the uncommitted working tree.")
@click.option(
    "--offline",
    is_flag=True,
    help="Contact no cluster, even if a flag names one, and no repository of charts.",
)
@click.option("--server", is_flag=True, help="Send each change to the API server as a dry run.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if the commit changes something.")
@gates_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "markdown", "html"]),
    default="text",
    help="Output format.",
)
@cluster_options
@click.pass_context
def plan(ctx: click.Context, /, commits: str, cluster: ClusterChoice, **flags: Any) -> None:
    """Show what a commit would do.

    \b
    Examples:
      gitkruise plan                         compare with the followed branch
      gitkruise plan 4f2c9e1                 compare one commit with its parent
      gitkruise plan main..canary --sandbox  merge canary into main, by pod name
      gitkruise plan --from v2 --to v1       compare two commits as they are

    INTO..BRANCH (or INTO...BRANCH) plans the result of a merge, also where the branch is behind.
    Without a cluster (--sandbox, --kubeconfig, --context) the plan counts pods; with one it
    lists them by name.
    """
    from gitkruise.model.workloads.feature_gates import parse_gates  # noqa: PLC0415  not for --help

    first, dots, second = commits.partition("..." if "..." in commits else "..")
    asked = cluster.given or flags["server"]  # which is the current context without flags
    options = _PlanOptions(
        repo=flags["repo"],
        config_path=flags["config_path"],
        base=flags["base"] or (first if dots else ""),
        target=flags["target"] or (second if dots else first),
        merge=bool(dots and first),
        include_dirty=flags["include_dirty"],
        gates=parse_gates(flags["feature_gates"]),
        cluster=cluster if asked and not flags["offline"] else None,
        server=flags["server"],
        offline=flags["offline"],
    )
    if options.server and options.cluster is None:
        raise UsageProblem(_NO_SERVER)
    result = _plan(options)
    again = joined(cluster.flags, repo=options.repo, config_path=options.config_path)
    result = replace(result, flags=again)
    _print(result, flags["output"], dirty=options.include_dirty)
    if any(f.is_error for f in (*result.target.findings, *result.preview.unplayed)):
        ctx.exit(3)
    changes = any(c.kind != "unchanged" for c in result.preview.changes)
    ctx.exit(1 if flags["exit_code"] and changes else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlanOptions:
    repo: str
    config_path: Path | None
    base: str
    target: str
    merge: bool
    include_dirty: bool
    gates: Gates
    cluster: ClusterChoice | None
    server: bool
    offline: bool

    @property
    def implicit(self) -> bool:
        """Return whether no commit was named, so that the working tree is planned."""
        return not self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlanResult:
    base: PlanSide | None
    target: PlanSide
    preview: Preview
    cluster: str = ""
    flags: str = ""  # of recommended commands


def _print(result: _PlanResult, output: str, *, dirty: bool) -> None:
    from gitkruise.cli.console.findings import finding_obj, print_findings  # noqa: PLC0415
    from gitkruise.gitops.preview.report import report_of  # noqa: PLC0415  imports the model

    style = Style.of(read_environment())
    report = report_of(
        result.preview, result.base, result.target, cluster=result.cluster, dirty=dirty
    )
    if output == "json":
        from gitkruise.gitops.preview.render_json import plan_obj  # noqa: PLC0415

        findings = [finding_obj(f) for f in report.findings]
        say_json({**plan_obj(report), "findings": findings}, style)
        return
    _WRITERS[output](report, style, result.flags)
    print_findings(report.findings)


def _text(report: PlanReport, style: Style, flags: str) -> None:
    from gitkruise.cli.views.plan import plan_lines  # noqa: PLC0415  imports the model

    say(lines_carrying(plan_lines(report, style), flags), style)


def _markdown(report: PlanReport, _style: Style, flags: str) -> None:
    from gitkruise.gitops.preview.render_markdown import plan_markdown  # noqa: PLC0415  not for text

    click.echo(carrying(plan_markdown(report), flags).encode(), nl=False, color=False)


def _html(report: PlanReport, _style: Style, flags: str) -> None:
    from gitkruise.gitops.preview.render_html import plan_html  # noqa: PLC0415  not for text

    click.echo(carrying(plan_html(report), escape(flags)).encode(), nl=False, color=False)


_WRITERS: Final = {"text": _text, "markdown": _markdown, "html": _html}


def _plan(options: _PlanOptions) -> _PlanResult:
    base, target = _sides(options)
    if options.cluster is None:
        from gitkruise.gitops.preview.preview import offline_preview  # noqa: PLC0415  imports the model
        from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

        preview = offline_preview(base, target, load_catalog(), options.gates)
        return _PlanResult(base=base, target=target, preview=preview)
    from gitkruise.cli.console.signals import result_of  # noqa: PLC0415  imports asyncio

    return result_of(_with_cluster(base, target, options))


def _sides(options: _PlanOptions) -> tuple[PlanSide | None, PlanSide]:
    """Read and check the two commits. Raises InvalidManifests when no unit takes the target."""
    from gitkruise.git.repository.repository import Repository  # noqa: PLC0415  imports GitPython

    url, snapshot = _work_tree(options)
    with Repository.open(url) as repository:
        # Resolved before the imports below: an unknown commit needs no schemas.
        base = repository.named(options.base) if options.base else ""
        new = repository.named(options.target) if options.target else repository.head()
        from gitkruise.cli.context.commit_plan import (  # noqa: PLC0415  as below
            config_between,
            read_sides,
        )
        from gitkruise.gitops.preview.inputs import (  # noqa: PLC0415  imports jsonschema
            config_at,
            default_range,
            followers,
        )
        from gitkruise.gitops.reconcile.approval import approvals  # noqa: PLC0415  as above

        given, catalog = _given(options, repository, snapshot or new)
        if not (base or options.target or snapshot):
            followed = given or config_at(repository, new)
            old, new = default_range(repository, followed, new)
            warnings: tuple[Finding, ...] = ()
        else:
            old, new, warnings = _range(repository, base, snapshot or new, merge=options.merge)
        config = given or config_between(repository, old, new)
        warnings = (*warnings, *_charts(config, options))
        if old and given is None:
            with suppress(DiagnosticError):  # what the base lacks is said of the base
                _charts(config_at(repository, old), options)
        base_side, target = read_sides(
            repository, (old, new), config, catalog, options.gates, given=given
        )
        if options.cluster is not None:
            agreed = approvals(repository, new)
            target = replace(
                target, followed_by=followers(repository, config, new), approved=agreed
            )
        if base_side is None:
            return None, target
        return replace(base_side, warnings=(*warnings, *base_side.warnings)), target


def _given(
    options: _PlanOptions, repository: Repository, commit: str
) -> tuple[Config | None, Catalog]:
    """Return the units where the commit does not have them, and the kinds of manifests."""
    from gitkruise.gitops.config.loader import load_config  # noqa: PLC0415  imports jsonschema
    from gitkruise.gitops.preview.inputs import config_here  # noqa: PLC0415  imports jsonschema
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

    given = None
    if options.config_path:
        given = config_here(repository, commit, load_config(options.config_path))
    if options.cluster is None:
        return given, load_catalog()
    from gitkruise.cli.console.signals import result_of  # noqa: PLC0415  imports asyncio

    return result_of(units_and_kinds(options.cluster, repository, commit, given))


def _charts(config: Config, options: _PlanOptions) -> tuple[Finding, ...]:
    """Fetch charts of repositories, and bases when they are met, unless offline; return why some
    charts may be old."""
    from gitkruise.cli.context.charts import (  # noqa: PLC0415  as above
        fetch_bases,
        fetch_charts,
        is_read_ahead,
        kept_charts,
    )

    units = config.units.values()
    if options.offline or not any(is_read_ahead(unit, options.cluster) for unit in units):
        kept_charts()
        if not options.offline:
            fetch_bases()
        return ()
    from gitkruise.cli.console.signals import result_of  # noqa: PLC0415  imports asyncio

    return result_of(fetch_charts(config, options.cluster))


def _work_tree(options: _PlanOptions) -> tuple[str, str]:
    """(path or URL of the repository, a commit of its working tree or "").

    Raises SourceFailed GK3203 when the tree is dirty and no option decides how to treat it.
    """
    folder = Path(options.repo)
    if not folder.exists():
        return options.repo, ""
    from gitkruise.git.push.worktree import WorkTree, dirty_tree  # noqa: PLC0415  runs git

    if not options.implicit and not options.include_dirty:
        return _top_of(folder), ""
    try:
        tree = WorkTree.holding(folder)
    except SourceFailed:
        return str(folder.resolve()), ""  # bare, or no repository at all
    if options.include_dirty:
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
    """Return the repository that contains a folder; a bare one is itself."""
    here = folder.resolve()
    return str(next((p for p in (here, *here.parents) if (p / ".git").exists()), here))


def _range(
    repository: Repository, base: str, new: str, *, merge: bool
) -> tuple[str, str, tuple[Finding, ...]]:
    """(from, to, warnings): commit ids; from is "" for a first commit."""
    if not base:
        parents = repository.commit(new).parents
        return (parents[0] if parents else "", new, ())
    if not merge:
        return base, new, ()
    from gitkruise.git.repository.merge import merged  # noqa: PLC0415  only for a range

    result = merged(repository, base, new)
    backwards = result == base != new
    return base, result, ((_nothing_to_merge(base, new),) if backwards else ())


def _nothing_to_merge(old: str, new: str) -> Finding:
    """GK3213: the branch has no commit that the other one lacks."""
    return Finding(
        code="GK3213",
        message=f"{new[:7]} is in the history of {old[:7]}: there is nothing to merge",
        notes=(("next", f"gitkruise plan --from {old[:7]} --to {new[:7]}   plans to go back"),),
        severity=Severity.WARNING,
    )


async def _with_cluster(
    base: PlanSide | None, target: PlanSide, options: _PlanOptions
) -> _PlanResult:
    from gitkruise.gitops.preview.preview import live_preview  # noqa: PLC0415  imports the model
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

    assert options.cluster is not None
    async with connected(options.cluster, read_environment()) as chosen:
        preview = await live_preview(
            base,
            target,
            load_catalog(),
            options.gates,
            transport=chosen.transport,
            now=chosen.clock.now(),
            tried_on=chosen.name if options.server else "",
        )
        return _PlanResult(base=base, target=target, preview=preview, cluster=chosen.name)
