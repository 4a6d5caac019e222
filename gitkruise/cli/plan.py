"""gitkruise plan: what a commit would do, object by object and pod by pod, touching nothing."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitkruise.cli.config import read_environment
from gitkruise.cli.connect import ClusterChoice, cluster_options, connected
from gitkruise.cli.style import Style
from gitkruise.errors import InvalidManifests
from gitkruise.model.settings import Gates, parse_gates

if TYPE_CHECKING:
    from gitkruise.gitops.planning import Side
    from gitkruise.gitops.preview import Preview
    from gitkruise.wire.catalog import Catalog


@click.command()
@click.argument("commits", metavar="[COMMIT|FROM..TO]", default="")
@click.option("--repo", default=".", show_default=True, help="The repository to read.")
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help="Instead of the one in the repository.",
)
@click.option("--from", "base", default="", help="Compare with this commit.")
@click.option("--to", "target", default="", help="The commit to plan.")
@click.option("--offline", is_flag=True, help="Use no cluster even if one is configured.")
@click.option("--exit-code", is_flag=True, help="Exit 1 when something would change.")
@click.option("--feature-gates", default="", metavar="Name=true,…", help="OpenKruise's gates.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@cluster_options
@click.pass_context
def plan(ctx: click.Context, /, commits: str, cluster: ClusterChoice, **flags: Any) -> None:
    """Show what a commit would do.

    \b
    Examples:
      gitkruise plan                        the working branch against the followed one
      gitkruise plan 4f2c9e1                one commit against its parent
      gitkruise plan main..canary --sandbox pods by name, from the embedded cluster

    Offline unless a cluster is named (--sandbox, --kubeconfig, --context): then pods are counted,
    not named. Exits 0, or with --exit-code 1 when something would change; 3 when the manifests
    are invalid.
    """
    wishes = _Wishes(
        repo=flags["repo"],
        config_path=flags["config_path"],
        base=flags["base"],
        target=flags["target"],
        commits=commits,
        gates=parse_gates(flags["feature_gates"]),
        cluster=cluster if cluster.given and not flags["offline"] else None,
    )
    base, target, preview = asyncio.run(_plan(wishes))
    environment = read_environment()
    if flags["output"] == "json":
        from gitkruise.cli.plan_json import plan_obj  # noqa: PLC0415

        click.echo(json.dumps(plan_obj(preview, base, target), indent=2, ensure_ascii=False))
    else:
        from gitkruise.cli.plan_text import plan_lines  # noqa: PLC0415

        came = base.commit if base else None
        for line in plan_lines(preview, came, target.commit, Style.of(environment), target.objects):
            click.echo(line)
    changes = any(c.kind != "unchanged" for c in preview.changes)
    ctx.exit(1 if flags["exit_code"] and changes else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wishes:
    repo: str
    config_path: Path | None
    base: str
    target: str
    commits: str
    gates: Gates
    cluster: ClusterChoice | None


async def _plan(wishes: _Wishes) -> tuple[Side | None, Side, Preview]:
    from gitkruise.kube.data import load_catalog  # noqa: PLC0415  imports the schemas

    base, target = await asyncio.to_thread(_sides, wishes, load_catalog())
    if wishes.cluster is None:
        return base, target, _offline(base, target, load_catalog(), wishes.gates)
    return base, target, await _with_cluster(base, target, wishes)


def _sides(wishes: _Wishes, catalog: Catalog) -> tuple[Side | None, Side]:
    """The two commits, read and checked. Raises InvalidManifests when the target is broken."""
    from gitkruise.git.repo import Repository  # noqa: PLC0415  imports GitPython
    from gitkruise.gitops.config import load_config  # noqa: PLC0415
    from gitkruise.gitops.planning import config_at, read_side  # noqa: PLC0415

    url = str(Path(wishes.repo).resolve()) if Path(wishes.repo).exists() else wishes.repo
    with Repository.open(url) as repository:
        given = load_config(wishes.config_path) if wishes.config_path else None
        old, new = _range(repository, wishes)
        target = read_side(
            repository, new, given or config_at(repository, new), catalog, wishes.gates
        )
        errors = [f for f in target.findings if f.severity == "error"]
        if errors:
            raise InvalidManifests(*errors)
        if not old:
            return None, target
        base = read_side(
            repository, old, given or config_at(repository, old), catalog, wishes.gates
        )
    return base, target


def _range(repository: Any, wishes: _Wishes) -> tuple[str, str]:
    """(from, to) as commit ids; from is "" for a first commit."""
    from gitkruise.gitops.planning import default_range  # noqa: PLC0415

    first, dots, second = wishes.commits.partition("..")
    base = wishes.base or (first if dots else "")
    target = wishes.target or (second if dots else first)
    if not base and not target:
        return default_range(repository, "main")
    new = repository.resolve(target or repository.default_branch())
    if base:
        return repository.resolve(base), new
    parents = repository.commit(new).parents
    return (parents[0] if parents else "", new)


def _offline(base: Side | None, target: Side, catalog: Catalog, gates: Gates) -> Preview:
    from gitkruise.gitops.preview import (  # noqa: PLC0415  imports the model cluster
        Preview,
        changes_between,
        offline_world,
        play,
    )
    from gitkruise.kube.clock import SystemClock  # noqa: PLC0415

    now = SystemClock().now()
    before = base.objects if base else ()
    changes = changes_between(before, target.objects, catalog)
    world, rested = offline_world(before, catalog, gates, now)
    forecast, unplayed = play(world, changes, target.objects, catalog, rested, gates)
    return Preview(changes=changes, forecast=forecast, live=False, unplayed=unplayed)


async def _with_cluster(base: Side | None, target: Side, wishes: _Wishes) -> Preview:
    from gitkruise.gitops.preview import (  # noqa: PLC0415  imports the model cluster
        Preview,
        changes_between,
        live_world,
        play,
        with_live,
    )
    from gitkruise.gitops.survey import CLONESET  # noqa: PLC0415
    from gitkruise.kube.data import load_catalog  # noqa: PLC0415

    assert wishes.cluster is not None
    catalog = load_catalog()
    async with connected(wishes.cluster, read_environment()) as chosen:
        changes = changes_between(base.objects if base else (), target.objects, catalog)
        spaces = {d.key.namespace for d in target.objects if d.key.group_kind == CLONESET}
        world = await live_world(chosen.transport, catalog, spaces, wishes.gates)
        live = {d.key: obj for d in target.objects if (obj := world.get(d.key)) is not None}
        changes = with_live(changes, target.objects, live, catalog)
        now = chosen.clock.now()
        forecast, unplayed = play(world, changes, target.objects, catalog, now, wishes.gates)
    return Preview(changes=changes, forecast=forecast, live=True, unplayed=unplayed)
