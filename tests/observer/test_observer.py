"""An independent observer over random histories: what gitkruise says is what is so.

More: make observer PROFILE=night. One history again: OBSERVER_SEED=417 pytest tests/observer
"""

from __future__ import annotations

import ast
import os
import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.observer.declared import DeclaredPlayer
from tests.observer.gates import GatedPlayer
from tests.observer.histories import Player
from tests.observer.meddling import MeddledPlayer
from tests.observer.pulls import PulledPlayer
from tests.observer.refusals import MeddledRefusalsPlayer, RefusedPlayer
from tests.observer.settings import SettingsPlayer
from tests.observer.workloads import WorkloadsPlayer

HERE: Final = Path(__file__).parent
BLOCK: Final = 10  # histories of one test
ONE_MORE: Final = 20  # so many histories are played for each one with a gate, or with objects
STEPS: Final = int(os.environ.get("OBSERVER_STEPS", "3"))  # noqa: TID251


def seeds() -> list[range]:
    """Return the histories to play, in blocks: OBSERVER_HISTORIES from OBSERVER_SEED on."""
    first = int(os.environ.get("OBSERVER_SEED", "0"))  # noqa: TID251
    alone = "OBSERVER_SEED" in os.environ and "OBSERVER_HISTORIES" not in os.environ  # noqa: TID251
    count = 1 if alone else int(os.environ.get("OBSERVER_HISTORIES", "500"))  # noqa: TID251
    return [range(at, min(at + BLOCK, first + count)) for at in range(first, first + count, BLOCK)]


@pytest.mark.parametrize("block", seeds(), ids=lambda block: f"{block.start}")
def test_what_is_stated_is_so(block: range, tmp_path: Path) -> None:
    for seed in block:
        folder = tmp_path / str(seed)
        folder.mkdir()
        player = Player(folder, seed)
        lies = player.play(STEPS)
        assert not lies, f"history {seed}: {player.events}: {lies}"
        shutil.rmtree(folder)


OTHERS: Final = (
    GatedPlayer, DeclaredPlayer, PulledPlayer, SettingsPlayer, MeddledPlayer, WorkloadsPlayer,
    RefusedPlayer, MeddledRefusalsPlayer,
)  # fmt: skip


@pytest.mark.parametrize("player", OTHERS)
@pytest.mark.parametrize("block", seeds(), ids=lambda block: f"{block.start}")
def test_what_is_stated_of_others_is_so(block: range, player: type[Player], tmp_path: Path) -> None:
    """Gates, units that are objects, pull requests, changes beside git, and other workloads."""
    for seed in (seed for seed in block if seed % ONE_MORE == 0):
        playing = player(tmp_path, seed // ONE_MORE)
        lies = playing.play(STEPS)
        assert not lies, f"history {seed // ONE_MORE}: {playing.events}: {lies}"


@pytest.mark.parametrize("name", ["truth", "statements", "plans", "comments"])
def test_the_observer_knows_nothing_of_gitkruise(name: str) -> None:
    own = {f"tests.observer.{other}" for other in ("truth", "statements", "plans", "comments")}
    for node in ast.walk(ast.parse((HERE / f"{name}.py").read_text())):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for module in modules:
            assert module.partition(".")[0] not in {"gitkruise", "tests"} or module in own
