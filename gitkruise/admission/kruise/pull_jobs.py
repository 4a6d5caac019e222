"""Admission of ImagePullJobs and ImageListPullJobs: defaults, and fields that no job can follow.

Source: OpenKruise's webhooks for the kinds (IMG-1 to IMG-9).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gitkruise.admission.rules.request import UPDATE, AdmissionRequest
from gitkruise.errors import BadRequest, Forbidden
from gitkruise.model.node.node_image import BACKOFF_LIMIT, TIMEOUT_S
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.images import is_image
from gitkruise.wire.values.selectors import label_selector

LIST_KIND: Final = "ImageListPullJob"
IMAGES_MAX: Final = 255


def filled_in(request: AdmissionRequest, gates: Gates) -> Obj:
    """The job as OpenKruise's webhook answers it. Raises BadRequest and Forbidden."""
    if not gates.pulls_images:
        name = "ImagePullJobGate" if gates.kruise_daemon else "KruiseDaemon"
        raise Forbidden(f"feature-gate {name} is not enabled")
    new, old = request.new, request.old
    if not request.is_typed:
        return new
    if request.operation == UPDATE and get(new, "spec", "pullSecrets") != get(
        old, "spec", "pullSecrets"
    ):
        raise Forbidden("spec.pullSecrets is immutable")
    spec: Obj = new.get("spec") or {}
    listed = request.key.kind == LIST_KIND
    images = _list_problems(spec) if listed else _image_problems(spec.get("image"))
    for problem in (*images, *_node_problems(spec), *_limit_problems(spec, listed=listed)):
        raise BadRequest(problem)
    policy = {"timeoutSeconds": TIMEOUT_S, "backoffLimit": BACKOFF_LIMIT}
    filled: dict[str, Any] = {
        **spec,
        "pullPolicy": {**policy, **(spec.get("pullPolicy") or {})},
        "completionPolicy": {"type": "Always", **(spec.get("completionPolicy") or {})},
    }
    if not listed:
        filled.setdefault("imagePullPolicy", "IfNotPresent")
    return {**new, "spec": filled}


def _image_problems(image: str | None) -> Iterator[str]:
    if not image:
        yield "image can not be empty"
    elif not is_image(image):
        yield f"invalid image {image}"


def _list_problems(spec: Obj) -> Iterator[str]:
    images = spec.get("images") or []
    if not 0 < len(images) <= IMAGES_MAX:
        yield f"images must hold 1 to {IMAGES_MAX} entries"
    if len(set(images)) != len(images):
        yield "images cannot have duplicate values"
    for image in images:
        yield from _image_problems(image)


def _node_problems(spec: Obj) -> Iterator[str]:
    """Faults of selectors and parallelism."""
    selector, pods = spec.get("selector"), spec.get("podSelector")
    if selector is not None and pods is not None:
        yield "can not set both selector and podSelector"
    names = (selector or {}).get("names") or []
    labels = {key: value for key, value in (selector or {}).items() if key != "names" and value}
    if names and labels:
        yield "can not set both names and labels in this spec.selector"
    if len(set(names)) != len(names):
        yield "duplicated name in selector names"
    for chosen in (labels, pods):
        try:
            label_selector(chosen or {})
        except BadRequest as error:
            yield f"invalid selector: {error}"
    yield from _parallelism_problems(spec.get("parallelism"))


def _parallelism_problems(value: int | str | None) -> Iterator[str]:
    if isinstance(value, str) and value.endswith("%"):
        yield "parallelism does not support percentage value"
    elif isinstance(value, str) and not value.removeprefix("-").isdecimal():
        yield "parallelism must be a valid integer"
    elif value is not None and int(value) < 0:
        yield "parallelism must be non-negative"


def _limit_problems(spec: Obj, *, listed: bool) -> Iterator[str]:
    policy = spec.get("completionPolicy") or {}
    kind, deadline = policy.get("type") or "Always", policy.get("activeDeadlineSeconds")
    if kind not in {"Always", "Never"}:
        yield f"unknown type of completionPolicy: {kind}"
    limited = deadline is not None or policy.get("ttlSecondsAfterFinished") is not None
    if kind == "Never" and limited:
        yield "activeDeadlineSeconds and ttlSecondsAfterFinished can only work with Always"
    timeout = get(spec, "pullPolicy", "timeoutSeconds", default=TIMEOUT_S)
    if not listed and deadline is not None and deadline < timeout:
        yield (
            "completionPolicy.activeDeadlineSeconds must be greater than "
            f"pullPolicy.timeoutSeconds(default {TIMEOUT_S})"
        )
