"""gitkruise sandbox: run the embedded cluster in the foreground or the background."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gitkruise.cli.console.command import ExitCodesCommand, gates_option, output_option
from gitkruise.cli.console.environment import Environment, read_environment
from gitkruise.cli.console.output import API_VERSION, say, say_json, say_on_stderr
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.cluster import ClusterChoice, sandbox_dir, sandbox_kubeconfig
from gitkruise.cli.context.confirm import confirm_change
from gitkruise.cli.context.local_repository import repository_at_hand
from gitkruise.errors import Finding, UsageProblem
from gitkruise.printable import many

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from gitkruise.sandbox.backend.backup import Replaced
    from gitkruise.sandbox.backend.state_dir import StateDir
    from gitkruise.sandbox.handlers.inprocess import WorldTransport
    from gitkruise.sandbox.server import Dashboard, SandboxOptions, SandboxServer


@click.group()
def sandbox() -> None:
    """Run a Kubernetes-compatible cluster on loopback, with simulated kubelets.

    \b
    Examples:
      gitkruise sandbox up --detach
      export KUBECONFIG=$(gitkruise sandbox kubeconfig --path)
      kubectl get clonesets -A -w
    """


@sandbox.command(cls=ExitCodesCommand, exits=(5,), serves=True)
@click.option(
    "--detach", is_flag=True, help="Run in the background; `gitkruise sandbox down` stops it."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    show_default=True,
    help="Port to listen on; 0 reuses the last port, or takes a free one.",
)
@click.option(
    "--dashboard",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Also serve the dashboard on this port of loopback; 0 is any free one "
    "[default: not served].",
)
@click.option("--ephemeral", is_flag=True, help="Keep the state in memory only.")
@click.option(
    "--no-kubelet",
    is_flag=True,
    help="Run no scheduler, no kubelets and no Kubernetes controllers.",
)
@click.option("--no-controllers", is_flag=True, help="Run no workload controllers.")
@gates_option
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="Also write the kubeconfig to this file."
)
@click.option(
    "--nodes",
    type=click.IntRange(0, 5_000),
    default=5,
    show_default=True,
    help="Number of simulated nodes.",
)
@click.option(
    "--profile",
    type=click.Choice(["fast", "general", "chaos"]),
    default="general",
    show_default=True,
    help="Behaviour of nodes: fast takes a second for everything; chaos is slow and "
    "crashes a tenth of the containers.",
)
@click.option(
    "--speed",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    help="Speed-up factor for simulated delays.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of UIDs and jitter.")
def up(detach: bool, **flags: object) -> None:
    """Start the embedded cluster.

    \b
    Examples:
      gitkruise sandbox up
      gitkruise sandbox up --detach
      gitkruise sandbox up --ephemeral --no-kubelet --kubeconfig /tmp/kubeconfig

    Runs in the foreground until Ctrl-C or SIGTERM, unless --detach is set. The kubeconfig is
    written when the server is ready.
    """
    environment = read_environment()
    if not 0 < float(str(flags["speed"])) < float("inf"):  # FloatRange lets "nan" and "inf" through
        message = "--speed must be a number greater than 0"
        raise UsageProblem(Finding(code="GK7012", message=message))
    if detach:
        if flags["ephemeral"]:
            message = "--detach excludes --ephemeral: `down` finds a sandbox by its state on disk"
            raise UsageProblem(Finding(code="GK7010", message=message))
        _up_detached(environment)
        return
    _up_foreground(_options(environment, flags), _dashboard(environment, flags["dashboard"]))


def _options(environment: Environment, flags: dict[str, object]) -> SandboxOptions:
    from gitkruise.model.workloads.feature_gates import parse_gates  # noqa: PLC0415  only to start one
    from gitkruise.sandbox.server import SandboxOptions  # noqa: PLC0415  imports aiohttp

    kubeconfig = flags["kubeconfig"]
    return SandboxOptions(
        state_dir=None if flags["ephemeral"] else sandbox_dir(environment),
        ephemeral=bool(flags["ephemeral"]),
        port=int(str(flags["port"])),
        kubelet=not flags["no_kubelet"],
        controllers=not flags["no_controllers"],
        gates=parse_gates(str(flags["feature_gates"])),
        nodes=int(str(flags["nodes"])),
        profile=str(flags["profile"]),
        speed=float(str(flags["speed"])),
        seed=int(str(flags["seed"])),
        kubeconfig=kubeconfig.absolute() if isinstance(kubeconfig, Path) else None,
    )


def _dashboard(environment: Environment, port: object) -> Dashboard | None:
    """Return what serves the dashboard inside the sandbox; None without --dashboard."""
    if not isinstance(port, int):
        return None
    from gitkruise.cli.commands.inspect.dashboard import PagesOptions, serving_pages  # noqa: PLC0415
    from gitkruise.cli.context.cluster import ChosenCluster  # noqa: PLC0415
    from gitkruise.kube.serve.addresses import Listen  # noqa: PLC0415  start-up budget
    from gitkruise.kube.system.clock import SystemClock  # noqa: PLC0415  start-up budget

    def served(transport: WorldTransport) -> AbstractAsyncContextManager[str]:
        chosen = ChosenCluster(
            transport=transport, clock=SystemClock(), name="sandbox", namespace="",
            flags="--sandbox", embedded=True,
        )  # fmt: skip
        repository = repository_at_hand(None, "")
        options = PagesOptions(
            listen=Listen(port=port, option="--dashboard PORT"), repository=repository,
            choice=ClusterChoice(sandbox=True),
        )  # fmt: skip
        return serving_pages(chosen, options, environment)

    return served


def _up_foreground(options: SandboxOptions, dashboard: Dashboard | None) -> None:
    from gitkruise.cli.console.foreground import run_until_stopped  # noqa: PLC0415  imports aiohttp

    def announce(server: SandboxServer, kubeconfig: Path | None) -> None:
        say_on_stderr(f"cluster   {server.url}  (simulated: containers do not really run)")
        if server.dashboard:
            say_on_stderr(f"dashboard {server.dashboard}")
        if kubeconfig:
            say_on_stderr(f"try       export KUBECONFIG={kubeconfig}; kubectl get nodes")
        say_on_stderr("stop      Ctrl-C")

    run_until_stopped(options, announce, dashboard)


def _up_detached(environment: Environment) -> None:
    from gitkruise.sandbox import background  # noqa: PLC0415  only to start a process

    flags = [word for word in sys.argv[1:] if word != "--detach"]
    record = background.start_detached(
        [sys.executable, "-m", "gitkruise", *flags], sandbox_dir(environment)
    )
    say_on_stderr(f"cluster   {record.url}  (pid {record.pid})")
    if record.dashboard:
        say_on_stderr(f"dashboard {record.dashboard}")
    say_on_stderr("try       export KUBECONFIG=$(gitkruise sandbox kubeconfig --path)")
    say_on_stderr("stop      gitkruise sandbox down")


@sandbox.command(cls=ExitCodesCommand)
def down() -> None:
    """Stop the embedded cluster. Its state is kept for the next `up`.

    \b
    Example:
      gitkruise sandbox down
    """
    from gitkruise.sandbox import background  # noqa: PLC0415  only to stop a process

    stopped = background.stop(sandbox_dir(read_environment()))
    say_on_stderr("stopped" if stopped else "no sandbox was running")


@sandbox.command(cls=ExitCodesCommand, exits=(5,))
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@output_option
def backup(file: Path, output: str) -> None:
    """Write the objects of the embedded cluster to a file, also while it runs.

    \b
    Examples:
      gitkruise sandbox backup before.tar
      gitkruise sandbox backup "sandbox-$(date +%F).tar" -o json

    FILE must not exist. It contains every object, Secrets included; keys and the token stay in the
    state directory.
    """
    from gitkruise.kube.system.clock import SystemClock  # noqa: PLC0415  start-up budget
    from gitkruise.sandbox.backend.backup import write_backup  # noqa: PLC0415  not for --help

    head = write_backup(_state(), file, SystemClock().now())
    if output == "json":
        _say_state("SandboxBackup", {"file": str(file), "backup": asdict(head)})
        return
    size = f"{head.size / 2**20:.1f} MiB"
    say_on_stderr(f"backup    {file}: {many(head.objects, 'object')}, {size}")
    say_on_stderr(f"restore   gitkruise sandbox restore {shlex.quote(str(file))}")


@sandbox.command(cls=ExitCodesCommand, exits=(5,))
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Check the backup; replace nothing.")
@click.option("-y", "--yes", is_flag=True, help="Replace without asking.")
@output_option
def restore(file: Path, output: str, *, dry_run: bool, yes: bool) -> None:
    """Replace the objects of the stopped embedded cluster by those of a backup.

    \b
    Examples:
      gitkruise sandbox restore before.tar --dry-run
      gitkruise sandbox down && gitkruise sandbox restore before.tar --yes

    The current state stays until the backup is completely read and checked. Kubeconfigs stay valid.
    """
    from gitkruise.sandbox.backend.backup import check_backup  # noqa: PLC0415  not for --help
    from gitkruise.sandbox.backend.backup import restore as restored  # noqa: PLC0415

    state = _state()
    head, replaced = check_backup(state, file)
    now = _counted(replaced)
    if not dry_run:
        if replaced.objects != 0 and not yes:
            question = f"Replace {now} by the {head.objects} of {file}, written {head.created}?"
            confirm_change(
                "sandbox restore",
                question,
                unchanged=f"the state in {state.root}",
                preview="--dry-run",
            )
        head, replaced = restored(state, file)
    if output == "json":
        fields = {"dryRun": dry_run, "backup": asdict(head), **_replaced_obj(replaced)}
        _say_state("SandboxRestore", {"file": str(file), **fields})
    of = f"{many(head.objects, 'object')} of {file}, written {head.created}"
    done = "dry run, nothing was replaced:" if dry_run else "restored "
    say_on_stderr(
        [f"{done} {of}, {'would replace' if dry_run else 'replaced'} {now}", *_aside(replaced)]
    )


@sandbox.command(cls=ExitCodesCommand, exits=(5,))
@click.option("-y", "--yes", is_flag=True, help="Remove without asking.")
@output_option
def reset(output: str, *, yes: bool) -> None:
    """Remove every object of the stopped embedded cluster.

    \b
    Examples:
      gitkruise sandbox down && gitkruise sandbox reset
      gitkruise sandbox backup before.tar && gitkruise sandbox down && gitkruise sandbox reset -y

    Keys, token and port are kept, so kubeconfigs stay valid.
    """
    from gitkruise.sandbox.backend.backup import reset as emptied  # noqa: PLC0415  not for --help

    state = _state()
    if state.is_locked():
        raise state.taken()
    if not yes:
        question = f"Remove every object of the embedded cluster in {state.root}?"
        confirm_change("sandbox reset", question, unchanged=f"the state in {state.root}")
    replaced = emptied(state)
    if output == "json":
        _say_state("SandboxReset", _replaced_obj(replaced))
    say_on_stderr([f"reset     removed {_counted(replaced)}", *_aside(replaced)])


def _state() -> StateDir:
    from gitkruise.sandbox.backend.state_dir import StateDir  # noqa: PLC0415  not for --help

    return StateDir(sandbox_dir(read_environment()))


def _counted(replaced: Replaced) -> str:
    if replaced.objects is None:
        return "a damaged store"
    return many(replaced.objects, "object")


def _aside(replaced: Replaced) -> list[str]:
    return [f"kept      the replaced files in {replaced.aside}"] if replaced.aside else []


def _replaced_obj(replaced: Replaced) -> dict[str, object]:
    aside = {"aside": str(replaced.aside)} if replaced.aside else {}
    return {"replaced": {"objects": replaced.objects, **aside}}


def _say_state(kind: str, fields: dict[str, object]) -> None:
    """Print the outcome for the state directory as JSON."""
    head = {"apiVersion": API_VERSION, "kind": kind}
    root = sandbox_dir(read_environment())
    say_json({**head, "stateDir": str(root), **fields}, Style.of(read_environment()))


@sandbox.command(cls=ExitCodesCommand, exits=(1,), says="no sandbox is running")
@output_option
@click.pass_context
def status(ctx: click.Context, output: str) -> None:
    """Show whether the embedded cluster is running.

    \b
    Examples:
      gitkruise sandbox status
      gitkruise sandbox status -o json
    """
    from gitkruise.sandbox import background  # noqa: PLC0415  only to look at a process

    root = sandbox_dir(read_environment())
    record = background.running(root)
    style = Style.of(read_environment())
    if output == "json":
        answer = {
            "apiVersion": API_VERSION,
            "kind": "SandboxStatus",
            "running": record is not None,
            "stateDir": str(root),
            **({"url": record.url, "pid": record.pid} if record else {}),
            **({"dashboard": record.dashboard} if record and record.dashboard else {}),
        }
        say_json(answer, style)
    elif record:
        say(f"running   {record.url}  (pid {record.pid}, state in {root})", style)
        if record.dashboard:
            say(f"dashboard {record.dashboard}", style)
    else:
        say(f"not running  (state in {root})", style)
    ctx.exit(0 if record else 1)


@sandbox.command(cls=ExitCodesCommand, exits=(5,))
@click.option("--path", is_flag=True, help="Print the path of the file instead of its content.")
def kubeconfig(path: bool) -> None:
    """Print the kubeconfig of the running sandbox.

    \b
    Example:
      export KUBECONFIG=$(gitkruise sandbox kubeconfig --path)
    """
    file = sandbox_kubeconfig(read_environment())
    if path:
        click.echo(str(file))
        return
    from gitkruise.kube.system.private_files import read_state  # noqa: PLC0415  not for --help

    click.echo((read_state(file) or b"").decode().rstrip())
