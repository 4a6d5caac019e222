"""The `gitkruise` command: finds subcommands without importing them, prints every error once."""

from __future__ import annotations

import importlib
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, Final

import click

from gitkruise import __version__
from gitkruise.cli.config import read_environment
from gitkruise.cli.findings import findings_text
from gitkruise.cli.style import Style
from gitkruise.errors import ApiError, Finding, GitkruiseError, Reported

# name → (module, attribute, one line for --help); the modules are imported when used.
COMMANDS: Final[dict[str, tuple[str, str, str]]] = {
    "demo": ("gitkruise.cli.demo", "demo", "Play a whole GitOps canary on this machine."),
    "sandbox": ("gitkruise.cli.sandbox", "sandbox", "The embedded cluster: up, down, status."),
    "validate": ("gitkruise.cli.validate", "validate", "Check manifests offline."),
    "plan": ("gitkruise.cli.plan", "plan", "Show what a commit would do, pod by pod."),
    "status": ("gitkruise.cli.status", "status", "Where every object stands against git."),
    "get": ("gitkruise.cli.get", "get", "List rollouts, units, pods, revisions, events."),
    "history": ("gitkruise.cli.history", "history", "Which commit did what to an object."),
    "run": ("gitkruise.cli.run", "run", "The controller: follow git, drive the cluster."),
    "install": ("gitkruise.cli.install", "install", "Put CRDs and the controller on a cluster."),
    "completion": ("gitkruise.cli.completion", "completion", "Shell completion script."),
    "version": ("gitkruise.cli.version", "version", "Print the version."),
}
ALIASES: Final = {"lint": "validate", "diff": "plan"}


class Cli(click.Group):
    """Lazy subcommands, and the only printer of errors."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        entry = COMMANDS.get(ALIASES.get(cmd_name, cmd_name))
        if entry is None:
            return None
        command = getattr(importlib.import_module(entry[0]), entry[1])
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_) for name, (_, _, help_) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            import difflib  # noqa: PLC0415  only for a mistyped command

            near = difflib.get_close_matches(args[0], [*COMMANDS, *ALIASES], 1)
            hint = f' Did you mean "{near[0]}"?' if near else ""
            raise click.UsageError(f'no such command "{args[0]}".{hint}')
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except GitkruiseError as error:
            _print_error(error)
            ctx.exit(error.exit_code)
        except (click.ClickException, click.exceptions.Exit, click.Abort, KeyboardInterrupt):
            raise
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            _print_unexpected(error)
            ctx.exit(70)


def _style() -> Style:
    context = click.get_current_context(silent=True)
    wish = (context.find_root().params.get("color") if context else None) or "auto"
    return Style.of(read_environment(wish))


def _print_error(error: GitkruiseError) -> None:
    if isinstance(error, Reported):
        findings = error.findings
    elif isinstance(error, ApiError):
        findings = (Finding(code="GK4001", message=f"the API server says: {error.message}"),)
    else:
        findings = (Finding(code="GK9001", message=str(error)),)
    click.echo(findings_text(findings, _style()), err=True)


def _print_unexpected(error: Exception) -> None:
    report = Path(tempfile.mkdtemp(prefix="gitkruise-report-")) / "report.txt"
    report.write_text("".join(traceback.format_exception(error)))
    finding = Finding(
        code="GK9000",
        message=f"gitkruise met something it did not expect: {type(error).__name__}: {error}",
        notes=(
            ("unchanged", "what was running goes on; nothing is half written"),
            ("report", str(report)),
            ("next", "run again with `gitkruise --debug …` to see where, and open an issue"),
        ),
    )
    click.echo(findings_text((finding,), _style()), err=True)


@click.group(
    cls=Cli,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="gitkruise")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="When to use colour (also: NO_COLOR, FORCE_COLOR).",
)
@click.option("--debug", is_flag=True, help="Show stack traces.")
def cli(color: str, debug: bool) -> None:
    """Turn git pushes into OpenKruise-style rollouts and write the outcome back into git.

    \b
    Start here:
      gitkruise demo                        a whole canary on this machine
      gitkruise plan                        what your branch would do
      gitkruise run --config gitkruise.yaml the controller
    """
    del color, debug


def main() -> None:
    """Entry point of the `gitkruise` and `kubectl-gitkruise` commands."""
    try:
        cli.main(prog_name="gitkruise", standalone_mode=True)
    except KeyboardInterrupt:
        sys.exit(130)
