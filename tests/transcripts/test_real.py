"""The recordings are what the real kube-apiserver says today."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kube.real.apiserver import Apiserver, apiserver
from tests.transcripts.player import play
from tests.transcripts.real import client_of
from tests.transcripts.recording import read
from tests.transcripts.script import Chapter, chapters

pytestmark = pytest.mark.kube


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    with apiserver(tmp_path_factory.mktemp("kube")) as running:
        yield running


@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.name)
def test_recording(chapter: Chapter, bare: Apiserver) -> None:
    replies = play(chapter, client_of(bare), f"t-{chapter.name}")
    pairs = zip(chapter.steps, replies, read(chapter.name), strict=True)
    for step, ours, recorded in pairs:
        assert step.known or {"step": ours.step, **ours.reply} == recorded
