"""The log: one line for each record, whatever a message quotes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gitkruise.printable import visible, visible_lines


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
        from gitkruise.kube.system.crash_reports import stacks  # noqa: PLC0415  start-up budget

        return _indented("".join(stacks(ei[1])).strip("\n"))

    def formatStack(self, stack_info: str) -> str:
        return _indented(stack_info)


def log_to_stderr(level: int) -> None:
    """Write records of `level` and above to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=level, handlers=[handler])


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
