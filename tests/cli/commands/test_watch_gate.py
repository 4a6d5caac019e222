"""A watch of 500 pods on a terminal of 24 × 80 fits, survives a resize, ends with 0, 1 or 6."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.cli.calls import Terminal, environment
from tests.cli.commands.test_get import BROKEN, check, wait
from tests.cli.live import applied, apply
from tests.cli.shop import cloneset

pytestmark = pytest.mark.slow

# A frame of at most twelve lines.
SMALL_FRAME: Final = r"\x1b\[H(?:(?!\x1b\[[HJ])[^\n])*(?:\n(?:(?!\x1b\[[HJ])[^\n])*){0,11}\x1b\[J"


def endless(manifest: str) -> str:
    return manifest.replace("spec:\n", "spec:\n  minReadySeconds: 36000\n", 1)


NEVER: Final = endless(cloneset(name="endless", replicas=3))


def watching(cluster: Path, name: str, *more: str) -> Terminal:
    return Terminal([*wait(name, *more), "--kubeconfig", str(cluster)], environment())


def test_500_pods_fit_are_drawn_again_after_a_resize_and_end_with_0(cluster: Path) -> None:
    first = cloneset("v1", name="huge", replicas=500)
    with applied(cluster, endless(first)), watching(cluster, "huge", "--timeout", "5m") as terminal:
        terminal.read_until(r"500 pods(?s:.)*\x1b\[J", 120)
        terminal.resize(12, 60)
        terminal.read_until(SMALL_FRAME, 120)
        apply(cluster, first)  # which may end
        assert terminal.end(300) == 0
        frames = terminal.frames()
    large = [f for f in frames if len(f) > 12]
    small = frames[-1]
    assert all("cloneset/huge" in frame[0] for frame in frames)
    check(large, 24, 80)
    check([small], 12, 60)
    assert "Done" in terminal.raw.rpartition("\x1b[?1049l")[2]


@pytest.mark.parametrize(
    ("manifest", "name", "more", "code"),
    [(BROKEN, "broken", ["--timeout", "60s"], 1), (NEVER, "endless", ["--timeout", "300ms"], 6)],
    ids=["stuck", "out-of-time"],
)
def test_on_a_terminal_it_ends_with_its_code(
    cluster: Path, manifest: str, name: str, more: list[str], code: int
) -> None:
    with applied(cluster, manifest), watching(cluster, name, *more) as terminal:
        assert terminal.end(90) == code
