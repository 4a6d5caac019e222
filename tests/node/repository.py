"""A repository with one CloneSet, and a controller that follows it against the real cluster."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gitkruise.app import RunOptions, controller
from gitkruise.gitops.config.loader import load_config
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.system.clock import SystemClock
from gitkruise.webhook.registration import Registrar
from gitkruise.webhook.service import WebhookOptions
from gitkruise.wire.primitives.requests import PODS, ApiRequest
from tests.kube.real.apiserver import talking
from tests.kube.real.shop import News, install_crds
from tests.node.cluster import Cluster
from tests.node.pods import HANG, pod_spec

_CONFIG = """\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {{name: deploy, namespace: {name}}}
spec: {{url: {url}, ref: {{branch: main}}}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {{name: {name}, namespace: {name}}}
spec:
  sourceRef: {{name: deploy}}
  path: apps
  target: {{namespace: {name}}}
"""


@dataclass
class Repository:
    """A bare repository and a clone of it; the unit, its namespace and its CloneSet are `name`."""

    root: Path
    name: str
    replicas: int = 3
    clone: Path = field(init=False)

    def __post_init__(self) -> None:
        bare, self.clone = self.root / "deploy.git", self.root / "clone"
        self._git("init", "-q", "--bare", "-b", "main", str(bare), cwd=self.root)
        self._git("clone", "-q", str(bare), str(self.clone), cwd=self.root)
        self._git("checkout", "-q", "-B", "main")
        (self.clone / "apps").mkdir()
        (self.clone / "gitkruise.yaml").write_text(_CONFIG.format(name=self.name, url=bare))

    def write(self, image: str, *, tier: str = "", **strategy: Any) -> str:
        """Commit and push the CloneSet with that image; returns the commit.

        `tier` is a label of the pods, and the variable TIER of their containers.
        """
        selected = {"app": self.name}
        labels = {**selected, **({"tier": tier} if tier else {})}
        source = {"fieldRef": {"fieldPath": "metadata.labels['tier']"}}
        environment = [{"name": "TIER", "valueFrom": source}] if tier else []
        container = {"name": "app", "image": image, "env": environment}
        cloneset = {
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "CloneSet",
            "metadata": {"name": self.name, "namespace": self.name},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": selected},
                "template": {"metadata": {"labels": labels}, "spec": pod_spec([container])},
                "updateStrategy": {"type": "InPlaceIfPossible", "maxUnavailable": 1, **strategy},
            },
        }
        return self.commit(cloneset, message=f"{image} {tier} {strategy or ''}")

    def commit(self, *objects: dict[str, Any], message: str) -> str:
        """Commit and push these objects as all that the unit has; returns the commit."""
        (self.clone / "apps" / "objects.yaml").write_text(yaml.safe_dump_all(objects))
        self._git("add", "-A")
        self._git("commit", "-q", "-m", message)
        self._git("push", "-q", "origin", "main")
        return self._git("rev-parse", "HEAD").strip()

    def _git(self, *words: str, cwd: Path | None = None) -> str:
        who = ("-c", "user.name=Dana", "-c", "user.email=dana@example.com")
        done = subprocess.run(
            ["git", *who, *words], cwd=cwd or self.clone, capture_output=True, text=True, check=True
        )
        return done.stdout


@asynccontextmanager
async def following(
    repository: Repository, cluster: Cluster, webhook: WebhookOptions | None = None
) -> AsyncIterator[News]:
    """gitkruise with all its workload controllers, for the length of the block.

    `webhook`: with its admission, too, which the API server has heard of when the block begins.
    """
    news = News()
    options = RunOptions(
        config=load_config(repository.clone / "gitkruise.yaml"),
        cluster="node",
        state_dir=repository.root / "state",
        identity="test",
        listeners=(news.offer,),
        webhook=webhook,
    )
    async with talking(cluster.server) as transport:
        await install_crds(transport)
        async with controller(options, transport, SystemClock()), admitting(transport, webhook):
            yield news


@asynccontextmanager
async def admitting(
    transport: HttpTransport, webhook: WebhookOptions | None
) -> AsyncIterator[None]:
    """Wait for the API server to call the webhook; it forgets the webhook after the block."""
    if webhook is None:
        yield
        return
    env = [{"name": "KRUISE_CONTAINER_PRIORITY", "value": "1"}]
    containers = [{"name": "a", "image": "a:1", "env": env}, {"name": "b", "image": "b:1"}]
    trial = {"metadata": {"name": "trial"}, "spec": {"containers": containers}}
    ask = ApiRequest(
        verb="create", resource=PODS, namespace="default", body=trial, params={"dryRun": "All"}
    )
    try:
        for _ in range(HANG):
            if "KRUISE_CONTAINER_BARRIER" in str(thaw((await transport.send(ask)).body)):
                break
            await asyncio.sleep(0.05)
        else:
            raise AssertionError("the webhook is never called")
        yield
    finally:
        await Registrar(transport, webhook.address).withdraw()
