"""gitkruise webhook: what its words mean, before anything is asked of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitkruise.cli.commands.cluster.webhook import HOME, SERVICE, webhook_options
from gitkruise.cli.console.environment import read_environment
from gitkruise.kube.serve.addresses import Listen
from tests.cli.calls import Caller

WORDS = {"listen": ":9443", "namespace": HOME, "service": SERVICE, "url": "", "feature_gates": ""}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--url", "http://10.0.0.5:9443"), "GK5114"),
        (("--url", "https://"), "GK5114"),
        (("--listen", "9443"), "GK7027"),
        (("--feature-gates", "Nonsense=true"), "GK7004"),
    ],
)
def test_words_that_mean_nothing(gk: Caller, words: tuple[str, ...], code: str) -> None:
    ended = gk("webhook", *words)
    assert ended.code == 2
    assert code in ended.err


def test_inside_a_cluster_a_service_and_a_secret() -> None:
    options = webhook_options(read_environment(), **WORDS)
    assert options.address.hosts[0] == "gitkruise-webhook.gitkruise-system.svc"
    assert options.folder is None
    assert options.listen == Listen("0.0.0.0", 9443)


def test_outside_a_url_and_the_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITKRUISE_STATE", str(tmp_path))
    options = webhook_options(read_environment(), **{**WORDS, "url": "https://10.0.0.5:9443"})
    assert options.address.hosts == ("10.0.0.5",)
    assert options.folder == tmp_path / "webhook"
