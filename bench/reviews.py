"""Reviews over HTTPS: how long an API server waits for an answer, and what one costs."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from bench.timing import Row
from tests.webhook.hooked import hooked, review
from tests.worlds import START, container, create, empty_world

RATE_S: Final = 200.0
REVIEWS: Final = 2_000
WARM_UP: Final = 200
SETS: Final = 3


def rows() -> Iterator[Row]:
    """A pod that three SidecarSets are injected into and whose containers start in order."""
    waits, cpu_s = asyncio.run(_measure())
    name = f"review of a pod, {RATE_S:.0f} a second"
    yield Row(name=f"{name}, p50", value=median(waits) * 1000, unit="ms")
    yield Row(name=f"{name}, p99", value=quantiles(waits, n=100)[98] * 1000, unit="ms", limit=50)
    yield Row(
        name="the same, CPU of the server", value=cpu_s / len(waits) * 1000, unit="ms a review"
    )


async def _measure() -> tuple[list[float], float]:
    world = empty_world()
    for number in range(SETS):
        world.handle(create(world, sidecarset(number)), START)
    with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as name:
        folder = Path(name)
        (folder / "review.json").write_text(json.dumps(review(pod())))
        async with hooked(folder, world) as hooks:
            words = (hooks.url, str(folder / "keys" / "ca.crt"), str(folder / "review.json"))
            other = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "bench.caller", *words,
                str(RATE_S), str(REVIEWS), str(WARM_UP), stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert other.stdout is not None
            await other.stdout.readline()  # it has warmed up
            begin = time.process_time()
            text = await other.stdout.read()
            cpu_s = time.process_time() - begin
            assert await other.wait() == 0
    waits: list[float] = json.loads(text)
    return waits, cpu_s


def sidecarset(number: int) -> dict[str, Any]:
    mesh = container(
        f"mesh-{number}",
        f"mesh-{number}:v1",
        volumeMounts=[{"name": f"shared-{number}", "mountPath": f"/shared/{number}"}],
        shareVolumePolicy={"type": "enabled"},
        transferEnv=[{"sourceContainerName": "app", "envNames": ["REGION"]}],
        resources={"limits": {"cpu": "500m", "memory": "256Mi"}},
    )
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "SidecarSet",
        "metadata": {"name": f"mesh-{number}"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [mesh],
            "volumes": [{"name": f"shared-{number}", "emptyDir": {}}],
        },
    }


def pod() -> dict[str, Any]:
    app = container(
        "app",
        "app:v1",
        env=[
            {"name": "REGION", "value": "eu"},
            {"name": "KRUISE_CONTAINER_PRIORITY", "value": "-1"},
        ],
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
        resources={"requests": {"cpu": "100m", "memory": "128Mi"}},
    )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"containers": [app], "volumes": [{"name": "data", "emptyDir": {}}]},
    }
