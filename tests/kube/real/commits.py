"""A repository with one Deployment, and a gitkruise that follows it against a real cluster."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from gitkruise.app import RunOptions, controller
from gitkruise.gitops.config.loader import load_config
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import SystemClock
from gitkruise.wire.primitives.names import Obj
from tests.kube.real.shop import News

CONFIG: Final = """\
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
  target: {{namespace: {name}, createNamespace: true}}
"""


@dataclass
class Commits:
    """A bare repository and a clone of it; the unit and its namespace are `name`."""

    root: Path
    name: str
    bare: Path = field(init=False)
    clone: Path = field(init=False)

    def __post_init__(self) -> None:
        self.bare, self.clone = self.root / "deploy.git", self.root / "clone"
        self._git("init", "-q", "--bare", "-b", "main", str(self.bare), cwd=self.root)
        self._git("clone", "-q", str(self.bare), str(self.clone), cwd=self.root)
        self._git("checkout", "-q", "-B", "main")
        self._git("config", "user.name", "Dana")
        self._git("config", "user.email", "dana@example.com")
        (self.clone / "apps").mkdir()
        config = CONFIG.format(name=self.name, url=self.bare)
        (self.clone / "gitkruise.yaml").write_text(config)

    def write(self, obj: Obj, subject: str) -> str:
        """Commit and push the one object of the unit; returns the commit."""
        (self.clone / "apps" / "web.yaml").write_text(yaml.safe_dump(obj, sort_keys=False))
        self._git("add", "-A")
        self._git("commit", "-q", "-m", subject)
        self._git("push", "-q", "origin", "main")
        return self._git("rev-parse", "HEAD").strip()

    def _git(self, *words: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *words], cwd=cwd or self.clone, capture_output=True, text=True, check=True
        )
        return done.stdout

    @asynccontextmanager
    async def followed(self, transport: Transport) -> AsyncIterator[News]:
        """gitkruise with all its workload controllers, for the length of the block."""
        news = News()
        options = RunOptions(
            config=load_config(self.clone / "gitkruise.yaml"),
            cluster="real",
            state_dir=self.root / "state",
            identity="test",
            listeners=(news.offer,),
        )
        async with controller(options, transport, SystemClock()):
            yield news


def web(image: str, canary: str | None, *, spec: Obj, **more: Any) -> Obj:
    """A Deployment of 10 pods with the pod `spec`, maxSurge 2 and maxUnavailable 1."""
    notes = {} if canary is None else {"annotations": {"gitkruise.io/canary": canary}}
    labels = {"app": "web"}
    rolling = {"maxSurge": 2, "maxUnavailable": 1}
    containers = [{**spec["containers"][0], "image": image}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", **notes},
        "spec": {
            "replicas": 10,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "template": {
                "metadata": {"labels": labels},
                "spec": {**spec, "containers": containers},
            },
            **more,
        },
    }
