"""gitkruise why: explain why an object is not rolled out, pod by pod."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.console.ages import ago
from gitkruise.cli.console.command import ExitCodesCommand, namespace_option, wide_output_option
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.output import API_VERSION, say, say_json
from gitkruise.cli.console.signals import result_of
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options, connected, look
from gitkruise.cli.context.local_repository import (
    clusters_recording,
    record_options,
    records_at_hand,
    repository_at_hand,
)
from gitkruise.cli.context.next_commands import lines_carrying
from gitkruise.cli.context.resource_args import (
    named_pod,
    named_unit,
    object_argument,
    parse_workload,
)
from gitkruise.errors import ClusterFailed, Finding
from gitkruise.wire.primitives.names import named as as_named
from gitkruise.wire.primitives.names import short_name

if TYPE_CHECKING:
    from gitkruise.cli.context.cluster import ChosenCluster
    from gitkruise.cli.context.local_repository import Records
    from gitkruise.gitops.inspect.cluster_view import Managed, Survey
    from gitkruise.gitops.inspect.explain import Why
    from gitkruise.gitops.node.activity import AgentActivity
    from gitkruise.gitops.status.reader import RecordedUnit
    from gitkruise.wire.primitives.names import GroupKind, ObjectKey

_UNITS_SHOWN: Final = 3


@click.command(cls=ExitCodesCommand, exits=(4, 5))
@object_argument()
@namespace_option
@record_options
@wide_output_option
@cluster_options
def why(object_name: str, namespace: str, cluster: ClusterChoice, **flags: Any) -> None:
    """Explain the state of an object: its budget, what holds each pod, what would move it.

    \b
    Examples:
      gitkruise why cloneset/search -n shop
      gitkruise why search -n shop -o wide
      gitkruise why deployment/storefront -n shop --sandbox -o json
      gitkruise why pod/search-7xk2p -n shop
      gitkruise why unit/search -n shop

    The planner of the controller decides about the pods. The commit is read from the status
    branch, if a repository is found. -o wide lists every pod. A pod means its workload.
    """
    if unit := named_unit(object_name):
        from gitkruise.cli.commands.inspect.why_unit import why_unit  # noqa: PLC0415  seldom needed

        _, path = repository_at_hand(flags["config_path"], flags["repo"])
        why_unit(unit, cluster, namespace, path, as_json=flags["output"] == "json")
        return
    pod = named_pod(object_name)
    asked = None if pod else parse_workload(object_name)
    _, path = repository_at_hand(flags["config_path"], flags["repo"])
    answer, activity, records, now = result_of(_ask(cluster, namespace, asked, pod, path))
    style = Style.of(read_environment())
    if flags["output"] == "json":
        say_json(
            {**why_document(answer, activity, records), **({"pod": pod} if pod else {})}, style
        )
    else:
        say(pod_lines(answer, pod, style) if pod else [], style)
        say(why_lines(answer, records, style, now, wide=flags["output"] == "wide"), style)
        say(activity_lines(activity, style), style)


async def _ask(
    choice: ClusterChoice,
    namespace: str,
    asked: tuple[GroupKind, str] | None,
    pod: str,
    path: str,
) -> tuple[Why, AgentActivity, Records, datetime]:
    """Explain the workload that is `asked` for, otherwise that of a pod."""
    from gitkruise.gitops.inspect.trace import OWNERS  # noqa: PLC0415  start-up budget

    async with connected(choice, read_environment()) as chosen:
        from gitkruise.gitops.inspect.unit_objects import read_unit_objects  # noqa: PLC0415

        kinds = OWNERS if asked is None else asked[:1]
        survey = await read_kinds(chosen, kinds, namespace or chosen.namespace)
        now = chosen.clock.now()
        found = _named(survey, asked, pod, now)
        commits = frozenset({found.commit} if found else ())
        records = await asyncio.to_thread(records_at_hand, chosen.name, path, commits)
        declared = await read_unit_objects(chosen.transport, chosen.name, survey.namespace)
        records = replace(records, units=declared.beside(records.units))
        if found is None and asked is not None:
            kind, name = asked
            others = await _namesakes(chosen, kind, name, survey.namespace, now)
            raise not_found(
                name, kind, survey, now,
                named=bool(namespace), units=records.units, others=others,
            )  # fmt: skip
        assert found is not None
        if found.unit and not any(news.unit == found.unit for news in records.units):
            elsewhere = await asyncio.to_thread(clusters_recording, {found.unit}, path)
            records = replace(records, elsewhere=elsewhere)
        return *await ask(chosen, survey, found, records), records, now


def _named(
    survey: Survey, asked: tuple[GroupKind, str] | None, pod: str, now: datetime
) -> Managed | None:
    from gitkruise.gitops.inspect.trace import owner_of_pod  # noqa: PLC0415  start-up budget

    if asked is None:
        return owner_of_pod(survey, pod, now)[0]
    return next(iter(survey.managed(now, name=asked[1])), None)


async def ask(
    chosen: ChosenCluster, survey: Survey, found: Managed, records: Records
) -> tuple[Why, AgentActivity]:
    """Explain an object of a survey, and what node agents do for its pods. Raises ApiError."""
    from gitkruise.gitops.inspect.cluster_view import dated, pods_and_images  # noqa: PLC0415
    from gitkruise.gitops.inspect.disruption_budgets import sharing, unavailable_budgets  # noqa: PLC0415
    from gitkruise.gitops.inspect.explain import explain, newest_step, unit_of  # noqa: PLC0415
    from gitkruise.gitops.inspect.pod_warnings import pod_warnings, refused_pods  # noqa: PLC0415
    from gitkruise.gitops.node.activity import agent_activity  # noqa: PLC0415
    from gitkruise.model.workloads.feature_gates import Gates  # noqa: PLC0415

    now, namespace = chosen.clock.now(), found.key.namespace
    unit, step = unit_of(records.units, found), newest_step(records.steps, found.key)
    unit = dated(unit, [found]) if unit is not None else None
    plan = survey.plan(found.key, now, Gates())
    others = await sharing(found, lambda other: read_kind(chosen, other, ""), now)
    pods, images = pods_and_images(survey, found)
    held = plan.held if plan is not None else ()
    budgets = unavailable_budgets(survey.budgets(namespace), pods, held)
    warnings = await pod_warnings(chosen.transport, found, now)
    found = await refused_pods(chosen.transport, found, now)
    answer = explain(
        found, plan, unit, step, others, budgets, warnings=warnings.texts, lost=warnings.lost
    )
    steps = tuple(lines_carrying(answer.next, chosen.flags))
    activity = await agent_activity(chosen.transport, namespace, pods, images)
    activity = replace(activity, unread=(*activity.unread, *warnings.unread))
    return replace(answer, next=steps, division=survey.division(found)), activity


async def _namesakes(
    chosen: ChosenCluster, kind: GroupKind, name: str, namespace: str, now: datetime
) -> list[ObjectKey]:
    """Return the workloads of that name of other kinds: a name alone is that of a CloneSet."""
    from gitkruise.gitops.inspect.cluster_view import WORKLOADS  # noqa: PLC0415  the model

    survey = await read_kinds(chosen, WORKLOADS, namespace)
    return [m.key for m in survey.managed(now, name=name) if m.key.group_kind != kind]


def _behind(unit: RecordedUnit) -> str:
    """Return why the newest commit of a unit is not live; "" if it is."""
    from gitkruise.model.gitops.unit_state import State  # noqa: PLC0415  the model

    if unit.attempted is None:
        return ""
    at = f"commit {unit.attempted.short} of unit {unit.unit}"
    if unit.state is State.REJECTED:
        return f"{at} was rejected: {next(iter(unit.problems), unit.message)}"
    return f"{at} waits for {unit.waits}" if unit.waits else ""


async def read_kind(chosen: ChosenCluster, kind: GroupKind, namespace: str) -> Survey:
    """Read one kind of a namespace ("" for all) with its pods and revisions."""
    return await read_kinds(chosen, (kind,), namespace)


async def read_kinds(chosen: ChosenCluster, kinds: Iterable[GroupKind], namespace: str) -> Survey:
    """Read kinds of a namespace ("" for all) with their pods and revisions."""
    from gitkruise.gitops.inspect.cluster_view import Survey  # noqa: PLC0415  imports the schemas
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

    survey = Survey(chosen.transport, load_catalog(), kinds, namespace=namespace)
    await look(survey)
    return survey


def not_found(
    name: str,
    kind: GroupKind,
    survey: Survey,
    now: datetime,
    *,
    named: bool,
    units: Iterable[RecordedUnit] = (),
    others: Sequence[ObjectKey] = (),
) -> ClusterFailed:
    """Return error GK4010 with the names of existing objects, and the `units` whose newest commit,
    which may have the object, is not live. `named`: the user gave the namespace. `others` have the
    name and another kind."""
    there = ", ".join(m.key.name for m in survey.managed(now)[:8])
    behind = [(unit, text) for unit in units if (text := _behind(unit))]
    search = "gitkruise get rollouts -A lists those of all namespaces"
    next_ = search if named else f"name its namespace with -n; {search}"
    if others:
        next_ = "name its kind: " + ", ".join(f"gitkruise why {as_named(key)}" for key in others)
        behind = []
    notes = (
        *((("there are", there or "none"),) if there or not others else ()),
        *(("not live", text) for _, text in behind[:_UNITS_SHOWN]),
        ("next", next((u.next for u, _ in behind if u.next), next_)),
    )
    message = f'{kind.kind} "{name}" not found in namespace {survey.namespace}'
    return ClusterFailed(Finding(code="GK4010", message=message, notes=notes))


def why_lines(
    answer: Why, records: Records, style: Style, now: datetime, *, wide: bool
) -> Iterator[str]:
    """Yield a sentence, the reasons in order, the next steps, and the commit."""

    m = answer.managed
    head = short_name(m.key)
    yield f"{style.paint(head, 'bold')} is {style.state(answer.state)}{_since(answer, now)}"
    room = max(style.width - 5, 30)
    for number, reason in enumerate(answer.reasons, 1):
        first, *more = textwrap.wrap(reason, room, break_long_words=False) or [""]
        yield f"{number:>3}  {first}"
        yield from (f"     {line}" for line in more)
    if answer.promotion is not None:
        from gitkruise.cli.views.promotion import progress  # noqa: PLC0415  seldom needed

        words = textwrap.wrap(f"promotion: {progress(answer.promotion, now)}", room)
        yield from (f"     {line}" for line in words)
    if answer.analysis is not None:
        from gitkruise.cli.views.promotion import analysis_lines  # noqa: PLC0415  seldom needed

        for line in analysis_lines(answer.analysis, now):
            yield from (
                f"     {part}" for part in textwrap.wrap(line, room, subsequent_indent="  ")
            )
    if not answer.reasons:
        yield f"     nothing holds it: the object is in the state that {_asking(answer)} requests"
    if answer.division is not None:
        found = answer.division
        sentence = f"WorkloadSpread {found.spread} divides its pods: {found.text}"
        yield from (f"     {line}" for line in textwrap.wrap(sentence, room))
    yield from _budget_lines(answer, room)
    for label, text in zip(["What would move it:", *["or:"] * 9], answer.next, strict=False):
        yield f"{'' if text.startswith('then ') else label:>19}  {text}"
    yield ""
    yield from _git_lines(answer, m, records, now)
    if wide and answer.held:
        yield ""
        yield from _pod_lines(answer)


def _asking(answer: Why) -> str:
    """Return what asks for the state of an object: git, a commit of it, or the object alone."""
    m = answer.managed
    if not m.unit:
        return "its spec"
    return "git" if answer.unit is not None else f"commit {m.commit[:7]}"


def _budget_lines(answer: Why, room: int) -> Iterator[str]:
    """Yield the budgets of the pods, if there are others than that of the object."""

    from gitkruise.gitops.inspect.explain import budget, budgets  # noqa: PLC0415  the model

    found = [(short_name(key), budget(r)) for key, r in budgets(answer)]
    if found:
        yield "     Its pods share more than one budget:"
    wide = max((len(name) for name, _ in found), default=0)
    for name, text in found:
        first, *more = textwrap.wrap(text, max(room - wide - 4, 30))
        yield f"       {name:<{wide}}  {first}"
        yield from (f"       {'':<{wide}}  {line}" for line in more)
    for one in answer.unavailable:
        first, *more = textwrap.wrap(f"PodUnavailableBudget {one.name} {one.text}", room)
        yield f"     {first}"
        yield from (f"       {line}" for line in more)
    for text in answer.sharing.unread:
        yield from (f"     {line}" for line in textwrap.wrap(text, room))


def _since(answer: Why, now: datetime) -> str:
    step = answer.step
    outdated = answer.unit is not None and answer.unit.outdated
    if step is None or outdated or step.state is not answer.state:
        return ""
    return f", {step.commit.short} began {ago(step.started, now)}"


def _git_lines(answer: Why, m: Managed, records: Records, now: datetime) -> Iterator[str]:
    commit = records.commit(m.commit)
    text = f' "{commit.subject}"  {commit.author} · {ago(commit.time, now)}' if commit else ""
    if m.commit:
        yield f"commit   {m.commit[:7]}{text}"
    if m.artifact:
        yield f"artifact {m.artifact}"
    if m.path:
        yield f"file     {m.path}" + (f"   unit {m.unit}" if m.unit else "")
    if m.unit and answer.unit is None:
        from gitkruise.gitops.inspect.unit_objects import UNRECORDED, record_it  # noqa: PLC0415  the model

        yield f"git      {UNRECORDED}"
        if records.elsewhere:
            yield f"next     {record_it(records.elsewhere)}"
    if answer.step is not None:
        asked, step = answer.step.asked, answer.step
        amount = "all" if asked == step.replicas else f"{asked} of {step.replicas}"
        by = f" (commit {step.commit.short})" if m.commit not in {"", step.commit.id} else ""
        yield f"asked    {amount} · {step.title}{by}"
    if not m.commit:
        yield "git      not applied by a unit: it has no annotation of gitkruise"


def pod_lines(answer: Why, pod: str, style: Style) -> Iterator[str]:
    """Yield what holds the pod that was asked about."""
    m = answer.managed
    causes = (*m.failing, *(m.rollout.failing if m.rollout is not None else ()))
    failing = [f"it cannot start: {why}" for name, why in causes if name == pod]
    held = [
        f"{one.why}: {one.detail}" if one.detail else str(one.why)
        for one in answer.held
        if one.pod == pod
    ]
    reason = next(iter((*failing, *held)), "nothing holds it")
    head = f"pod/{pod} of {short_name(m.key)}: "
    yield from textwrap.wrap(
        head + reason, max(style.width, 30), subsequent_indent="  ", break_long_words=False
    )


def _pod_lines(answer: Why) -> Iterator[str]:
    from gitkruise.cli.console.tables import columns, fit_table  # noqa: PLC0415

    rows = [(one.pod, str(one.why), one.detail) for one in answer.held]
    yield from fit_table(columns("POD", "HELD BY", ""), rows)


def activity_lines(activity: AgentActivity, style: Style) -> Iterator[str]:
    """Yield the open and failed requests to node agents, with the reason on each node."""
    if activity.work:
        yield ""
        yield "Node agents:"
    room = max(style.width - 4, 30)
    for one in activity.work:
        text = f"{one.kind.lower()}/{one.name}  {one.state}: {one.message}"
        for part in (text, *(f"  {detail}" for detail in one.details)):
            yield from (f"  {line}" for line in textwrap.wrap(part, room, subsequent_indent="  "))
    if activity.unread:
        yield ""
        yield from (f"Node agents are not shown in full: {text}" for text in activity.unread)


def activity_obj(activity: AgentActivity) -> dict[str, Any]:
    """Return the requests to node agents, for JSON."""
    return {
        "agents": [
            {
                "kind": one.kind,
                "name": one.name,
                "state": str(one.state),
                "message": one.message,
                "nodes": list(one.details),
            }
            for one in activity.work
        ],
        "agentsUnread": list(activity.unread),
    }


def why_document(answer: Why, activity: AgentActivity, records: Records) -> dict[str, Any]:
    """Return the explanation with the requests to node agents, for JSON."""
    return {**why_obj(answer, records), **activity_obj(activity)}


def why_obj(answer: Why, records: Records) -> dict[str, Any]:
    """Return the explanation as a versioned document."""
    from gitkruise.cli.views.resources import rollout_obj  # noqa: PLC0415
    from gitkruise.gitops.inspect.explain import budgets  # noqa: PLC0415
    from gitkruise.gitops.status.codecs import ANALYSIS, PROMOTION  # noqa: PLC0415  the model

    m, commit = answer.managed, records.commit(answer.managed.commit)
    return {
        "apiVersion": API_VERSION,
        "kind": "Why",
        "object": m.key._asdict(),
        "state": str(answer.state),
        "message": answer.message,
        "recorded": answer.unit is not None,
        "reasons": list(answer.reasons),
        "next": list(answer.next),
        "held": [{"pod": h.pod, "why": str(h.why), "detail": h.detail} for h in answer.held],
        "acts": answer.acts,
        "budgets": [
            {
                "kind": key.kind,
                "namespace": key.namespace,
                "name": key.name,
                "state": str(r.state),
                "maxUnavailable": r.budget,
                "available": r.available,
                "pods": r.replicas,
            }
            for key, r in budgets(answer)
        ],
        "unavailableBudgets": [
            {
                "name": one.name,
                "unavailableAllowed": one.allowed,
                "desiredAvailable": one.desired,
                "currentAvailable": one.available,
                "totalReplicas": one.total,
                "recorded": list(one.recorded),
                "holds": list(one.holds),
            }
            for one in answer.unavailable
        ],
        "unread": list(answer.sharing.unread),
        "unit": m.unit,
        "commit": m.commit,
        "subject": commit.subject if commit else "",
        "path": m.path,
        **({"artifact": m.artifact} if m.artifact else {}),
        **({"rollout": rollout_obj(m.rollout)} if m.rollout else {}),
        **({"workloadSpread": answer.division.obj()} if answer.division else {}),
        **({"promotion": PROMOTION.obj(answer.promotion)} if answer.promotion else {}),
        **({"analysis": ANALYSIS.obj(answer.analysis)} if answer.analysis else {}),
    }
