"""The recorded scenes are what the real kube-apiserver says and asks today."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hooks.listener import Listener, listening
from tests.hooks.scenes import FOLDER, Stage
from tests.kube.real.apiserver import apiserver
from tests.transcripts.real import client_of
from tests.transcripts.recording import read
from tests.transcripts.script import Chapter, chapters
from tests.transcripts.talker import Talker

pytestmark = pytest.mark.kube


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    with listening() as found:
        yield found


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talker]:
    with apiserver(tmp_path_factory.mktemp("hooks")) as running:
        talker = Talker(client_of(running))
        yield talker
        talker.close()


@pytest.mark.parametrize("scene", chapters(FOLDER), ids=lambda scene: scene.name)
def test_recording(scene: Chapter, bare: Talker, listener: Listener) -> None:
    answers = Stage(bare, listener, f"h-{scene.name}").play(scene)
    pairs = zip(scene.steps, answers, read(scene.name, FOLDER), strict=True)
    for step, theirs, recorded in pairs:
        assert step.known or {"step": theirs.step, **theirs.reply} == recorded
