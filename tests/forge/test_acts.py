"""`promote --pr` and `rollback --pr` of a real Gitea, against a sandbox: one pull request each."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster, sandbox
from tests.e2e.program import eventually, gitkruise, output, started
from tests.forge.fleet import Fleet
from tests.forge.gitea import OWNER, Gitea
from tests.git.repos import run_git
from tests.gitops.deliveries import KEY
from tests.gitops.receiver.test_receiver import receiver
from tests.gitops.source.test_repositories import HEAD, source
from tests.gitops.stage import web

pytestmark = [pytest.mark.forge, pytest.mark.slow]


@dataclass
class ActionHarness:
    """A person's checkout, the cluster, and the forge in a browser."""

    fleet: Fleet
    cluster: Cluster

    def act(self, verb: str, *words: str) -> dict[str, Any]:
        """`gitkruise VERB web --pr` in the checkout, as JSON."""
        self.fleet.sync()
        line = gitkruise(
            verb, "web", "-n", "shop", "--pr", "-o", "json", "--sandbox", "--repo",
            str(self.fleet.work), "--config", str(self.fleet.folder / "gitkruise.yaml"), *words,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(output(line, self.cluster.env))
        return found

    def pulls(self) -> list[Mapping[str, Any]]:
        """Oldest first."""
        found = self.fleet.forge.api("GET", f"/repos/{self.fleet.repo}/pulls?state=all")
        return sorted(found, key=lambda pull: int(pull["number"]))

    def comment(self, number: int, *words: str) -> str:
        """The plan under a pull request, as soon as it has all the words."""

        def look() -> str:
            bodies = [str(c["body"]) for c in self.fleet.comments(number)]
            return next((b for b in bodies if all(word in b for word in words)), "")

        return eventually(look)

    def images(self, *images: str) -> None:
        """Wait until the pods run these."""

        def look() -> bool:
            pods = self.cluster.pods("web")
            return sorted(p.image for p in pods if p.ready) == sorted(images)

        eventually(look)


def configured(fleet: Fleet) -> Path:
    sink = {
        "type": "gitea", "url": fleet.forge.url, "repo": fleet.repo, "secretRef": {"name": "forge"},
    }  # fmt: skip
    unit = {"sourceRef": {"name": "src"}, "path": ".", "sinkRef": {"name": "out"}}
    meta = "metadata: {{name: {}, namespace: shop}}\n"
    file = fleet.folder / "gitkruise.yaml"
    follows = {"ref": {"branch": "main"}, "interval": "1s", "secretRef": {"name": "git"}}
    file.write_text("---\n".join([
        source("src", url=fleet.url, **follows),
        f"{HEAD}kind: Sink\n{meta.format('out')}spec: {json.dumps({'forge': sink})}\n",
        receiver("forge", "gitea"),
        f"{HEAD}kind: Unit\n{meta.format('web')}spec: {json.dumps(unit)}\n",
    ]))  # fmt: skip
    return file


def put_secret(cluster: Cluster, name: str, keys: Mapping[str, str]) -> None:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in keys.items()}
    meta = {"name": name, "namespace": "shop"}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}
    path = f"/api/v1/namespaces/shop/secrets/{name}?fieldManager=test"
    cluster.send("PATCH", path, json.dumps(body).encode())


@contextmanager
def followed(fleet: Fleet, folder: Path) -> Iterator[ActionHarness]:
    """A sandbox, and gitkruise as a program that follows the fleet."""
    file = configured(fleet)
    forge = fleet.forge
    with sandbox(folder / "state", "--speed", "20") as cluster:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        cluster.send(
            "PATCH", "/api/v1/namespaces/shop?fieldManager=test", json.dumps(space).encode()
        )
        git = {"username": OWNER, "password": forge.token, "ca.crt": forge.ca_pem}
        put_secret(cluster, "git", git)
        put_secret(cluster, "hook", {"token": KEY})
        put_secret(cluster, "forge", {"token": forge.token, "ca.crt": forge.ca_pem})
        words = gitkruise("run", "--config", str(file), "--sandbox", "--hooks", "127.0.0.1:0")
        with started(words, cluster.env, folder) as program:
            url = program.until("receiver shop/forge listens").split()[-1]
            fleet.hook(url, events=("push", "pull_request"))
            yield ActionHarness(fleet, cluster)


def test_a_promotion_and_a_rollback_by_hand(forge: Gitea, tmp_path: Path) -> None:
    fleet = Fleet(forge, tmp_path, "by-hand")
    fleet.push(web(), message="first")
    with followed(fleet, tmp_path) as harness:
        harness.images(*["app:v1"] * 4)
        canary = fleet.push(web("app:v2", partition="75%"), message="canary")
        harness.images("app:v2", *["app:v1"] * 3)

        made = harness.act("promote", "--partition", "50%")
        (pull,) = harness.pulls()
        branch = f"gitkruise/promote-web-{canary[:7]}"
        assert made["pullRequest"] == pull["html_url"]
        assert made["branch"] == pull["head"]["ref"] == branch
        assert pull["base"]["ref"] == "main"
        assert pull["title"] == "web: promote to partition 50%"
        assert "1 pod in place" in pull["body"]
        harness.comment(1, "✅ current", "50%")

        again = harness.act("promote", "--partition", "25%")
        (pull,) = harness.pulls()
        assert again["pullRequest"] == pull["html_url"]
        assert pull["title"] == "web: promote to partition 25%"
        assert run_git(fleet.work, "rev-parse", f"{again['commit']}~1") == made["commit"]
        assert harness.act("promote", "--partition", "25%")["commit"] == again["commit"]
        harness.comment(1, "✅ current", "25%", again["commit"][:7])
        assert len(fleet.comments(1)) == 1
        fleet.merge(1)
        harness.images(*["app:v2"] * 3, "app:v1")
        harness.comment(1, "⏸ Held")

        back = harness.act("rollback")
        assert [p["state"] for p in harness.pulls()] == ["closed", "open"]
        assert harness.pulls()[1]["title"].startswith("web: roll back to ")
        assert 'Back to "first"' in harness.pulls()[1]["body"]
        harness.comment(2, "✅ current", "app:v1")
        assert back["commit"] != fleet.sync()
        harness.images(*["app:v2"] * 3, "app:v1")
        fleet.merge(2)
        harness.images(*["app:v1"] * 4)
        harness.comment(2, "✓ Done")
