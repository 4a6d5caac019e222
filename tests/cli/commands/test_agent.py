"""gitkruise agent: what its words mean, and its first answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitkruise.cli.commands.cluster.agent import SOCKET, agent_options
from gitkruise.cli.console.environment import read_environment
from tests.cli.calls import Caller, python


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


@pytest.mark.slow
def test_the_process_loads_neither_the_model_cluster_nor_git() -> None:
    """It runs on every node: what it imports is what it weighs there."""
    loaded = python(
        "import sys, gitkruise.cli.root, gitkruise.cli.commands.cluster.agent\n"
        "import gitkruise.cli.console.signals, gitkruise.cli.context.cluster\n"
        "import gitkruise.agent.service, gitkruise.kube.auth.connection\n"
        "import gitkruise.kube.client.http, gitkruise.kube.client.connection_errors\n"
        "print(*sorted({'.'.join(name.split('.')[:2]) for name in sys.modules}))"
    ).split()
    heavy = {f"gitkruise.{ring}" for ring in ("app", "world", "sandbox", "gitops", "git")}
    assert heavy.isdisjoint(loaded)
    assert {"cryptography", "ruamel", "watchdog"}.isdisjoint(loaded)
