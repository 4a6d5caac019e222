"""Containers that wait for missing ConfigMaps, Secrets or keys, with kubelet's messages."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.world.kubelet.config_refs import missing_environment, missing_volume
from tests.worlds import SPACE, Lab, container, pod


def key_ref(field: str, name: str, key: str, **more: Any) -> dict[str, Any]:
    return {"env": [{"name": "X", "valueFrom": {field: {"name": name, "key": key, **more}}}]}


def env_from(field: str, name: str, **more: Any) -> dict[str, Any]:
    return {"envFrom": [{field: {"name": name, **more}}]}


ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "key there": (key_ref("configMapKeyRef", "conf", "k"), ""),
    "key missing": (
        key_ref("configMapKeyRef", "conf", "z"),
        "couldn't find key z in ConfigMap shop/conf",
    ),
    "config map missing": (key_ref("configMapKeyRef", "no", "k"), 'configmap "no" not found'),
    "secret key missing": (
        key_ref("secretKeyRef", "keys", "z"),
        "couldn't find key z in Secret shop/keys",
    ),
    "secret missing": (key_ref("secretKeyRef", "no", "k"), 'secret "no" not found'),
    "optional": (key_ref("configMapKeyRef", "no", "k", optional=True), ""),
    "all of a config map": (env_from("configMapRef", "conf"), ""),
    "all of a missing secret": (env_from("secretRef", "no"), 'secret "no" not found'),
    "all of an optional one": (env_from("secretRef", "no", optional=True), ""),
    "plain value": ({"env": [{"name": "X", "value": "1"}]}, ""),
}


@pytest.fixture(scope="module")
def lab() -> Lab:
    made = Lab(parts=())
    for kind, name in (("ConfigMap", "conf"), ("Secret", "keys")):
        meta = {"name": name}
        made.apply({"apiVersion": "v1", "kind": kind, "metadata": meta, "data": {"k": "dmFsdWU="}})
    return made


@pytest.mark.parametrize(("fields", "message"), ROWS.values(), ids=ROWS)
def test_environment(lab: Lab, fields: dict[str, Any], message: str) -> None:
    raw = pod("p", container(**fields))
    raw["metadata"]["namespace"] = SPACE
    assert missing_environment(lab.world, raw, raw["spec"]["containers"][0]) == message


VOLUMES: dict[str, tuple[dict[str, Any], str]] = {
    "there": ({"configMap": {"name": "conf"}}, ""),
    "missing": ({"configMap": {"name": "no"}}, 'configmap "no" not found'),
    "secret missing": ({"secret": {"secretName": "no"}}, 'secret "no" not found'),
    "optional": ({"secret": {"secretName": "no", "optional": True}}, ""),
    "something else": ({"emptyDir": {}}, ""),
}


@pytest.mark.parametrize(("source", "message"), VOLUMES.values(), ids=VOLUMES)
def test_volumes(lab: Lab, source: dict[str, Any], message: str) -> None:
    raw = pod("p", volumes=[{"name": "v", **source}])
    raw["metadata"]["namespace"] = SPACE
    reason = missing_volume(lab.world, raw)
    assert reason.endswith(message)
    assert bool(reason) == bool(message)


def test_a_pod_waits_for_its_volumes_and_starts_when_they_are_there() -> None:
    lab = Lab()
    lab.apply(pod("p", volumes=[{"name": "v", "configMap": {"name": "late"}}]))
    assert lab.run().quiet
    assert lab.events("p") == ["Scheduled", "FailedMount"]
    lab.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}})
    lab.run()
    assert lab.get(pod())["status"]["phase"] == "Running"
