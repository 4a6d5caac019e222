"""Random conversations: the embedded cluster says, step by step, what a kube-apiserver says."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings

from gitkruise.sandbox.server import SandboxOptions
from tests.kube.real.apiserver import apiserver
from tests.sandbox.served import served
from tests.transcripts.conversation import Conversation, define
from tests.transcripts.real import client_of
from tests.transcripts.script import Step
from tests.transcripts.sequences import CONVERSATIONS
from tests.transcripts.talker import Talker

pytestmark = pytest.mark.kube
CONVERSED: int = 2000
_turn = count()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Talker, Talker]]:
    bare = SandboxOptions(ephemeral=True, nodes=0, kubelet=False, controllers=False)
    with apiserver(tmp_path_factory.mktemp("kube")) as real, served(bare) as ours:
        talkers = Talker(client_of(real)), Talker(ours.client)
        for talker in talkers:
            define(talker)
        yield talkers
        for talker in talkers:
            talker.close()


@settings(max_examples=CONVERSED, suppress_health_check=list(HealthCheck))
@given(steps=CONVERSATIONS)
def test_conversations(both: tuple[Talker, Talker], steps: list[Step]) -> None:
    namespace = f"d-{next(_turn)}"
    with ThreadPoolExecutor(2) as threads:
        playing = [threads.submit(Conversation(one, namespace).play, steps) for one in both]
        theirs, ours = (one.result() for one in playing)
    for mine, yours in zip(ours, theirs, strict=True):
        assert mine == yours
