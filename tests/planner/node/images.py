"""NodeImages in shorthand: `node_image_of(nginx={"1.20": {"version": 1}})`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time
from tests.pods import NOW

JOB = {
    "apiVersion": "apps.kruise.io/v1beta1",
    "kind": "ImagePullJob",
    "namespace": "shop",
    "name": "job",
    "uid": "job-uid",
}


def tag(
    name: str, *, version: int = 0, owners: tuple[str, ...] = ("job-uid",), **more: Any
) -> dict[str, Any]:
    """One raw entry of `tags`; `more` by the names on the wire, `pullPolicy` among them."""
    refs = [{**JOB, "name": uid.removesuffix("-uid"), "uid": uid} for uid in owners]
    base = {"tag": name, "version": version, "createdAt": format_time(NOW), "pullPolicy": {}}
    return {**base, "ownerReferences": refs, **more}


def node_image_of(
    images: Mapping[str, Sequence[Obj]] | None = None,
    statuses: Mapping[str, Sequence[Obj]] | None = None,
    *,
    name: str = "n1",
    secrets: tuple[str, ...] = (),
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A raw NodeImage with tags and their statuses by image name; `secrets` of every image."""
    refs = [
        {"namespace": "kruise-daemon-config", "name": secret, "mode": "batch"} for secret in secrets
    ]
    entries = {
        image: {"tags": tags, **({"pullSecrets": refs} if refs else {})}
        for image, tags in (images or {}).items()
    }
    found = {image: {"tags": listed} for image, listed in (statuses or {}).items()}
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "NodeImage",
        "metadata": {
            "name": name,
            "uid": f"{name}-uid",
            "resourceVersion": "3",
            "creationTimestamp": format_time(NOW),
            "labels": dict(labels or {}),
        },
        "spec": {"images": entries},
        "status": {"imageStatuses": found},
    }
