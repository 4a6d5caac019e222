"""An object may say itself how it is applied, in our words or Flux's."""

from __future__ import annotations

from typing import Final

import pytest

from gitkruise.wire.primitives.names import Obj
from tests.gitops.stage import MakeStage, config_map

pytestmark = pytest.mark.slow

OURS, FLUX = "gitkruise.io/apply", "kustomize.toolkit.fluxcd.io/ssa"
LATER: Final = config_map("later", {"gitkruise.io/wave": "1"}, x="1")


def settings(key: str, word: str, mode: str = "git") -> Obj:
    return config_map("settings", {key: word}, mode=mode)


ROWS: list[tuple[str, str, bool, str | None, str]] = [
    # annotation, word, whether somebody made it before, its data then, after the next commit
    (OURS, "Override", True, "git", "git2"),
    (OURS, "Merge", True, "git", "git2"),
    (FLUX, "merge", False, "git", "git2"),
    (OURS, "IfNotPresent", True, "hand", "hand"),
    (FLUX, "IfNotPresent", True, "hand", "hand"),
    (OURS, "IfNotPresent", False, "git", "git"),
    (OURS, "Ignore", True, "hand", "hand"),
    (FLUX, "Ignore", False, None, ""),
    ("argocd.argoproj.io/hook", "Skip", True, "hand", "hand"),
]


@pytest.mark.parametrize("row", ROWS, ids=[f"{r[1]} {r[2]} {r[0][:3]}" for r in ROWS])
def test_the_word_decides(staged: MakeStage, row: tuple[str, str, bool, str | None, str]) -> None:
    stage = staged()
    key, word, before, first, second = row

    def mode() -> str | None:
        found = stage.get("ConfigMap", "settings")
        return None if found is None else str(found["data"]["mode"])

    async def script() -> None:
        if before:
            stage.meddle(config_map("settings", mode="hand"))
        async with stage.running():
            await stage.push(settings(key, word), LATER)
            await stage.rest(30)
            assert (mode(), stage.state) == (first, "Done")
            assert stage.get("ConfigMap", "later") is not None
            await stage.push(settings(key, word, "git2"), LATER)
            await stage.rest(30)
            assert (mode() or "", stage.state) == (second, "Done")
            stage.wire.requests.clear()
            await stage.rest(300)
            assert stage.wire.writes() == []

    stage.play(script)


def test_another_word_is_rejected_at_its_line(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(settings(OURS, "Sometimes"))
            await stage.rest(5)
            finding = stage.record.findings[0]
            assert (stage.state, finding.code) == ("Rejected", "GK2016")
            assert finding.places[0].line == 6

    stage.play(script)
