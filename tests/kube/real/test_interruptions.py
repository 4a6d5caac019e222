"""Interruptions: the API server is away, is another one, or refuses."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.kube.certificates import self_signed
from tests.kube.real.apiserver import STRANGER, Apiserver, free_port, talking
from tests.kube.real.installed import command
from tests.kube.real.shop import PODS, Shop, following, install_crds, listed, pods_run

pytestmark = [
    pytest.mark.kube,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Callback with id"),
]


def unreachable(server: Apiserver) -> Path:
    """A kubeconfig whose server is not there."""
    path = server.kubeconfig(name="other")
    path.write_text(path.read_text().replace(f":{server.port}", f":{free_port()}"))
    return path


FAILURES = {
    "unreachable": (unreachable, "GK4101", "connection refused"),
    "wrong-authority": (
        lambda s: s.kubeconfig(ca_pem=self_signed().cert_pem, name="other"),
        "GK4101",
        "TLS handshake failed",
    ),
    "forbidden": (lambda s: s.kubeconfig(STRANGER, name="stranger"), "GK4301", "forbidden"),
    "unknown-token": (lambda s: s.kubeconfig("no-such-token", name="expired"), "GK4104", ""),
}


@pytest.mark.parametrize("verb", ["status", "run"])
@pytest.mark.parametrize("failure", FAILURES)
def test_a_cluster_that_cannot_be_used_is_an_error_of_its_own(
    failure: str, verb: str, server: Apiserver, tmp_path: Path
) -> None:
    make, code, why = FAILURES[failure]
    words = [verb, "--kubeconfig", str(make(server))]
    if verb == "run":
        shop = Shop(tmp_path)
        shop.push("The shop")
        words += ["--config", str(shop.clone / "gitkruise.yaml")]
    done = command(*words, root=tmp_path)
    assert done.returncode == 5, done.stderr
    assert f"error[{code}]" in done.stderr
    assert why in done.stderr
    assert "unchanged:" in done.stderr
    assert "Traceback" not in done.stderr


def test_status_says_it_in_json_too(server: Apiserver, tmp_path: Path) -> None:
    done = command("status", "-o", "json", "--kubeconfig", str(unreachable(server)), root=tmp_path)
    assert done.returncode == 5
    assert json.loads(done.stdout)["items"][0]["code"] == "GK4101"


def test_a_server_killed_in_mid_rollout_costs_no_pod_a_second_restart(
    fresh: Apiserver, tmp_path: Path
) -> None:
    """In place, two pods at a time; the server dies when the first are on the new image."""

    async def play() -> tuple[list[tuple[str, str]], list[str], list[str]]:
        async with talking(fresh) as transport, pods_run(transport) as kubelet:
            await install_crds(transport)
            shop = Shop(tmp_path, replicas=8)
            commit = shop.push("The shop")
            async with following(shop, transport) as (_, news):
                await news.settled(commit)
                born = [p["metadata"]["uid"] for p in await listed(transport, PODS)]
                shop.edit("checkout", ("v2.4.0", "v2.4.1"))
                commit = shop.push("All of it")
                await news.until(
                    lambda r: any(x.key.name == "checkout" and x.updated >= 2 for x in r.rollouts)
                )
                await asyncio.to_thread(fresh.kill_server)
                await asyncio.to_thread(fresh.start_server)
                await news.settled(commit)
            alive = [p["metadata"]["uid"] for p in await listed(transport, PODS)]
        return kubelet.restarts, born, alive

    restarts, born, alive = asyncio.run(play())
    assert sorted(alive) == sorted(born), "no pod was replaced"
    assert len(restarts) == len(set(restarts)) == 8, "each pod once"
