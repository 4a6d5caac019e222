"""gitkruise recreate: restart containers of a pod in place, by a ContainerRecreateRequest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gitkruise.cli.console.command import ExitCodesCommand, namespace_option
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options, connected
from gitkruise.cli.context.node_requests import carry_out, request_options, show_effect
from gitkruise.printable import many

if TYPE_CHECKING:
    from gitkruise.gitops.node.recreate import RecreateDraft

_SECONDS = click.IntRange(min=0)


@click.command(
    cls=ExitCodesCommand, exits=(1, 5, 6), says="with --wait: a container was not recreated"
)
@click.argument("pod_name", metavar="POD")
@click.argument("containers", nargs=-1, metavar="[CONTAINER]…")
@namespace_option
@click.option("--ordered", is_flag=True,
              help="Stop a container only when the one before is ready again.")  # fmt: skip
@click.option("--force", is_flag=True,
              help="Stop also a container that restarted since the request.")  # fmt: skip
@click.option("--ignore-failures", is_flag=True,
              help="Go on after a container that cannot be stopped.")  # fmt: skip
@click.option("--grace", "grace_s", type=_SECONDS, metavar="SECONDS",
              help="For preStop hook and stop [default: of the pod].")  # fmt: skip
@click.option("--unready-grace", "unready_grace_s", type=_SECONDS, metavar="SECONDS",
              help="Take the pod out of service this long before.")  # fmt: skip
@click.option("--min-started", "min_started_s", type=_SECONDS, default=0, metavar="SECONDS",
              help="Run at least this long to count as recreated.")  # fmt: skip
@click.option("--deadline", "deadline_s", type=click.IntRange(min=3), metavar="SECONDS",
              help="End the request after this time [default: never].")  # fmt: skip
@click.option("--ttl", "ttl_s", type=_SECONDS, metavar="SECONDS",
              help="Delete the request this long after its end [default: keep it].")  # fmt: skip
@request_options
@cluster_options
@click.pass_context
def recreate(
    ctx: click.Context, /, pod_name: str, containers: tuple[str, ...], cluster: ClusterChoice,
    **flags: Any,
) -> None:  # fmt: skip
    """Restart containers of a pod in place; the pod keeps its node, address and volumes.

    \b
    Examples:
      gitkruise recreate web-x7k2p -n shop
      gitkruise recreate web-x7k2p app sidecar -n shop --ordered --wait
      gitkruise recreate web-x7k2p app --dry-run -o yaml

    Without CONTAINER all containers are restarted. The command creates a
    ContainerRecreateRequest, which the agent of the pod's node carries out.
    """
    ctx.exit(asyncio.run(_recreate(pod_name, containers, cluster, flags)))


async def _recreate(
    pod_name: str, containers: tuple[str, ...], choice: ClusterChoice, flags: dict[str, Any]
) -> int:
    from gitkruise.gitops.node.recreate import REQUESTS, create, prepare  # noqa: PLC0415
    from gitkruise.planner.node.recreate_draft import RecreateOptions  # noqa: PLC0415

    fields = ("ordered", "force", "ignore_failures", "grace_s", "unready_grace_s",
              "min_started_s", "deadline_s", "ttl_s")  # fmt: skip
    options = RecreateOptions(containers=containers, **{name: flags[name] for name in fields})
    name = pod_name.removeprefix("pod/")
    async with connected(choice, read_environment()) as chosen:
        namespace = flags["namespace"] or chosen.namespace
        draft = await prepare(
            chosen.transport, chosen.clock, namespace, name, options, any_agent=flags["any_agent"]
        )
        show_effect(flags["output"], effect_lines(draft), draft.warnings)
        ask = partial(create, chosen.transport, draft)
        return await carry_out(chosen, REQUESTS, [draft.request], ask, flags)


def effect_lines(draft: RecreateDraft) -> Iterator[str]:
    """Yield the effect of the request, container by container."""
    from gitkruise.planner.node.recreate_draft import conduct, effects  # noqa: PLC0415

    meta, options = draft.pod["metadata"], draft.options
    found = effects(draft.pod, options)
    count = many(len(found), "container")
    yield f"recreate {count} of pod {meta['name']} -n {meta['namespace']}"
    yield f"node     {draft.node}, by {draft.agent}"
    wide = max(len(effect.container) for effect in found)
    for effect in found:
        yield f"  {effect.container:<{wide}}  {effect.text}"
    yield from (f"note     {text}" for text in conduct(draft.pod, options))
