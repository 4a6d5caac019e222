"""The `gitkruise` command: finds subcommands without importing them, prints every error once."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise import __version__
from gitkruise.cli.verb import OUTPUT_KEY, colour_options
from gitkruise.errors import Finding, GitkruiseError, UsageProblem, leaves

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141  # as a shell shows a program that SIGPIPE ended
UNEXPECTED: Final = 70
YOUNG_OBJECTS: Final = 20_000  # a short command makes little rubbish and need not look for it
DEBUG_KEY: Final = "gitkruise.debug"

# name → (module, attribute, one line for --help); the modules are imported when used.
COMMANDS: Final[dict[str, tuple[str, str, str]]] = {
    "demo": ("gitkruise.cli.demo", "demo", "Play a whole GitOps canary on this machine."),
    "sandbox": ("gitkruise.cli.sandbox", "sandbox", "The embedded cluster: up, down, status."),
    "validate": ("gitkruise.cli.validate", "validate", "Check manifests offline."),
    "plan": ("gitkruise.cli.plan", "plan", "Show what a commit would do, pod by pod."),
    "status": ("gitkruise.cli.status", "status", "Show where every object stands against git."),
    "get": ("gitkruise.cli.get", "get", "List or watch rollouts, pods, revisions, events, units."),
    "history": ("gitkruise.cli.history", "history", "Show which commit did what to an object."),
    "why": ("gitkruise.cli.why", "why", "Say what an object waits for."),
    "trace": ("gitkruise.cli.trace", "trace", "Trace a pod to the commit that made it."),
    "drift": (
        "gitkruise.cli.drift",
        "drift",
        "Show what differs from git though git did not move.",
    ),
    "promote": ("gitkruise.cli.acts", "promote", "Let more pods have the new revision."),
    "hold": ("gitkruise.cli.acts", "hold", "Let no further pod have the new revision."),
    "pause": ("gitkruise.cli.acts", "pause", "Stop updating pods."),
    "resume": ("gitkruise.cli.acts", "resume", "Go on after a pause."),
    "rollback": ("gitkruise.cli.acts", "rollback", "Bring every pod back, by a commit."),
    "sync": ("gitkruise.cli.sync", "sync", "Bring the cluster to what git asks, once."),
    "wait": ("gitkruise.cli.wait", "wait", "Wait until a commit is out."),
    "run": ("gitkruise.cli.run", "run", "The controller: follow git, drive the cluster."),
    "doctor": ("gitkruise.cli.doctor", "doctor", "Look for what could keep it from working."),
    "webhook": ("gitkruise.cli.webhook", "webhook", "Admission for a cluster without OpenKruise."),
    "install": ("gitkruise.cli.install", "install", "Put CRDs and the controller on a cluster."),
    "bootstrap": (
        "gitkruise.cli.bootstrap",
        "bootstrap",
        "Install from a repository that the cluster follows.",
    ),
    "explain": ("gitkruise.cli.explain", "explain", "Explain an error code or a field."),
    "completion": ("gitkruise.cli.completion", "completion", "Print a shell completion script."),
    "version": ("gitkruise.cli.version", "version", "Print the version."),
}
ALIASES: Final = {"lint": "validate", "diff": "plan"}


class Cli(click.Group):
    """Lazy subcommands."""

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

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of commands from the table, so that completing them imports none."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415  only for completion

        found = [
            CompletionItem(name, help=help_)
            for name, (_, _, help_) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; print what goes wrong and leave with its code."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, EOFError):
            raise
        except BrokenPipeError:
            _forget_output()
            ctx.exit(BROKEN_PIPE)
        except Exception as error:
            if ctx.meta.get(DEBUG_KEY):
                raise
            ctx.exit(_report(error, ctx))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_) for name, (_, _, help_) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0] if args else ""
        if word in {*COMMANDS, *ALIASES} or word.startswith("-"):
            return super().resolve_command(ctx, args)
        import difflib  # noqa: PLC0415  only for a mistyped command

        near = difflib.get_close_matches(word, [*COMMANDS, *ALIASES], 1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise click.UsageError(f'no such command "{word}".{hint}', ctx)


@click.group(
    cls=Cli,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="gitkruise")
@click.option("--debug", is_flag=True, help="Show stack traces.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Turn git pushes into OpenKruise-style rollouts and write the outcome back into git.

    \b
    Start here:
      gitkruise demo                         a whole canary on this machine
      gitkruise plan                         what your branch would do
      gitkruise run --config gitkruise.yaml  the controller
    """
    ctx.meta[DEBUG_KEY] = debug


cli.params += colour_options()


def main() -> None:
    """Entry point of the `gitkruise` and `kubectl-gitkruise` commands."""
    gc.set_threshold(YOUNG_OBJECTS)
    _open_closed_streams()
    sys.exit(run(sys.argv[1:]))


def _open_closed_streams() -> None:
    """Whoever started us may have closed what they do not want to read: it goes nowhere then, and
    no file that is opened later takes its number."""
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        import os  # noqa: PLC0415  seldom needed

        while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(number)
        sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115  for good
        sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115  for good
        sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115  for good


def run(words: Sequence[str]) -> int:
    """One command line; every way it can end as an exit code. An error is never 1."""
    try:
        code = cli.main(list(words), prog_name="gitkruise", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return 2
    except click.Abort:
        return INTERRUPTED
    return code if isinstance(code, int) else 0


def _forget_output() -> None:
    """Nobody reads on; keep the interpreter from complaining when it flushes at its end."""
    import os  # noqa: PLC0415  only for a broken pipe

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(error: Exception, ctx: click.Context) -> int:
    """Print what went wrong: the findings of the first known error in it, or GK9000."""
    from gitkruise.cli.config import read_environment  # noqa: PLC0415  only when it went wrong
    from gitkruise.cli.failures import findings_of  # noqa: PLC0415
    from gitkruise.cli.findings import findings_list, findings_text  # noqa: PLC0415
    from gitkruise.cli.output import say_json, tell  # noqa: PLC0415
    from gitkruise.cli.style import Style  # noqa: PLC0415

    known = next((e for e in leaves(error) if isinstance(e, GitkruiseError)), None)
    findings = findings_of(known) if known else (_unexpected(error),)
    environment = read_environment()
    if ctx.meta.get(OUTPUT_KEY) == "json" and not isinstance(known, UsageProblem):
        say_json(findings_list(findings), Style.of(environment))
    tell(findings_text(findings, Style.of_errors(environment)))
    return known.exit_code if known else UNEXPECTED


def _unexpected(error: Exception) -> Finding:
    import tempfile  # noqa: PLC0415  slow to import, and only for reports
    import traceback  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    report = Path(tempfile.mkdtemp(prefix="gitkruise-report-")) / "report.txt"
    report.write_text("".join(traceback.format_exception(error)))
    return Finding(
        code="GK9000",
        message=f"gitkruise met something it did not expect: {type(error).__name__}: {error}",
        notes=(
            ("unchanged", "what was running goes on; nothing is half written"),
            ("report", str(report)),
            ("next", "run again with `gitkruise --debug …` to see where, and open an issue"),
        ),
    )
