"""gitkruise history: list the commits of an object and their outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.console.ages import ago
from gitkruise.cli.console.command import ExitCodesCommand, output_option
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.findings import finding_obj, print_findings
from gitkruise.cli.console.output import list_of, say, say_json
from gitkruise.cli.console.style import Style, shorten
from gitkruise.cli.console.tables import Column, fit_table
from gitkruise.cli.context.local_repository import checkout_of, fetch_records
from gitkruise.cli.context.resource_args import NOUNS, object_argument, parse_object
from gitkruise.errors import Finding, Severity, SourceFailed, UsageProblem
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import named, noun
from gitkruise.wire.primitives.times import format_time

if TYPE_CHECKING:
    from gitkruise.gitops.status.reader import RecordedUnit
    from gitkruise.model.gitops.promotion import PromotionRecord
    from gitkruise.model.gitops.record import Intervention, RolloutStep
    from gitkruise.wire.primitives.names import ObjectKey

_HEADS: Final = (
    Column(name="OBJECT", least=16),
    Column(name="COMMIT"),
    Column(name="WHEN", drop=2),
    Column(name="WHO", drop=1, least=10),
    Column(name="CHANGE", least=20, prose=True),
    Column(name="REVISION", drop=3),
    Column(name="ASKED", drop=4),
    Column(name="RESULT", least=16, prose=True),
)


@click.command(cls=ExitCodesCommand, exits=(4,))
@object_argument(required=False)
@click.option("-n", "--namespace", default="", help="Namespace of the object.")
@click.option("--repo", default=".", show_default=True, help="Repository with the status branch.")
@click.option(
    "--cluster",
    default="",
    help="Cluster whose status branch is read; required if there are several.",
)
@click.option(
    "--commit", default="", metavar="SHA", help="Commit whose steps to show [default: all]."
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Maximum number of steps.",
)
@output_option
def history(object_name: str, namespace: str, repo: str, cluster: str, **flags: Any) -> None:
    """Show the request and the outcome of each commit. Needs no cluster access.

    Reads the status branch, which a clone fetches first; offline it is as old as a note says.

    \b
    Examples:
      gitkruise history cloneset/checkout -n shop
      gitkruise history --commit 4f2c9e1
      gitkruise history --repo /srv/git/shop-deploy.git --cluster prod
    """
    from gitkruise.kube.system.clock import SystemClock  # noqa: PLC0415  imports asyncio

    wanted = parse_object(object_name)
    url = repo
    if Path(repo).exists():
        url = str(checkout_of(Path(repo)))
        fetch_records(url, cluster)

    def asked(key: ObjectKey) -> bool:
        same = NOUNS.get(noun(key.group_kind), noun(key.group_kind)) == _noun(wanted.noun)
        named_so = wanted.name in {"", key.name} and ("/" not in object_name or same)
        return named_so and namespace in {"", key.namespace}

    found, units, recorded, gone, unread = _recorded(url, cluster, wanted.name, asked)
    print_findings(unread)
    rows = [(key, s) for key, s in found if asked(key) and s.commit.id.startswith(flags["commit"])]
    recorded = (
        [] if flags["commit"] else [one for one in recorded if asked(one.key)][: flags["limit"]]
    )
    words = (object_name, f"namespace {namespace}" * bool(namespace), flags["commit"])
    if any(words) and not rows and not recorded:
        raise _no_record(", ".join(filter(None, words)), found)
    style = Style.of(read_environment())
    rows = rows[: flags["limit"]]
    shown = {key for key, _ in rows}
    promotions = [u.promotion for u in units if u.promotion and u.promotion.key in shown]
    if flags["output"] == "json":
        say_json(
            {
                **list_of("HistoryList", _items(rows)),
                **_beside_steps(promotions, recorded),
                "removed": [_removed_item(key, at) for key, at in gone.items()],
                "findings": [finding_obj(finding) for finding in unread],
            },
            style,
        )
    else:
        now = SystemClock().now()
        say(history_lines(rows, style, now, several=len({key for key, _ in rows}) > 1), style)
        say(_promotion_lines(promotions, now), style)
        say(intervention_lines(recorded, now), style)
        say(_removal_lines(gone, now), style)


def _beside_steps(
    promotions: list[PromotionRecord], interventions: list[Intervention]
) -> dict[str, list[Any]]:
    from gitkruise.gitops.status.codecs import INTERVENTION, PROMOTION  # noqa: PLC0415  the model

    return {
        "promotions": list(map(PROMOTION.obj, promotions)),
        "interventions": list(map(INTERVENTION.obj, interventions)),
    }


def _recorded(
    url: str, cluster: str, name: str, asked: Callable[[ObjectKey], bool]
) -> tuple[
    list[tuple[ObjectKey, RolloutStep]],
    list[RecordedUnit],
    list[Intervention],
    dict[ObjectKey, datetime | None],
    list[Finding],
]:
    """Return (steps, units, interventions, removals, warnings) of a status branch.

    The steps are followed by those of removed objects of the name that are asked for; removals
    are the instants when their records ended. Warnings name the files that are no records. Raises
    SourceFailed GK3206 when there is nothing else.
    """
    from gitkruise.git.repository.repository import Repository  # noqa: PLC0415  imports GitPython
    from gitkruise.gitops.status.reader import (  # noqa: PLC0415
        interventions,
        read_steps,
        read_units,
        removed_steps,
        status_branch,
    )

    gone: dict[ObjectKey, datetime | None] = {}
    unread: dict[str, Finding] = {}
    with Repository.open(url) as repository:
        ref = status_branch(repository, cluster)
        found = read_steps(repository, ref, unread)
        units, recorded = read_units(repository, ref), interventions(repository, ref, unread)
        if unread and not (found or units):
            raise SourceFailed(*(replace(f, severity=Severity.ERROR) for f in unread.values()))
        there = {key for key, _ in found} | {key for unit in units for key in unit.objects}
        known = {(key, step.commit.id, step.started) for key, step in found}
        for key, at, steps in removed_steps(repository, ref, name, unread) if name else ():
            if not asked(key):
                continue
            if key not in there:
                gone.setdefault(key, at)
            new = {(key, s.commit.id, s.started): _as_left(s) for s in reversed(steps)}
            found += [(key, step) for mark, step in new.items() if mark not in known]
            known |= new.keys()
    return found, units, recorded, gone, list(unread.values())


def _as_left(step: RolloutStep) -> RolloutStep:
    """Return a step of a removed record: nothing observes how one under way went on."""
    under_way = step.state is State.ROLLING and not step.message
    return replace(step, message="when its record ended") if under_way else step


def _noun(word: str) -> str:
    return "clonesets" if word == "rollouts" else word


def _no_record(wanted: str, found: list[tuple[ObjectKey, RolloutStep]]) -> UsageProblem:
    known = sorted({_place(key) for key, _ in found})
    notes = (("recorded", ", ".join(known) or "nothing yet"),)
    return UsageProblem(Finding(code="GK7017", message=f"{wanted}: not recorded", notes=notes))


def _result(step: RolloutStep, style: Style) -> str:
    from gitkruise.cli.views.history import result_words  # noqa: PLC0415  imports libyaml

    return f"{style.glyph(step.state)} {result_words(step)}"


def history_lines(
    rows: list[tuple[ObjectKey, RolloutStep]], style: Style, now: datetime, *, several: bool
) -> list[str]:
    """Return a line for each step; objects are named if there is more than one."""
    if not rows:
        return ["no rollout is recorded; gitkruise history TYPE/NAME has those of a removed object"]
    names = Counter((key.namespace, key.name) for key in {key for key, _ in rows})
    cells = [
        (
            _object(key, alone=names[key.namespace, key.name] == 1) if several else "",
            step.commit.short,
            ago(step.started, now),
            shorten(step.commit.author, 20),
            step.title,
            step.revision.rpartition("-")[2],
            "all" if step.asked == step.replicas else f"{step.asked} of {step.replicas}",
            _result(step, style),
        )
        for key, step in rows
    ]
    heads = _HEADS if several else (Column(name=""), *_HEADS[1:])
    return fit_table(heads, cells, style.width)


def _object(key: ObjectKey, *, alone: bool) -> str:
    """Return its name; with its kind where another kind has one of this name."""
    return _place(key) if alone else named(key)


def _place(key: ObjectKey) -> str:
    """Return `NAMESPACE/NAME`, or the name of an object of the whole cluster."""
    return f"{key.namespace}/{key.name}".lstrip("/")


def _promotion_lines(promotions: list[PromotionRecord], now: datetime) -> Iterator[str]:
    """Yield a line for each promotion in progress."""
    from gitkruise.cli.views.promotion import progress  # noqa: PLC0415  seldom needed

    for promotion in promotions:
        if promotion.next:
            yield f"promotion of {named(promotion.key)}: {progress(promotion, now)}"


def intervention_lines(interventions: list[Intervention], now: datetime) -> Iterator[str]:
    """Yield a line for each corrected drift, takeover and prune, newest first."""
    for one in interventions:
        yield f"{ago(one.at, now)}  {one.reason} {one.key}: {one.text}"


def _removed_item(key: ObjectKey, at: datetime | None) -> dict[str, Any]:
    at_text = format_time(at) if at else None
    return {"kind": key.kind, "namespace": key.namespace, "name": key.name, "time": at_text}


def _removal_lines(gone: dict[ObjectKey, datetime | None], now: datetime) -> Iterator[str]:
    """Yield a line for each object whose steps come from an earlier record."""
    for key, at in gone.items():
        yield f"{key} left the record {ago(at, now)}: its last steps are shown"


def _items(rows: list[tuple[ObjectKey, RolloutStep]]) -> list[dict[str, Any]]:
    from gitkruise.cli.views.history import step_item  # noqa: PLC0415  imports libyaml

    return [step_item(key, step) for key, step in rows]
