"""gitkruise get: rollouts, pods by revision and commit, revisions; once or while they move."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from gitkruise.cli.config import Environment, read_environment
from gitkruise.cli.connect import ClusterChoice, cluster_options, connected
from gitkruise.cli.progress import rollout_line
from gitkruise.cli.style import Style, table
from gitkruise.cli.views import pod_obj, rollout_block, rollout_obj
from gitkruise.errors import Finding, NotFound, TimedOut, UsageProblem
from gitkruise.model.states import SETTLED, State
from gitkruise.wire.times import parse_duration

if TYPE_CHECKING:
    from gitkruise.cli.connect import Chosen
    from gitkruise.gitops.survey import Managed

NOUNS = ("rollout", "rollouts", "pods", "revisions")
_POLL_S = 0.5


@click.command()
@click.argument("noun", type=click.Choice(NOUNS))
@click.argument("name", default="")
@click.option("-n", "--namespace", default="", help="Namespace; the context's by default.")
@click.option("-A", "--all-namespaces", is_flag=True)
@click.option("-w", "--watch", is_flag=True, help="Go on until the rollout ends or Ctrl-C.")
@click.option("--exit-when-done", is_flag=True, help="With --watch: 0 as asked, 1 stuck.")
@click.option("--timeout", default="10m", show_default=True, help="With --exit-when-done.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "jsonl", "name"]), default="text"
)
@cluster_options
@click.pass_context
def get(ctx: click.Context, /, noun: str, name: str, cluster: ClusterChoice, **flags: Any) -> None:
    """Show rollouts, or the pods and revisions behind one.

    \b
    Examples:
      gitkruise get rollouts -A
      gitkruise get rollout checkout -n shop --watch
      gitkruise get pods checkout -n shop -o json
    """
    kind, _, short = name.rpartition("/")
    if kind and kind.lower() not in {"cloneset", "clonesets", "clone", "cs"}:
        raise UsageProblem(Finding(code="GK7014", message=f'"{kind}" has no rollouts'))
    if flags["exit_when_done"] and not (flags["watch"] and short):
        raise UsageProblem(
            Finding(code="GK7015", message="--exit-when-done wants --watch and a name")
        )
    code = asyncio.run(_get(noun, short, cluster, flags))
    ctx.exit(code)


async def _get(noun: str, name: str, choice: ClusterChoice, flags: dict[str, Any]) -> int:
    environment = read_environment()
    async with connected(choice, environment) as chosen:
        namespace = "" if flags["all_namespaces"] else flags["namespace"] or chosen.namespace
        if flags["watch"]:
            return await _watch(chosen, namespace, name, flags, environment)
        found = await _rollouts(chosen, namespace, name)
        for line in _lines(noun, name, found, flags["output"], Style.of(environment)):
            click.echo(line)
    return 0


async def _rollouts(chosen: Chosen, namespace: str, name: str) -> list[Managed]:
    from gitkruise.gitops.survey import CLONESET, survey  # noqa: PLC0415  imports the schemas
    from gitkruise.kube.data import load_catalog  # noqa: PLC0415

    found = await survey(
        chosen.transport,
        load_catalog(),
        chosen.clock.now(),
        namespace=namespace,
        kinds=(CLONESET,),
        marked=False,
    )
    wanted = [m for m in found if name in {"", m.key.name}]
    if name and not wanted:
        where = f"namespace {namespace}" if namespace else "any namespace"
        raise NotFound(f'clonesets.apps.kruise.io "{name}" not found in {where}')
    return wanted


def _lines(noun: str, name: str, found: Sequence[Managed], output: str, style: Style) -> list[str]:
    if output == "name":
        return [f"cloneset/{m.key.name}" for m in found]
    if output in {"json", "jsonl"}:
        return _json_lines(noun, found, output)
    if noun in {"rollout", "rollouts"}:
        if name and len(found) == 1:
            return rollout_block(found[0], style)
        return _rollout_table(found, style)
    return _pod_table(found) if noun == "pods" else _revision_table(found)


def _items(noun: str, found: Sequence[Managed]) -> list[dict[str, Any]]:
    if noun == "pods":
        return [pod_obj(pod, m) for m in found for pod in m.pods]
    if noun == "revisions":
        return [
            {"cloneset": m.key.name, "namespace": m.key.namespace, **revision}
            for m in found
            if m.rollout
            for revision in rollout_obj(m.rollout)["revisions"]
        ]
    return [
        {"name": m.key.name, "namespace": m.key.namespace, "commit": m.commit, "path": m.path,
         **rollout_obj(m.rollout)}
        for m in found
        if m.rollout
    ]  # fmt: skip


def _json_lines(noun: str, found: Sequence[Managed], output: str) -> list[str]:
    items = _items(noun, found)
    if output == "jsonl":
        return [json.dumps(item, ensure_ascii=False) for item in items]
    kind = {"pods": "PodList", "revisions": "RevisionList"}.get(noun, "RolloutList")
    answer = {"apiVersion": "gitkruise.io/v1alpha1", "kind": kind, "items": items}
    return [json.dumps(answer, indent=2, ensure_ascii=False)]


def _rollout_table(found: Sequence[Managed], style: Style) -> list[str]:
    rows = [
        (
            m.key.namespace,
            m.key.name,
            f"{style.bar(r.updated_ready, max(r.replicas, 1))} p={r.partition}",
            f"{r.updated}/{r.replicas}",
            f"{r.ready}/{r.replicas}",
            r.update_revision.rpartition("-")[2],
            m.commit[:7],
            style.state(r.state),
        )
        for m in found
        if (r := m.rollout) is not None
    ]
    head = ("NAMESPACE", "NAME", "ROLLOUT", "NEW", "READY", "REVISION", "COMMIT", "STATE")
    return table(head, rows)


def _pod_table(found: Sequence[Managed]) -> list[str]:
    rows = []
    for m in found:
        for pod in m.pods:
            obj = pod_obj(pod, m)
            images = ", ".join(i.rpartition("/")[2] for i in obj["images"].values())
            ready = "yes" if pod.ready else "no"
            rows.append(
                (pod.namespace, pod.name, pod.phase, ready, obj["revision"],
                 obj["commit"][:7], str(pod.restarts), pod.node, images)
            )  # fmt: skip
    head = ("NAMESPACE", "NAME", "PHASE", "READY", "REVISION", "COMMIT", "RESTARTS", "NODE",
            "IMAGES")  # fmt: skip
    return table(head, rows)


def _revision_table(found: Sequence[Managed]) -> list[str]:
    rows = [
        (i["namespace"], i["cloneset"], i["hash"], i["role"], i["commit"][:7], str(i["pods"]),
         str(i["available"]))
        for i in _items("revisions", found)
    ]  # fmt: skip
    head = ("NAMESPACE", "CLONESET", "REVISION", "ROLE", "COMMIT", "PODS", "AVAILABLE")
    return table(head, rows)


async def _watch(
    chosen: Chosen, namespace: str, name: str, flags: dict[str, Any], environment: Environment
) -> int:
    """Draw again when something changed; lines off a terminal, one object a line for jsonl."""
    style = Style.of(environment)
    redraw = environment.stdout_tty and bool(name) and flags["output"] == "text"
    limit = parse_duration(flags["timeout"]).total_seconds()
    last: dict[str, str] = {}
    start = chosen.clock.monotonic()
    while True:
        found = await _rollouts(chosen, namespace, name)
        for m in found:
            _draw(m, last, flags["output"], style, redraw=redraw, chosen=chosen)
        if flags["exit_when_done"] and found:
            state = found[0].state
            if state in SETTLED or state is State.STUCK:
                return 0 if state in SETTLED else 1
            if chosen.clock.monotonic() - start > limit:
                raise TimedOut(
                    Finding(code="GK7016", message=f"still {state} after {flags['timeout']}")
                )
        await chosen.clock.sleep(_POLL_S)


def _draw(
    m: Managed, last: dict[str, str], output: str, style: Style, *, redraw: bool, chosen: Chosen
) -> None:
    assert m.rollout is not None
    if output == "jsonl":
        text = json.dumps(_items("rollouts", [m])[0], ensure_ascii=False)
    elif redraw:
        text = "\n".join(rollout_block(m, style))
    else:
        text = rollout_line(m.rollout, m.commit, chosen.clock.now())
    mark = text if output == "jsonl" or redraw else text.partition(" ")[2]
    if last.get(str(m.key)) == mark:
        return
    last[str(m.key)] = mark
    click.echo(("\x1b[H\x1b[2J" if redraw else "") + text)
