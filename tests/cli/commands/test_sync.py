"""sync brings the cluster to what git asks, once, and says how that went."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.cli.calls import Caller, Ended
from tests.cli.commands.test_wait import CONFIG
from tests.cli.live import CLONESETS, send
from tests.cli.shop import Checkout, cloneset
from tests.git.repos import run_git

pytestmark = pytest.mark.slow

SPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n"
SINK = """\
---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {name: out, namespace: shop}
spec: {git: {sourceRef: {name: here}, coalesce: 1s}}
"""


CONFIG_MAPS = ResourceRef("", "v1", "configmaps")
_NUMBERS = count()


def config_map(number: int) -> str:
    meta = f"{{name: left-{number}, namespace: shop}}"
    return f"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {meta}\n"


class Synced:
    """A checkout and a cluster, and `gitkruise sync` between them."""

    def __init__(self, gk: Caller, checkout: Checkout, cluster: Path) -> None:
        self._gk, self.checkout, self.cluster = gk, checkout, cluster
        self.name = f"test{next(_NUMBERS)}"  # the cluster is shared; what units left there is not

    def push(self, text: str, config: str = CONFIG) -> str:
        config = config.replace("url: .", f"url: {self.checkout.folder}, ref: {{branch: main}}")
        config = config.replace("sinkRef: {name: here}", "sinkRef: {name: out}") + SINK
        files: dict[str, str | None] = {"gitkruise.yaml": config, "apps/c.yaml": SPACE + text}
        return self.checkout.commit("change", files)

    def __call__(self, *words: str) -> Ended:
        line = ["sync", "--kubeconfig", str(self.cluster), "--cluster", self.name, *words]
        return self._gk(*line, cwd=self.checkout.folder)

    def image(self, name: str = "synced") -> str:
        request = ApiRequest(verb="get", resource=CLONESETS, namespace="shop", name=name)
        (live,) = send(self.cluster, request)
        return str(live["spec"]["template"]["spec"]["containers"][0]["image"])


@pytest.fixture
def synced(gk: Caller, checkout: Checkout, own_cluster: Path) -> Synced:
    return Synced(gk, checkout, own_cluster)


def test_apply_wait_and_the_outcome_in_git(synced: Synced) -> None:
    first = synced.push(cloneset("v1", name="synced"))
    ended = synced("--wait", "--timeout", "2m")
    assert (ended.code, ended.err.count("state=Done") > 0) == (0, True), ended.err
    assert ended.out.startswith(f"✓ Done  shop/shop  {first[:7]}")
    second = synced.push(cloneset("v2", name="synced", partition="60%"))
    again = synced("shop/shop", "--wait", "--timeout", "2m", "-o", "json")
    (item,) = again.obj["items"]
    assert (again.code, again.err) == (0, "")
    assert (item["state"], item["applied"], item["commit"]) == ("Held", True, second)
    assert synced.image().endswith("synced:v2")
    log = run_git(synced.checkout.folder, "log", "--format=%s", f"gitkruise/status/{synced.name}")
    assert f"shop/shop: held 4/10 at {second[:7]}" in log
    quiet = synced()
    assert (quiet.code, "⏸ Held" in quiet.out) == (0, True)


def test_a_rollout_that_fails_is_applied_and_stuck(synced: Synced) -> None:
    synced.push(cloneset("v2-broken", name="failing"))
    ended = synced("--timeout", "1m")
    assert (ended.code, synced.image("failing")[-9:]) == (0, "v2-broken"), ended.err
    waited = synced("--wait", "--timeout", "1m", "-o", "json")
    (item,) = waited.obj["items"]
    assert (waited.code, item["state"], item["applied"]) == (1, "Stuck", True), waited.err


def test_what_left_git_is_deleted_before_it_ends(synced: Synced) -> None:
    prune = "path: apps, prune: {enabled: true, maxDelete: 50, maxDeletePercent: 100}"
    config, maps = CONFIG.replace("path: apps", prune), "".join(map(config_map, range(30)))
    synced.push(cloneset("v1", name="synced") + maps, config)
    assert synced("--wait", "--timeout", "1m").code == 0
    synced.push(cloneset("v1", name="synced"), config)
    assert synced("--timeout", "1m").code == 0
    request = ApiRequest(verb="list", resource=CONFIG_MAPS, namespace="shop")
    names = [obj["metadata"]["name"] for obj in send(synced.cluster, request)[0]["items"]]
    assert not [name for name in names if name.startswith("left-")]


@pytest.mark.parametrize(
    ("text", "code", "error"),
    [
        (cloneset("v3", name="refused").replace("partition:", "partiton:"), 3, "GK1203"),
        (cloneset("v3", name="refused").replace("shop", "nowhere", 1), 3, "GK4202"),
    ],
    ids=["by-its-schema", "by-the-cluster"],
)
def test_what_cannot_be_applied_has_its_code(
    synced: Synced, text: str, code: int, error: str
) -> None:
    synced.push(text)
    ended = synced("--timeout", "1m")
    assert (ended.code, ended.err.count(f"error[{error}]")) == (code, 1), ended.err
    document = synced("--timeout", "1m", "-o", "json")
    (item,) = document.obj["items"]
    assert (document.code, item["state"], item["applied"]) == (code, "Rejected", False)
    assert item["findings"][0]["code"] == error


def test_a_rewrite_is_followed_when_a_person_names_where_it_leads(synced: Synced) -> None:
    def image(version: str) -> str:
        return cloneset(version, name="rewritten")

    base = synced.checkout.commit("base", {"README.md": "The shop\n"})
    synced.push(image("v1"))
    assert synced().code == 0
    run_git(synced.checkout.folder, "reset", "--hard", "--quiet", base)
    second = synced.push(image("v2"))
    refused = synced()
    assert (refused.code, "GK3204" in refused.err) == (4, True)
    flags = f"--kubeconfig {synced.cluster} --cluster {synced.name} --config gitkruise.yaml"
    output = " ".join(synced("--config", "gitkruise.yaml", "--lease", "mine").err.split())
    assert f"gitkruise sync --accept-rewrite {second} {flags} --lease mine " in output
    assert synced("--accept-rewrite", second[:7]).code == 2
    assert synced("--accept-rewrite", second).code == 0
    assert synced.image("rewritten").endswith(":v2")
    assert synced().code == 0


def test_a_closed_window_stops_it_unless_it_lets_people_through(synced: Synced) -> None:
    synced.push(cloneset("v1", name="windows"))
    assert synced("--timeout", "1m").code == 0
    shut = "path: apps, windows: [{kind: deny, schedule: 0 0 * * *, duration: 24h%s}]"
    closed = CONFIG.replace("path: apps", shut % "")
    synced.push(cloneset("v2", name="windows"), closed)
    ended = synced("--timeout", "2s")
    assert (ended.code, "Waiting: waits for a window (none opens)" in ended.err) == (6, True)
    flags = f"--kubeconfig {synced.cluster} --cluster {synced.name}"
    assert f"next: gitkruise status {flags} " in " ".join(ended.err.split())
    synced.push(
        cloneset("v2", name="windows"), CONFIG.replace("path: apps", shut % ", manual: true")
    )
    assert synced("--timeout", "1m").code == 0


def test_a_unit_nobody_has_and_a_repository_that_is_not_there(synced: Synced) -> None:
    synced.push(cloneset(name="synced"))
    wrong = synced("nope")
    assert (wrong.code, "GK7040" in wrong.err, "shop/shop" in wrong.err) == (2, True, True)
    assert synced("--config", "nowhere.yaml").code == 2
