"""Man pages and shell completions, both from the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

import click
from click.shell_completion import get_completion_class

from gitkruise.cli.root import COMMANDS, cli

PROGRAM: Final = "gitkruise"
# Shell → file below share/, where its completion loader looks for it.
COMPLETIONS: Final = {
    "bash": f"bash-completion/completions/{PROGRAM}",
    "zsh": f"zsh/site-functions/_{PROGRAM}",
    "fish": f"fish/vendor_completions.d/{PROGRAM}.fish",
}
MAN: Final = "man/man1"
_VERBATIM: Final = "\b"  # click's mark of a paragraph that keeps its lines
_PLUGIN: Final = """\
.TH "KUBECTL\\-GITKRUISE" "1" "{date}" "gitkruise {version}" "gitkruise manual"
.SH NAME
kubectl\\-gitkruise \\- gitkruise as a plugin of kubectl
.SH SYNOPSIS
.B kubectl gitkruise
COMMAND [ARGS]...
.SH DESCRIPTION
The same program as gitkruise, with the same commands and options.
.SH SEE ALSO
.BR gitkruise (1)
"""
_SENTENCE: Final = re.compile(r"[^.]+")


class ManFormatter(click.HelpFormatter):
    """The help of a command as man(7) macros: click calls the methods in the order of its help."""

    def __init__(self) -> None:
        super().__init__(width=10_000)  # no line is folded here: man does
        self._opened = False  # a section has a heading and no text yet
        self._described = False

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        del prefix
        self.write(f".SH SYNOPSIS\n.B {escaped(prog)}\n{escaped(args)}\n")

    def write_heading(self, heading: str) -> None:
        self._described = self._opened = True
        self.write(f".SH {escaped(heading).upper()}\n")

    def write_paragraph(self) -> None:
        """Nothing: each text and each row starts a paragraph of its own."""

    def write_text(self, text: str) -> None:
        if not self._described:
            self.write_heading("Description")
        for paragraph in text.split("\n\n"):
            lines = [line for line in paragraph.split("\n") if line != _VERBATIM]
            body = "\n".join(escaped(line) for line in lines)
            self.write("" if self._opened else ".PP\n")
            self._opened = False
            if _VERBATIM in paragraph:
                self.write(f".nf\n{body}\n.fi\n")
            else:
                self.write(f"{body}\n")

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        del col_max, col_spacing
        for term, text in rows:
            self.write(f".TP\n\\fB{escaped(term)}\\fR\n{escaped(text) or '.br'}\n")

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        self.write_heading(name)
        yield


def escaped(text: str) -> str:
    """Text without meaning for roff: backslashes, hyphens and leading control characters."""
    lines = text.replace("\\", r"\e").replace("-", r"\-").replace("`", r"\(ga").split("\n")
    return "\n".join(rf"\&{line}" if line.startswith((".", "'")) else line for line in lines)


def man_pages(version: str, epoch: int) -> dict[str, str]:
    """File name → page, for the program and every command of it."""
    found: dict[str, str] = {}
    contexts = list(_contexts(cli, None, PROGRAM))
    for context in contexts:
        name = _page(context)
        related = [other for other in contexts if other.parent is context]
        related += [context.parent] if context.parent else []
        found[f"{name}.1"] = _man_page(context, related, version, epoch)
    found[f"kubectl-{PROGRAM}.1"] = _PLUGIN.format(date=_day(epoch), version=version)
    return found


def completions() -> dict[str, str]:
    """Shell → the script that `gitkruise completion SHELL` prints."""
    scripts: dict[str, str] = {}
    for shell in COMPLETIONS:
        kind = get_completion_class(shell)
        if kind is None:
            raise ValueError(f"click has no completion for {shell}")
        scripts[shell] = kind(cli, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE").source() + "\n"
    return scripts


def shared_files(version: str, epoch: int) -> dict[str, str]:
    """Path below share/ → text: man pages and completions."""
    pages = {f"{MAN}/{name}": text for name, text in man_pages(version, epoch).items()}
    return pages | {COMPLETIONS[shell]: text for shell, text in completions().items()}


def _contexts(
    command: click.Command, parent: click.Context | None, name: str
) -> Iterator[click.Context]:
    """A context for a command and for each below it; aliases have no page."""
    settings = {**cli.context_settings, **command.context_settings}
    context = click.Context(command, parent=parent, info_name=name, **settings)
    context.formatter_class = ManFormatter
    yield context
    if isinstance(command, click.Group):
        for child_name in COMMANDS if command is cli else command.list_commands(context):
            child = command.get_command(context, child_name)
            if child is not None and not child.hidden:
                yield from _contexts(child, context, child_name)


def _page(context: click.Context) -> str:
    return context.command_path.replace(" ", "-")


def _day(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, UTC).date().isoformat()


def _man_page(
    context: click.Context, related: Sequence[click.Context], version: str, epoch: int
) -> str:
    formatter = ManFormatter()
    context.command.format_help(context, formatter)
    name, day = escaped(_page(context)), _day(epoch)
    (purpose,) = _SENTENCE.findall((context.command.help or "").partition("\n")[0])[:1]
    others = ",\n".join(f".BR {escaped(_page(one))} (1)" for one in related)
    return (
        f'.TH "{name.upper()}" "1" "{day}" "{PROGRAM} {version}" "{PROGRAM} manual"\n'
        f".SH NAME\n{name} \\- {escaped(purpose)}\n"
        f"{formatter.getvalue()}.SH SEE ALSO\n{others}\n"
    )
