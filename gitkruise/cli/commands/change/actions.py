"""gitkruise promote, hold, pause, resume, rollback: move a rollout by a commit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gitkruise.cli.console.command import ExitCodesCommand, duration_type
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options
from gitkruise.errors import Finding, UsageProblem

_SHARED: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("-n", "--namespace"), {"default": "", "help": "Namespace of the object."}),
    (("--unit",), {"default": "", "metavar": "UNIT", "help": "Unit that contains the object."}),
    (("--repo",), {"default": ".", "show_default": True, "help": "Checkout or bare repository."}),
    (
        ("--config", "config_path"),
        {
            "type": click.Path(path_type=Path),
            "help": "Configuration file [default: gitkruise.yaml of the repository].",
        },
    ),
    (
        ("--commit", "directly"),
        {"is_flag": True, "help": "Commit to the branch that the unit follows."},
    ),
    (
        ("--pr",),
        {
            "is_flag": True,
            "help": "Commit to a new branch for a pull request [default if the unit's Sink names a "
            "forge].",
        },
    ),
    (
        ("--branch",),
        {"default": "", "metavar": "NAME", "help": "Name of the new branch; implies --pr."},
    ),
    (("-m", "--message"), {"default": "", "help": "Subject of the commit [default: generated]."}),
    (
        ("--print", "--dry-run", "dry_run"),
        {"is_flag": True, "help": "Show the diff and the plan; commit nothing."},
    ),
    (("-y", "--yes"), {"is_flag": True, "help": "Push without asking."}),
    (
        ("--force",),
        {
            "is_flag": True,
            "help": "Commit even if the simulated rollout does not reach the requested state.",
        },
    ),
    (
        ("--wait",),
        {
            "is_flag": True,
            "help": "Wait until the status branch reports the commit as rolled out.",
        },
    ),
    (
        ("--timeout",),
        {
            "default": "5m",
            "show_default": True,
            "callback": duration_type,
            "help": "Time limit of --wait.",
        },
    ),
    (("-o", "--output"), {"type": click.Choice(["text", "json"]), "default": "text"}),
)
_EXITS = (1, 3, 4, 5, 6, 130)
_SAYS = "with --wait: the commit was rejected, or its rollout is stuck"


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    for words, settings in reversed(_SHARED):
        command = click.option(*words, **settings)(command)
    return command


def _act(ctx: click.Context, verb: str, object_name: str, to: str, flags: dict[str, Any]) -> None:
    from gitkruise.cli.context.commit_action import ActionOptions, act  # noqa: PLC0415  imports the model

    if flags["directly"] and (flags["pr"] or flags["branch"]):
        message = "--commit excludes --pr and --branch"
        raise UsageProblem(Finding(code="GK7010", message=message))
    ctx.exit(act(ActionOptions(verb=verb, object_name=object_name, to=to, **flags)))


@click.command(cls=ExitCodesCommand, exits=_EXITS, says=_SAYS)
@click.argument("object_name", metavar="TYPE/NAME")
@click.option(
    "--to",
    default="",
    metavar="PARTITION",
    help="Pods that stay on the old revision: 30%, 12 [default: 0].",
)
@_options
@cluster_options
@click.pass_context
def promote(
    ctx: click.Context, /, object_name: str, to: str, cluster: ClusterChoice, **flags: Any
) -> None:
    """Update more pods: commit a lower partition.

    \b
    Examples:
      gitkruise promote cloneset/checkout -n shop --to 30%
      gitkruise promote checkout -n shop --pr --sandbox
      gitkruise promote sidecarset/mesh --to 20% --print

    With a cluster (--sandbox, --context) the plan lists the pods by name.
    """
    _act(ctx, "promote", object_name, to, flags | {"cluster": cluster})


@click.command(cls=ExitCodesCommand, exits=_EXITS, says=_SAYS)
@click.argument("object_name", metavar="TYPE/NAME")
@click.option(
    "--at",
    default="",
    metavar="PARTITION",
    help="Hold at this partition instead of the current one.",
)
@_options
@cluster_options
@click.pass_context
def hold(
    ctx: click.Context, /, object_name: str, at: str, cluster: ClusterChoice, **flags: Any
) -> None:
    """Update no more pods: commit a partition that keeps the remaining pods on the old revision.

    \b
    Examples:
      gitkruise hold cloneset/checkout -n shop --sandbox
      gitkruise hold checkout -n shop --at 60%

    The current state is read from the cluster (with --context or --sandbox) or from the status
    branch. Updated pods stay updated; to bring them back, use gitkruise rollback.
    """
    _act(ctx, "hold", object_name, at, flags | {"cluster": cluster})


@click.command(cls=ExitCodesCommand, exits=_EXITS, says=_SAYS)
@click.argument("object_name", metavar="TYPE/NAME")
@_options
@cluster_options
@click.pass_context
def pause(ctx: click.Context, /, object_name: str, cluster: ClusterChoice, **flags: Any) -> None:
    """Stop updating pods, whatever the partition: commit `paused: true`.

    \b
    Examples:
      gitkruise pause cloneset/checkout -n shop
    """
    _act(ctx, "pause", object_name, "", flags | {"cluster": cluster})


@click.command(cls=ExitCodesCommand, exits=_EXITS, says=_SAYS)
@click.argument("object_name", metavar="TYPE/NAME")
@_options
@cluster_options
@click.pass_context
def resume(ctx: click.Context, /, object_name: str, cluster: ClusterChoice, **flags: Any) -> None:
    """Continue a paused rollout: commit `paused: false`.

    \b
    Examples:
      gitkruise resume cloneset/checkout -n shop --wait
    """
    _act(ctx, "resume", object_name, "", flags | {"cluster": cluster})


@click.command(cls=ExitCodesCommand, exits=_EXITS, says=_SAYS)
@click.argument("object_name", metavar="TYPE/NAME")
@click.option(
    "--to",
    default="",
    metavar="COMMIT",
    help="Commit to roll back to [default: the last fully rolled-out template].",
)
@_options
@cluster_options
@click.pass_context
def rollback(
    ctx: click.Context, /, object_name: str, to: str, cluster: ClusterChoice, **flags: Any
) -> None:
    """Return every pod to an earlier template: commit template and partition together.

    \b
    Examples:
      gitkruise rollback cloneset/checkout -n shop
      gitkruise rollback checkout -n shop --to 8ab13d0 --pr
      gitkruise rollback checkout -n shop --print --sandbox

    Reverting a commit moves no pod while the partition holds them; rollback sets both. All other
    fields of the manifest keep their current values, including replicas.
    """
    _act(ctx, "rollback", object_name, to, flags | {"cluster": cluster})
