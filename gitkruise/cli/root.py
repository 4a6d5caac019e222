"""The `gitkruise` command: finds subcommands without importing them, prints each error once."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise import __version__
from gitkruise.cli.console.command import INTERRUPTED, OUTPUT_KEY, colour_options, logs_json
from gitkruise.cli.console.environment import read_environment
from gitkruise.errors import (
    CRASHED,
    ApiError,
    DiagnosticError,
    Finding,
    GitkruiseError,
    Severity,
    TooManyRequests,
    UsageProblem,
    leaves,
)

if TYPE_CHECKING:
    from pathlib import Path

    from click.shell_completion import CompletionItem

BROKEN_PIPE: Final = 141  # as a shell shows a program that SIGPIPE ended
UNEXPECTED: Final = 70
YOUNG_OBJECTS: Final = (
    20_000  # a short command creates little garbage: collections would only cost time
)
DEBUG_KEY: Final = "gitkruise.debug"
_RUNNING: Final = "running controllers and clusters"

# name → (module below cli.commands that has it, one line for --help); imported when used.
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "demo": (".cluster.demo", "Play a GitOps canary on this machine."),
    "sandbox": (".cluster.sandbox", "Start, stop and examine the embedded cluster."),
    "init": (".change.init", "Write a gitkruise.yaml for a repository."),
    "validate": (".change.validate", "Validate manifests offline."),
    "plan": (".change.plan", "Preview a commit, pod by pod."),
    "status": (".inspect.status", "Show managed objects and their states."),
    "get": (".inspect.get", "List or watch rollouts, pods, revisions, events, units."),
    "dashboard": (".inspect.dashboard", "Show rollouts and pods in a browser."),
    "history": (".inspect.history", "Show the commits of an object and their outcomes."),
    "why": (".inspect.why", "Explain why an object is not rolled out."),
    "trace": (".inspect.trace", "Trace a pod to its commit."),
    "drift": (".inspect.drift", "Show live changes that did not come through git."),
    "promote": (".change.actions", "Update more pods, by a commit."),
    "hold": (".change.actions", "Update no more pods, by a commit."),
    "pause": (".change.actions", "Pause a rollout, by a commit."),
    "resume": (".change.actions", "Continue a paused rollout, or a suspended unit."),
    "rollback": (".change.actions", "Return every pod to an earlier template, by a commit."),
    "images": (".change.images", "Show newer tags of images, or commit them."),
    "recreate": (".change.recreate", "Restart containers of a pod in place."),
    "prepull": (".change.prepull", "Pull images on nodes before pods need them."),
    "suspend": (".change.units", "Suspend a unit of the cluster."),
    "reconcile": (".change.units", "Reconcile a unit or source now, and wait."),
    "sync": (".change.sync", "Reconcile the cluster with git once."),
    "wait": (".change.wait", "Wait until a commit is rolled out."),
    "run": (".cluster.run", "Run the controller."),
    "doctor": (".inspect.doctor", "Check git, configuration, cluster and access rights."),
    "webhook": (".cluster.webhook", "Serve admission webhooks for a cluster without OpenKruise."),
    "agent": (".cluster.agent", "Recreate containers and pull images on a node."),
    "install": (".cluster.install", "Install CRDs and the controller on a cluster."),
    "upgrade": (
        ".cluster.upgrade",
        "Upgrade gitkruise on a cluster and migrate its stored objects.",
    ),
    "uninstall": (".cluster.uninstall", "Remove gitkruise from a cluster and keep the workloads."),
    "bootstrap": (
        ".cluster.bootstrap",
        "Install gitkruise from a repository that the cluster follows.",
    ),
    "explain": (".inspect.explain", "Explain an error code or a field of the configuration."),
    "completion": (".cluster.completion", "Print a shell completion script."),
    "version": (".cluster.version", "Print the versions of gitkruise and the cluster."),
}
ALIASES: Final = {"lint": "validate", "diff": "plan"}


class Cli(click.Group):
    """Lazy subcommands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        command = getattr(
            importlib.import_module(COMMANDS[name][0], "gitkruise.cli.commands"), name
        )
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of commands from the table, without importing a command."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415  only for completion

        found = [
            CompletionItem(name, help=help_)
            for name, (_, help_) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; print its error and exit with the code of that."""
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
            ctx.exit(_report(_lost_directory(_lost_output(error)), ctx))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_) for name, (_, help_) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0] if args else ""
        if word == "help":
            return self._help_on(ctx, args[1:])
        if word in {*COMMANDS, *ALIASES} or word.startswith("-"):
            return super().resolve_command(ctx, args)
        import difflib  # noqa: PLC0415  only for a mistyped command

        near = difflib.get_close_matches(word, [*COMMANDS, *ALIASES], 1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise click.UsageError(f'no such command "{word}".{hint}', ctx)

    def _help_on(
        self, ctx: click.Context, names: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Read `help COMMAND` as `COMMAND --help`."""
        if not names:
            click.echo(ctx.get_help())
            ctx.exit()
        return self.resolve_command(ctx, [*names, "--help"])


@click.group(
    cls=Cli,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="gitkruise")
@click.option("--debug", is_flag=True, help="Show stack traces.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Turn git pushes into OpenKruise rollouts and record the outcome in git.

    \b
    Start here:
      gitkruise demo                         play a canary on this machine
      gitkruise plan                         preview your branch
      gitkruise run --config gitkruise.yaml  run the controller
    """
    ctx.meta[DEBUG_KEY] = debug


cli.params += colour_options()


def main() -> None:
    """Entry point of the `gitkruise` and `kubectl-gitkruise` commands."""
    gc.set_threshold(YOUNG_OBJECTS)
    _open_closed_streams()
    sys.exit(run(sys.argv[1:]))


def _open_closed_streams() -> None:
    """Open streams that the parent process closed, so that no other file takes their number."""
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(number)
        sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115  never closed
        sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115  never closed
        sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115  never closed


def run(words: Sequence[str]) -> int:
    """Run one command line and return its exit code. An error is never 1."""
    try:
        code = cli.main(list(words), prog_name="gitkruise", standalone_mode=False)
    except click.ClickException as error:
        _show(error)
        return 2
    except click.Abort:
        return INTERRUPTED
    except OSError as error:  # of --help, which prints before a command is invoked
        return _report(_lost_output(error), click.Context(cli))
    return code if isinstance(code, int) else 0


def _show(error: click.ClickException) -> None:
    """Print wrong usage; as one event where standard error is for JSON alone."""
    context = getattr(error, "ctx", None)
    if context is None or not logs_json(context):
        error.show()
        return
    from gitkruise.cli.console.log_format import print_events  # noqa: PLC0415
    from gitkruise.wire.primitives.log_line import log_line  # noqa: PLC0415

    line = log_line("command-failed", text=error.format_message())
    print_events([(line, Severity.ERROR)])


def _forget_output() -> None:
    """Redirect standard output, so that flushing it at exit prints no error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _lost_output(error: Exception) -> Exception:
    """Return GK7094 for a failed write of output, which is then given up; otherwise the error."""
    cause = next(leaves(error))
    trace = cause.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    written = trace is not None and trace.tb_frame.f_code is click.echo.__code__
    if not isinstance(cause, OSError) or not written:
        return error
    _forget_output()
    done = "what the command did before; the rest of its output is lost"
    next_ = "make room there, or redirect the output elsewhere"
    message = f"cannot write to standard output: {cause.strerror}"
    notes = (("unchanged", done), ("next", next_))
    return UsageProblem(Finding(code="GK7094", message=message, notes=notes))


def _lost_directory(error: Exception) -> Exception:
    """Return GK7095 for an error of a command whose current directory was removed; otherwise the
    error."""
    if not isinstance(next(leaves(error)), FileNotFoundError):
        return error
    try:
        os.getcwd()  # noqa: PTH109  pathlib is imported by the commands that need it
    except FileNotFoundError:
        notes = (("unchanged", _RUNNING), ("next", "cd to a directory that exists"))
        message = "the current directory was removed"
        return UsageProblem(Finding(code="GK7095", message=message, notes=notes))
    return error


def _report(error: Exception, ctx: click.Context) -> int:
    """Print the findings of the first known error, or GK9000; return the exit code."""
    from gitkruise.cli.console.findings import findings_list, findings_text  # noqa: PLC0415
    from gitkruise.cli.console.output import say_json, say_on_stderr  # noqa: PLC0415
    from gitkruise.cli.console.style import Style  # noqa: PLC0415

    known = next((e for e in leaves(error) if isinstance(e, GitkruiseError)), None)
    environment = read_environment()
    command = f"gitkruise {ctx.invoked_subcommand or ''}".strip()
    findings = (
        _findings_of(known) if known else (_unexpected(error, command, environment.state_dir),)
    )
    if ctx.meta.get(OUTPUT_KEY) == "json" and not isinstance(known, UsageProblem):
        say_json(findings_list(findings), Style.of(environment))
    if logs_json(ctx):
        _report_json(findings)
    else:
        say_on_stderr(findings_text(findings, Style.of_errors(environment)).split("\n"))
    return known.exit_code if known else UNEXPECTED


def _report_json(findings: Sequence[Finding]) -> None:
    from gitkruise.cli.console.log_format import finding_facts, print_events  # noqa: PLC0415
    from gitkruise.wire.primitives.log_line import log_line  # noqa: PLC0415

    facts = [(finding_facts(finding), finding.severity) for finding in findings]
    print_events((log_line("command-failed", **about), severity) for about, severity in facts)


def _findings_of(error: GitkruiseError) -> tuple[Finding, ...]:
    """Return the findings of an error that gitkruise raised on purpose."""
    if isinstance(error, DiagnosticError):
        return error.findings
    if isinstance(error, ApiError):
        message = f"the API server rejected it: {error.message}"
        check = "gitkruise doctor cluster rbac   checks the cluster and your rights"
        later = "repeat the command later: the API server limits requests now"
        next_ = ("next", later if isinstance(error, TooManyRequests) else check)
        return (Finding(code="GK4001", message=message, notes=(next_,)),)
    return (Finding(code="GK9011", message=str(error) or type(error).__name__),)


def _unexpected(error: Exception, command: str, folder: Path) -> Finding:
    """Return GK9012 for a shortage of the machine; otherwise GK9000 without the text of the
    exception, which may quote a Secret."""
    from gitkruise.kube.system.crash_reports import FOLDER, CrashReports, place  # noqa: PLC0415
    from gitkruise.kube.system.shortages import shortage  # noqa: PLC0415

    cause = next(leaves(error))
    if (short := shortage(cause, command, _RUNNING)) is not None:
        return short
    report = CrashReports(folder / FOLDER).kept(error, command)
    return Finding(
        code=CRASHED,
        message=f"{command}: unexpected {type(cause).__name__}{place(cause)}",
        notes=(
            ("unchanged", _RUNNING),
            ("report", report),
            ("next", "open an issue with the report; `gitkruise --debug …` shows more"),
        ),
    )
