"""Reports of unexpected exceptions: private, few, short, and one for each place that fails."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gitkruise.kube.system.crash_reports import REPORT_MAX, REPORTS_MAX, CrashReports

NOTHING: dict[str, str] = {}


def failure(text: str = "pin") -> KeyError:
    """An exception with a stack trace."""
    with pytest.raises(KeyError) as caught:
        NOTHING[text]
    return caught.value


def test_a_report_has_the_stack_trace_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    path = CrashReports(tmp_path / "crashes").write(failure(), "Unit shop/web")
    text = path.read_text()
    assert "Unit shop/web" in text
    assert "builtins.KeyError" in text
    assert "test_crash_reports.py" in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_same_failure_has_one_report(tmp_path: Path) -> None:
    reports = CrashReports(tmp_path)
    paths = {reports.write(failure(), "Unit shop/web") for _ in range(3)}
    assert len(paths) == 1
    assert len([*tmp_path.iterdir()]) == 1


def test_only_the_newest_reports_are_kept(tmp_path: Path) -> None:
    reports = CrashReports(tmp_path)
    for number in range(REPORTS_MAX + 5):
        path = reports.write(failure(), f"Unit shop/u{number}")
        os.utime(path, (number, number))
    first = reports.write(failure(), "Unit shop/u5")  # met again: it is new
    reports.write(failure(), "Unit shop/last")
    assert len([*tmp_path.iterdir()]) == REPORTS_MAX
    assert first.exists()


def test_a_long_report_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    path = CrashReports(tmp_path).write(failure(), "x" * 10 * REPORT_MAX)
    data = path.read_bytes()
    assert len(data) <= REPORT_MAX
    assert data.startswith(b"gitkruise ")
    assert data.endswith(b"KeyError\n")


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        CrashReports(tmp_path / "file").write(failure(), "Unit shop/web")


def test_no_text_of_an_exception_reaches_a_report(tmp_path: Path) -> None:
    """Neither its own nor that of its cause, its context, its notes or a member of a group."""
    canary = "canary-4f1d"
    member = failure(canary)
    member.add_note(canary)
    member.__cause__ = failure(canary)
    member.__cause__.__context__ = ValueError(canary)
    group = ExceptionGroup(canary, [member, SyntaxError(canary, (canary, 1, 1, canary))])
    text = CrashReports(tmp_path).write(group, "Unit shop/web").read_text()
    assert canary not in text
    for name in ("KeyError", "ValueError", "ExceptionGroup", "SyntaxError"):
        assert f"builtins.{name}\n" in text
