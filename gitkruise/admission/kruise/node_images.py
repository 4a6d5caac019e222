"""Admission of NodeImages: defaults of tags, and entries that no agent can follow.

Source: OpenKruise's webhooks for the kind (docs/behaviour/image-pulls.md, NodeImage).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import BadRequest, Forbidden
from gitkruise.model.node.node_image import BACKOFF_LIMIT, TIMEOUT_S
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import format_time

IMAGES_MAX: Final = 256


def filled_in(request: AdmissionRequest, gates: Gates) -> Obj:
    """The NodeImage as OpenKruise's webhook answers it. Raises BadRequest and Forbidden."""
    if not gates.kruise_daemon:
        raise Forbidden("feature-gate KruiseDaemon is not enabled")
    new = request.new
    images = get(new, "spec", "images")
    if not images or not request.is_typed:
        return new
    stamp = format_time(request.now) if request.now is not None else None
    filled = {name: _with_defaults(entry, stamp) for name, entry in images.items()}
    for problem in _problems(filled):
        raise BadRequest(problem)
    return {**new, "spec": {**new["spec"], "images": filled}}


def _with_defaults(entry: Obj, stamp: str | None) -> Obj:
    """An entry with its tags in order and complete; `createdAt` stays open without an instant."""
    if not entry.get("tags"):
        return entry
    tags = [_tag(tag, stamp) for tag in entry["tags"]]
    return {**entry, "tags": sorted(tags, key=lambda tag: str(tag.get("tag", "")))}


def _tag(tag: Obj, stamp: str | None) -> Obj:
    limits = {"timeoutSeconds": TIMEOUT_S, "backoffLimit": BACKOFF_LIMIT}
    out: dict[str, Any] = {**tag, "pullPolicy": {**limits, **(tag.get("pullPolicy") or {})}}
    if not out.get("createdAt") and stamp is not None:
        out["createdAt"] = stamp
    return out


def _problems(images: dict[str, Obj]) -> Iterator[str]:
    if len(images) > IMAGES_MAX:
        yield f"spec.images must hold at most {IMAGES_MAX} entries"
    for name, entry in images.items():
        if not name:
            yield "image name can not be empty"
        tags = [tag.get("tag") for tag in entry.get("tags") or ()]
        if not all(tags):
            yield f"tag of image {name} can not be empty"
        if len(set(tags)) != len(tags):
            yield f"tags of image {name} can not have duplicate values"
        for tag in entry.get("tags") or ():
            if (tag.get("version") or 0) < 0:
                yield f"version of {name}:{tag['tag']} must be non-negative"
            if tag["pullPolicy"].get("ttlSecondsAfterFinished") is None:
                yield f"pullPolicy.ttlSecondsAfterFinished of {name}:{tag['tag']} can not be empty"
