"""Random conversations: the embedded cluster says, step by step, what a kube-apiserver says."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings

from gitkruise.sandbox.server import SandboxOptions
from tests.kube.real.apiserver import apiserver
from tests.sandbox.served import Client, served
from tests.transcripts.player import play
from tests.transcripts.real import client_of
from tests.transcripts.script import Chapter, Step
from tests.transcripts.sequences import CONVERSATIONS

pytestmark = pytest.mark.kube
CONVERSED: int = 2000
_turn = count()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Client]]:
    bare = SandboxOptions(ephemeral=True, nodes=0, kubelet=False, controllers=False)
    with apiserver(tmp_path_factory.mktemp("kube")) as real, served(bare) as ours:
        yield client_of(real), ours.client


@settings(max_examples=CONVERSED, suppress_health_check=list(HealthCheck))
@given(steps=CONVERSATIONS)
def test_conversations(both: tuple[Client, Client], steps: list[Step]) -> None:
    chapter = Chapter("drawn", tuple(steps))
    namespace = f"d-{next(_turn)}"
    theirs, ours = (play(chapter, client, namespace) for client in both)
    for mine, yours in zip(ours, theirs, strict=True):
        assert mine == yours
