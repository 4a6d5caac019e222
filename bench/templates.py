"""Pod templates normalised and hashed per second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from bench.timing import Row, cpu
from gitkruise.wire.kruise.hashes import revision_hash
from gitkruise.wire.kruise.revision_data import default_template, revision_data

COUNT: Final = 500


def template(number: int) -> dict[str, Any]:
    """A template as teams write them: two containers, probes, resources, volumes."""
    app = {
        "name": "app",
        "image": f"registry.example.com/shop/web:{number}",
        "ports": [{"name": "http", "containerPort": 8080}],
        "env": [{"name": "RELEASE", "value": str(number)}],
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}],
    }
    return {
        "metadata": {"labels": {"app": "web", "release": str(number)}},
        "spec": {
            "containers": [app, {"name": "log", "image": "log:v1", "args": ["-f"]}],
            "volumes": [{"name": "config", "configMap": {"name": "web"}}],
            "terminationGracePeriodSeconds": 30,
        },
    }


def rows() -> Iterator[Row]:
    stored = [default_template(template(number)) for number in range(COUNT)]

    def hashes() -> None:
        for item in stored:
            revision_hash(revision_data(item), 0)

    def defaults() -> None:
        for number in range(COUNT):
            default_template(template(number))

    speed = COUNT / cpu(hashes)
    yield Row(name="normalise and hash", value=speed, unit="templates/s", limit=2000, least=True)
    yield Row(name="default", value=COUNT / cpu(defaults), unit="templates/s")
