"""Progress of an in-place update, in the two pod annotations OpenKruise reads and writes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.pods.inplace import UpdateSpec
from gitkruise.wire.primitives.gojson import ordered
from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time, parse_time

_KINDS: Final = ("labels", "annotations")


class BrokenStateError(ValueError):
    """An in-place annotation that does not parse; the text names the annotation and the fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlaceState:
    """Annotation inplace-update-state. `image_ids` None prints null, as during grace.

    `next_*` are containers left for later batches; `required_ready` must be ready before the
    next one. `batches` are (instant, container names) already written.
    """

    revision: str
    started: datetime
    image_ids: Mapping[str, str] | None = None
    env_from_metadata: bool = False
    update_resources: bool = False
    update_images: bool = False
    next_images: Mapping[str, str] = field(default_factory=dict)
    next_ref_metadata: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    next_resources: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    required_ready: tuple[str, ...] | None = None
    batches: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def more(self) -> bool:
        """Batches are left."""
        return bool(self.next_images or self.next_ref_metadata or self.next_resources)

    def next_spec(self) -> UpdateSpec:
        return UpdateSpec(
            revision=self.revision,
            images=self.next_images,
            ref_metadata=self.next_ref_metadata,
            resources=self.next_resources,
            env_from_metadata=self.env_from_metadata,
        )


def read_state(pod: PodFacts) -> InPlaceState | None:
    """The pod's state, from the old annotation key if need be. Raises BrokenStateError."""
    text = pod.annotations.get(wire.INPLACE_STATE) or pod.annotations.get(wire.INPLACE_STATE_LEGACY)
    if not text:
        return None
    try:
        return _parsed(text)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BrokenStateError(f"annotation {wire.INPLACE_STATE}: {error!r}") from error


@lru_cache(maxsize=256)
def _parsed(text: str) -> InPlaceState:
    """Pods of one batch carry the same text, round after round."""
    return _state(read_json(text))


def _state(raw: Obj) -> InPlaceState:
    started = parse_time(raw.get("updateTimestamp"))
    if started is None:
        raise ValueError("no updateTimestamp")
    last = raw.get("lastContainerStatuses")
    check = raw.get("preCheckBeforeNext")
    return InPlaceState(
        revision=raw["revision"],
        started=started,
        image_ids=None if last is None else {k: v.get("imageID", "") for k, v in last.items()},
        env_from_metadata=bool(raw.get("updateEnvFromMetadata")),
        update_resources=bool(raw.get("updateResources")),
        update_images=bool(raw.get("updateImages")),
        next_images=dict(raw.get("nextContainerImages") or {}),
        next_ref_metadata=_ref_metadata(raw.get("nextContainerRefMetadata")),
        next_resources=dict(raw.get("nextContainerResources") or {}),
        required_ready=tuple(check.get("containersRequiredReady") or ()) if check else None,
        batches=tuple(
            (b["timestamp"], tuple(b.get("containers") or ()))
            for b in raw.get("containerBatchesRecord") or ()
        ),
    )


def _ref_metadata(raw: Obj | None) -> dict[str, dict[str, dict[str, str]]]:
    return {
        name: {kind: dict(meta[kind]) for kind in _KINDS if meta.get(kind)}
        for name, meta in (raw or {}).items()
    }


def state_text(state: InPlaceState) -> str:
    """The annotation's JSON in Go's field order."""
    last = state.image_ids
    out: dict[str, Any] = {
        "revision": state.revision,
        "updateTimestamp": format_time(state.started),
        "lastContainerStatuses": None
        if last is None
        else {name: {"imageID": last[name]} for name in sorted(last)},
    }
    check = (
        None
        if state.required_ready is None
        else {"containersRequiredReady": list(state.required_ready)}
    )
    optional = {
        "updateEnvFromMetadata": state.env_from_metadata,
        "updateResources": state.update_resources,
        "updateImages": state.update_images,
        "nextContainerImages": _sorted(state.next_images),
        "nextContainerRefMetadata": _object_metas(state.next_ref_metadata),
        "nextContainerResources": _resources(state.next_resources),
        "preCheckBeforeNext": check,
        "containerBatchesRecord": [
            {"timestamp": at, "containers": list(names)} for at, names in state.batches
        ],
    }
    return ordered({**out, **{k: v for k, v in optional.items() if v}}).decode()


def _sorted(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value[key] for key in sorted(value)}


def _object_metas(value: Mapping[str, Mapping[str, Mapping[str, str]]]) -> dict[str, Any]:
    """Each as a Go ObjectMeta prints: a null creationTimestamp, then labels, then annotations."""
    return {
        name: {
            "creationTimestamp": None,
            **{kind: _sorted(value[name][kind]) for kind in _KINDS if value[name].get(kind)},
        }
        for name in sorted(value)
    }


def _resources(value: Mapping[str, Mapping[str, Mapping[str, str]]]) -> dict[str, Any]:
    return {
        name: {k: _sorted(value[name][k]) for k in ("limits", "requests") if value[name].get(k)}
        for name in sorted(value)
    }


def read_grace(pod: PodFacts) -> UpdateSpec | None:
    """The update waiting for the end of its grace period. Raises BrokenStateError."""
    text = pod.annotations.get(wire.INPLACE_GRACE) or pod.annotations.get(wire.INPLACE_GRACE_LEGACY)
    if not text:
        return None
    try:
        raw = read_json(text)
        patch = raw.get("metaDataPatch")
        return UpdateSpec(
            revision=raw["revision"],
            images=dict(raw.get("containerImages") or {}),
            ref_metadata=_ref_metadata(raw.get("containerRefMetadata")),
            resources=dict(raw.get("containerResources") or {}),
            metadata_patch=read_json(base64.b64decode(patch)) if patch else None,
            env_from_metadata=bool(raw.get("updateEnvFromMetadata")),
            grace_s=int(raw.get("graceSeconds") or 0),
        )
    except (ValueError, TypeError, KeyError, AttributeError, binascii.Error) as error:
        raise BrokenStateError(f"annotation {wire.INPLACE_GRACE}: {error!r}") from error


def grace_text(spec: UpdateSpec) -> str:
    """The grace annotation's JSON in Go's field order; the metadata patch travels as base64."""
    patch = spec.metadata_patch
    encoded = None if patch is None else base64.b64encode(ordered(patch)).decode()
    optional = {
        "containerImages": _sorted(spec.images),
        "containerRefMetadata": _object_metas(spec.ref_metadata),
        "containerResources": _resources(spec.resources),
        "metaDataPatch": encoded,
        "updateEnvFromMetadata": spec.env_from_metadata,
        "graceSeconds": spec.grace_s,
    }
    return ordered({"revision": spec.revision, **{k: v for k, v in optional.items() if v}}).decode()
