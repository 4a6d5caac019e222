"""The embedded cluster asks webhooks, and answers, as the real kube-apiserver did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gitkruise.sandbox.server import SandboxOptions
from tests.hooks.listener import Listener, listening
from tests.hooks.scenes import FOLDER, Stage
from tests.sandbox.served import served
from tests.transcripts.recording import read, recorded
from tests.transcripts.script import Chapter, chapters
from tests.transcripts.talker import Talker

SCENES = chapters(FOLDER)
ABSENT = "<absent>"
SHOWN = 12


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    with listening() as found:
        yield found


@pytest.fixture(scope="module")
def bare() -> Iterator[Talker]:
    """A cluster without nodes, kubelet and controllers, as a lone kube-apiserver is."""
    options = SandboxOptions(ephemeral=True, nodes=0, kubelet=False, controllers=False)
    with served(options) as running:
        talker = Talker(running.client)
        yield talker
        talker.close()


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_replay(scene: Chapter, bare: Talker, listener: Listener) -> None:
    theirs = read(scene.name, FOLDER)
    ours = Stage(bare, listener, f"h-{scene.name}").play(scene)
    assert [e.step for e in ours] == [e["step"] for e in theirs], "record the scene again"
    differing = [
        f"{mine.step}\n  {line}"
        for step, mine, wanted in zip(scene.steps, ours, theirs, strict=True)
        for line in differences({"step": mine.step, **mine.reply}, wanted)
        if not step.known
    ]
    assert not differing, "\n".join(differing[:SHOWN])


def differences(ours: Any, theirs: Any, at: str = "") -> Iterator[str]:
    """Where two JSON values differ, and how."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from differences(ours.get(key, ABSENT), theirs.get(key, ABSENT), f"{at}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{at}[{index}]")
    elif ours != theirs:
        yield f"{at}: ours {ours!r}, theirs {theirs!r}"


def test_what_is_recorded_is_the_script() -> None:
    assert recorded(FOLDER) == {scene.name for scene in SCENES}
