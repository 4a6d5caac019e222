"""A reader of the README pushes to the demo's repository: rollout, status commit, kubectl agree."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import environment, eventually, gitkruise, output, started
from tests.e2e.shop import CHECKOUT, Shop

pytestmark = pytest.mark.e2e

CLONESET = "apis/apps.kruise.io/v1alpha1/namespaces/shop/clonesets/checkout"


def test_edit_a_partition_and_push(tmp_path: Path) -> None:
    env = environment(tmp_path / "state", CI="true")
    with started(gitkruise("demo", "--speed", "20"), env, tmp_path) as demo:
        bare = re.findall(r"(/\S+shop-deploy\.git)", demo.until("shop-deploy.git"))[0]
        kubeconfig = re.findall(r"KUBECONFIG=(\S+)", demo.until("KUBECONFIG="))[0]
        demo.until("Ctrl-C")
        user = {**env, "KUBECONFIG": kubeconfig}
        shop = Shop(Path(bare), tmp_path / "shop", user)
        output(["git", "clone", "-q", bare, str(shop.clone)], user)
        shop.edit(CHECKOUT, "checkout:v2.4.1", "checkout:v2.5.0")
        shop.edit(CHECKOUT, "partition: 0 ", "partition: 50% ")
        commit = shop.push("checkout v2.5.0, half of it")
        rollout = eventually(lambda: held(user, commit))
        assert (rollout["updated"], rollout["replicas"], rollout["ready"]) == (5, 10, 10)
        eventually(lambda: recorded_held(shop, commit))
        if kubectl := shutil.which("kubectl"):
            seen = json.loads(output([kubectl, "get", "--raw", f"/{CLONESET}"], user))
            assert seen["status"]["updatedReadyReplicas"] == 5
            assert seen["metadata"]["annotations"]["gitkruise.io/commit"] == commit
        demo.signal(signal.SIGINT)
        assert demo.ends() == 0
    assert not Path(bare).exists()


def held(env: Mapping[str, str], commit: str) -> dict[str, Any] | None:
    """The rollout of checkout once it is held at `commit`."""
    done = subprocess.run(
        gitkruise("status", "-o", "json"), env=env, capture_output=True, text=True, check=True
    )
    for item in json.loads(done.stdout)["items"]:
        if item["object"]["kind"] == "CloneSet" and item["object"]["name"] == "checkout":
            rollout: dict[str, Any] = item["rollout"]
            return rollout if (item["state"], item["commit"]) == ("Held", commit) else None
    return None


def recorded_held(shop: Shop, commit: str) -> bool:
    shop.git("fetch", "-q", "origin")
    newest = shop.git("log", "-1", "--format=%B", "origin/gitkruise/status/sandbox")
    return f"Gitkruise-Causal: {commit}" in newest and "Gitkruise-Phase: Held" in newest
