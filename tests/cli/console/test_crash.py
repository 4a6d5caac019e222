"""A command that crashes: exit 70, a private report in the state directory, no value of a file."""

from __future__ import annotations

import errno
import re
import stat
import tempfile
from pathlib import Path

import click
import pytest

from gitkruise.cli import root
from gitkruise.errors import InternalError, TooManyRequests
from gitkruise.kube.system.crash_reports import REPORTS_MAX

CANARY = "canary-77aa"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GITKRUISE_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@click.command()
def crashing() -> None:
    """Fail at a value."""
    raise KeyError(CANARY)


def run_crashing(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setitem(root.COMMANDS, "crashing", (__name__, "crashing", "Fail."))
    return root.run(["crashing"])


def test_the_report_is_private_and_where_the_message_says(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name for path in Path(tempfile.gettempdir()).glob("gitkruise-report-*")}
    assert run_crashing(monkeypatch) == root.UNEXPECTED
    output = capsys.readouterr().err
    assert "GK9000" in output
    assert "unexpected KeyError" in output
    (report,) = (state / "crashes").iterdir()
    assert str(report) in re.sub(r"\s+", "", output)
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    assert "gitkruise crashing" in report.read_text()
    assert CANARY not in output + report.read_text()
    after = {path.name for path in Path(tempfile.gettempdir()).glob("gitkruise-report-*")}
    assert after == before


@click.command()
def opening() -> None:
    """Open one file too many."""
    raise OSError(errno.EMFILE, "Too many open files", CANARY)


def test_a_shortage_of_the_machine_is_no_defect(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(root.COMMANDS, "opening", (__name__, "opening", "Open."))
    assert root.run(["opening"]) == root.UNEXPECTED
    output = capsys.readouterr().err
    assert output.startswith("error[GK9012]: gitkruise opening: too many open files: the limit of ")
    assert "ulimit -n" in output
    assert CANARY not in output
    assert not state.exists()


def test_many_crashes_fill_no_disk(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(REPORTS_MAX + 3):
        run_crashing(monkeypatch)
    assert len([*(state / "crashes").iterdir()]) == 1


def test_without_a_place_for_a_report_the_message_says_so(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state.write_text("a file in its place")
    assert run_crashing(monkeypatch) == root.UNEXPECTED
    assert "not written (" in capsys.readouterr().err


@click.command()
def refused() -> None:
    """Fail at a request."""
    raise InternalError("etcd is full")


@click.command()
def limited() -> None:
    """Fail at a request that the API server limits."""
    raise TooManyRequests("too many requests")


@pytest.mark.parametrize(
    ("name", "message", "following"),
    [
        ("refused", "etcd is full", "gitkruise doctor cluster"),
        ("limited", "too many requests", "repeat the command later"),
    ],
)
def test_a_request_that_the_cluster_rejects_has_a_next_step(
    name: str,
    message: str,
    following: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(root.COMMANDS, name, (__name__, name, "Fail."))
    root.run([name])
    output = capsys.readouterr().err
    assert "GK4001" in output
    assert message in output
    assert f"next: {following}" in output
