"""Everything that tells forges and chats, put together from the Sinks of a configuration."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from gitkruise.errors import Finding, UsageProblem
from gitkruise.git.repo import Repository
from gitkruise.gitops.forge_settings import sendable
from gitkruise.gitops.hinting import place_of
from gitkruise.gitops.live import LiveView
from gitkruise.gitops.reporter import UNTOLD, Reporter
from gitkruise.gitops.rotating import Rotating
from gitkruise.gitops.sync import Surroundings as Controlled
from gitkruise.gitops.sync import UnitSync
from gitkruise.gitops.telling.box import LetterBox
from gitkruise.gitops.telling.deploying import deployments
from gitkruise.gitops.telling.foretelling import Foreteller
from gitkruise.gitops.telling.http import HttpCarrier
from gitkruise.gitops.telling.landing import Landings
from gitkruise.gitops.telling.notify import Notifier, Receiver
from gitkruise.gitops.telling.opening import carrier_for, open_forge
from gitkruise.gitops.telling.outlet import Outlet, deliver
from gitkruise.gitops.telling.postman import Postman, Send
from gitkruise.gitops.telling.pulls import Pulls
from gitkruise.gitops.telling.standings import Ground, Standings
from gitkruise.kube.clock import Clock
from gitkruise.model.config import Config, ForgeSink, Notify, Sink, Unit
from gitkruise.model.config import resolve_reference as resolve
from gitkruise.model.record import UnitRecord
from gitkruise.model.settings import Gates
from gitkruise.model.telling import Letter

FILE: Final = "letters.sqlite"  # in the state directory
Job = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What telling needs of a controller. `tips` say the newest commit each unit looked at."""

    config: Config
    cluster: str
    state_dir: Path
    live: LiveView
    repositories: Mapping[str, Repository]  # by source
    tips: Mapping[str, Callable[[], str]]  # by unit
    gates: Gates
    clock: Clock


@dataclass(slots=True)
class Telling:
    """Who hears records, what is to be run, and who wants to know of news on the forge."""

    listeners: list[Callable[[UnitRecord], None]] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    postmen: dict[str, Postman] = field(default_factory=dict)  # by channel
    pulls: dict[str, list[Pulls]] = field(default_factory=dict)  # by source

    def offer(self, record: UnitRecord) -> None:
        """A new record. Never waits."""
        for listener in self.listeners:
            listener(record)

    def calls(self) -> dict[str, list[Callable[[], None]]]:
        """Whom to call, by source, when something moved on a forge."""
        return {source: [p.look_now for p in pulls] for source, pulls in self.pulls.items()}


async def open_telling(
    told: tuple[Config, str, Path],
    controlled: Controlled,
    repositories: Mapping[str, Repository],
    units: Mapping[str, tuple[UnitSync, Reporter]],
    stack: AsyncExitStack,
) -> Telling:
    """All that the Sinks want; it has heard what is known of `units` and is to hear the rest.

    `told` are the configuration, the cluster's name and the state directory. Raises UsageProblem
    GK7028, and ApiError for a missing Secret.
    """
    config, cluster, state_dir = told
    around = Surroundings(
        config=config,
        cluster=cluster,
        state_dir=state_dir,
        live=controlled.live,
        repositories=repositories,
        tips={name: partial(getattr, unit, "live_commit") for name, (unit, _) in units.items()},
        gates=controlled.gates,
        clock=controlled.clock,
    )
    telling = await _sinks(around, stack)
    for channel, postman in telling.postmen.items():
        sink = "/".join(channel.split("/")[:2])
        mine = [r for unit, r in units.values() if _sink_of(unit.unit) == sink]
        postman.trouble = partial(_untold, channel, mine)
    for _, reporter in units.values():
        telling.offer(reporter.record)
    return telling


def _untold(channel: str, reporters: Iterable[Reporter], why: str) -> None:
    """Records say that the Sink's news do not arrive, for as long as they do not."""
    finding = Finding(
        code=UNTOLD,
        message=f"news for {channel} do not arrive: {why}",
        notes=(
            ("unchanged", "applying goes on, and all that is to be told is kept"),
            ("next", "see that the forge answers, and that the Secret's token may write"),
        ),
        severity="warning",
    )
    for reporter in reporters:
        reporter.remark(channel, finding if why else None)


async def _sinks(around: Surroundings, stack: AsyncExitStack) -> Telling:
    telling = Telling()
    sinks = [s for s in around.config.sinks.values() if s.spec.forge or s.spec.notify]
    if not sinks:
        return telling
    box = LetterBox(around.state_dir / FILE)
    stack.callback(box.close)
    for sink in sinks:
        units = [u for u in around.config.units.values() if _sink_of(u) == _name(sink)]
        if sink.spec.forge is not None:
            await _forge(sink, sink.spec.forge, units, (around, box, stack), telling)
        for number, rule in enumerate(sink.spec.notify):
            channel = f"{_name(sink)}/notify/{number}"
            await _notify(sink, rule, units, (around, box, stack), (channel, telling))
    return telling


def _name(sink: Sink) -> str:
    return f"{sink.namespace}/{sink.name}"


def _sink_of(unit: Unit) -> str:
    return resolve(unit.spec.sink_ref, unit.namespace) if unit.spec.sink_ref else ""


def _source_of(unit: Unit) -> str:
    return resolve(unit.spec.source_ref, unit.namespace)


_Base = tuple[Surroundings, LetterBox, AsyncExitStack]


async def _forge(
    sink: Sink, spec: ForgeSink, units: Iterable[Unit], base: _Base, telling: Telling
) -> None:
    around, box, stack = base
    forge = await open_forge(spec, sink.namespace, around.live.transport, around.clock, stack)
    channel = f"{_name(sink)}/forge"
    send = partial(deliver, forge)
    outlet = _outlet(channel, box, send, around.clock, telling)
    mine = _of_the_repository(spec, list(units), around.config)
    lands = {_source_of(u): Landings(around.repositories[_source_of(u)]) for u in mine}
    grounds = {u.id: Ground(lands[_source_of(u)], around.tips[u.id]) for u in mine}
    standings = Standings(outlet, (spec.commit_status, around.cluster), grounds, around.clock)
    telling.listeners.append(standings.offer)
    telling.jobs.append(standings.run)
    if spec.deployment is not None:
        shown = _outlet(f"{_name(sink)}/deployment", box, send, around.clock, telling)
        branches = (around.config.source_of(u).spec.ref.branch for u in mine)
        rule = (spec.deployment, around.cluster, next(filter(None, branches), ""))
        deployed = deployments(shown, rule, grounds, around.clock)
        telling.listeners.append(deployed.offer)
        telling.jobs.append(deployed.run)
    rules = spec.pull_request
    if rules.comment != "plan" and not rules.check:
        return
    foretellers = _foretellers(mine, around)
    pulls = Pulls(forge, outlet, (around.cluster, rules), foretellers, around.clock)
    known = frozenset(grounds)
    telling.listeners.append(lambda record: pulls.offer(record) if record.unit in known else None)
    telling.jobs.append(pulls.run)
    for source in {_source_of(u) for u in mine}:
        telling.pulls.setdefault(source, []).append(pulls)


def _outlet(channel: str, box: LetterBox, send: Send, clock: Clock, telling: Telling) -> Outlet:
    postman = Postman(box, channel, send, clock)
    telling.postmen[channel] = postman
    telling.jobs.append(postman.run)
    return Outlet(box, channel, postman.wake)


def _of_the_repository(spec: ForgeSink, units: list[Unit], config: Config) -> list[Unit]:
    """Units whose source is the forge's repository by its address; all where none is so named."""
    end = "/" + spec.repo.strip("/").casefold()
    mine = [u for u in units if place_of(config.source_of(u).spec.url).casefold().endswith(end)]
    return mine or units


def _foretellers(units: list[Unit], around: Surroundings) -> dict[str, Foreteller]:
    """One for each branch that units follow, which plans for all of them."""
    found: dict[str, Foreteller] = {}
    for unit in units:
        source = around.config.source_of(unit)
        branch = source.spec.ref.branch
        if not branch or branch in found:
            continue
        here = {u.id: u for u in units if around.config.source_of(u).spec.ref.branch == branch}
        found[branch] = Foreteller(
            repository=around.repositories[_source_of(unit)],
            branch=branch,
            config=Config(around.config.sources, here, {}),
            live=around.live,
            cluster=around.cluster,
            gates=around.gates,
            clock=around.clock,
        )
    return found


async def _notify(
    sink: Sink, rule: Notify, units: Iterable[Unit], base: _Base, to: tuple[str, Telling]
) -> None:
    around, box, stack = base
    channel, telling = to
    secret, carriers = (rule.secret_ref, sink.namespace, around.live.transport), list[HttpCarrier]()

    def made(data: Mapping[str, str], where: str) -> Receiver:
        address = _address(data, where)
        if not carriers:
            carriers.append(carrier_for(data, where))
        return Receiver(carriers[0], address, data.get("token", "").strip(), around.clock)

    rotating = Rotating(secret, made, around.clock)
    await rotating.first()
    stack.push_async_callback(carriers[0].close)

    async def send(letter: Letter) -> None:
        await (await rotating.now()).send(letter)

    outlet = _outlet(channel, box, send, around.clock, telling)
    notifier = Notifier(outlet, rule, frozenset(u.id for u in units), around.clock)
    telling.listeners.append(notifier.offer)
    telling.jobs.append(notifier.run)


def _address(data: Mapping[str, str], where: str) -> str:
    """Raises UsageProblem GK7028."""
    address = data.get("address", "").strip()
    if sendable(address):
        return address
    notes = (
        ("found", ", ".join(sorted(data)) or "no keys"),
        ("next", "give it address, an https URL that takes messages"),
    )
    message = f"the Secret {where} cannot be used for messages: it has no address"
    raise UsageProblem(Finding(code="GK7028", message=message, notes=notes))
