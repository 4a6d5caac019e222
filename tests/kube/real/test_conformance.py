"""`gitkruise run` on a real API server does what was recorded from OpenKruise on one.

Nothing else runs there: the tests play scheduler and kubelet, and no controller of Kubernetes
collects garbage (none did when OpenKruise was recorded).
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.run_http import FOLDER, GATES, SUBSET, differences, gate_flags, scenarios
from tests.e2e.program import environment, gitkruise, started
from tests.kube.real.apiserver import ADMIN, Apiserver, free_port, talking
from tests.kube.real.shop import Shop, install_crds

pytestmark = [pytest.mark.kube, pytest.mark.slow]


# Scenarios that cannot be held to their recording here, and why.
NOT_HERE: Final[Mapping[str, str]] = {
    "pvc-not-reused-when-disabled": (
        "a pod that is deleted without grace may be gone before anybody sees it end; its claim is"
        " then deleted and not handed to it, which is right too, and no garbage collector evens it"
    ),
}


async def prepare(server: Apiserver) -> None:
    async with talking(server) as transport:
        await install_crds(transport)


@contextmanager
def running(server: Apiserver, folder: Path, gates: Sequence[str]) -> Iterator[None]:
    """`gitkruise run` with its webhooks, following a repository in which nothing happens."""
    asyncio.run(prepare(server))
    shop = Shop(folder, replicas=0)
    shop.push("The shop")
    hook, receivers = (f"127.0.0.1:{free_port()}" for _ in range(2))
    where = [
        "--config",
        str(shop.clone / "gitkruise.yaml"),
        "--kubeconfig",
        str(server.kubeconfig()),
    ]
    hooks = ["--webhook", hook, "--webhook-url", f"https://{hook}", "--hooks", receivers]
    words = gitkruise("run", *where, *hooks, *gate_flags(gates))
    with started(words, environment(folder / "state"), folder) as program:
        program.until("unit shop/shop state=Done")
        yield


@pytest.mark.parametrize("gates", [(), GATES], ids=["default gates", "all gates"])
def test_run_does_what_was_recorded(
    fresh: Apiserver, tmp_path: Path, gates: tuple[str, ...]
) -> None:
    """A few scenarios; all of them with CONFORMANCE=all (`make kube-conformance`)."""
    everything = os.environ.get("CONFORMANCE") == "all"  # noqa: TID251  the target chooses
    traces = json.loads((FOLDER / "traces.json").read_text())
    chosen = scenarios(gates, () if everything else SUBSET)
    possible = [scenario for scenario in chosen if scenario["name"] not in NOT_HERE]
    with running(fresh, tmp_path, gates):
        found = dict(differences(possible, traces, fresh.url, ADMIN))
    assert found
    assert not {name: text for name, text in found.items() if text}
