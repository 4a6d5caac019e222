"""The embedded cluster keeps endpoints as the real controllers beside a kube-apiserver do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gitkruise.kube.system.clock import SystemClock
from gitkruise.sandbox.controllers import run_parts
from gitkruise.sandbox.server import SandboxOptions
from gitkruise.world.controllers.endpoints import EndpointsController
from tests.kube.real.apiserver import Apiserver, apiserver
from tests.kube.real.controllers import endpoints
from tests.sandbox.served import Client, served
from tests.transcripts.player import play
from tests.transcripts.real import client_of
from tests.transcripts.recording import read
from tests.transcripts.script import Chapter, chapters

CHAPTERS = chapters(controlled=True)
EACH = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    with apiserver(tmp_path_factory.mktemp("kube")) as running, endpoints(running):
        yield running


@pytest.fixture
def embedded() -> Iterator[Client]:
    """A cluster in which nobody acts but these controllers."""
    options = SandboxOptions(ephemeral=True, nodes=0, kubelet=False, controllers=False)
    with served(options) as running:
        parts = run_parts(running.sandbox.cluster, [EndpointsController()], SystemClock())
        with running.beside(parts):
            yield running.client


@pytest.mark.slow
@EACH
def test_replay(chapter: Chapter, embedded: Client) -> None:
    _compare(chapter, embedded)


@pytest.mark.kube
@EACH
def test_recording(chapter: Chapter, real: Apiserver) -> None:
    _compare(chapter, client_of(real))


def _compare(chapter: Chapter, client: Client) -> None:
    replies = play(chapter, client, f"t-{chapter.name}")
    for step, ours, recorded in zip(chapter.steps, replies, read(chapter.name), strict=True):
        assert step.known or {"step": ours.step, **ours.reply} == recorded
