"""A small operator on kopf: each Echo gets a ConfigMap with its text, and tells of it."""

from __future__ import annotations

from typing import Any

import kopf
import kubernetes

KIND = ("example.com", "v1", "echoes")


# The client ships types for some of its parts only.
load_config: Any = kubernetes.config.load_kube_config


def core() -> Any:
    load_config()
    return kubernetes.client.CoreV1Api()


@kopf.on.startup()
def quietly(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.persistence.finalizer = "example.com/kopf"
    settings.posting.enabled = True


@kopf.on.create(*KIND)
@kopf.on.resume(*KIND)
def make(body: Any, spec: Any, namespace: str | None, name: str, **_: Any) -> dict[str, str]:
    """The ConfigMap, owned by the Echo."""
    wanted: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"text": spec["text"]},
    }
    kopf.adopt(wanted, owner=body)
    core().create_namespaced_config_map(namespace, wanted)
    kopf.info(body, reason="Echoed", message=f"said {spec['text']}")
    return {"said": spec["text"]}


@kopf.on.update(*KIND, field="spec.text")
def change(new: Any, namespace: str | None, name: str, patch: kopf.Patch, **_: Any) -> None:
    core().patch_namespaced_config_map(name, namespace, {"data": {"text": new}})
    patch.status["changed"] = new


@kopf.on.delete(*KIND)
def end(namespace: str | None, name: str, **_: Any) -> None:
    core().create_namespaced_config_map(namespace, {"metadata": {"name": f"{name}-ended"}})
