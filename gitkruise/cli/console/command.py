"""The form of every command: a sentence, examples, options by group, exit codes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import click

from gitkruise.cli.console.environment import COLOUR_KEY
from gitkruise.errors import Finding, UsageProblem

OUTPUT_KEY: Final = "gitkruise.output"  # the running command's -o, for the printer of its errors
LOG_FORMAT_KEY: Final = "gitkruise.log-format"
_JSON_LOG: Final = re.compile(r"--log-format[=\0]json(?:\0|$)")  # in words joined by NUL
INTERRUPTED: Final = 130
Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
MEANINGS: Final = {
    0: "success, or nothing to report",
    1: "the check failed",
    2: "wrong usage",
    3: "invalid manifests; nothing was changed",
    4: "git: unreachable, rejected, history rewritten",
    5: "cluster: unreachable, forbidden, rejected",
    6: "timed out",
    7: "partly applied; the list is in the output",
    INTERRUPTED: "interrupted",
}
output_option: Final = click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format."
)
wide_output_option: Final = click.option(
    "-o", "--output", type=click.Choice(["text", "wide", "json"]), default="text",
    help="Output format.",
)  # fmt: skip
gates_option: Final = click.option(
    "--feature-gates", default="", metavar="Name=true,…", help="OpenKruise feature gates."
)
namespace_option: Final = click.option(
    "-n", "--namespace", default="", help="Namespace [default: that of the context]."
)
# Options of commands that ask a cluster.
_NAMING_CLUSTERS: Final = frozenset({"--sandbox", "--context", "--kubeconfig"})


def with_options(*options: Decorator) -> Decorator:
    """Add several options to a command, which lists them in this order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def config_path_option(help_: str) -> Decorator:
    """--config, as the parameter `config_path`."""
    return click.option("--config", "config_path", type=click.Path(path_type=Path), help=help_)


class GroupedOption(click.Option):
    """An option listed under its own heading."""

    def __init__(self, *args: Any, section: str, **kwargs: Any) -> None:
        self.section = section
        super().__init__(*args, **kwargs)


def _remember(value: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def keep(ctx: click.Context, _: click.Parameter, given: Any) -> None:
        if given:
            ctx.meta[COLOUR_KEY] = value or given

    return keep


def colour_options() -> list[click.Parameter]:
    """--color and --no-color, accepted before and after the command's name."""
    return [
        GroupedOption(
            ["--color"],
            section="Global",
            type=click.Choice(["auto", "always", "never"]),
            expose_value=False,
            is_eager=True,
            callback=_remember(""),
            help="Use of colour; NO_COLOR and FORCE_COLOR apply, too [default: auto].",
        ),
        GroupedOption(
            ["--no-color"],
            section="Global",
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_remember("never"),
            hidden=True,
        ),
    ]


def log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--log-format, and --verbose as the parameter `verbose`, of a command that logs."""

    def keep(ctx: click.Context, _: click.Parameter, given: str) -> None:
        ctx.meta[LOG_FORMAT_KEY] = given

    form = click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        expose_value=False,
        is_eager=True,  # wrong words are reported in it, too
        callback=keep,
        help="Form of the lines on standard error; json: one object for each event.",
    )
    return form(click.option("-v", "--verbose", is_flag=True, help="Log at level INFO.")(command))


def logs_json(context: click.Context | None = None) -> bool:
    """Return whether standard error is for JSON alone, in `context` or the running command's."""
    context = context or click.get_current_context(silent=True)
    return context is not None and context.meta.get(LOG_FORMAT_KEY) == "json"


class ExitCodesCommand(click.Command):
    """A command whose help lists its exit codes: 0, 2, 130 and `exits`.

    `says` is the meaning of 1. A command that `serves` runs until a signal, and then ends with 0.
    """

    def __init__(
        self,
        *args: Any,
        exits: Sequence[int] = (),
        says: str = "",
        serves: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.params += colour_options()
        self._exits, self._says = {0, 2, *exits} | (set() if serves else {INTERRUPTED}), says

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = "\0".join(args)  # the parser takes them out
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            if _JSON_LOG.search(words):
                ctx.meta[LOG_FORMAT_KEY] = "json"  # no option was read yet
            reads_records = any("--cluster" in p.opts for p in self.params)
            named = error.option_name if isinstance(error, click.NoSuchOption) else ""
            if named not in _NAMING_CLUSTERS or not reads_records:
                raise
            own = "; that of the sandbox is sandbox" if named == "--sandbox" else ""
            message = (
                f"No such option {named}: the command reads records in git."
                f" --cluster NAME says of which cluster{own}."
            )
            raise click.NoSuchOption(named, message, ctx=error.ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        ctx.meta[OUTPUT_KEY] = ctx.params.get("output", "text")
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], "Cluster": [], "Global": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record:
                sections[getattr(parameter, "section", "Options")].append(record)
        for name, rows in sections.items():
            if rows:
                with formatter.section(name):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        codes = sorted(self._exits)
        meanings = MEANINGS | ({1: self._says} if self._says else {})
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meanings[code]) for code in codes])


def duration_type(_: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """Callback of options that take a Go duration. Raises UsageProblem GK7005."""
    from gitkruise.wire.primitives.times import parse_duration  # noqa: PLC0415  only where there is one

    try:
        if text is not None:
            parse_duration(text)
    except ValueError as error:
        raise UsageProblem(
            Finding(code="GK7005", message=f"{parameter.opts[-1]}: {error}")
        ) from None
    return text


def lease_name(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check the name of a Lease, which names a folder of the state directory as well."""
    del context, parameter
    if len(value) > 200 or not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", value):
        raise click.BadParameter("must be lower-case letters, digits and hyphens, such as staging")
    return value


def timeout_option(help_: str = "Time limit.", *, default: str = "5m") -> Decorator:
    """--timeout, a Go duration."""
    return click.option(
        "--timeout", default=default, show_default=True, callback=duration_type, help=help_
    )
