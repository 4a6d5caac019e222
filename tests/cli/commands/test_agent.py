"""gitkruise agent: what its words mean, and its first answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitkruise.cli.commands.cluster.agent import SOCKET, agent_options
from gitkruise.cli.console.environment import read_environment
from tests.cli.calls import Caller


def test_a_node_is_needed(gk: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NODE_NAME", raising=False)
    ended = gk("agent")
    assert ended.code == 2
    assert "GK5123" in ended.err


def test_the_flag_wins_over_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NAME", "worker-1")
    assert agent_options(read_environment(), node="", socket=SOCKET).node == "worker-1"
    options = agent_options(read_environment(), node="worker-2", socket="/run/crio/crio.sock")
    assert (options.node, options.socket) == ("worker-2", Path("/run/crio/crio.sock"))
