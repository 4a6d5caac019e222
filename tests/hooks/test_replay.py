"""The embedded cluster asks webhooks, and answers, as the real kube-apiserver did."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gitkruise.sandbox.server import SandboxOptions
from tests.hooks.listener import Listener, listening
from tests.hooks.scenes import FOLDER, Stage
from tests.sandbox.served import Client, served
from tests.transcripts.recording import read, recorded
from tests.transcripts.script import Chapter, chapters

SCENES = chapters(FOLDER)


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    with listening() as found:
        yield found


@pytest.fixture(scope="module")
def bare() -> Iterator[Client]:
    """A cluster without nodes, kubelet and controllers, as a lone kube-apiserver is."""
    options = SandboxOptions(ephemeral=True, nodes=0, kubelet=False, controllers=False)
    with served(options) as running:
        yield running.client


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_replay(scene: Chapter, bare: Client, listener: Listener) -> None:
    theirs = read(scene.name, FOLDER)
    ours = Stage(bare, listener, f"h-{scene.name}").play(scene)
    assert [e.step for e in ours] == [e["step"] for e in theirs], "record the scene again"
    differing = [
        f"{mine.step}\n  ours   {mine.reply}\n  theirs {wanted}"
        for step, mine, wanted in zip(scene.steps, ours, theirs, strict=True)
        if not step.known and {"step": mine.step, **mine.reply} != wanted
    ]
    assert not differing, "\n".join(differing)


def test_what_is_recorded_is_the_script() -> None:
    assert recorded(FOLDER) == {scene.name for scene in SCENES}
