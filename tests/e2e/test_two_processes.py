"""Two `gitkruise run` of one host: the leader is stopped or cut off, the other one goes on.

The kernel stops the processes, and a proxy cuts their line; a watch on the API server sees every
version of every object.
"""

from __future__ import annotations

import http.client
import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import yaml

from tests.e2e.cluster import Cluster, sandbox
from tests.e2e.line import Line, line
from tests.e2e.program import Program, environment, eventually, gitkruise, output, started
from tests.e2e.shop import Shop

pytestmark = pytest.mark.e2e

LEASE_S: Final = 6
REPLICAS, SURGE = 4, 1
SYNC = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/gitkruise-sync"
WATCHED = (
    "/apis/apps.kruise.io/v1alpha1/namespaces/shop/clonesets",
    "/api/v1/namespaces/shop/configmaps",
    "/api/v1/namespaces/shop/pods",
)
FOLLOWED = ("CloneSet/web", "ConfigMap/settings")
CONFIG = """\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {{name: src, namespace: shop}}
spec: {{url: {url}, interval: 1s, ref: {{branch: main}}}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {{name: web, namespace: shop}}
spec: {{sourceRef: {{name: src}}, path: web}}
"""
OBJECTS = """\
apiVersion: v1
kind: Namespace
metadata: {{name: shop}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings}}
data: {{count: "{count}"}}
---
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {{name: web}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  updateStrategy: {{type: ReCreate, maxUnavailable: 1, maxSurge: {surge}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers: [{{name: app, image: "registry.example.com/app:v{count}"}}]
"""


class Watcher:
    """Every version of the objects, as watches of the API server report them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.commits: list[tuple[str, str]] = []  # (object, commit), in order of each object
        self._pods: set[str] = set()
        self.most_pods, self.broken = 0, ""
        for path in WATCHED:
            threading.Thread(target=self._follow, args=(path,), daemon=True).start()

    def _follow(self, path: str) -> None:
        try:
            with self._cluster.open("GET", f"{path}?watch=1") as events:
                for text in events:
                    event = json.loads(text)
                    self._received(event["type"], event["object"])
            self.broken = f"{path}: ended"
        except (OSError, http.client.HTTPException) as error:  # also when the sandbox goes down
            self.broken = f"{path}: {error}"

    def _received(self, kind: str, obj: dict[str, Any]) -> None:
        meta = obj["metadata"]
        if obj["kind"] != "Pod":
            commit = (meta.get("annotations") or {}).get("gitkruise.io/commit", "")
            self.commits += [(f"{obj['kind']}/{meta['name']}", commit)] if commit else []
        elif kind == "DELETED" or meta.get("deletionTimestamp"):
            self._pods.discard(meta["uid"])
        else:
            self._pods.add(meta["uid"])
            self.most_pods = max(self.most_pods, len(self._pods))

    def newest(self, name: str) -> str:
        return next((commit for of, commit in reversed(self.commits) if of == name), "")

    def back(self, order: dict[str, int]) -> list[str]:
        """Where an object went back to an older commit."""
        found, before = [], dict[str, int]()
        for name, commit in self.commits:
            if order[commit] < before.get(name, 0):
                found.append(f"{name} from {before[name]} to {order[commit]}")
            before[name] = order[commit]
        return found


@dataclass(frozen=True, slots=True)
class Instance:
    """One process, its state directory and its way to the API server."""

    program: Program
    state: Path
    line: Line

    @property
    def identity(self) -> str:
        return str(json.loads((self.state / "run.lock").read_text())["identity"])

    def stop(self) -> None:
        self.program.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.program.signal(signal.SIGCONT)


class Pair:
    """The cluster, the repository, and both processes."""

    def __init__(self, cluster: Cluster, shop: Shop, watcher: Watcher) -> None:
        self.cluster, self.shop, self.watcher = cluster, shop, watcher
        self.instances: list[Instance] = []
        self.order: dict[str, int] = {}

    def push(self) -> str:
        count = len(self.order) + 1
        (self.shop.clone / "web").mkdir(exist_ok=True)
        text = OBJECTS.format(count=count, replicas=REPLICAS, surge=SURGE)
        (self.shop.clone / "web" / "app.yaml").write_text(text)
        commit = self.shop.push(f"change {count}")
        self.order[commit] = count
        return commit

    def holder(self) -> Instance | None:
        held_by = self.cluster.get(SYNC)["spec"].get("holderIdentity")
        return next((one for one in self.instances if one.identity == held_by), None)

    def leader(self) -> Instance:
        return eventually(self.holder)

    def applied(self, commit: str) -> None:
        """Wait until the cluster is as `commit` asks."""
        eventually(lambda: all(self.watcher.newest(name) == commit for name in FOLLOWED))

    def fails(self, happen: Callable[[Instance], None], mend: Callable[[Instance], None]) -> None:
        """The leader fails, the other one takes over, and the first comes back to another world."""
        first = self.leader()
        happen(first)
        newest = self.push()
        self.applied(newest)
        assert self.leader() is not first
        mend(first)
        first.program.until(
            r'event=lease-not-held reason="lease kube-system/gitkruise-sync is held by'
        )
        last = self.push()
        self.applied(last)


@contextmanager
def instance(folder: Path, name: str, cluster: Cluster, config: Path) -> Iterator[Instance]:
    """`gitkruise run` by a line of its own to the API server."""
    state = folder / name
    state.mkdir()
    kubeconfig = yaml.safe_load(cluster.kubeconfig.read_text())
    server = kubeconfig["clusters"][0]["cluster"]
    port = urlsplit(server["server"]).port
    assert port is not None
    with line(port) as way:
        server["proxy-url"] = f"http://127.0.0.1:{way.port}"
        file = state / "kubeconfig"
        file.touch(0o600)
        file.write_text(yaml.safe_dump(kubeconfig))
        words = gitkruise("run", "--config", str(config), "--kubeconfig", str(file),
                          "--cluster", "pair", "--lease-duration", str(LEASE_S))  # fmt: skip
        with started(words, environment(state), folder) as program:
            yield Instance(program, state, way)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        state = tmp_path / "state"
        cluster = stack.enter_context(sandbox(state, "--no-controllers", "--speed", "10"))
        bare, clone = tmp_path / "web.git", tmp_path / "web"
        output(["git", "init", "-q", "--bare", "--initial-branch=main", str(bare)],
               cluster.env, tmp_path)  # fmt: skip
        output(["git", "clone", "-q", str(bare), str(clone)], cluster.env, tmp_path)
        config = tmp_path / "gitkruise.yaml"
        config.write_text(CONFIG.format(url=bare))
        made = Pair(cluster, Shop(bare, clone, cluster.env), Watcher(cluster))
        first = made.push()
        for name in ("one", "two"):
            one = stack.enter_context(instance(tmp_path, name, cluster, config))
            made.instances.append(one)
            one.program.until("following 1 unit of" if name == "one" else "lease-not-held")
        made.applied(first)
        yield made


def test_the_leader_is_stopped_or_cut_off_and_comes_back(pair: Pair) -> None:
    pair.fails(Instance.stop, Instance.go_on)
    pair.push()  # on its way when the leader stops
    pair.fails(Instance.stop, Instance.go_on)
    pair.push()
    pair.fails(lambda one: one.line.cut(), lambda one: one.line.mend())
    pair.fails(Instance.stop, Instance.go_on)
    watcher = pair.watcher
    eventually(lambda: [pod.ready for pod in pair.cluster.pods("web")] == [True] * REPLICAS)
    assert watcher.broken == ""
    assert watcher.back(pair.order) == []
    assert REPLICAS <= watcher.most_pods <= REPLICAS + SURGE
    for one in pair.instances:
        one.program.signal(signal.SIGTERM)
        assert one.program.ends() == 0


def test_a_run_makes_way_for_a_sync_and_one_that_waits_ends_on_sigterm(
    pair: Pair, tmp_path: Path
) -> None:
    leader = pair.leader()
    (waiting,) = (one for one in pair.instances if one is not leader)
    waiting.program.signal(signal.SIGTERM)
    assert waiting.program.ends() == 0
    newest = pair.push()
    words = gitkruise("sync", "--config", str(tmp_path / "gitkruise.yaml"), "--cluster", "pair",
                      "--kubeconfig", str(pair.cluster.kubeconfig))  # fmt: skip
    assert newest[:7] in output(words, environment(tmp_path / "by-hand"))
    leader.program.until("event=writes-paused .* does not lead any more")
    last = pair.push()
    pair.applied(last)
    assert pair.leader() is leader
    assert pair.watcher.back(pair.order) == []
