"""gitkruise sandbox: the embedded cluster alone, in the foreground or the background."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gitkruise.cli.config import Environment, read_environment
from gitkruise.cli.output import API_VERSION, say_json, tell
from gitkruise.cli.style import Style
from gitkruise.cli.verb import Verb
from gitkruise.errors import ClusterFailed, Finding, UsageProblem

if TYPE_CHECKING:
    from gitkruise.sandbox.server import SandboxOptions


@click.group()
def sandbox() -> None:
    """A Kubernetes-compatible cluster on loopback, with a simulated kubelet.

    \b
    Examples:
      gitkruise sandbox up --detach
      export KUBECONFIG=$(gitkruise sandbox kubeconfig --path)
      kubectl get clonesets -A -w
    """


def _state(environment: Environment) -> Path:
    return environment.state_dir / "sandbox"


@sandbox.command(cls=Verb, exits=(5,))
@click.option("--detach", is_flag=True, help="Run in the background; stop it with `down`.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    show_default=True,
    help="0 takes the last port, or a free one.",
)
@click.option("--ephemeral", is_flag=True, help="Keep nothing on disk.")
@click.option(
    "--no-kubelet",
    is_flag=True,
    help="Leave scheduler, kubelet and Kubernetes' own controllers to the outside.",
)
@click.option("--no-controllers", is_flag=True, help="Run no workload controllers inside.")
@click.option("--feature-gates", default="", metavar="Name=true,…", help="OpenKruise's gates.")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Also write a kubeconfig here.")
@click.option(
    "--nodes",
    type=click.IntRange(0, 5_000),
    default=5,
    show_default=True,
    help="Simulated nodes.",
)
@click.option(
    "--profile",
    type=click.Choice(["fast", "general", "chaos"]),
    default="general",
    show_default=True,
    help="How nodes work: fast all take a second; chaos is slow, and a tenth of containers crash.",
)
@click.option(
    "--speed",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    help="Divides the delays of containers.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of uids and jitter.")
def up(detach: bool, **flags: object) -> None:
    """Start the embedded cluster.

    \b
    Examples:
      gitkruise sandbox up
      gitkruise sandbox up --detach
      gitkruise sandbox up --ephemeral --no-kubelet --kubeconfig /tmp/kubeconfig

    In the foreground until Ctrl-C or SIGTERM, unless --detach. The kubeconfig is complete and
    written only once the server answers.
    """
    environment = read_environment()
    if detach:
        if flags["ephemeral"]:
            message = "--detach excludes --ephemeral: `down` finds a sandbox by its state on disk"
            raise UsageProblem(Finding(code="GK7010", message=message))
        _up_detached(environment)
        return
    _up_foreground(_options(environment, flags))


def _options(environment: Environment, flags: dict[str, object]) -> SandboxOptions:
    from gitkruise.model.settings import parse_gates  # noqa: PLC0415  only to start one
    from gitkruise.sandbox.server import SandboxOptions  # noqa: PLC0415  imports aiohttp

    kubeconfig = flags["kubeconfig"]
    return SandboxOptions(
        state_dir=None if flags["ephemeral"] else _state(environment),
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


def _up_foreground(options: SandboxOptions) -> None:
    from gitkruise.cli.serving import run_until_stopped  # noqa: PLC0415  imports aiohttp

    def announce(url: str, kubeconfig: Path | None) -> None:
        tell(f"cluster   {url}  (simulated: containers do not really run)")
        if kubeconfig:
            tell(f"try       export KUBECONFIG={kubeconfig}; kubectl get nodes")
        tell("stop      Ctrl-C")

    run_until_stopped(options, announce)


def _up_detached(environment: Environment) -> None:
    from gitkruise.sandbox import background  # noqa: PLC0415  only to start a process

    flags = [word for word in sys.argv[1:] if word != "--detach"]
    record = background.start_detached(
        [sys.executable, "-m", "gitkruise", *flags], _state(environment)
    )
    tell(f"cluster   {record.url}  (pid {record.pid})")
    tell("try       export KUBECONFIG=$(gitkruise sandbox kubeconfig --path)")
    tell("stop      gitkruise sandbox down")


@sandbox.command(cls=Verb)
def down() -> None:
    """Stop the embedded cluster; its state stays for the next `up`.

    \b
    Example:
      gitkruise sandbox down
    """
    from gitkruise.sandbox import background  # noqa: PLC0415  only to stop a process

    stopped = background.stop(_state(read_environment()))
    tell("stopped" if stopped else "no sandbox was running")


@sandbox.command(cls=Verb, exits=(1,), says="no sandbox is running")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@click.pass_context
def status(ctx: click.Context, output: str) -> None:
    """Say whether the embedded cluster runs.

    \b
    Examples:
      gitkruise sandbox status
      gitkruise sandbox status -o json
    """
    from gitkruise.sandbox import background  # noqa: PLC0415  only to look at a process

    root = _state(read_environment())
    record = background.running(root)
    if output == "json":
        answer = {
            "apiVersion": API_VERSION,
            "kind": "SandboxStatus",
            "running": record is not None,
            "stateDir": str(root),
            **({"url": record.url, "pid": record.pid} if record else {}),
        }
        say_json(answer, Style.of(read_environment()))
    elif record:
        click.echo(f"running   {record.url}  (pid {record.pid}, state in {root})")
    else:
        click.echo(f"not running  (state in {root})")
    ctx.exit(0 if record else 1)


@sandbox.command(cls=Verb, exits=(5,))
@click.option("--path", is_flag=True, help="Print the file's path instead of its content.")
def kubeconfig(path: bool) -> None:
    """Print the kubeconfig of the running sandbox.

    \b
    Example:
      export KUBECONFIG=$(gitkruise sandbox kubeconfig --path)
    """
    file = sandbox_kubeconfig(read_environment())
    click.echo(str(file) if path else file.read_text().rstrip())


def sandbox_kubeconfig(environment: Environment) -> Path:
    """The running sandbox's kubeconfig. Raises ClusterFailed GK4130 when none runs."""
    from gitkruise.sandbox import background  # noqa: PLC0415  only to look at a process

    root = _state(environment)
    if background.running(root) is None:
        raise ClusterFailed(
            Finding(
                code="GK4130",
                message="no sandbox is running",
                notes=(("state", str(root)), ("next", "gitkruise sandbox up --detach")),
            )
        )
    return root / "kubeconfig"
