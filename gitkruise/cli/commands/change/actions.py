"""gitkruise promote, hold, pause, resume, rollback: move a rollout by a commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click
from click.core import ParameterSource

from gitkruise.cli.console.command import (
    Decorator,
    ExitCodesCommand,
    timeout_option,
    with_options,
)
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options
from gitkruise.cli.context.local_repository import config_instead
from gitkruise.cli.context.resource_args import in_one_word, object_argument, workloads
from gitkruise.errors import Finding, UsageProblem

commit_options: Final = with_options(  # of every command that commits
    click.option("--repo", default=".", show_default=True, help="Checkout or bare repository."),
    config_instead,
    click.option(
        "--commit", "directly", is_flag=True, help="Commit to the branch that the unit follows."
    ),
    click.option(
        "--pr",
        is_flag=True,
        help="Commit to a new branch for a pull request [default if the unit's Sink names a "
        "forge].",
    ),
    click.option(
        "--branch", default="", metavar="NAME", help="Name of the new branch; implies --pr."
    ),
    click.option("-m", "--message", default="", help="Subject of the commit [default: generated]."),
    click.option(
        "--print", "--dry-run", "dry_run", is_flag=True,
        help="Show the diff and the plan; commit nothing.",
    ),
    click.option("-y", "--yes", is_flag=True, help="Push without asking."),
    click.option(
        "--force",
        is_flag=True,
        help="Commit even if the simulated rollout does not reach the requested state.",
    ),
    click.option(
        "--wait",
        is_flag=True,
        help="Wait until the status branch reports the commit as rolled out.",
    ),
    timeout_option("Time limit of --wait."),
    click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text"),
)  # fmt: skip
_options: Final = with_options(
    click.option("-n", "--namespace", default="", help="Namespace of the object."),
    click.option("--unit", default="", metavar="UNIT", help="Unit that contains the object."),
    commit_options,
)
_COMMIT_FLAGS = frozenset({
    "unit", "repo", "config_path", "directly", "pr", "branch", "message", "dry_run", "yes", "force",
    "wait", "timeout",
})  # fmt: skip
_EXITS = (1, 3, 4, 5, 6)
_SAYS = "with --wait: the commit was rejected, or its rollout is stuck"


def check_way(flags: Mapping[str, Any]) -> None:
    """Raise UsageProblem GK7010 for a commit that is to go two ways."""
    if flags["directly"] and (flags["pr"] or flags["branch"]):
        message = "--commit excludes --pr and --branch"
        raise UsageProblem(Finding(code="GK7010", message=message))


def _amounts(bare: str, updated: str, partition: str) -> Decorator:
    """Add the two options that say which pods they count, and the one that does not, refused."""
    return with_options(
        click.option("--updated", default="", metavar="PODS", help=updated),
        click.option("--partition", default="", metavar="PODS", help=partition),
        click.option(bare, "bare", default="", hidden=True),
    )


def _move(ctx: click.Context, verb: str, words: tuple[str, ...], flags: dict[str, Any]) -> None:
    """Promote or hold. Raises UsageProblem GK7048 for an amount without what it counts."""
    amount = words[-1] if len(words) > 1 and words[-1][:1].isdigit() else ""
    object_name = in_one_word(ctx, words[:-1] if amount else words)
    bare = flags.pop("bare") or amount
    named = f"{object_name} -n {flags['namespace']}" if flags["namespace"] else object_name
    if bare and not bare[0].isdigit():
        raise click.UsageError(f"unexpected argument: {bare}", ctx)
    if bare:
        message = f"{bare} does not say which pods it counts, the updated or the remaining ones"
        raise _ambiguous(message, verb, named, bare)
    if flags["updated"] and flags["partition"]:
        message = "--updated and --partition set the same field"
        raise _ambiguous(message, verb, named, flags["updated"])
    _act(ctx, verb, object_name, flags)


def _ambiguous(message: str, verb: str, object_name: str, amount: str) -> UsageProblem:
    command = f"gitkruise {verb} {object_name}"
    notes = (
        ("unchanged", "nothing was committed or pushed"),
        ("next", f"{command} --updated {amount}: that many pods on the new revision; or"),
        ("", f"{command} --partition {amount}: that many stay on the old one"),
    )
    return UsageProblem(Finding(code="GK7048", message=message, notes=notes))


def _no_commit(ctx: click.Context) -> None:
    """Refuse the options of a commit, which a Unit of the cluster does not need."""
    for parameter in ctx.command.get_params(ctx):
        given = ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if given and parameter.name in _COMMIT_FLAGS:
            message = f"{parameter.opts[0]} applies to rollouts; a Unit is resumed without a commit"
            raise UsageProblem(Finding(code="GK7010", message=message))


def _act(ctx: click.Context, verb: str, object_name: str, flags: dict[str, Any]) -> None:
    from gitkruise.cli.context.commit_action import ActionOptions, act  # noqa: PLC0415  imports the model

    check_way(flags)
    ctx.exit(act(ActionOptions(verb=verb, object_name=object_name, **flags)))


@click.command(cls=ExitCodesCommand, exits=_EXITS, says=_SAYS)
@click.argument("words", nargs=-1, required=True, metavar="TYPE/NAME", shell_complete=workloads)
@_amounts(
    "--to",
    updated="Pods on the new revision afterwards: 70%, 28 [default: all].",
    partition="Pods that stay on the old revision: 30%, 12 [default: 0].",
)
@_options
@cluster_options
@click.pass_context
def promote(
    ctx: click.Context, /, words: tuple[str, ...], cluster: ClusterChoice, **flags: Any
) -> None:
    """Update more pods: commit a lower partition, or a higher canary of a Deployment.

    \b
    Examples:
      gitkruise promote cloneset/checkout -n shop --updated 70%
      gitkruise promote cloneset/checkout -n shop --partition 30%   (the same)
      gitkruise promote checkout -n shop --pr --sandbox
      gitkruise promote sidecarset/mesh --partition 20% --print
      gitkruise promote deployment/web -n shop --updated 50%

    With a cluster (--sandbox, --context) the plan lists the pods by name.
    """
    _move(ctx, "promote", words, flags | {"cluster": cluster})


@click.command(cls=ExitCodesCommand, exits=_EXITS, says=_SAYS)
@click.argument("words", nargs=-1, required=True, metavar="TYPE/NAME", shell_complete=workloads)
@_amounts(
    "--at",
    updated="Pods on the new revision to hold at: 40%, 16 [default: the current number].",
    partition="Pods that stay on the old revision: 60%, 24 [default: the current number].",
)
@_options
@cluster_options
@click.pass_context
def hold(
    ctx: click.Context, /, words: tuple[str, ...], cluster: ClusterChoice, **flags: Any
) -> None:
    """Update no more pods: commit a partition, or a canary, that keeps the remaining pods on the
    old revision.

    \b
    Examples:
      gitkruise hold cloneset/checkout -n shop --sandbox
      gitkruise hold checkout -n shop --partition 60%

    The current state is read from the cluster (with --context or --sandbox) or from the status
    branch. Updated pods stay updated; to bring them back, use gitkruise rollback. A Deployment's
    rollout that began without a canary cannot be held; pause it.
    """
    _move(ctx, "hold", words, flags | {"cluster": cluster})


@click.command(cls=ExitCodesCommand, exits=_EXITS, says=_SAYS)
@object_argument()
@_options
@cluster_options
@click.pass_context
def pause(ctx: click.Context, /, object_name: str, cluster: ClusterChoice, **flags: Any) -> None:
    """Stop updating pods, whatever the partition or canary: commit `paused: true`.

    \b
    Examples:
      gitkruise pause cloneset/checkout -n shop
    """
    _act(ctx, "pause", object_name, flags | {"cluster": cluster})


@click.command(cls=ExitCodesCommand, exits=_EXITS, says=_SAYS)
@object_argument()
@_options
@cluster_options
@click.pass_context
def resume(ctx: click.Context, /, object_name: str, cluster: ClusterChoice, **flags: Any) -> None:
    """Continue a paused rollout: commit `paused: false`. Or end the suspension of a Unit.

    \b
    Examples:
      gitkruise resume cloneset/checkout -n shop --wait
      gitkruise resume unit/web -n shop

    A Unit of the cluster is resumed there, without a commit; of the options below only -n, -o
    and those of the cluster apply to it.
    """
    from gitkruise.cli.commands.change.units import is_unit, resume_unit  # noqa: PLC0415

    if is_unit(object_name):
        _no_commit(ctx)
        ctx.exit(resume_unit(object_name, cluster, flags["namespace"], flags["output"]))
    _act(ctx, "resume", object_name, flags | {"cluster": cluster})


@click.command(cls=ExitCodesCommand, exits=_EXITS, says=_SAYS)
@object_argument()
@click.option(
    "--to",
    default="",
    metavar="COMMIT",
    help="Commit to roll back to [default: the last template that git requested for all pods, and"
    " whose rollout did not get stuck].",
)
@_options
@cluster_options
@click.pass_context
def rollback(
    ctx: click.Context, /, object_name: str, to: str, cluster: ClusterChoice, **flags: Any
) -> None:
    """Return every pod to an earlier template: commit template and partition (or canary) together.

    \b
    Examples:
      gitkruise rollback cloneset/checkout -n shop
      gitkruise rollback checkout -n shop --to 8ab13d0 --pr
      gitkruise rollback checkout -n shop --print --sandbox

    Reverting a commit moves no pod while the partition holds them; rollback sets both. All other
    fields of the manifest keep their current values, including replicas.
    """
    _act(ctx, "rollback", object_name, flags | {"to": to, "cluster": cluster})
