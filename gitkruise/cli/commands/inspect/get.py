"""gitkruise get: list or watch rollouts, pods, revisions, events and units."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.console.command import ExitCodesCommand, namespace_option, timeout_option
from gitkruise.cli.console.environment import Environment, read_environment
from gitkruise.cli.console.jsonpath_output import PREFIX, OutputType, fill
from gitkruise.cli.console.output import list_of, say, say_json, say_on_stderr, say_yaml
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options, connected, look, narrower
from gitkruise.cli.context.filters import Filters, parse_filters
from gitkruise.cli.context.local_repository import (
    RecordedUnits,
    record_options,
    recorded_units,
    repository_at_hand,
    why_stale,
)
from gitkruise.cli.context.resource_args import (
    WORKLOAD_KINDS,
    ResourceArg,
    parse_resource_arg,
    types_or_workloads,
)
from gitkruise.errors import ClusterFailed, Finding, UsageProblem
from gitkruise.kube.system.lease_terms import SYNC_LEASE
from gitkruise.model.workloads.labels import (
    ADVANCED_DAEMONSET,
    ADVANCED_STATEFULSET,
    CLONESET,
    DAEMONSET,
    DEPLOYMENT,
    STATEFULSET,
)

if TYPE_CHECKING:
    from gitkruise.cli.context.cluster import ChosenCluster
    from gitkruise.cli.views.resources import Item
    from gitkruise.cli.views.watch_screen import Drawing
    from gitkruise.gitops.inspect.cluster_view import Managed, Survey

_RECORDS_S: Final = 2.0  # between two looks at the records of units
OUTPUTS = ("text", "wide", "name", "json", "jsonl", "yaml")
_ROLLING: Final = (CLONESET, ADVANCED_STATEFULSET, DEPLOYMENT, STATEFULSET, DAEMONSET)
_LISTED: Final = (*_ROLLING, ADVANCED_DAEMONSET)  # the last is judged without its pods
_KINDS: Final = {n: (kind,) for n, kind in WORKLOAD_KINDS.items() if n != "rollouts"}
_WHOLE = frozenset({"json", "yaml"})  # one document with all items


@click.command(
    cls=ExitCodesCommand, exits=(1, 5, 6), says="with --exit-when-done: the rollout is stuck"
)
@click.argument("words", nargs=-1, metavar="TYPE[/NAME] [NAME]", shell_complete=types_or_workloads)
@namespace_option
@click.option("-A", "--all-namespaces", is_flag=True, help="List all namespaces.")
@click.option(
    "-w", "--watch", is_flag=True, help="After listing, watch for changes until q or Ctrl-C."
)
@click.option(
    "--exit-when-done",
    is_flag=True,
    help="With --watch: exit when the rollout reaches the requested state.",
)
@timeout_option("Time limit of --exit-when-done.", default="10m")
@click.option("--no-headers", "--no-header", is_flag=True, help="Print no column headers.")
@click.option("-l", "--selector", default="", metavar="app=web", help="Label selector.")
@click.option(
    "--state", "states", default="", metavar="stuck,held", help="States to show [default: all]."
)
@click.option(
    "--commit", default="", metavar="SHA", help="Commit whose objects to show [default: all]."
)
@click.option(
    "-o",
    "--output",
    type=OutputType(OUTPUTS),
    default="text",
    help="Output format; jsonl prints one document per line.",
)
@record_options
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

    Keys while watching rollouts: p shows pods, e events, r revisions; / filters the rows.

    TYPE is one of rollouts (all but SidecarSets), clonesets (clone, cs), advancedstatefulsets
    (asts), deployments (deploy), statefulsets (sts), daemonsets (ds), sidecarsets (ss), pods,
    revisions, events, units. Units that wait or were rejected are known
    from the status branch, if a repository is found.
    """
    wanted = parse_resource_arg(words)
    chosen = parse_filters(wanted.noun, flags["selector"], flags["states"], flags["commit"])
    computed = {"wanted", "filters", "repository"}
    given = {k: flags[k] for k in GetOptions.__slots__ if k not in computed}
    repository = ""
    if wanted.noun == "units":
        _, repository = repository_at_hand(flags["config_path"], flags["repo"])
    options = GetOptions(wanted=wanted, filters=chosen, repository=repository, **given)
    if options.exit_when_done and not options.watch:
        raise UsageProblem(Finding(code="GK7015", message="--exit-when-done requires --watch"))
    if options.exit_when_done and wanted.noun == "events" and not wanted.name:
        message = "--exit-when-done requires the name of the rollout behind the events"
        raise UsageProblem(Finding(code="GK7015", message=message))
    if options.watch and (options.output in _WHOLE or options.output.startswith(PREFIX)):
        message = f"--watch requires -o jsonl, not {options.output.partition('=')[0]}"
        raise UsageProblem(Finding(code="GK7015", message=message))
    ctx.exit(asyncio.run(_get(options, cluster)))


@dataclass(frozen=True, slots=True, kw_only=True)
class GetOptions:
    """The command line."""

    wanted: ResourceArg
    filters: Filters
    repository: str  # with the records of units; "" for none
    namespace: str
    all_namespaces: bool
    watch: bool
    exit_when_done: bool
    timeout: str
    no_headers: bool
    output: str


async def _get(options: GetOptions, choice: ClusterChoice) -> int:
    environment = read_environment()
    fix = narrower(everywhere=options.all_namespaces)
    async with connected(choice, environment, if_forbidden=fix) as chosen:
        scope = "" if options.all_namespaces else options.namespace or chosen.namespace
        survey = _survey(chosen, options, scope, on_screen=_on_screen(options, environment))
        await look(survey, dispensable=options.wanted.noun == "units")
        reader = _ItemReader(survey, options, scope)
        await reader.read_units(chosen)
        await reader.read_records(chosen.name)
        if options.watch:
            return await _watch(reader, chosen, environment)
        now = chosen.clock.now()
        found, items = reader.picture(now)
        _print(reader, found, items, Style.of(environment), now)
    return 0


def _on_screen(options: GetOptions, environment: Environment) -> bool:
    drawn = environment.stdout_tty and environment.redraws
    return options.watch and drawn and options.output in {"text", "wide"}


def _survey(
    chosen: ChosenCluster, options: GetOptions, namespace: str, *, on_screen: bool
) -> Survey:
    from gitkruise.gitops.inspect.cluster_view import EVENT, WORKLOADS, Survey  # noqa: PLC0415  the schemas
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

    wanted = options.wanted
    owners = _KINDS.get(wanted.owner, _ROLLING)
    kinds = {
        **_KINDS,
        "rollouts": _LISTED,
        "events": (EVENT, *owners) if wanted.name else (EVENT,),
        "units": WORKLOADS,
    }.get(wanted.noun, owners)
    if on_screen and wanted.rollouts:
        kinds = (*kinds, EVENT)
    return Survey(
        chosen.transport,
        load_catalog(),
        kinds,
        namespace="" if wanted.noun == "units" else namespace,  # a unit has objects in several
        marked=wanted.noun == "units",
    )


class _ItemReader:
    """Turns the newest state of the survey into the requested items."""

    def __init__(self, survey: Survey, options: GetOptions, scope: str) -> None:
        from gitkruise.gitops.inspect.shard_holders import WITHOUT_SHARDS  # noqa: PLC0415
        from gitkruise.gitops.inspect.unit_objects import UnitObjects  # noqa: PLC0415

        self.survey, self.options, self._scope = survey, options, scope
        self._recorded = RecordedUnits()
        self._shards, self._declared = WITHOUT_SHARDS, UnitObjects()
        self.stale: list[str] = []  # lines that give the reason why the records are not fresh

    async def read_records(self, cluster: str) -> None:
        """Fetch and read the records of units, if there is a repository.

        A change sets `survey.changed`. A new reason why they are not fresh goes to standard error,
        unless the picture on the screen shows it.
        """
        path = self.options.repository
        if not path:
            return
        before = (self._recorded, self.stale)
        self.stale = await asyncio.to_thread(why_stale, path, cluster)
        self._recorded = await asyncio.to_thread(recorded_units, cluster, path, before[0])
        if self.stale[:1] != before[1][:1] and not _on_screen(self.options, read_environment()):
            for line in self.stale:
                say_on_stderr(line)
        if (self._recorded, self.stale) != before:
            self.survey.changed.set()

    async def read_units(self, chosen: ChosenCluster) -> None:
        """Read the Units of the cluster, and which replica has which shard of the units; standard
        error states why not."""
        from gitkruise.gitops.cluster.engine import LEASE_NAMESPACE  # noqa: PLC0415
        from gitkruise.gitops.inspect.shard_holders import read_holders  # noqa: PLC0415
        from gitkruise.gitops.inspect.unit_objects import read_unit_objects  # noqa: PLC0415

        if self.options.wanted.noun != "units":
            return
        before = (self._shards, self._declared)
        self._shards = await read_holders(
            chosen.transport, LEASE_NAMESPACE, SYNC_LEASE, chosen.clock
        )
        self._declared = await read_unit_objects(chosen.transport, chosen.name, self._scope)
        if self._shards.unread and self._shards != before[0]:
            say_on_stderr(f"shards: not known: {self._shards.unread}")
        if self._declared.unread and self._declared != before[1]:
            say_on_stderr(f"units of the cluster: not known: {self._declared.unread}")
        if (self._shards, self._declared) != before:
            self.survey.changed.set()

    async def follow_records(self, chosen: ChosenCluster) -> None:
        """Read records, Units and the holders of shards again and again, until cancelled."""
        while self.options.repository or self.options.wanted.noun == "units":
            await chosen.clock.sleep(_RECORDS_S)
            await self.read_units(chosen)
            await self.read_records(chosen.name)

    def picture(self, now: datetime) -> tuple[list[Managed], list[Item]]:
        """Return (workloads, items of the noun). Raises ClusterFailed GK4010."""
        from gitkruise.cli.views import resources  # noqa: PLC0415  imports the model

        noun, name = self.options.wanted.noun, self.options.wanted.name
        if noun == "units":
            managed = self.survey.managed(now)
            news = self._declared.beside(self._recorded.units)
            partial = bool(self.survey.left_out)
            units = resources.units(managed, news, self._scope, self._shards, partial=partial)
            chosen = [u for u in units if name in {"", u["name"]}]
            if not chosen:
                self._refuse_absent(u["name"] for u in units)
            return [], self.options.filters.items(chosen)
        found = [m for m in self.survey.managed(now, name=name) if m.key.kind != "Event"]
        if not found:
            self._refuse_absent(
                m.key.name for m in self.survey.managed(now) if m.key.kind != "Event"
            )
        if noun == "events":
            return found, self._events(found)
        make = {"pods": resources.pods, "revisions": resources.revisions}.get(
            noun, resources.rollouts
        )
        items = self.options.filters.items(make(self.options.filters.objects(noun, found)))
        if noun == "pods":
            return found, items  # a rollout without pods counts, too
        there = {(i["namespace"], i.get("owner", i["name"])) for i in items}
        return [m for m in found if (m.key.namespace, m.key.name) in there], items

    def _events(self, found: Sequence[Managed]) -> list[Item]:
        from gitkruise.cli.views import resources  # noqa: PLC0415  imports the model

        name = self.options.wanted.name
        about = {f"{m.key.kind.lower()}/{m.key.name}" for m in found}
        about |= {f"pod/{pod.name}" for m in found for pod in m.pods}
        return resources.events(self.survey.events(), frozenset((about or {name}) if name else ()))

    @property
    def drawing(self) -> Drawing:
        """The functions that draw the items and the panels behind the keys."""
        from gitkruise.cli.views import resources  # noqa: PLC0415  imports the model
        from gitkruise.cli.views.watch_screen import Drawing  # noqa: PLC0415  only with --watch

        def behind(noun: str, found: Sequence[Managed]) -> Sequence[Item]:
            if noun == "events":
                return self._events(found)[::-1]  # a window shows the first lines
            return (resources.pods if noun == "pods" else resources.revisions)(found)

        wanted = self.options.wanted
        return Drawing(
            noun=wanted.noun,
            render=self.lines,
            table=resources.table_of,
            behind=behind if wanted.rollouts else None,
            titled=wanted.rollouts and bool(wanted.name) and self.options.output != "wide",
            notes=lambda: self.stale,
        )

    def _refuse_absent(self, there: Iterable[str]) -> None:
        """Refuse a name that is not `there`; one that is watched may come. Raises ClusterFailed."""
        name = self.options.wanted.name
        if not name or self.options.watch:
            return
        where = f"namespace {self._scope}" if self._scope else "any namespace"
        message = f'"{name}" not found in {where}'
        notes = (
            ("there are", ", ".join(islice(there, 8)) or "none"),
            ("next", "search all namespaces with -A" if self._scope else "correct the name"),
        )
        raise ClusterFailed(Finding(code="GK4010", message=message, notes=notes))

    def lines(
        self, found: Sequence[Managed], items: Sequence[Item], style: Style, now: datetime
    ) -> list[str]:
        """Draw one rollout as a block, everything else as a table."""
        from gitkruise.cli.views.resources import table_of  # noqa: PLC0415
        from gitkruise.cli.views.rollout import rollout_block  # noqa: PLC0415  imports the model

        wanted = self.options.wanted
        wide = self.options.output == "wide"
        if not items:
            where = f"namespace {self._scope}; -A lists all" if self._scope else "any namespace"
            return [f"no {wanted.noun} in {where}"]
        single = found[0] if wanted.rollouts and wanted.name and len(found) == 1 else None
        if single is not None and single.rollout is not None and not wide:
            return rollout_block(single, style)
        headers = not self.options.no_headers
        return table_of(wanted.noun, items, style, now, headers=headers, wide=wide)


def _print(
    reader: _ItemReader,
    found: Sequence[Managed],
    items: Sequence[Item],
    style: Style,
    now: datetime,
) -> None:
    from gitkruise.cli.views.resources import VIEWS  # noqa: PLC0415  imports the model

    noun, output = reader.options.wanted.noun, reader.options.output
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
        owned = noun == "rollouts"
        kinds = (_kind_word(item) if owned else noun[:-1] for item in items)
        names = (f"{kind}/{item['name']}" for kind, item in zip(kinds, items, strict=True))
        say(names, style)
    else:
        say(reader.lines(found, items, style, now), style)


def _kind_word(item: Item) -> str:
    """Return the kind of a rollout as command lines name it."""
    from gitkruise.wire.primitives.names import GroupKind, noun  # noqa: PLC0415

    return noun(GroupKind(item["group"], item["kind"]))


async def _watch(reader: _ItemReader, chosen: ChosenCluster, environment: Environment) -> int:
    from gitkruise.cli.views.watch import LineOutput, Outage, Until, watch  # noqa: PLC0415  only with --watch
    from gitkruise.wire.primitives.times import parse_duration  # noqa: PLC0415

    options, style = reader.options, Style.of(environment)
    until: Until | None = None
    if options.exit_when_done:
        until = Until(options.timeout, parse_duration(options.timeout).total_seconds())
    survey, clock = reader.survey, chosen.clock
    follow = reader.follow_records(chosen)
    if _on_screen(options, environment):
        import logging  # noqa: PLC0415  start-up budget

        from gitkruise.cli.console.keyboard import keyboard, on_signal  # noqa: PLC0415
        from gitkruise.cli.console.viewport import Viewport  # noqa: PLC0415
        from gitkruise.cli.views.watch_screen import WatchScreen  # noqa: PLC0415

        def press(key: str) -> None:
            screen.press(key)
            ended()

        def terminate() -> None:
            screen.terminate()
            ended()

        def ended() -> None:
            if screen.ended is not None:
                survey.changed.set()

        if environment.stderr_tty:  # what is logged would be written over the picture
            logging.getLogger("gitkruise").addHandler(logging.NullHandler())
        outage = Outage(survey)
        drawing = replace(reader.drawing, notes=lambda: [*outage.notes, *reader.stale])
        with Viewport(style) as viewport:
            screen = WatchScreen(viewport, style, drawing, quit_code=130 if until else 0)
            for name in ("SIGTERM", "SIGHUP"):
                on_signal(name, terminate)
            with keyboard(press, viewport.aside) as screen.keys:
                also = (follow, outage.follow(clock))
                return await watch(survey, clock, reader.picture, screen, until, *also)
    lines = LineOutput(options.wanted.noun, style, json=options.output == "jsonl")
    return await watch(survey, clock, reader.picture, lines, until, follow)
