"""A repository with one Deployment, and a gitkruise that follows it against a real cluster."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from gitkruise.app import RunOptions, controller
from gitkruise.gitops.config.loader import load_config
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.system.clock import SystemClock
from gitkruise.wire.primitives.names import Obj
from tests.git.repos import ENV
from tests.gitops.forges.forges import REPO
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
  target: {{namespace: {name}, createNamespace: true}}{sink}
"""
FORGE: Final = """
  sinkRef: {{name: out}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {{name: out, namespace: {name}}}
spec:
  git: {{sourceRef: {{name: deploy}}}}
  forge: {{type: github, url: "{url}", repo: {repo}, secretRef: {{name: forge}}}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Receiver
metadata: {{name: forge, namespace: {name}}}
spec: {{type: github, secretRef: {{name: hook}}, sources: [{{name: deploy}}]}}
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
        self._configure("")

    def _configure(self, sink: str) -> None:
        config = CONFIG.format(name=self.name, url=self.bare, sink=sink)
        (self.clone / "gitkruise.yaml").write_text(config)

    def report_to(self, forge: str) -> None:
        """Let the forge at that address show plans and outcomes, and deliver its web hooks.

        Its token and the key of the hooks are in the Secrets `forge` and `hook`.
        """
        self._configure(FORGE.format(name=self.name, url=forge, repo=REPO))

    def write(self, obj: Obj, subject: str, branch: str = "main") -> str:
        """Commit and push the one object of the unit; returns the commit."""
        (self.clone / "apps" / "web.yaml").write_text(yaml.safe_dump(obj, sort_keys=False))
        self._git("add", "-A")
        self._git("commit", "-q", "-m", subject)
        self._git("push", "-q", "origin", f"HEAD:refs/heads/{branch}")
        return self._git("rev-parse", "HEAD").strip()

    def has(self, commit: str) -> bool:
        """Return whether the commit was pushed."""
        kept = self._git("for-each-ref", f"--contains={commit}", cwd=self.bare, check=False)
        return kept != ""

    def open_pull(self, number: int, obj: Obj, subject: str) -> str:
        """Push the branch of a pull request, as a forge offers it; returns its head."""
        self._git("checkout", "-q", "--detach", "main")
        head = self.write(obj, subject, branch=f"pull-{number}")
        self._git("update-ref", f"refs/pull/{number}/head", head, cwd=self.bare)
        self._git("checkout", "-q", "main")
        return head

    def merge(self, head: str) -> str:
        """Merge a pull request; returns the commit of main."""
        self._git("merge", "-q", "--no-ff", "-m", "Merge", head)
        self._git("push", "-q", "origin", "main")
        return self._git("rev-parse", "main").strip()

    def act(self, *words: str) -> str:
        """Run gitkruise in the clone as its owner, with a verb that commits; returns the commit."""
        before = self._git("rev-parse", "main")
        config = str(self.clone / "gitkruise.yaml")
        done = subprocess.run(
            [sys.executable, "-m", "gitkruise", *words, "--yes", "--commit", "--config", config],
            cwd=self.clone,
            env={**ENV, "PYTHONPATH": str(Path(__file__).parents[3])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        self._git("pull", "-q", "--ff-only", "origin", "main")
        after = self._git("rev-parse", "main")
        assert after != before, done.stdout + done.stderr
        return after.strip()

    def _git(self, *words: str, cwd: Path | None = None, check: bool = True) -> str:
        done = subprocess.run(
            ["git", *words], cwd=cwd or self.clone, capture_output=True, text=True, check=check
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
            listen=Listen(port=0),
        )
        async with controller(options, transport, SystemClock()) as running:
            news.hooks = running.hooks
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
