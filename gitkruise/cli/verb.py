"""How every command looks: one sentence, examples, options by group, exit codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from gitkruise.cli.config import COLOUR_KEY
from gitkruise.errors import Finding, UsageProblem

OUTPUT_KEY: Final = "gitkruise.output"  # the running command's -o, for whoever prints its errors
MEANINGS: Final = {
    0: "done, or nothing to report",
    1: "the answer is no",
    2: "wrong usage",
    3: "manifests are invalid, so nothing was done",
    4: "git: unreachable, refused, rewritten",
    5: "cluster: unreachable, forbidden, refused",
    6: "timed out",
    7: "partly applied; the list is in the output",
    130: "interrupted",
}


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
            help="When to use colour (also: NO_COLOR, FORCE_COLOR).",
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


class Verb(click.Command):
    """A command that says which codes it exits with: `exits` are those besides 0 and 2."""

    def __init__(
        self, *args: Any, exits: Sequence[int] = (), says: str = "", **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.params += colour_options()
        self._exits, self._says = exits, says

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
        codes = sorted({0, 2, *self._exits})
        meanings = MEANINGS | ({1: self._says} if self._says else {})
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meanings[code]) for code in codes])


def duration_type(_: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """Callback of options that take a Go duration. Raises UsageProblem GK7005."""
    from gitkruise.wire.times import parse_duration  # noqa: PLC0415  only where there is one

    try:
        if text is not None:
            parse_duration(text)
    except ValueError as error:
        raise UsageProblem(
            Finding(code="GK7005", message=f"{parameter.opts[-1]}: {error}")
        ) from None
    return text
