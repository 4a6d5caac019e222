"""`gitkruise run --log-format json`: each line of a running program is a JSON object."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.e2e.cluster import sandbox
from tests.e2e.program import gitkruise, started
from tests.e2e.shop import CHECKOUT, create

pytestmark = pytest.mark.e2e


def test_every_line_is_json_until_the_end(tmp_path: Path) -> None:
    with sandbox(tmp_path / "state", "--no-controllers", "--speed", "20") as cluster:
        shop = create(tmp_path, cluster.env)
        config = str(shop.clone / "gitkruise.yaml")
        words = gitkruise("run", "-v", "--log-format", "json", "--sandbox", "--config", config,
                          "--hooks", ":0", "--metrics", "127.0.0.1:0")  # fmt: skip
        with started(words, cluster.env, tmp_path) as program:
            program.until('"event": "rollout".*"state": "Done"')
            shop.edit(CHECKOUT, "replicas: ", "replicas: x")
            refused = shop.push("shop: no number")
            program.until('"event": "finding"')
            shop.bare.rename(tmp_path / "away")
            program.until('"event": "source-failed"')
            program.signal(signal.SIGTERM)
            assert program.ends() == 0
    lines = [json.loads(line) for line in program.lines]
    assert {"time", "level", "logger", "message"} <= set.intersection(*map(set, lines))
    first = {line["event"]: line for line in reversed(lines) if "event" in line}
    assert first["started"]["engine"] == "own"
    assert first["metrics-served"]["url"].startswith("http://127.0.0.1:")
    assert first["unit"]["state"]
    assert first["rollout"]["kind"]
    assert first["finding"]["code"].startswith("GK")
    assert "Rejected" in {line["state"] for line in lines if line.get("commit") == refused}
    failed = first["source-failed"]
    assert failed["code"].startswith("GK3")
    assert failed["error"].startswith(failed["code"])
    assert (failed["level"], failed["logger"]) == ("WARNING", "gitkruise.gitops.source.follower")
