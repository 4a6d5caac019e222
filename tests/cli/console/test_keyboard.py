"""Keys of `get --watch` on a terminal; however it ends, the terminal is as it was."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gitkruise.cli.console.keyboard import keyboard
from tests.cli.calls import Terminal, environment
from tests.cli.commands.test_get import check
from tests.cli.live import applied
from tests.cli.shop import cloneset

pytestmark = pytest.mark.slow

FOOTER = r"\[p\] pods  \[e\] events  \[r\] revisions  \[/\] filter  \[q\] quit"


@pytest.fixture(scope="module")
def kubeconfig(cluster: Path) -> Iterator[Path]:
    with applied(cluster, cloneset(name="keyed", replicas=3)):
        yield cluster


def watching(kubeconfig: Path, *words: str, columns: int = 80, term: str = "xterm") -> Terminal:
    return Terminal(
        ["get", *words, "-n", "shop", "-w", "--kubeconfig", str(kubeconfig)],
        environment(NO_COLOR="1", TERM=term), columns=columns,
    )  # fmt: skip


@pytest.mark.parametrize("columns", [80, 120])
def test_panels_and_filter(kubeconfig: Path, columns: int) -> None:
    with watching(kubeconfig, "rollout", "keyed", columns=columns) as terminal:
        terminal.read_until(f"asked(?s:.)*3 ready(?s:.)*{FOOTER}")
        for key, shown in (
            ("p", r"cloneset/keyed(?s:.)*RESTARTS(?s:.)*keyed-"),
            ("e", "(?s)cloneset/keyed.*REASON.*SuccessfulCreate"),
            ("r", "(?s)cloneset/keyed.*ROLE.*update"),
            ("r", "asked"),
            ("p/no such", r'no pods with "no such"(?s:.)*filter: no such_'),
            ("\x7f\x7f\x7f\x7f\x7f\x7f\x7fkeyed\r", r"RESTARTS(?s:.)*\[/\] filter: keyed  "),
            ("\x1b[A\x1b", "asked"),
            ("zq", ""),
        ):  # fmt: skip
            terminal.type(key)
            if shown:
                terminal.read_until(shown)
        assert terminal.end() == 0
    frames = terminal.frames()
    check(frames, 24, columns)
    assert all(len(frame) == 24 for frame in frames)
    assert all("q" in frame[-1] or "filter: " in frame[-1] for frame in frames)
    assert "[q] quit" not in terminal.raw.rpartition("\x1b[?1049l")[2]


def test_lists_have_keys_too(kubeconfig: Path) -> None:
    with watching(kubeconfig, "pods") as terminal:
        terminal.read_until("keyed-")
        assert not re.search(FOOTER, terminal.raw)
        terminal.type("p/keyed-\r")
        terminal.read_until(r"filter: keyed-  \[q\]")
        terminal.type("q")
        assert terminal.end() == 0


WAYS_OUT: dict[str, tuple[Callable[[Terminal], None], int]] = {
    "q": (lambda t: t.type("q"), 0),
    "Ctrl-C": (lambda t: t.signal(signal.SIGINT), 130),
    "SIGTERM": (lambda t: t.signal(signal.SIGTERM), 143),
    "SIGHUP": (lambda t: t.signal(signal.SIGHUP), 143),
}


@pytest.mark.parametrize("name", WAYS_OUT)
def test_ways_out(kubeconfig: Path, name: str) -> None:
    leave, code = WAYS_OUT[name]
    with watching(kubeconfig, "rollout", "keyed") as terminal:
        before = terminal.settings
        terminal.read_until(FOOTER)
        assert terminal.settings != before
        leave(terminal)
        assert terminal.end() == code
        assert terminal.settings == before
    assert terminal.raw.count("\x1b[?1049h") == terminal.raw.count("\x1b[?1049l") == 1
    assert terminal.raw.count("\x1b[?25l") == terminal.raw.count("\x1b[?25h") == 1


def test_ctrl_z_gives_the_terminal_back_until_the_command_goes_on(kubeconfig: Path) -> None:
    with watching(kubeconfig, "rollout", "keyed") as terminal:
        before = terminal.settings
        terminal.read_until(FOOTER)
        for _ in range(2):
            terminal.signal(signal.SIGTSTP)
            terminal.await_stop()
            terminal.read_until(r"\x1b\[\?25h\x1b\[\?1049l")
            assert terminal.settings == before
            terminal.signal(signal.SIGCONT)
            terminal.read_until(rf"\x1b\[\?1049h(?s:.)*asked(?s:.)*{FOOTER}")
        terminal.type("p")
        terminal.read_until("RESTARTS")
        terminal.type("q")
        assert terminal.end() == 0
        assert terminal.settings == before


def test_a_cluster_that_goes_away_is_reported(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    words = ["sandbox", "up", "--ephemeral", "--kubeconfig", str(kubeconfig)]
    with Terminal(words, environment(HOME=str(tmp_path))) as cluster:
        cluster.read_until("Ctrl-C")
        with watching(kubeconfig, "rollouts") as terminal:
            terminal.read_until("no rollouts")
            cluster.signal(signal.SIGKILL)
            terminal.read_until(
                r"cannot read the cluster since 20\S+Z: this is from then(?s:.)*"
                r"cannot reach the API server(?s:.)*no rollouts"
            )
            terminal.type("q")
            assert terminal.end() == 0
    assert "event=" not in terminal.raw


def test_a_terminal_that_cannot_draw_gets_lines(kubeconfig: Path) -> None:
    """Such as the shell of an editor."""
    with watching(kubeconfig, "rollouts", term="dumb") as terminal:
        terminal.read_until("cloneset/keyed -n shop state=")
        terminal.signal(signal.SIGINT)
        assert terminal.end() == 130
    assert "\x1b" not in terminal.raw


def test_giving_up_a_wait_is_no_success(kubeconfig: Path) -> None:
    slow = cloneset(name="slow", replicas=1).replace(
        "spec:\n", "spec:\n  minReadySeconds: 3600\n", 1
    )
    with applied(kubeconfig, slow), watching(
        kubeconfig, "rollout", "slow", "--exit-when-done"
    ) as terminal:  # fmt: skip
        terminal.read_until(FOOTER)
        terminal.type("q")
        assert terminal.end() == 130


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The far end of the terminal that standard input is."""
    far, near = pty.openpty()
    with os.fdopen(near) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield far
    os.close(far)


def test_an_exception_leaves_the_terminal_as_it_was(keys: int) -> None:
    before = termios.tcgetattr(keys)

    async def main() -> None:
        with keyboard(lambda _: None):
            assert termios.tcgetattr(keys) != before
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        asyncio.run(main())
    assert termios.tcgetattr(keys) == before


def test_what_is_typed_arrives_key_by_key_without_arrows(keys: int) -> None:
    seen: list[str] = []

    async def main() -> None:
        done = asyncio.Event()

        def press(key: str) -> None:
            seen.append(key)
            if key == "!":
                done.set()

        with keyboard(press):
            os.write(keys, b"ab\x1b[A\x1bOP\xc3\xa4\x1b[15~!")
            await done.wait()

    asyncio.run(main())
    assert "".join(seen) == "abä!"


def test_no_terminal_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> bool:
        with keyboard(lambda _: None) as there:
            return there

    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        assert asyncio.run(main()) is False
