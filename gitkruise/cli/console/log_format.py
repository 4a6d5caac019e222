"""The log: one line for each record, as text or as JSON, whatever a message quotes."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from gitkruise.cli.console.command import logs_json
from gitkruise.cli.console.output import say_on_stderr
from gitkruise.errors import ApiError, DiagnosticError, Finding, Severity
from gitkruise.printable import visible, visible_lines
from gitkruise.wire.primitives.log_line import LogLine, log_line
from gitkruise.wire.primitives.times import format_micro_time

_PROGRESS: Final = "gitkruise.progress"  # logger of what a command prints at any level
_LEVELS: Final = {Severity.ERROR: logging.ERROR, Severity.WARNING: logging.WARNING}
_NOTES: Final = ("why", "unchanged", "report", "next")  # of a finding, that are fields


class LineFormatter(logging.Formatter):
    """`LEVEL logger: message`; line ends and control characters of a message are escaped.

    Lines of a traceback follow, indented, so that no text in one looks like a record. Texts of
    exceptions are left out, because they may quote a value of a Secret.
    """

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        return visible(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        return _indented(_trace(ei[1]))

    def formatStack(self, stack_info: str) -> str:
        return _indented(stack_info)


class JsonFormatter(logging.Formatter):
    """One JSON object in ASCII for each record: time, level, logger, message, and the facts.

    Texts are escaped as in a line of text, so that a program which prints a field prints one line;
    a trace keeps its line ends, which JSON escapes. It has the same texts as the line has, and no
    more: see LineFormatter.
    """

    def format(self, record: logging.LogRecord) -> str:
        value: dict[str, object] = {
            "time": format_micro_time(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname,
            "logger": visible(record.name),
            "message": visible(record.getMessage()),
        }
        if isinstance(record.msg, LogLine):
            value |= {"event": record.msg.event, **dict(_fields(record.msg))}
        if record.exc_info and record.exc_info[1]:
            value["exception"] = _trace(record.exc_info[1])
        if record.stack_info:
            value["stack"] = visible_lines(record.stack_info)
        return json.dumps(value)


def _fields(line: LogLine) -> Iterator[tuple[str, object]]:
    """Yield the facts as values of JSON; the code or the reason of an error is one of its own."""
    for key, fact in line.facts.items():
        yield key, _value(fact)
        for more, text in _class_of(fact):
            if more not in line.facts:
                yield more, text


def _class_of(fact: object) -> Iterator[tuple[str, str]]:
    if isinstance(fact, DiagnosticError):
        yield "code", fact.findings[0].code
    elif isinstance(fact, Finding):
        yield "code", fact.code
    elif isinstance(fact, ApiError) and fact.reason:
        yield "reason", visible(fact.reason)


def _value(fact: object) -> object:
    if isinstance(fact, bool | int) or (isinstance(fact, float) and math.isfinite(fact)):
        return fact
    return visible(str(fact))


def _trace(error: BaseException) -> str:
    from gitkruise.kube.system.crash_reports import stacks  # noqa: PLC0415  start-up budget

    return visible_lines("".join(stacks(error)).strip("\n"))


def log_to_stderr(level: int) -> None:
    """Write records of `level` and above to standard error, as --log-format asks."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if logs_json() else LineFormatter())
    logging.basicConfig(level=level, handlers=[handler])
    logging.captureWarnings(logs_json())  # their two lines are no object


def announce(text: str, event: str, **facts: object) -> None:
    """Print `text` on standard error, or the event with its facts under --log-format json."""
    if logs_json():
        print_events([(log_line(event, **facts), None)])
    else:
        say_on_stderr(text)


def print_events(events: Iterable[tuple[LogLine, Severity | None]]) -> None:
    """Print events as JSON on standard error, whatever level is logged."""
    for line, severity in events:
        level = _LEVELS[severity] if severity else logging.INFO
        record = logging.LogRecord(_PROGRESS, level, __file__, 0, line, (), None)
        click.echo(JsonFormatter().format(record), err=True)


def finding_event(finding: Finding, **about: object) -> tuple[LogLine, Severity | None]:
    """Return the event of a finding, with its severity."""
    return log_line("finding", **about, **finding_facts(finding)), finding.severity


def finding_facts(finding: Finding) -> dict[str, object]:
    """Return the fields of a finding; notes that have no field of their own are its detail."""
    facts: dict[str, object] = {"code": finding.code, "text": finding.message}
    if finding.object:
        facts["object"] = finding.object
    if finding.places:
        facts["place"] = str(finding.places[0])
    notes: dict[str, list[str]] = {}
    for label, text in finding.notes:
        field = "next" if label == "or" else label if label in _NOTES else "detail"
        notes.setdefault(field, []).append(f"{label}: {text}" if label not in {"", field} else text)
    return facts | {field: "; ".join(texts) for field, texts in notes.items()}


@contextmanager
def logged_to_file(file: Path) -> Iterator[None]:
    """Write warnings to `file` until the end of the block, and errors to standard error as well.

    The demo draws on the terminal. A warning there, such as that of a controller that waits for a
    lease, would appear in the middle of a rollout.
    """
    errors = logging.StreamHandler()
    errors.setLevel(logging.ERROR)
    kept = logging.FileHandler(file, delay=True)
    handlers: list[logging.Handler] = [errors, kept]
    for handler in handlers:
        handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=handlers)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(kept)
        kept.close()


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in visible_lines(text).split("\n"))
