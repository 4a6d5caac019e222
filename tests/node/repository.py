"""A repository with one CloneSet, and a controller that follows it against the real cluster."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gitkruise.app import RunOptions, controller
from gitkruise.gitops.config.loader import load_config
from gitkruise.kube.system.clock import SystemClock
from tests.kube.real.apiserver import talking
from tests.kube.real.shop import News, install_crds
from tests.node.cluster import Cluster
from tests.node.pods import pod_spec

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
        (self.clone / "apps" / "cloneset.yaml").write_text(yaml.safe_dump(cloneset))
        self._git("add", "-A")
        self._git("commit", "-q", "-m", f"{image} {tier} {strategy or ''}")
        self._git("push", "-q", "origin", "main")
        return self._git("rev-parse", "HEAD").strip()

    def _git(self, *words: str, cwd: Path | None = None) -> str:
        who = ("-c", "user.name=Dana", "-c", "user.email=dana@example.com")
        done = subprocess.run(
            ["git", *who, *words], cwd=cwd or self.clone, capture_output=True, text=True, check=True
        )
        return done.stdout


@asynccontextmanager
async def following(repository: Repository, cluster: Cluster) -> AsyncIterator[News]:
    """gitkruise with all its workload controllers, for the length of the block."""
    news = News()
    options = RunOptions(
        config=load_config(repository.clone / "gitkruise.yaml"),
        cluster="node",
        state_dir=repository.root / "state",
        identity="test",
        listeners=(news.offer,),
    )
    async with talking(cluster.server) as transport:
        await install_crds(transport)
        async with controller(options, transport, SystemClock()):
            yield news
