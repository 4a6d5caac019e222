"""gitkruise status: where every rollout and workload stands against git."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from gitkruise.cli.config import read_environment
from gitkruise.cli.connect import ClusterChoice, cluster_options, connected
from gitkruise.cli.style import Style, shorten, table
from gitkruise.cli.views import rollout_obj
from gitkruise.model.states import LOOKS, State

if TYPE_CHECKING:
    from gitkruise.gitops.survey import Managed

NEEDS_YOU = (State.STUCK, State.DRIFTED, State.REJECTED, State.UNKNOWN)


@click.command()
@click.option("-n", "--namespace", default="", help="Only this namespace.")
@click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces (the default).")
@click.option("--state", "states", default="", metavar="stuck,held", help="Only these states.")
@click.option(
    "--fail-on", default="", metavar="stuck,…", help="Exit 1 when an object is in such a state."
)
@click.option("-o", "--output", type=click.Choice(["text", "wide", "json"]), default="text")
@cluster_options
@click.pass_context
def status(ctx: click.Context, /, cluster: ClusterChoice, **flags: Any) -> None:
    """Show what gitkruise manages in a cluster and how it is doing.

    \b
    Examples:
      gitkruise status --sandbox
      gitkruise status -n shop --state stuck,held
      gitkruise status --fail-on stuck -o json
    """
    namespace = "" if flags["all_namespaces"] else flags["namespace"]
    found = asyncio.run(_survey(cluster, namespace))
    wanted = _states(flags["states"])
    shown = [m for m in found if not wanted or m.state in wanted]
    style = Style.of(read_environment())
    if flags["output"] == "json":
        click.echo(json.dumps(_as_list(shown), indent=2, ensure_ascii=False))
    else:
        for line in render(shown, style, wide=flags["output"] == "wide"):
            click.echo(line)
    failing = _states(flags["fail_on"])
    ctx.exit(1 if any(m.state in failing for m in found) else 0)


async def _survey(choice: ClusterChoice, namespace: str) -> list[Managed]:
    from gitkruise.gitops.survey import survey  # noqa: PLC0415  imports the schemas
    from gitkruise.kube.data import load_catalog  # noqa: PLC0415

    async with connected(choice, read_environment()) as chosen:
        return await survey(
            chosen.transport, load_catalog(), chosen.clock.now(), namespace=namespace
        )


def _states(text: str) -> set[State]:
    by_word = {state.lower(): state for state in State}
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in by_word:
            raise click.BadParameter(f'"{word}" is none of {", ".join(by_word)}')
    return {by_word[word] for word in words}


def render(found: Sequence[Managed], style: Style, *, wide: bool) -> list[str]:
    """The table, the totals, and the next command to type."""
    if not found:
        return ["nothing here is managed by gitkruise yet"]
    lines = table(
        ("NAMESPACE", "OBJECT", "ROLLOUT", "NEW", "READY", "COMMIT", "STATE"),
        [_row(m, style, wide=wide) for m in found],
    )
    counts = Counter(m.state for m in found)
    order = [state for state in LOOKS if counts[state]]
    totals = " · ".join(f"{counts[s]} {s.lower()}" for s in reversed(order))
    lines += ["", f"{len(found)} objects: {totals}"]
    needy = next((m for m in found if m.state in NEEDS_YOU), None)
    if needy is not None:
        where = f" -n {needy.key.namespace}" if needy.key.namespace else ""
        lines.append(f"Next: gitkruise get rollout {needy.key.name}{where}")
    return lines


def _row(m: Managed, style: Style, *, wide: bool) -> tuple[str, ...]:
    r = m.rollout
    name = f"{m.key.kind.lower()}/{m.key.name}"
    bar = new = ready = ""
    if r is not None:
        partition = f" p={r.partition}" if r.kept else ""
        bar = style.bar(r.updated_ready, max(r.replicas, 1)) + partition
        new, ready = f"{r.updated}/{r.replicas}", f"{r.ready}/{r.replicas}"
    limit = 400 if wide else max(24, style.width - 80)
    why = shorten(_why(m), limit)
    state = style.state(m.state)
    return (
        m.key.namespace,
        name if wide else shorten(name, 40),
        bar,
        new,
        ready,
        m.commit[:7],
        f"{state}  {why}" if why else state,
    )


def _why(m: Managed) -> str:
    if m.state is State.DONE:
        return ""
    if m.state is State.HELD:
        return "next move is a commit"
    return m.message


def _as_list(found: Sequence[Managed]) -> dict[str, Any]:
    return {
        "apiVersion": "gitkruise.io/v1alpha1",
        "kind": "StatusList",
        "items": [
            {
                "object": {
                    "group": m.key.group,
                    "kind": m.key.kind,
                    "namespace": m.key.namespace,
                    "name": m.key.name,
                },
                "state": str(m.state),
                "message": m.message,
                "unit": m.unit,
                "commit": m.commit,
                "path": m.path,
                **({"rollout": rollout_obj(m.rollout)} if m.rollout else {}),
            }
            for m in found
        ],
    }
