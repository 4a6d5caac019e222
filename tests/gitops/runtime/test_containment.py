"""The edge: an exception nobody expected becomes Crashed, with a report; all others pass."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gitkruise.errors import ApiError, Concern, Conflict, Crashed, Finding, NotFound, SourceFailed
from gitkruise.gitops.containment import RECOVERED_S, UNREPORTED, Containment
from gitkruise.kube.system.crash_reports import CrashReports
from tests.clock import ManualClock

SECRET = "hunter2"
NOTHING: dict[str, str] = {}
VALUE: Any = None
ROWS: list[tuple[str, Callable[[], Any]]] = [
    ("KeyError", lambda: NOTHING[SECRET]),
    ("ValueError", lambda: int(SECRET)),
    ("TypeError", lambda: len(VALUE)),
    ("AttributeError", lambda: VALUE.name),
    ("ZeroDivisionError", lambda: 1 / 0),
    ("RecursionError", lambda: deep([])),
]


def deep(value: list[Any]) -> Any:
    return deep([value])


@pytest.mark.parametrize(("name", "fails"), ROWS, ids=[row[0] for row in ROWS])
def test_an_unexpected_exception_becomes_crashed(
    tmp_path: Path, name: str, fails: Callable[[], Any]
) -> None:
    edge = Containment(CrashReports(tmp_path))
    with pytest.raises(Crashed) as caught, edge.of("Unit shop/web"):
        fails()
    (finding,) = caught.value.findings
    (report,) = tmp_path.iterdir()
    assert finding.code == "GK9000"
    assert finding.message.startswith(f"Unit shop/web: unexpected {name}")
    assert str(report) in finding.message
    assert dict(finding.notes)["report"] == str(report)
    assert SECRET not in f"{finding}{finding.notes}"
    assert name in report.read_text()


@pytest.mark.parametrize(
    ("error", "problem", "remedy"),
    [
        (OSError(errno.EMFILE, SECRET, SECRET), "too many open files: the limit", "ulimit -n"),
        (OSError(errno.ENFILE, SECRET), "too many open files on this machine", "fs.file-max"),
        (OSError(errno.ENOSPC, SECRET), "no space left on a device", "free space"),
        (OSError(errno.EDQUOT, SECRET), "the disk quota is exhausted", "free space"),
        (OSError(errno.ENOMEM, SECRET), "out of memory", "more memory"),
        (MemoryError(), "out of memory", "more memory"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_shortage_of_the_machine_is_no_defect_of_the_program(
    tmp_path: Path, error: Exception, problem: str, remedy: str
) -> None:
    edge = Containment(CrashReports(tmp_path))
    with pytest.raises(Crashed) as caught, edge.of("Unit shop/web"):
        raise ExceptionGroup("two jobs", [error])
    (finding,) = caught.value.findings
    assert (finding.code, finding.concern) == ("GK9012", Concern.PROGRAM)
    assert finding.message.startswith(f"Unit shop/web: {problem}")
    assert remedy in dict(finding.notes)["next"]
    assert SECRET not in f"{finding}{finding.notes}"
    assert not [*tmp_path.iterdir()], "there is nothing to report to the authors"


@pytest.mark.parametrize(
    "error",
    [
        NotFound("gone"),
        SourceFailed(Finding(code="GK3101", message="cannot reach the git remote")),
        asyncio.CancelledError(),
        KeyboardInterrupt(),
        SystemExit(3),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_expected_passes(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, UNREPORTED.of("Unit shop/web"):
        raise error
    assert caught.value is error


def test_what_the_caller_expects_passes() -> None:
    with pytest.raises(OSError, match="full"), UNREPORTED.of("Sink shop/git", OSError):
        raise OSError("full")


def test_of_errors_in_a_group_the_first_counts() -> None:
    group = ExceptionGroup("two requests", [Conflict("moved"), NotFound("gone")])
    with pytest.raises(ApiError, match="moved"), UNREPORTED.of("Unit shop/web"):
        raise group
    with pytest.raises(Crashed, match="unexpected KeyError"), UNREPORTED.of("Unit shop/web"):
        raise ExceptionGroup("two requests", [KeyError("x"), NotFound("gone")])


def test_a_report_that_cannot_be_written_keeps_nothing_from_going_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    edge = Containment(CrashReports(tmp_path / "file"))
    with pytest.raises(Crashed, match="report: not written"), edge.of("Unit shop/web"):
        raise KeyError("x")


def test_a_job_is_run_again_after_growing_pauses_until_it_is_well() -> None:
    clock = ManualClock()
    problems: list[tuple[float, str]] = []
    begun: list[float] = []

    def report(finding: Finding | None) -> None:
        problems.append((clock.monotonic(), finding.code if finding else ""))

    async def job() -> None:
        begun.append(clock.monotonic())
        if len(begun) <= 4:
            raise KeyError("x")
        await clock.sleep(10 * RECOVERED_S)

    clock.run(UNREPORTED.keep("Sink shop/git", job, clock, report))
    pauses = [after - before for before, after in pairwise(begun)]
    assert len(begun) == 5
    assert pauses == sorted(pauses)
    assert [code for _, code in problems] == ["GK9000"] * 4 + [""]
    assert problems[-1][0] == begun[-1] + RECOVERED_S


def test_a_job_that_is_cancelled_ends() -> None:
    clock = ManualClock()

    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            sleeping = UNREPORTED.keep("Unit shop/web", lambda: clock.sleep(1e9), clock, print)
            task = tasks.create_task(sleeping)
            await clock.sleep(1)
            task.cancel()

    clock.run(main())
