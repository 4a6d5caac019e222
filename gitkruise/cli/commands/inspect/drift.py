"""gitkruise drift: list fields of live objects that differ from git, and their managers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.console.ages import ago
from gitkruise.cli.console.command import ExitCodesCommand, output_option
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.findings import print_findings
from gitkruise.cli.console.output import list_of, say, say_json
from gitkruise.cli.console.signals import result_of
from gitkruise.cli.console.style import Style
from gitkruise.cli.console.tables import Column, fit_table
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options, connected
from gitkruise.cli.context.local_repository import config_at_hand_option
from gitkruise.cli.context.resource_args import object_argument, workload_kind
from gitkruise.errors import Finding, UsageProblem
from gitkruise.printable import listing, many
from gitkruise.wire.primitives.names import noun

if TYPE_CHECKING:
    from gitkruise.errors import DiagnosticError
    from gitkruise.gitops.inspect.drift import DriftComparison
    from gitkruise.model.gitops.record import DriftRecord
    from gitkruise.wire.primitives.names import ObjectKey

_NAMED: Final = 8  # objects that are left alone, in one line
_HEADS: Final = (
    Column(name="OBJECT", least=20),
    Column(name="FIELD", least=16),
    Column(name="GIT", least=8),
    Column(name="LIVE", least=8),
    Column(name="BY", drop=1, least=10),
    Column(name="WHEN", drop=2),
)


@click.command(cls=ExitCodesCommand, exits=(1, 3, 4, 5), says="an object differs from git")
@object_argument(required=False)
@click.option("-n", "--namespace", default="", help="Namespace to compare [default: all].")
@config_at_hand_option
@click.option(
    "--repo", default="", help="Repository with the manifests [default: the current directory]."
)
@click.option(
    "--at",
    "revision",
    default="",
    metavar="REV",
    help="Commit to compare with [default: the applied one].",
)
@output_option
@cluster_options
@click.pass_context
def drift(
    ctx: click.Context, /, object_name: str, namespace: str, cluster: ClusterChoice, **flags: Any
) -> None:
    """Show live changes that did not come through git.

    \b
    Examples:
      gitkruise drift --cluster sandbox
      gitkruise drift cloneset/report -n batch --sandbox
      gitkruise drift --context prod --at main -o json

    With a cluster (--sandbox, --kubeconfig, --context) the command compares its live objects.
    Without one it reads the status branch, which lists drift that is not corrected. Values of
    Secrets are never shown. A unit that cannot be read is reported, and the others are compared.
    """
    from gitkruise.cli.context.local_repository import (  # noqa: PLC0415
        fetch_records,
        repository_at_hand,
    )

    _, path = repository_at_hand(flags["config_path"], flags["repo"])
    if not path:
        notes = (("next", "run it in a checkout, or name one with --repo"),)
        raise UsageProblem(
            Finding(code="GK7011", message="the current directory is in no checkout", notes=notes)
        )
    fetch_records(path, cluster.name)
    if cluster.given:
        asked = partial(_wanted, name=object_name, namespace=namespace)
        work = _compared(cluster, path, flags["config_path"], flags["revision"], asked)
        seen, now = result_of(work)
    else:
        seen, now = _recorded(cluster.name, path)
    known = seen.compared | seen.aside.keys()
    if (object_name or namespace) and not any(
        _wanted(key, object_name, namespace) for key in known
    ):
        raise (
            seen.unread[0] if seen.unread else _unknown(object_name, namespace, known | seen.others)
        )
    rows = [d for d in seen.differing if _wanted(d.key, object_name, namespace)]
    if flags["output"] == "json":
        _print_json(rows, seen.unread)
    else:
        aside = {k: why for k, why in seen.aside.items() if _wanted(k, object_name, namespace)}
        _print_text(rows, replace(seen, aside=aside), now)
    ctx.exit(seen.unread[0].exit_code if seen.unread else 1 if rows else 0)


def _print_json(rows: Sequence[DriftRecord], unread: Sequence[DiagnosticError]) -> None:
    from gitkruise.cli.views.history import drift_items  # noqa: PLC0415  imports libyaml

    found = {**list_of("DriftList", []), **drift_items(rows, unread)}
    say_json(found, Style.of(read_environment()))


def _print_text(rows: Sequence[DriftRecord], seen: DriftComparison, now: datetime) -> None:
    style = Style.of(read_environment())
    if rows or seen.compared or seen.aside or not seen.unread:
        say(_lines(rows, style, now, seen), style)
    print_findings([finding for error in seen.unread for finding in error.findings])


def _unknown(name: str, namespace: str, known: Set[ObjectKey]) -> UsageProblem:
    """Return error GK7017: there is nothing that could differ."""
    where = f"namespace {namespace}" if namespace else "any namespace"
    there = ", ".join(map(str, sorted(known)[:8])) or "none"
    notes = (("there are", there), ("next", "gitkruise drift, without a name, compares all"))
    message = f"{name or 'objects'}: not in a unit, in {where}"
    return UsageProblem(Finding(code="GK7017", message=message, notes=notes))


def _recorded(cluster: str, path: str) -> tuple[DriftComparison, datetime]:
    from gitkruise.git.repository.repository import Repository  # noqa: PLC0415
    from gitkruise.gitops.inspect.drift import DriftComparison  # noqa: PLC0415  imports the model
    from gitkruise.gitops.status.reader import read_units, status_branch  # noqa: PLC0415
    from gitkruise.kube.system.clock import SystemClock  # noqa: PLC0415  imports asyncio
    from gitkruise.planner.sync.annotations import left_alone  # noqa: PLC0415

    with Repository.open(path) as repository:
        branch = status_branch(repository, cluster)
        units, written = read_units(repository, branch), repository.commit(branch).time
    objects = {key: news for unit in units for key, news in unit.objects.items()}
    alone = {key: left_alone(news.message) for key, news in objects.items()}
    aside = {key: why.removeprefix("left alone").lstrip(": ") for key, why in alone.items() if why}
    known = frozenset(objects.keys() - aside.keys())
    differing = [d for unit in units for d in unit.drift]
    return DriftComparison(differing, known, recorded=written, aside=aside), SystemClock().now()


async def _compared(
    choice: ClusterChoice,
    path: str,
    config_path: Path | None,
    revision: str,
    asked: Callable[[ObjectKey], bool],
) -> tuple[DriftComparison, datetime]:
    from gitkruise.cli.context.charts import chart_fetcher  # noqa: PLC0415
    from gitkruise.gitops.config.loader import load_config  # noqa: PLC0415
    from gitkruise.gitops.inspect.drift import compare  # noqa: PLC0415  imports the model
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

    given = load_config(config_path) if config_path else None
    async with connected(choice, read_environment()) as chosen:
        seen = await compare(
            path, revision, given, load_catalog(), transport=chosen.transport,
            charts=chart_fetcher(chosen.clock), cluster=chosen.name, asked=asked,
        )  # fmt: skip
        return seen, chosen.clock.now()


def _wanted(key: ObjectKey, name: str, namespace: str) -> bool:
    if namespace not in {"", key.namespace}:
        return False
    word, slash, short = name.rpartition("/")
    kind = workload_kind(word.lower())
    named = {noun(key.group_kind), f"{noun(key.group_kind)}s"}
    fits = key.group_kind == kind if kind is not None else word.lower() in named
    return not name or (key.name == short and (not slash or fits))


def _lines(
    rows: Sequence[DriftRecord], style: Style, now: datetime, seen: DriftComparison
) -> list[str]:
    from gitkruise.wire.primitives.times import parse_time  # noqa: PLC0415

    if rows:
        cells = [
            (str(d.key), d.field, d.git, d.live, d.manager or "-", ago(parse_time(d.written), now))
            for d in rows
        ]
        return [*fit_table(_HEADS, cells, style.width), *_left_alone(seen)]
    if seen.recorded:
        part = f" in the record of {ago(seen.recorded, now)}"
    elif seen.unread or seen.aside:
        part = f" in the {many(len(seen.compared), 'object')} compared"
    else:
        part = ""
    nothing = [f"nothing differs from git{part}"] if seen.compared else []
    return [*nothing, *_left_alone(seen)] or ["no unit has objects to compare"]


def _left_alone(seen: DriftComparison) -> Iterator[str]:
    """Yield the objects that are not compared, because a sync leaves them as they are."""
    for why in dict.fromkeys(seen.aside.values()):
        keys = [key for key in sorted(seen.aside) if seen.aside[key] == why]
        yield f"left alone: {listing(keys, _NAMED)} ({why})"
