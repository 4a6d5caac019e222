"""gitkruise dashboard: pages of a cluster in a browser of this machine."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.commands.inspect.dashboard_records import ReceivedRecords
from gitkruise.cli.console.command import ExitCodesCommand
from gitkruise.cli.console.environment import Environment, read_environment
from gitkruise.cli.console.output import say, say_on_stderr
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options, connected
from gitkruise.cli.context.local_repository import (
    cluster_records,
    record_options,
    repository_at_hand,
    warning_lines,
    why_stale,
)
from gitkruise.errors import Finding, UsageProblem
from gitkruise.wire.primitives.names import noun

if TYPE_CHECKING:
    from gitkruise.cli.context.cluster import ChosenCluster
    from gitkruise.cli.views.dashboard import ClusterSource
    from gitkruise.dashboard.gate import MachineGate
    from gitkruise.kube.serve.addresses import Listen
    from gitkruise.kube.serve.tls_files import TlsFiles
    from gitkruise.wire.catalog.catalog import Catalog
    from gitkruise.wire.primitives.names import GroupKind
    from gitkruise.wire.primitives.requests import ResourceRef

LISTEN: Final = "127.0.0.1:8800"
_LOOK_S, _RECORDS_S = 1.0, 2.0
_OF_TEXT: Final = frozenset({"www-browser", "links", "elinks", "lynx", "w3m"})


def tls_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --tls-cert and --tls-key to a command that serves the dashboard."""
    kind = click.Path(path_type=Path)
    key = "Key of that certificate (PEM, without a passphrase)."
    cert = "Certificate of the dashboard (PEM with its chain): users of the cluster sign in."
    command = click.option("--tls-key", type=kind, metavar="FILE", help=key)(command)
    return click.option("--tls-cert", type=kind, metavar="FILE", help=cert)(command)


@click.command(cls=ExitCodesCommand, exits=(4, 5), serves=True)
@click.option("--listen", default=LISTEN, show_default=True, metavar="HOST:PORT",
              help="Address to listen on, of this machine unless there is TLS; port 0 is any "
              "free one.")  # fmt: skip
@tls_options
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
@record_options
@cluster_options
def dashboard(cluster: ClusterChoice, listen: str, *, opens: bool, **flags: Any) -> None:
    """Show rollouts, pods, commits, plans and drift on live pages, until Ctrl-C.

    \b
    Examples:
      gitkruise dashboard --sandbox
      gitkruise dashboard --context prod --open
      gitkruise dashboard --listen 0.0.0.0:8443 --tls-cert tls.crt --tls-key tls.key

    The pages change nothing: they show the commands that would. The address that the command
    prints contains a token, which only users of this machine who know it can use. With TLS the
    pages ask for a token of the cluster, and show what its user may list there.
    """
    where, tls = served_at(listen, flags, flag="--listen")
    repository = repository_at_hand(flags["config_path"], flags["repo"])
    options = PagesOptions(
        listen=where, tls=tls, repository=repository, config_path=flags["config_path"],
        choice=cluster,
    )  # fmt: skip
    asyncio.run(_serve(cluster, options, opens=opens))


def served_at(text: str, flags: Mapping[str, Any], *, flag: str) -> tuple[Listen, TlsFiles | None]:
    """Return the address given with `flag`, and the files of `tls_options`.

    Raises UsageProblem GK7027, and GK7054 for an address that others reach without TLS.
    """
    from gitkruise.kube.serve.addresses import parse_listen  # noqa: PLC0415  not for --help
    from gitkruise.kube.serve.tls_files import TlsFiles  # noqa: PLC0415  imports ssl

    listen, certificate, key = parse_listen(text, flag=flag), flags["tls_cert"], flags["tls_key"]
    if bool(certificate) != bool(key):
        raise click.UsageError("--tls-cert and --tls-key go together")
    if certificate:
        return listen, TlsFiles(certificate, key)
    if not listen.loopback:
        message = f"{flag} {text}: without TLS the dashboard serves this machine only"
        notes = (
            ("why", "users of the port share one token, and others could read it on its way"),
            ("next", "add --tls-cert FILE --tls-key FILE: users sign in with the cluster's tokens"),
            ("or", f"write {flag} {LISTEN}, and forward the port: ssh -L 8800:{LISTEN} HOST"),
        )
        raise UsageProblem(Finding(code="GK7054", message=message, notes=notes))
    return listen, None


async def _serve(choice: ClusterChoice, options: PagesOptions, *, opens: bool) -> None:
    from gitkruise.cli.console.signals import Startup  # noqa: PLC0415

    environment = read_environment()
    gate = None if options.tls else await asyncio.to_thread(_machine_gate, environment)
    options = replace(options, gate=gate)
    async with Startup() as startup, connected(choice, environment) as chosen:
        source = _source(chosen, options)
        await source.survey.look()
        async with _served(source, chosen, options, environment) as url:
            say([url], Style.of(environment))
            if opens and not await asyncio.to_thread(open_page, gate.once(url) if gate else url):
                say_on_stderr("no browser was found: open the address yourself")
            startup.over = True
            await startup.stop.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesOptions:
    """Options of a dashboard: its address, its gate, and the records that its pages show.

    Records of units are those `received` from a controller of this process, otherwise those of the
    `repository` (name, path), ("", "") for none, with the configuration `config_path` where that
    is not in it. Commands find the cluster by `choice`. Without a `gate` it is one for the user's
    token. With `tls` users of the cluster sign in, and there is no such token.
    """

    listen: Listen
    tls: TlsFiles | None = None
    gate: MachineGate | None = None
    repository: tuple[str, str] = ("", "")
    config_path: Path | None = None
    choice: ClusterChoice = field(default_factory=ClusterChoice)
    received: ReceivedRecords | None = None


@asynccontextmanager
async def serving_pages(
    chosen: ChosenCluster, options: PagesOptions, environment: Environment
) -> AsyncIterator[str]:
    """Serve the dashboard next to a command while the body runs; gives its address.

    A cluster that cannot be read is reported on the pages. Raises UsageProblem GK7027.
    """
    source = _source(chosen, options)
    async with _served(source, chosen, options, environment) as url:
        yield url


@asynccontextmanager
async def _served(
    source: ClusterSource, chosen: ChosenCluster, options: PagesOptions, environment: Environment
) -> AsyncIterator[str]:
    from gitkruise.kube.system.clock import SystemClock  # noqa: PLC0415

    clock = SystemClock()
    async with (
        _server(source, chosen, options, environment) as url,
        asyncio.TaskGroup() as tasks,
    ):
        following = [
            tasks.create_task(source.survey.follow(clock)),
            tasks.create_task(_look(source, options.received)),
        ]
        if options.received is None:
            following.append(tasks.create_task(_read_records(source, options.repository[1])))
        else:
            following.append(tasks.create_task(options.received.read_elsewhere(chosen.name, clock)))
        try:
            yield url
        finally:
            for task in following:
                task.cancel()


@asynccontextmanager
async def _server(
    source: ClusterSource, chosen: ChosenCluster, options: PagesOptions, environment: Environment
) -> AsyncIterator[str]:
    """Serve this machine, or with TLS users of the cluster. Raises UsageProblem GK7027, GK7055."""
    from gitkruise.dashboard.rights import Rules  # noqa: PLC0415
    from gitkruise.dashboard.server import serve_dashboard, serve_viewers  # noqa: PLC0415  aiohttp
    from gitkruise.dashboard.viewers import ClusterGate  # noqa: PLC0415
    from gitkruise.kube.system.clock import SystemClock  # noqa: PLC0415
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

    clock, tls = SystemClock(), options.tls
    if tls is None:
        machine = options.gate
        if machine is None:
            machine = await asyncio.to_thread(_machine_gate, environment)
        async with serve_dashboard(source, options.listen, machine, clock) as url:
            yield url
        return
    catalog = load_catalog()
    kinds = (catalog.stored(kind) for kind in source.survey.kinds)
    nouns = {noun(kind.group_kind): kind.ref for kind in kinds if kind is not None}
    rules = Rules(nouns, partial(_resource, catalog), chosen.name)
    gate, context = ClusterGate(chosen.transport, rules, clock), tls.context()
    async with (
        serve_viewers(source, options.listen, gate, context, clock) as url,
        asyncio.TaskGroup() as tasks,
    ):
        renewing = tasks.create_task(tls.follow(context, clock))
        try:
            yield url
        finally:
            renewing.cancel()


def _resource(catalog: Catalog, kind: GroupKind) -> ResourceRef | None:
    found = catalog.stored(kind)
    return None if found is None else found.ref


def _source(chosen: ChosenCluster, options: PagesOptions) -> ClusterSource:
    from gitkruise.cli.commands.inspect.dashboard_answers import Answers  # noqa: PLC0415
    from gitkruise.cli.commands.inspect.dashboard_sources import (  # noqa: PLC0415
        LocalRepository,
        RunningSources,
    )
    from gitkruise.cli.commands.inspect.why import ask, why_document  # noqa: PLC0415
    from gitkruise.cli.context.local_repository import known_records  # noqa: PLC0415
    from gitkruise.cli.views.dashboard import ClusterSource  # noqa: PLC0415  imports the schemas
    from gitkruise.cli.views.history import Journal  # noqa: PLC0415  imports the model
    from gitkruise.gitops.inspect.cluster_view import EVENT, WORKLOADS, Managed, Survey  # noqa: PLC0415
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

    kinds = (*WORKLOADS, EVENT)
    survey = Survey(chosen.transport, load_catalog(), kinds, marked=True)

    name, path = options.repository
    received = options.received

    async def explained(found: Managed) -> dict[str, Any]:
        commits = frozenset({found.commit})
        records = (
            await asyncio.to_thread(known_records, chosen.name, path, commits)
            if received is None
            else received.records()
        )
        answer, activity = await ask(chosen, survey, found, records)
        return why_document(answer, activity, records)

    read_from: LocalRepository | RunningSources | None = None
    if path:
        read_from = LocalRepository(chosen, path, options.config_path, options.choice)
    elif received is not None:
        read_from = RunningSources(lambda: received.fleet)
    answers = Answers(chosen, read_from).find_out
    source = ClusterSource(survey, chosen.clock, chosen.name, name, explained, answers)
    if read_from is not None:
        source.proposed = read_from.listed
    if received is not None:

        def take() -> None:
            if received.fresh:
                return
            received.fresh, mine = True, received.of_cluster(chosen.name)
            source.units = list(mine.units)
            source.holders, source.stale = received.elsewhere.holders, received.why_stale()
            source.journal = Journal({chosen.name: mine})

        received.changed = source.changed.set
        source.refresh = take
    return source


async def _look(source: ClusterSource, received: ReceivedRecords | None) -> None:
    """Notice every second whether the cluster can be followed, and what the process follows."""
    while True:
        fleet = received.fleet if received is not None else None
        source.survey.share(fleet.caches if fleet is not None else ())
        source.look()
        await asyncio.sleep(_LOOK_S)


async def _read_records(source: ClusterSource, path: str) -> None:
    """Read the records of units again and again, if there is a repository."""
    from gitkruise.cli.views.history import Journal  # noqa: PLC0415  imports the model

    while path:
        known = source.journal.records
        stale = await asyncio.to_thread(why_stale, path, source.cluster)
        records, warnings = await asyncio.to_thread(cluster_records, path, known)
        stale = [*warnings, *warning_lines(f for r in records.values() for f in r.unread), *stale]
        if dict(records) != dict(known):
            source.journal = await asyncio.to_thread(Journal, records)
            mine = records.get(source.cluster)
            source.units = list(mine.units) if mine is not None else []
            source.changed.set()
        if stale != source.stale:
            source.stale = stale
            source.changed.set()
        await asyncio.sleep(_RECORDS_S)


def open_page(url: str) -> bool:
    """Open an address in the user's browser; False where there is only one of text, or none."""
    import webbrowser  # noqa: PLC0415  start-up budget

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    # A browser of text would take the terminal from the command that runs in it.
    program = Path(getattr(browser, "name", "")).name
    return program not in _OF_TEXT and browser.open(url)


def _machine_gate(environment: Environment) -> MachineGate:
    from gitkruise.dashboard.gate import MachineGate  # noqa: PLC0415  start-up budget
    from gitkruise.kube.system.clock import SystemClock  # noqa: PLC0415

    return MachineGate(dashboard_token(environment), SystemClock())


def dashboard_token(environment: Environment) -> str:
    """Return the token of this user, which stays the same, so that open pages stay usable."""
    from gitkruise.kube.system.private_files import read_state, write_private  # noqa: PLC0415

    path = environment.state_dir / "dashboard" / "token"
    found = read_state(path)
    if found is None:
        found = secrets.token_urlsafe(32).encode()
        write_private(path, found)
    return found.decode()
