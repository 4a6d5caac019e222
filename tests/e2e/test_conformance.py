"""A sandbox without kubelet does over HTTPS what was recorded from OpenKruise."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from tests.conformance.run_http import FOLDER, GATES, SUBSET, differences, gate_flags, scenarios
from tests.e2e.cluster import sandbox

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("gates", [(), GATES], ids=["default gates", "all gates"])
def test_server_does_what_was_recorded(tmp_path: Path, gates: tuple[str, ...]) -> None:
    """A few scenarios; all of them with CONFORMANCE=all (`make conformance`)."""
    everything = os.environ.get("CONFORMANCE") == "all"  # noqa: TID251  the target chooses
    traces = json.loads((FOLDER / "traces.json").read_text())
    with sandbox(tmp_path, "--no-kubelet", *gate_flags(gates)) as cluster:
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        url = config["clusters"][0]["cluster"]["server"]
        token = config["users"][0]["user"]["token"]
        chosen = scenarios(gates, () if everything else SUBSET)
        found = dict(differences(chosen, traces, url, token))
    assert found
    assert not {name: text for name, text in found.items() if text}
