"""The official Python client: its dynamic client, watches from a version, and its informer."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from kubernetes import client, config, watch
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError, UnprocessibleEntityError
from kubernetes.informer import ADDED, DELETED, MODIFIED, SharedInformer

from tests.e2e.cluster import sandbox
from tests.e2e.program import PATIENCE_S, eventually

pytestmark = pytest.mark.e2e

# The client ships types for some of its parts only.
new_client: Any = config.new_client_from_config
dynamic_client: Any = DynamicClient
new_watch: Any = watch.Watch
new_informer: Any = SharedInformer

SPACE: Final = "default"
CLONESET: Final[dict[str, Any]] = {
    "apiVersion": "apps.kruise.io/v1beta1",
    "kind": "CloneSet",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "app", "image": "nginx:1"}]},
        },
    },
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[client.ApiClient]:
    state: Path = tmp_path_factory.mktemp("python-client")
    with sandbox(state, "--speed", "20") as cluster:
        connection = new_client(str(cluster.kubeconfig))
        with connection:
            yield connection


def config_map(name: str, **data: str) -> dict[str, Any]:
    meta = {"name": name, "labels": {"made": "here"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def first_ready(clonesets: Any, *, replicas: int) -> Any:
    """The CloneSet of the first event that tells of so many ready pods."""
    for event in clonesets.watch(namespace=SPACE, timeout=int(PATIENCE_S)):
        if (event["object"].status or {}).get("readyReplicas") == replicas:
            return event["object"]
    raise AssertionError("the watch ended")


def test_dynamic_client(api: client.ApiClient, tmp_path: Path) -> None:
    dynamic = dynamic_client(api, cache_file=str(tmp_path / "discovery"))
    clonesets = dynamic.resources.get(api_version="apps.kruise.io/v1beta1", kind="CloneSet")
    made = clonesets.create(body=CLONESET, namespace=SPACE)
    with pytest.raises(ConflictError):
        clonesets.create(body=CLONESET, namespace=SPACE)
    ready = first_ready(clonesets, replicas=2)
    assert ready.metadata.uid == made.metadata.uid
    stale = {**CLONESET, "metadata": {"name": "web", "resourceVersion": "1"}}
    with pytest.raises(ConflictError):
        clonesets.replace(body=stale, namespace=SPACE)
    patched = clonesets.patch(
        name="web",
        namespace=SPACE,
        body={"spec": {"replicas": 1}},
        content_type="application/merge-patch+json",
    )
    assert (patched.spec.replicas, patched.metadata.generation) == (1, made.metadata.generation + 1)
    wrong = {
        **CLONESET,
        "metadata": {"name": "wrong"},
        "spec": {**CLONESET["spec"], "replicas": -1},
    }
    with pytest.raises(UnprocessibleEntityError):
        clonesets.create(body=wrong, namespace=SPACE)
    assert [c.metadata.name for c in clonesets.get(label_selector="app=web").items] == ["web"]
    clonesets.delete(name="web", namespace=SPACE)
    with pytest.raises(NotFoundError):
        eventually(lambda: clonesets.get(name="web", namespace=SPACE) and None)


def test_server_side_apply(api: client.ApiClient, tmp_path: Path) -> None:
    dynamic = dynamic_client(api, cache_file=str(tmp_path / "discovery"))
    maps = dynamic.resources.get(api_version="v1", kind="ConfigMap")
    apply = {"namespace": SPACE, "name": "applied"}
    maps.server_side_apply(body=config_map("applied", a="1"), field_manager="one", **apply)
    with pytest.raises(ConflictError):
        maps.server_side_apply(body=config_map("applied", a="2"), field_manager="two", **apply)
    taken = maps.server_side_apply(
        body=config_map("applied", a="2"), field_manager="two", force_conflicts=True, **apply
    )
    assert taken.data.a == "2"


def test_watch_goes_on_from_a_version(api: client.ApiClient) -> None:
    core: Any = client.CoreV1Api(api)
    listed = core.list_namespaced_config_map(SPACE)
    for name in ("w1", "w2"):
        core.create_namespaced_config_map(SPACE, config_map(name))
    core.delete_namespaced_config_map("w1", SPACE)
    seen: list[tuple[str, str]] = []
    stream = new_watch()
    for event in stream.stream(
        core.list_namespaced_config_map,
        SPACE,
        resource_version=listed.metadata.resource_version,
        label_selector="made=here",
        timeout_seconds=int(PATIENCE_S),
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 3:
            stream.stop()
    assert seen == [("ADDED", "w1"), ("ADDED", "w2"), ("DELETED", "w1")]


def test_a_watch_that_ends_reports_its_version(api: client.ApiClient) -> None:
    """Bookmarks carry the version on, so that the next watch misses and repeats nothing."""
    core: Any = client.CoreV1Api(api)
    options = {"label_selector": "made=nowhere", "allow_watch_bookmarks": True}
    listed = core.list_namespaced_config_map(SPACE)
    core.create_namespaced_config_map(SPACE, config_map("elsewhere"))
    stream = new_watch()
    version = listed.metadata.resource_version
    for _ in stream.stream(
        core.list_namespaced_config_map,
        SPACE,
        resource_version=version,
        timeout_seconds=1,
        **options,
    ):
        pass
    assert int(stream.resource_version) >= int(version)


def test_informer(api: client.ApiClient) -> None:
    core: Any = client.CoreV1Api(api)
    events: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    informer = new_informer(
        core.list_namespaced_config_map, namespace=SPACE, label_selector="made=here"
    )
    for kind in (ADDED, MODIFIED, DELETED):
        informer.add_event_handler(
            kind, lambda obj, kind=kind: events.put((kind, obj.metadata.name))
        )
    before = core.list_namespaced_config_map(SPACE, label_selector="made=here").items
    informer.start()
    try:
        known = {events.get(timeout=PATIENCE_S) for _ in before}
        assert known == {(ADDED, item.metadata.name) for item in before}
        core.create_namespaced_config_map(SPACE, config_map("kept", a="1"))
        assert events.get(timeout=PATIENCE_S) == (ADDED, "kept")
        core.patch_namespaced_config_map("kept", SPACE, {"data": {"a": "2"}})
        assert events.get(timeout=PATIENCE_S) == (MODIFIED, "kept")
        assert informer.cache.get_by_key(f"{SPACE}/kept").data == {"a": "2"}
        core.delete_namespaced_config_map("kept", SPACE)
        assert events.get(timeout=PATIENCE_S) == (DELETED, "kept")
        assert informer.cache.get_by_key(f"{SPACE}/kept") is None
    finally:
        core.create_namespaced_config_map(
            SPACE, config_map("last")
        )  # a watch ends at its next news
        informer.stop()
