"""Notifications of forges and chats, created from the Sinks of a configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from gitkruise.errors import ApiError, DiagnosticError, Finding, Severity, UsageProblem
from gitkruise.git.plumbing.refs import HEADS
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.untrusted import Workers
from gitkruise.gitops.cluster.live_cache import LiveView
from gitkruise.gitops.cluster.write_authority import WriteAuthority
from gitkruise.gitops.config.fingerprints import shared_names, sink_of, source_of
from gitkruise.gitops.config.forge_checks import sendable
from gitkruise.gitops.containment import Containment
from gitkruise.gitops.forges.factory import open_forge, transport_for
from gitkruise.gitops.forges.http import HttpForgeTransport
from gitkruise.gitops.notify.channel import Channel, deliver
from gitkruise.gitops.notify.commit_statuses import (
    CommitStatusWriter,
    StatusScope,
    UnitBranch,
    deployments,
)
from gitkruise.gitops.notify.merge_commits import MergeCommits
from gitkruise.gitops.notify.notifier import Notifier, WebhookTarget
from gitkruise.gitops.notify.outbox import NotificationOutbox, open_outbox
from gitkruise.gitops.notify.pull_request_plan import PullRequestPlanner
from gitkruise.gitops.notify.pull_requests import Planners, PullRequestLoop
from gitkruise.gitops.notify.sender import Send, Sender
from gitkruise.gitops.receiver.dispatch import place_of
from gitkruise.gitops.reconcile.unit_cluster import UnitContext
from gitkruise.gitops.reconcile.unit_reconciler import UnitReconciler
from gitkruise.gitops.source.secret_ref import Rotating
from gitkruise.gitops.status.unit_status import UNTOLD, Reporter
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import Config, ForgeSink, Notify, Sink, Unit
from gitkruise.model.gitops.notifications import OutboxItem
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.shards import WHOLE, Shard
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.notify.commit_statuses import context_of

Job = Callable[[], Coroutine[Any, Any, None]]
T = TypeVar("T")
Opening = Callable[[AsyncExitStack], Coroutine[Any, Any, T]]  # it closes with the stack


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifierDeps:
    """Parts of the controller that notifications need; `tips` return the newest of each branch."""

    config: Config
    cluster: str
    state_dir: Path
    live: LiveView
    repositories: Mapping[str, Repository]  # by source
    tips: Mapping[str, Callable[[], str]]  # by unit
    gates: Gates
    clock: Clock
    containment: Containment
    workers: Workers
    passive: Callable[[], bool]  # whether another process may lead
    shard: Shard = WHOLE
    shared: Collection[str] = ()  # names that another Sink of the repository has, too

    @property
    def part(self) -> str:
        """Name the shard whose units these are for a forge; "" for all units."""
        return "" if self.shard.is_whole else f"shard-{self.shard.number}-of-{self.shard.count}"

    def parts(self, sink: Sink, name: str) -> list[str]:
        """Return what sets one of a Sink's names apart: the Sink, the shard."""
        own = f"sink-{sink.namespace}.{sink.name}" if name in self.shared else ""
        return [part for part in (own, self.part) if part]


@dataclass(frozen=True, slots=True)
class UnopenedChannel:
    """A forge or chat whose Secret is missing or cannot be used."""

    opening: Opening[Any]
    why: DiagnosticError | ApiError


@dataclass(slots=True)
class Notifications:
    """Listeners for records, jobs to run, and pull request loops to wake."""

    listeners: list[Callable[[UnitRecord], None]] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    senders: dict[str, Sender] = field(default_factory=dict)  # by channel
    pulls: dict[str, list[PullRequestLoop]] = field(default_factory=dict)  # by source
    unopened: list[UnopenedChannel] = field(default_factory=list)

    async def mended(self) -> bool:
        """Return whether a forge or chat can be opened by now that could not be."""
        for one in self.unopened:
            async with AsyncExitStack() as stack:
                try:
                    await one.opening(stack)
                except (DiagnosticError, ApiError):
                    continue
                return True
        return False

    def offer(self, record: UnitRecord) -> None:
        """A new record. Never waits."""
        for listener in self.listeners:
            listener(record)

    def calls(self) -> dict[str, list[Callable[[], None]]]:
        """Return the callbacks for events of a forge, by source."""
        return {source: [p.look_now for p in pulls] for source, pulls in self.pulls.items()}


async def open_notifications(
    config: Config,
    sink: str,
    state_dir: Path,
    context: UnitContext,
    *,
    repositories: Mapping[str, Repository],
    units: Mapping[str, tuple[UnitReconciler, Reporter]],
    stack: AsyncExitStack,
    shard: Shard = WHOLE,
) -> Notifications:
    """Create the notifications of a Sink, and offer them the current record of each unit.

    A forge or chat without a Secret that can be used is `unopened`; it keeps no other one away.
    """
    deps = NotifierDeps(
        config=config,
        cluster=context.cluster,
        state_dir=state_dir,
        live=context.live,
        repositories=repositories,
        tips={name: partial(_newest, context.authority, unit) for name, (unit, _) in units.items()},
        gates=context.gates,
        clock=context.clock,
        containment=context.containment,
        workers=context.workers,
        passive=lambda: context.authority.passive,
        shard=shard,
        shared=shared_names(config, sink),
    )
    notifications = await _of_sink(config.sinks[sink], deps, stack)
    reporters = [reporter for unit, reporter in units.values() if sink_of(unit.unit) == sink]
    for channel, sender in notifications.senders.items():
        sender.on_problem = partial(_report_problem, channel, reporters)
    for loop in {
        id(loop): loop for loops in notifications.pulls.values() for loop in loops
    }.values():
        loop.on_problem = partial(_report_pulls, loop.sink, reporters)
    for _, reporter in units.values():
        notifications.offer(reporter.record)
    return notifications


def _newest(authority: WriteAuthority, unit: UnitReconciler) -> str:
    """Return the newest commit of a unit's branch, also one that it rejects or that waits."""
    return authority.tip(source_of(unit.unit)) or unit.live_commit


def _report_problem(channel: str, reporters: Iterable[Reporter], problem: str) -> None:
    """Set or remove the warning in records that items of a channel do not arrive."""
    check = "that the forge answers, and that the token in the Secret may write"
    if "/notify/" in channel:
        check = "the address in the Secret, and that the chat still has this web hook"
    finding = Finding(
        code=UNTOLD,
        message=f"{channel}: {problem}",
        notes=(
            ("unchanged", "units are still applied; the outbox keeps what is not answered"),
            ("why", "what is rejected by its content is dropped after ten tries within an hour"),
            ("next", f"check {check}"),
        ),
        severity=Severity.WARNING,
    )
    for reporter in reporters:
        reporter.remark(channel, finding if problem else None)


def _report_pulls(sink: str, reporters: Iterable[Reporter], problem: str) -> None:
    """Set or remove the warning in records that pull requests are not planned."""
    next_ = (
        "check that the cluster and the forge answer, that the forge has the repository that the "
        "Sink names, and that the token in the Secret may read its pull requests"
    )
    finding = Finding(
        code=UNTOLD,
        message=f"{sink}: open pull requests are not read or planned: {problem}",
        notes=(
            ("unchanged", "units are still applied, and comments stay as they are"),
            ("next", next_),
        ),
        severity=Severity.WARNING,
    )  # fmt: skip
    for reporter in reporters:
        reporter.remark(f"{sink}/pulls", finding if problem else None)


@dataclass(frozen=True, slots=True)
class _Assembly:
    """Inputs of all channels, and the notifications that they are added to."""

    deps: NotifierDeps
    outbox: NotificationOutbox
    stack: AsyncExitStack
    result: Notifications

    async def opened(self, opening: Opening[T]) -> T | None:
        """Return a forge or chat, or None and note it as unopened."""
        try:
            return await opening(self.stack)
        except (DiagnosticError, ApiError) as error:
            self.result.unopened.append(UnopenedChannel(opening, error))
            return None

    def channel(self, name: str, send: Send, yields: Callable[[], bool] = lambda: False) -> Channel:
        """Add a channel with a sender of its own."""
        clock, containment = self.deps.clock, self.deps.containment
        sender = Sender(self.outbox, name, send, clock, containment=containment, yields=yields)
        self.result.senders[name] = sender
        self.result.jobs.append(sender.run)
        return Channel(self.outbox, name, sender.wake, yields)

    def add(self, writer: CommitStatusWriter | Notifier) -> None:
        """Add a writer that receives all records."""
        self.result.listeners.append(writer.offer)
        self.result.jobs.append(writer.run)


async def _of_sink(sink: Sink, deps: NotifierDeps, stack: AsyncExitStack) -> Notifications:
    notifications = Notifications()
    outbox = open_outbox(deps.state_dir)
    stack.callback(outbox.close)
    assembly = _Assembly(deps, outbox, stack, notifications)
    units = [u for u in deps.config.units.values() if sink_of(u) == _name(sink)]
    if sink.spec.forge is not None:
        await _add_forge(assembly, sink, sink.spec.forge, units)
    for number, rule in enumerate(sink.spec.notify):
        name = f"{_name(sink)}/notify/{number}"
        await _add_messages(assembly, name, sink.namespace, rule, units)
    return notifications


def _name(sink: Sink) -> str:
    return f"{sink.namespace}/{sink.name}"


async def _add_forge(
    assembly: _Assembly, sink: Sink, spec: ForgeSink, units: Sequence[Unit]
) -> None:
    deps, result = assembly.deps, assembly.result
    forge = await assembly.opened(
        partial(open_forge, spec, sink.namespace, deps.live.transport, deps.clock)
    )
    if forge is None:
        return
    send = partial(deliver, forge)
    # Shards of one process share the outbox, and each follows pull requests by itself.
    part = f"-{deps.part}" * bool(deps.part)
    channel = assembly.channel(f"{_name(sink)}/forge{part}", send, deps.passive)
    mine = of_the_repository(spec, units, deps.config)
    merges = {source_of(u): MergeCommits(deps.repositories[source_of(u)]) for u in mine}
    branches = {u.id: UnitBranch(merges[source_of(u)], deps.tips[u.id]) for u in mine}
    status, deployed = ("/".join(deps.parts(sink, name)) for name in ("status", "deployment"))
    scope = StatusScope(cluster=deps.cluster, part=status, units=deps.config.units)
    assembly.add(
        CommitStatusWriter(
            channel, spec.commit_status, branches, deps.clock, scope=scope,
            containment=deps.containment,
        )
    )  # fmt: skip
    if spec.deployment is not None:
        # A channel of its own: a token that may not deploy holds up deployments only.
        shown = assembly.channel(f"{_name(sink)}/deployment{part}", send, deps.passive)
        followed = (deps.config.source_of(u).spec.ref.followed_branch for u in mine)
        assembly.add(
            deployments(
                shown, spec.deployment, branches, deps.clock, scope=replace(scope, part=deployed),
                ref=next(filter(None, followed), ""), containment=deps.containment,
            )
        )  # fmt: skip
    rules = spec.pull_request
    if rules.comment != "plan" and not rules.check:
        return
    planners, check = _planners(mine, deps), context_of(rules.check, deps.cluster, "")
    following = _without_ref(mine, deps)
    pulls = PullRequestLoop(
        forge,
        channel,
        rules,
        planners,
        deps.clock,
        section=".".join([deps.cluster, *deps.parts(sink, "comment")]),
        check="/".join([check, *deps.parts(sink, "check")]) if check else "",
        containment=deps.containment,
    )
    if following:
        pulls.find_planners = partial(_planners_now, mine, deps, following)
    result.listeners.append(lambda record: pulls.offer(record) if record.unit in branches else None)
    result.jobs.append(pulls.run)
    for source in {source_of(u) for u in mine}:
        result.pulls.setdefault(source, []).append(pulls)


def of_the_repository(spec: ForgeSink, units: Sequence[Unit], config: Config) -> Sequence[Unit]:
    """Units whose source is the forge's repository by its address; all where none is so named."""
    end = "/" + spec.repo.strip("/").casefold()
    mine = [u for u in units if place_of(config.source_of(u).spec.url).casefold().endswith(end)]
    return mine or units


def _planners(
    units: Sequence[Unit],
    deps: NotifierDeps,
    heads: Mapping[str, str] = MappingProxyType({}),
    before: Planners = MappingProxyType({}),
) -> Planners:
    """Return one for each branch that units follow, which plans for all of them; those of `before`
    where they are the same. `heads` are the branches of sources without a ref."""
    found: dict[str, dict[str, Unit]] = {}
    for unit in units:
        named = deps.config.source_of(unit).spec.ref.followed_branch
        if branch := named or heads.get(source_of(unit), ""):
            found.setdefault(branch, {})[unit.id] = unit
    return {branch: _planner(branch, here, deps, before) for branch, here in found.items()}


async def _planners_now(
    units: Sequence[Unit],
    deps: NotifierDeps,
    following: Collection[str],
    before: Planners,
) -> Planners:
    """Return the planners after asking each repository for its default branch, which the sources
    in `following` follow. Raises SourceFailed."""
    heads: dict[str, str] = {}
    for source in following:
        ref = await asyncio.to_thread(deps.repositories[source].default_branch)
        heads[source] = ref.removeprefix(HEADS) if ref.startswith(HEADS) else ""
    return _planners(units, deps, heads, before)


def _without_ref(units: Sequence[Unit], deps: NotifierDeps) -> frozenset[str]:
    """Return the sources that follow the default branch of their repository."""
    specs = {source_of(unit): deps.config.source_of(unit).spec for unit in units}
    return frozenset(
        source
        for source, spec in specs.items()
        if spec.ref.is_branch and not spec.ref.branch and not spec.is_artifact
    )


def _planner(
    branch: str,
    units: dict[str, Unit],
    deps: NotifierDeps,
    before: Planners,
) -> PullRequestPlanner:
    known = before.get(branch)
    if known is not None and known.config.units == units:
        return known
    return PullRequestPlanner(
        repository=deps.repositories[source_of(next(iter(units.values())))],
        branch=branch,
        config=Config(deps.config.sources, units, {}),
        live=deps.live,
        cluster=deps.cluster,
        gates=deps.gates,
        clock=deps.clock,
        workers=deps.workers,
    )


async def _add_messages(
    assembly: _Assembly, name: str, namespace: str, rule: Notify, units: Iterable[Unit]
) -> None:
    deps = assembly.deps
    target = await assembly.opened(
        partial(_open_target, rule, namespace, deps.live.transport, deps.clock)
    )
    if target is None:
        return

    async def send(item: OutboxItem) -> None:
        await (await target.now()).send(item)

    mine = frozenset(u.id for u in units)
    channel = assembly.channel(name, send)
    assembly.add(Notifier(channel, rule, mine, deps.clock, containment=deps.containment))


async def _open_target(
    rule: Notify, namespace: str, transport: Transport, clock: Clock, stack: AsyncExitStack
) -> Rotating[WebhookTarget]:
    """Raises UsageProblem GK7028, and ApiError for a missing Secret."""
    carriers = list[HttpForgeTransport]()

    def made(data: Mapping[str, str], where: str) -> WebhookTarget:
        address = _address(data, where)
        if not carriers:
            carriers.append(transport_for(data, where))
        return WebhookTarget(carriers[0], address, data.get("token", "").strip(), clock)

    rotating = Rotating(rule.secret_ref, made, clock, namespace=namespace, transport=transport)
    await rotating.first()
    stack.push_async_callback(carriers[0].close)
    return rotating


def _address(data: Mapping[str, str], where: str) -> str:
    """Raises UsageProblem GK7028."""
    address = data.get("address", "").strip()
    if sendable(address):
        return address
    notes = (
        ("found", ", ".join(sorted(data)) or "no keys"),
        ("unchanged", "units are still applied; other forges and chats get their messages"),
        ("next", "give it address, an https URL that takes messages"),
    )
    message = f"the Secret {where} cannot be used for messages: it has no address"
    raise UsageProblem(Finding(code="GK7028", message=message, notes=notes))
