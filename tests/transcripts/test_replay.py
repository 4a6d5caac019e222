"""The embedded cluster answers as the real kube-apiserver did, exchange by exchange."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gitkruise.sandbox.server import SandboxOptions
from tests.sandbox.served import Client, served
from tests.transcripts.player import play
from tests.transcripts.recording import read, recorded
from tests.transcripts.script import Chapter, chapters

CHAPTERS = chapters()
EXCHANGES_MIN = 400


@pytest.fixture(scope="module")
def bare() -> Iterator[Client]:
    """A cluster without nodes, kubelet and controllers, as a lone kube-apiserver is."""
    options = SandboxOptions(ephemeral=True, nodes=0, kubelet=False, controllers=False)
    with served(options) as running:
        yield running.client


@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_replay(chapter: Chapter, bare: Client) -> None:
    theirs = read(chapter.name)
    ours = play(chapter, bare, f"t-{chapter.name}")
    assert [e.step for e in ours] == [e["step"] for e in theirs], "record the chapter again"
    differing = [
        f"{step}\n  ours   {ours_}\n  theirs {theirs_}"
        for step, ours_, theirs_ in _pairs(chapter, ours, theirs)
        if ours_ != theirs_
    ]
    assert not differing, "\n".join(differing)


def _pairs(chapter: Chapter, ours: Any, theirs: Any) -> Iterator[tuple[str, Any, Any]]:
    for step, mine, yours in zip(chapter.steps, ours, theirs, strict=True):
        wanted = {key: value for key, value in yours.items() if key != "step"}
        if not step.known:
            yield mine.step, mine.reply, wanted


def test_what_is_recorded_is_the_script() -> None:
    assert recorded() == {chapter.name for chapter in (*CHAPTERS, *chapters(controlled=True))}


def test_the_script_is_long_enough() -> None:
    compared = [s for chapter in CHAPTERS for s in chapter.steps if not s.known]
    assert len(compared) >= EXCHANGES_MIN
