"""A sandbox in the background, and what a plain HTTPS client sees of it."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import ssl
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.program import PATIENCE_S, environment, gitkruise, output


@dataclass(frozen=True, slots=True)
class Pod:
    """What must not change when gitkruise is killed: who a pod is, and how often it restarted."""

    name: str
    uid: str
    restarts: int
    image: str
    ready: bool


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running sandbox: its state directory, and the environment to use it in."""

    state: Path
    env: Mapping[str, str]

    @property
    def kubeconfig(self) -> Path:
        return self.state / "sandbox" / "kubeconfig"

    def get(self, path: str) -> dict[str, Any]:
        """The JSON answer to a GET."""
        return self.send("GET", path)

    def send(self, verb: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        """The JSON answer to a request. A body is YAML for server-side apply."""
        with self.open(verb, path, body) as reply:
            answer: dict[str, Any] = json.load(reply)
        return answer

    def open(self, verb: str, path: str, body: bytes | None = None) -> http.client.HTTPResponse:
        """The answer as it comes, asked for with the kubeconfig's token and authority."""
        config = yaml.safe_load(self.kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        headers = {"Authorization": f"Bearer {user['token']}"}
        if body is not None:
            headers["Content-Type"] = "application/apply-patch+yaml"
        request = urllib.request.Request(
            cluster["server"] + path, data=body, headers=headers, method=verb
        )
        trust = ssl.create_default_context(cadata=authority)
        reply = urllib.request.urlopen(request, context=trust, timeout=PATIENCE_S)
        assert isinstance(reply, http.client.HTTPResponse)
        return reply

    def pods(self, app: str, namespace: str = "shop") -> list[Pod]:
        """Pods with the label `app`, in name order."""
        found = self.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{app}")
        return [_pod(item) for item in found["items"]]

    def status(self) -> dict[str, Any]:
        """`gitkruise sandbox status -o json` of a sandbox that runs."""
        answer: dict[str, Any] = json.loads(
            output(gitkruise("sandbox", "status", "-o", "json"), self.env)
        )
        return answer

    def kill(self) -> None:
        """End the server without a chance to tidy up."""
        os.kill(self.status()["pid"], signal.SIGKILL)

    def up(self, *flags: str) -> None:
        output(gitkruise("sandbox", "up", "--detach", *flags), self.env)

    def down(self) -> None:
        output(gitkruise("sandbox", "down"), self.env)


def _pod(item: Mapping[str, Any]) -> Pod:
    status = (item["status"].get("containerStatuses") or [{}])[0]
    conditions = item["status"].get("conditions") or []
    return Pod(
        name=item["metadata"]["name"],
        uid=item["metadata"]["uid"],
        restarts=status.get("restartCount", 0),
        image=item["spec"]["containers"][0]["image"],
        ready=any(c["type"] == "Ready" and c["status"] == "True" for c in conditions),
    )


@contextmanager
def sandbox(state: Path, *flags: str) -> Iterator[Cluster]:
    """`gitkruise sandbox up --detach` with its state in `state`, down at the end."""
    cluster = Cluster(state, environment(state))
    cluster.up(*flags)
    try:
        yield cluster
    finally:
        cluster.down()
