"""The two hashes of a SidecarSet: what says whether a pod runs its sidecars as they are written."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from gitkruise.wire.kruise.go_round_trip import Malformed, normalise
from gitkruise.wire.kruise.hashes import safe_encode
from gitkruise.wire.primitives.gojson import ordered
from gitkruise.wire.primitives.names import Obj

HASH: Final = "kruise.io/sidecarset-hash"
HASH_WITHOUT_IMAGE: Final = "kruise.io/sidecarset-hash-without-image"


def sidecarset_hash(raw: Obj) -> str:
    """Annotation `kruise.io/sidecarset-hash` of a SidecarSet in either version, 64 characters.

    Over the typed containers as they stand (defaults are the caller's), and over all init
    containers once one of them is native. Raises Malformed. Source: OpenKruise's SidecarSetHash.
    """
    return _digest(raw.get("spec") or {}, images=True)


def hash_without_image(raw: Obj) -> str:
    """Annotation `kruise.io/sidecarset-hash-without-image`: the same with every `image` empty.

    Pull policies and the images of hot upgrades' empty containers count. Raises Malformed.
    """
    return _digest(raw.get("spec") or {}, images=False)


def is_native(container: Obj) -> bool:
    """Return whether a raw init container is a native sidecar: starts first, keeps running."""
    return container.get("restartPolicy") == "Always"


def _digest(spec: Obj, *, images: bool) -> str:
    inits = spec.get("initContainers")
    payload = {"containers": _typed(spec.get("containers"), "containers", images=images)}
    if any(is_native(container) for container in inits or ()):
        payload["initContainers"] = _typed(inits, "initContainers", images=images)
    return safe_encode(hashlib.sha256(ordered(payload)).hexdigest())


def _typed(
    containers: Sequence[Obj] | None, field: str, *, images: bool
) -> list[dict[str, Any]] | None:
    """The list as Go writes it: null when it is missing, but `[]` when it is there and empty."""
    if containers is None:
        return None
    out = []
    for index, container in enumerate(containers):
        try:
            typed: dict[str, Any] = normalise("SidecarContainer", container)
        except Malformed as error:
            error.path = ("spec", field, index, *error.path)
            raise
        if not images:
            typed.pop("image", None)
        out.append(typed)
    return out
