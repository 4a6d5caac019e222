"""gitkruise get: rollouts, pods by revision and commit, revisions; once or while they move."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from gitkruise.cli.config import Environment, read_environment
from gitkruise.cli.connect import ClusterChoice, cluster_options, connected
from gitkruise.cli.nouns import Wanted, parse_wanted
from gitkruise.cli.output import list_of, say, say_json, say_yaml
from gitkruise.cli.picking import Picks, picks
from gitkruise.cli.style import Style
from gitkruise.cli.templates import PREFIX, OutputType, fill
from gitkruise.cli.verb import Verb, duration_type
from gitkruise.errors import ClusterFailed, Finding, UsageProblem
from gitkruise.model.labels import CLONESET, SIDECARSET

if TYPE_CHECKING:
    from gitkruise.cli.connect import Chosen
    from gitkruise.cli.screen import Drawing
    from gitkruise.cli.views import Item
    from gitkruise.gitops.survey import Managed, Survey

OUTPUTS = ("text", "wide", "name", "json", "jsonl", "yaml")
_WHOLE = frozenset({"json", "yaml"})  # one document of everything


@click.command(cls=Verb, exits=(1, 5, 6, 130), says="with --exit-when-done: the rollout is stuck")
@click.argument("words", nargs=-1, metavar="TYPE[/NAME] [NAME]")
@click.option("-n", "--namespace", default="", help="Namespace; the context's by default.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Every namespace.")
@click.option("-w", "--watch", is_flag=True, help="Go on until q or Ctrl-C.")
@click.option("--exit-when-done", is_flag=True, help="With --watch: leave when it is as asked.")
@click.option(
    "--timeout",
    default="10m",
    show_default=True,
    callback=duration_type,
    help="With --exit-when-done.",
)
@click.option("--no-headers", "--no-header", is_flag=True, help="Rows only.")
@click.option("-l", "--selector", default="", metavar="app=web", help="Only with these labels.")
@click.option("--state", "states", default="", metavar="stuck,held", help="Only these states.")
@click.option("--commit", default="", metavar="SHA", help="Only what this commit brought.")
@click.option("-o", "--output", type=OutputType(OUTPUTS), default="text", help="jsonl: one a line.")
@cluster_options
@click.pass_context
def get(
    ctx: click.Context, /, words: tuple[str, ...], cluster: ClusterChoice, **flags: Any
) -> None:
    """Show rollouts, or the pods, revisions and events behind one.

    \b
    Examples:
      gitkruise get rollouts -A
      gitkruise get rollout checkout -n shop --watch
      gitkruise get pods cloneset/checkout -n shop -l tier=web -o json
      gitkruise get cs -A --state stuck,held -o jsonpath='{.items[*].name}'

    Watching rollouts on a terminal: p shows their pods, e events, r revisions; / filters rows.

    TYPE is one of rollouts, clonesets (clone, cs), sidecarsets (ss), pods, revisions, events,
    units.
    """
    wanted = parse_wanted(words)
    chosen = picks(wanted.noun, flags["selector"], flags["states"], flags["commit"])
    given = {k: flags[k] for k in Wishes.__slots__ if k not in {"wanted", "picks"}}
    wishes = Wishes(wanted=wanted, picks=chosen, **given)
    if wishes.exit_when_done and not wishes.watch:
        raise UsageProblem(Finding(code="GK7015", message="--exit-when-done wants --watch"))
    if wishes.watch and (wishes.output in _WHOLE or wishes.output.startswith(PREFIX)):
        message = f"--watch wants -o jsonl, not {wishes.output.partition('=')[0]}"
        raise UsageProblem(Finding(code="GK7015", message=message))
    ctx.exit(asyncio.run(_get(wishes, cluster)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The command line."""

    wanted: Wanted
    picks: Picks
    namespace: str
    all_namespaces: bool
    watch: bool
    exit_when_done: bool
    timeout: str
    no_headers: bool
    output: str


async def _get(wishes: Wishes, choice: ClusterChoice) -> int:
    environment = read_environment()
    async with connected(choice, environment) as chosen:
        scope = "" if wishes.all_namespaces else wishes.namespace or chosen.namespace
        survey = _survey(chosen, wishes, scope, on_screen=_on_screen(wishes, environment))
        await survey.look()
        reader = _Reader(survey, wishes, scope)
        if wishes.watch:
            return await _watch(reader, chosen, environment)
        now = chosen.clock.now()
        found, items = reader.picture(now)
        _print(reader, found, items, Style.of(environment), now)
    return 0


def _on_screen(wishes: Wishes, environment: Environment) -> bool:
    return wishes.watch and environment.stdout_tty and wishes.output in {"text", "wide"}


def _survey(chosen: Chosen, wishes: Wishes, namespace: str, *, on_screen: bool) -> Survey:
    from gitkruise.gitops.survey import EVENT, WORKLOADS, Survey  # noqa: PLC0415  the schemas
    from gitkruise.kube.data import load_catalog  # noqa: PLC0415

    wanted = wishes.wanted
    kinds = {
        "sidecarsets": (SIDECARSET,),
        "events": (EVENT, CLONESET) if wanted.name else (EVENT,),
        "units": WORKLOADS,
    }.get(wanted.noun, (CLONESET, EVENT) if on_screen and wanted.rollouts else (CLONESET,))
    return Survey(
        chosen.transport,
        load_catalog(),
        kinds,
        namespace=namespace,
        marked=wanted.noun == "units",
    )


class _Reader:
    """Turns what the survey last saw into the things asked for."""

    def __init__(self, survey: Survey, wishes: Wishes, scope: str) -> None:
        self.survey, self.wishes, self._scope = survey, wishes, scope

    def picture(self, now: datetime) -> tuple[list[Managed], list[Item]]:
        """(rollouts and the like, items of the noun). Raises ClusterFailed GK4010."""
        from gitkruise.cli import views  # noqa: PLC0415  imports the model

        noun, name = self.wishes.wanted.noun, self.wishes.wanted.name
        if noun == "units":
            units = views.units(self.survey.managed(now))
            return [], self.wishes.picks.items(u for u in units if name in {"", u["name"]})
        found = [m for m in self.survey.managed(now, name=name) if m.key.kind != "Event"]
        if name and not found and not self.wishes.watch:
            raise self._absent(now)
        if noun == "events":
            return [], self._events(found)
        make = {"pods": views.pods, "revisions": views.revisions}.get(noun, views.rollouts)
        items = self.wishes.picks.items(make(self.wishes.picks.objects(noun, found)))
        if noun == "pods":
            return found, items  # a rollout without pods is one to wait for, too
        there = {(i["namespace"], i.get("owner", i["name"])) for i in items}
        return [m for m in found if (m.key.namespace, m.key.name) in there], items

    def _events(self, found: Sequence[Managed]) -> list[Item]:
        from gitkruise.cli import views  # noqa: PLC0415  imports the model

        name = self.wishes.wanted.name
        about = frozenset({name, *(pod.name for m in found for pod in m.pods)} - {""})
        return views.events(self.survey.events(), about if name else frozenset())

    @property
    def drawing(self) -> Drawing:
        """What a terminal shows of it, and what its keys lead to."""
        from gitkruise.cli import views  # noqa: PLC0415  imports the model
        from gitkruise.cli.screen import Drawing  # noqa: PLC0415  only with --watch

        def behind(noun: str, found: Sequence[Managed]) -> Sequence[Item]:
            if noun == "events":
                return self._events(found)[::-1]  # a window shows the first lines
            return (views.pods if noun == "pods" else views.revisions)(found)

        wanted = self.wishes.wanted
        return Drawing(
            noun=wanted.noun,
            render=self.lines,
            table=views.table_of,
            behind=behind if wanted.rollouts else None,
            titled=wanted.rollouts and bool(wanted.name) and self.wishes.output != "wide",
        )

    def _absent(self, now: datetime) -> ClusterFailed:
        where = f"namespace {self._scope}" if self._scope else "any namespace"
        there = ", ".join(m.key.name for m in self.survey.managed(now)[:8]) or "none"
        message = f'there is no "{self.wishes.wanted.name}" in {where}'
        notes = (("there are", there), ("next", "name its namespace with -n, or look in all: -A"))
        return ClusterFailed(Finding(code="GK4010", message=message, notes=notes))

    def lines(
        self, found: Sequence[Managed], items: Sequence[Item], style: Style, now: datetime
    ) -> list[str]:
        """The screen: one rollout as a block, everything else as a table."""
        from gitkruise.cli.block import rollout_block  # noqa: PLC0415  imports the model
        from gitkruise.cli.views import table_of  # noqa: PLC0415

        wanted = self.wishes.wanted
        wide = self.wishes.output == "wide"
        if wanted.rollouts and wanted.name and len(found) == 1 and not wide:
            return rollout_block(found[0], style)
        headers = not self.wishes.no_headers
        return table_of(wanted.noun, items, style, now, headers=headers, wide=wide)


def _print(
    reader: _Reader, found: Sequence[Managed], items: Sequence[Item], style: Style, now: datetime
) -> None:
    from gitkruise.cli.views import VIEWS  # noqa: PLC0415  imports the model

    noun, output = reader.wishes.wanted.noun, reader.wishes.output
    whole = list_of(VIEWS[noun].list_kind, items)
    if output == "json":
        say_json(whole, style)
    elif output == "yaml":
        say_yaml(whole, style)
    elif output.startswith(PREFIX):
        click.echo(fill(output.removeprefix(PREFIX), whole), nl=False, color=False)
    elif output == "jsonl":
        for item in items:
            say_json(item, style, line=True)
    elif output == "name":
        kind = "cloneset" if noun == "rollouts" else noun[:-1]
        say((f"{kind}/{item['name']}" for item in items), style)
    else:
        say(reader.lines(found, items, style, now), style)


async def _watch(reader: _Reader, chosen: Chosen, environment: Environment) -> int:
    from gitkruise.cli.watching import Lines, Until, watch  # noqa: PLC0415  only with --watch
    from gitkruise.wire.times import parse_duration  # noqa: PLC0415

    wishes, style = reader.wishes, Style.of(environment)
    until: Until | None = None
    if wishes.exit_when_done:
        until = Until(wishes.timeout, parse_duration(wishes.timeout).total_seconds())
    survey, clock = reader.survey, chosen.clock
    if _on_screen(wishes, environment):
        from gitkruise.cli.keys import keyboard, on_signal  # noqa: PLC0415
        from gitkruise.cli.screen import Screen  # noqa: PLC0415
        from gitkruise.cli.viewport import Viewport  # noqa: PLC0415

        def press(key: str) -> None:
            screen.press(key)
            ended()

        def terminate() -> None:
            screen.terminate()
            ended()

        def ended() -> None:
            if screen.ended is not None:
                survey.changed.set()

        with Viewport(style) as viewport:
            screen = Screen(viewport, style, reader.drawing, quit_code=130 if until else 0)
            for name in ("SIGTERM", "SIGHUP"):
                on_signal(name, terminate)
            with keyboard(press) as screen.keys:
                return await watch(survey, clock, reader.picture, screen, until)
    lines = Lines(wishes.wanted.noun, style, json=wishes.output == "jsonl")
    return await watch(survey, clock, reader.picture, lines, until)
