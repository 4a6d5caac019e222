"""gitkruise promote, hold, pause, resume, rollback: what moves a rollout, as a commit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gitkruise.cli.connect import ClusterChoice, cluster_options
from gitkruise.cli.verb import Verb, duration_type
from gitkruise.errors import Finding, UsageProblem

_SHARED: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("-n", "--namespace"), {"default": "", "help": "Namespace of the object."}),
    (("--unit",), {"default": "", "metavar": "UNIT", "help": "The unit that holds it."}),
    (("--repo",), {"default": ".", "show_default": True, "help": "Checkout or bare repository."}),
    (
        ("--config", "config_path"),
        {
            "type": click.Path(path_type=Path),
            "help": "Instead of the gitkruise.yaml in the repository.",
        },
    ),
    (("--commit", "directly"), {"is_flag": True, "help": "Commit to the branch of the unit."}),
    (
        ("--pr",),
        {
            "is_flag": True,
            "help": "Commit to a new branch, for a pull request; the default where a forge is set.",
        },
    ),
    (("--branch",), {"default": "", "metavar": "NAME", "help": "The new branch; implies --pr."}),
    (("-m", "--message"), {"default": "", "help": "The commit's subject."}),
    (
        ("--print", "--dry-run", "dry_run"),
        {"is_flag": True, "help": "Show diff and plan, commit nothing."},
    ),
    (("-y", "--yes"), {"is_flag": True, "help": "Do not ask before it is pushed."}),
    (("--force",), {"is_flag": True, "help": "Even if it is not simulated to end as asked."}),
    (("--wait",), {"is_flag": True, "help": "Until the commit has come out, by its record."}),
    (
        ("--timeout",),
        {"default": "5m", "show_default": True, "callback": duration_type, "help": "With --wait."},
    ),
    (("-o", "--output"), {"type": click.Choice(["text", "json"]), "default": "text"}),
)
_EXITS = (1, 3, 4, 5, 6, 130)
_SAYS = "with --wait: it was rejected, or is stuck"


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    for words, settings in reversed(_SHARED):
        command = click.option(*words, **settings)(command)
    return command


def _act(ctx: click.Context, verb: str, object_name: str, to: str, flags: dict[str, Any]) -> None:
    from gitkruise.cli.acting import Asked, act  # noqa: PLC0415  imports the model

    if flags["directly"] and (flags["pr"] or flags["branch"]):
        message = "--commit excludes --pr and --branch"
        raise UsageProblem(Finding(code="GK7010", message=message))
    ctx.exit(act(Asked(verb=verb, object_name=object_name, to=to, **flags)))


@click.command(cls=Verb, exits=_EXITS, says=_SAYS)
@click.argument("object_name", metavar="TYPE/NAME")
@click.option(
    "--to", default="", metavar="PARTITION", help="How many stay: 30%, 12; 0 when not given."
)
@_options
@cluster_options
@click.pass_context
def promote(
    ctx: click.Context, /, object_name: str, to: str, cluster: ClusterChoice, **flags: Any
) -> None:
    """Let more pods have the new revision: lower the partition, by a commit.

    \b
    Examples:
      gitkruise promote cloneset/checkout -n shop --to 30%
      gitkruise promote checkout -n shop --pr --sandbox
      gitkruise promote sidecarset/mesh --to 20% --print

    With a cluster (--sandbox, --context) the plan names the pods that move.
    """
    _act(ctx, "promote", object_name, to, flags | {"cluster": cluster})


@click.command(cls=Verb, exits=_EXITS, says=_SAYS)
@click.argument("object_name", metavar="TYPE/NAME")
@click.option("--at", default="", metavar="PARTITION", help="Not where it stands, but there.")
@_options
@cluster_options
@click.pass_context
def hold(
    ctx: click.Context, /, object_name: str, at: str, cluster: ClusterChoice, **flags: Any
) -> None:
    """Let no further pod have the new revision: raise the partition to where the rollout stands.

    \b
    Examples:
      gitkruise hold cloneset/checkout -n shop --sandbox
      gitkruise hold checkout -n shop --at 60%

    Where it stands is asked of the cluster, or read from the status branch. Pods that are updated
    stay so; to bring them back: gitkruise rollback.
    """
    _act(ctx, "hold", object_name, at, flags | {"cluster": cluster})


@click.command(cls=Verb, exits=_EXITS, says=_SAYS)
@click.argument("object_name", metavar="TYPE/NAME")
@_options
@cluster_options
@click.pass_context
def pause(ctx: click.Context, /, object_name: str, cluster: ClusterChoice, **flags: Any) -> None:
    """Stop updating pods, whatever the partition says: paused: true, by a commit.

    \b
    Examples:
      gitkruise pause cloneset/checkout -n shop
    """
    _act(ctx, "pause", object_name, "", flags | {"cluster": cluster})


@click.command(cls=Verb, exits=_EXITS, says=_SAYS)
@click.argument("object_name", metavar="TYPE/NAME")
@_options
@cluster_options
@click.pass_context
def resume(ctx: click.Context, /, object_name: str, cluster: ClusterChoice, **flags: Any) -> None:
    """Go on after a pause: paused: false, by a commit.

    \b
    Examples:
      gitkruise resume cloneset/checkout -n shop --wait
    """
    _act(ctx, "resume", object_name, "", flags | {"cluster": cluster})


@click.command(cls=Verb, exits=_EXITS, says=_SAYS)
@click.argument("object_name", metavar="TYPE/NAME")
@click.option(
    "--to",
    default="",
    metavar="COMMIT",
    help="Back to this one; else to the newest that all pods were to have.",
)
@_options
@cluster_options
@click.pass_context
def rollback(
    ctx: click.Context, /, object_name: str, to: str, cluster: ClusterChoice, **flags: Any
) -> None:
    """Bring every pod back to an older template: template and partition in one commit.

    \b
    Examples:
      gitkruise rollback cloneset/checkout -n shop
      gitkruise rollback checkout -n shop --to 8ab13d0 --pr
      gitkruise rollback checkout -n shop --print --sandbox

    Reverting a commit alone moves no pod while the partition holds: this sets both. Everything
    else of the manifest stays as it is now, replicas among them.
    """
    _act(ctx, "rollback", object_name, to, flags | {"cluster": cluster})
