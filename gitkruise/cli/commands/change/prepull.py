"""gitkruise prepull: pull images of a workload on nodes ahead, by ImagePullJobs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gitkruise.cli.commands.inspect.why import not_found, read_kind
from gitkruise.cli.console.command import ExitCodesCommand, namespace_option
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options, connected
from gitkruise.cli.context.node_requests import carry_out, request_options, show_effect
from gitkruise.cli.context.resource_args import object_argument, parse_workload
from gitkruise.printable import many

if TYPE_CHECKING:
    from gitkruise.gitops.node.prepull import PullDraft
    from gitkruise.wire.primitives.names import GroupKind

_COUNT = click.IntRange(min=0)


@click.command(
    cls=ExitCodesCommand, exits=(1, 5, 6), says="with --wait: a node could not pull an image"
)
@object_argument()
@namespace_option
@click.option("--image", "images", multiple=True, metavar="IMAGE",
              help="Image to pull; repeatable [default: those of the template].")  # fmt: skip
@click.option("--all-nodes", "every_node", is_flag=True,
              help="Every node [default: those of the workload's pods].")  # fmt: skip
@click.option("--parallelism", type=_COUNT, default=1, show_default=True, metavar="NODES",
              help="Nodes that pull an image at the same time; 0 pauses.")  # fmt: skip
@click.option("--pull-secret", "secrets", multiple=True, metavar="NAME",
              help="Pull secret; repeatable [default: those of the template].")  # fmt: skip
@click.option("--always", is_flag=True, help="Pull also where the image is present.")
@click.option("--pull-timeout", "timeout_s", type=_COUNT, metavar="SECONDS",
              help="For one attempt [default: 600].")  # fmt: skip
@click.option("--retries", "backoff_limit", type=_COUNT, metavar="N",
              help="Further attempts of a node [default: 3].")  # fmt: skip
@click.option("--deadline", "deadline_s", type=_COUNT, metavar="SECONDS",
              help="Give up after this time [default: never].")  # fmt: skip
@click.option("--ttl", "ttl_s", type=_COUNT, default=600, show_default=True, metavar="SECONDS",
              help="Delete the jobs this long after their end.")  # fmt: skip
@request_options
@cluster_options
@click.pass_context
def prepull(ctx: click.Context, /, object_name: str, cluster: ClusterChoice, **flags: Any) -> None:
    """Pull images on nodes before pods need them.

    \b
    Examples:
      gitkruise prepull cloneset/web -n shop
      gitkruise prepull deployment/api -n shop --image registry.example.com/api:v2 --wait
      gitkruise prepull cloneset/web -n shop --all-nodes --parallelism 5 --dry-run

    Creates one ImagePullJob per image, which the agents of the nodes carry out. Pods and the
    workload are not changed.
    """
    kind, name = parse_workload(object_name)
    ctx.exit(asyncio.run(_prepull(cluster, kind, name, flags)))


async def _prepull(choice: ClusterChoice, kind: GroupKind, name: str, flags: dict[str, Any]) -> int:
    from gitkruise.gitops.node.prepull import JOBS, create_jobs, prepare_jobs  # noqa: PLC0415
    from gitkruise.planner.node.prepull_draft import PrepullOptions  # noqa: PLC0415

    fields = ("images", "secrets", "every_node", "parallelism", "timeout_s", "backoff_limit",
              "deadline_s", "ttl_s", "always")  # fmt: skip
    options = PrepullOptions(**{field: flags[field] for field in fields})
    async with connected(choice, read_environment()) as chosen:
        namespace = flags["namespace"] or chosen.namespace
        survey = await read_kind(chosen, kind, namespace)
        now = chosen.clock.now()
        found = next(iter(survey.managed(now, name=name)), None)
        if found is None:
            raise not_found(name, kind, survey, now, named=bool(flags["namespace"]))
        draft = await prepare_jobs(
            chosen.transport, chosen.clock, found.obj, namespace, options,
            any_agent=flags["any_agent"],
        )  # fmt: skip
        show_effect(
            flags["output"], effect_lines(draft, f"{kind.kind.lower()}/{name}"), draft.warnings
        )
        create = partial(create_jobs, chosen.transport, draft)
        return await carry_out(chosen, JOBS, draft.jobs, create, flags)


def effect_lines(draft: PullDraft, who: str) -> Iterator[str]:
    """Yield the effect of the jobs, image by image."""
    from gitkruise.planner.node.prepull_draft import pull_conduct  # noqa: PLC0415

    count = many(len(draft.jobs), "image")
    yield f"prepull  {count} for {who} -n {draft.namespace}"
    for image, nodes in draft.pulled.items():
        yield f"  {image}" + (f"  pulled before on {nodes} of these nodes" if nodes else "")
    yield from pull_conduct(draft.workload, draft.options, draft.nodes)
