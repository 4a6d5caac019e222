"""A real cluster that keeps itself by git: with no more rights than bootstrap gives."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Final

import pytest

from gitkruise.app import RunOptions, controller
from gitkruise.gitops.resources.declared import ResourceRules
from gitkruise.kube.system.clock import SystemClock
from gitkruise.model.gitops.config import Config
from gitkruise.wire.primitives.names import OWN_API
from tests.kube.real.apiserver import Apiserver, talking
from tests.kube.real.installed import command
from tests.kube.real.shop import HANG_S, Shop
from tests.kube.real.test_install import token_of

pytestmark = [pytest.mark.kube, pytest.mark.kubectl, pytest.mark.slow]
SPACE: Final = "gitkruise-system"


def add_team(shop: Shop) -> None:
    """A unit of a team, in a file below the path that the cluster follows."""
    spec = {"sourceRef": {"name": "cluster"}, "path": "teams/a",
            "serviceAccountName": "gitkruise-keeper"}  # fmt: skip
    unit = {"apiVersion": OWN_API, "kind": "Unit", "spec": spec,
            "metadata": {"name": "team", "namespace": SPACE}}  # fmt: skip
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"mode": "fast"},
                "metadata": {"name": "settings", "namespace": SPACE}}  # fmt: skip
    for path, obj in (("clusters/real/team.yaml", unit), ("teams/a/settings.yaml", settings)):
        (shop.clone / path).parent.mkdir(parents=True, exist_ok=True)
        (shop.clone / path).write_text(json.dumps(obj))
    shop.push("A team")


def test_it_follows_itself_and_is_upgraded_by_a_commit(
    fresh: Apiserver, kubectl: str, tmp_path: Path
) -> None:
    config, shop = fresh.kubeconfig(), Shop(tmp_path)
    shop.push("The shop")
    shop.identify()

    def bootstrap(*more: str) -> None:
        words = ("bootstrap", "clusters/real", "--kubeconfig", str(config), "--yes", *more)
        done = command(*words, "--repo", str(shop.clone), root=tmp_path)
        assert done.returncode == 0, done.stderr

    async def waited(what: str, condition: str = "") -> None:
        how = f"jsonpath={condition}" if condition else "create"
        words = [kubectl, f"--kubeconfig={config}", "-n", SPACE, "wait", what,
                 f"--for={how}", f"--timeout={HANG_S:g}s"]  # fmt: skip
        done = await asyncio.to_thread(
            subprocess.run, words, capture_output=True, text=True, check=False, timeout=HANG_S + 9
        )
        assert done.returncode == 0, done.stderr

    async def play() -> None:
        async with talking(fresh) as admin:
            token = await token_of(admin)
        async with talking(fresh, token) as account:
            options = RunOptions(
                config=Config(), cluster="real", state_dir=tmp_path / "state",
                identity="test", custom=ResourceRules(local_sources=True),
            )  # fmt: skip
            async with controller(options, account, SystemClock()):
                image = "{.spec.template.spec.containers[0].image}"
                marked = "{.metadata.annotations.gitkruise\\.io/commit}"
                await waited("deployment/gitkruise", f"{marked}={shop.head()}")
                await asyncio.to_thread(add_team, shop)
                await waited("unit/team")
                await waited("unit/team", "{.status.phase}=Done")
                await waited("configmap/settings", "{.data.mode}=fast")
                await asyncio.to_thread(bootstrap, "--image", "gitkruise:later")
                await waited("deployment/gitkruise", f"{image}=gitkruise:later")

    bootstrap()
    asyncio.run(play())
