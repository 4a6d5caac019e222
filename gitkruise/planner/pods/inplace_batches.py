"""In-place updates in batches: which containers change now, and whether a batch is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.launch_priority import launch_priority
from gitkruise.model.workloads.pod import Container, ContainerStatus, PodFacts, Resources
from gitkruise.planner.pods.container_hashes import (
    ENVIRONMENT,
    PLAIN,
    environment_hash,
    expected_environment,
    plain_hash,
    reported_containers,
)
from gitkruise.planner.pods.inplace import UpdateSpec
from gitkruise.planner.pods.inplace_state import InPlaceState
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time, parse_time
from gitkruise.wire.values.quantity import parse_quantity

_KINDS: Final = ("labels", "annotations")


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlaceBatch:
    """One batch: `metadata` and `containers` belong into a strategic patch of the pod.

    `resize` is a strategic patch for the resize subresource, or None.
    """

    state: InPlaceState
    metadata: Obj
    containers: Sequence[Obj] = ()
    resize: Obj | None = None


def choose_batch(pod: PodFacts, spec: UpdateSpec) -> frozenset[str]:
    """Containers that may change now: those without launch priority and the highest of the rest.
    Containers that share referenced metadata with one of them join, because they change with it."""
    wanted = spec.containers
    priorities = {c.name: launch_priority(c) for c in pod.containers if c.name in wanted}
    ranked = [p for p in priorities.values() if p is not None]
    top = max(ranked, default=None)
    batch = {name for name, p in priorities.items() if p is None or p == top}
    for _ in range(len(priorities)):
        keys = {key for name in batch for key in _ref_keys(spec, name)}
        joined = {n for n in priorities if n not in batch and keys.intersection(_ref_keys(spec, n))}
        if not joined:
            break
        batch |= joined
    return frozenset(batch)


def _ref_keys(spec: UpdateSpec, name: str) -> set[tuple[str, str]]:
    meta = spec.ref_metadata.get(name, {})
    return {(kind, key) for kind in _KINDS for key in meta.get(kind, {})}


def next_batch(pod: PodFacts, spec: UpdateSpec, state: InPlaceState, now: datetime) -> InPlaceBatch:
    """Apply the next batch of `spec` to `pod`: the new state and what to write."""
    batch = choose_batch(pod, spec)
    images = {name: image for name, image in spec.images.items() if name in batch}
    later = InPlaceState(
        revision=state.revision,
        started=state.started,
        next_images={n: v for n, v in spec.images.items() if n not in batch},
        next_ref_metadata={n: v for n, v in spec.ref_metadata.items() if n not in batch},
        next_resources={n: v for n, v in spec.resources.items() if n not in batch},
    )
    names = tuple(sorted(batch))
    ids = {s.name: s.image_id for s in pod.statuses if s.name in images}
    metadata = dict((spec.metadata_patch or {}).get("metadata") or {})
    for kind in _KINDS:
        added = {
            k: v
            for name in sorted(batch)
            for k, v in spec.ref_metadata.get(name, {}).get(kind, {}).items()
        }
        if added:
            metadata[kind] = {**metadata.get(kind, {}), **added}
    resources = {n: v for n, v in spec.resources.items() if n in batch}
    return InPlaceBatch(
        state=replace(
            state,
            image_ids={**(state.image_ids or {}), **ids} if ids else state.image_ids,
            next_images=later.next_images,
            next_ref_metadata=later.next_ref_metadata,
            next_resources=later.next_resources,
            required_ready=names if later.more else None,
            batches=(*state.batches, (format_time(now), names)),
        ),
        metadata=metadata,
        containers=[  # in the pod's order: a patch that lists them otherwise would move them
            {"name": c.name, "image": images[c.name]} for c in pod.containers if c.name in images
        ],
        resize=_resize(pod, resources),
    )


def _resize(pod: PodFacts, resources: Mapping[str, Mapping[str, Mapping[str, str]]]) -> Obj | None:
    """Strategic patch of the cpu and memory amounts that differ from the pod's."""
    containers = []
    for container in pod.containers:
        wanted = resources.get(container.name, {})
        now = container.resources or Resources()
        has = {"limits": now.limits or {}, "requests": now.requests or {}}
        changed: dict[str, Any] = {}
        for kind in ("limits", "requests"):
            moved = {k: v for k, v in wanted.get(kind, {}).items() if _differs(has[kind].get(k), v)}
            if moved:
                changed[kind] = moved
        if changed:
            containers.append({"name": container.name, "resources": changed})
    return {"spec": {"containers": containers}} if containers else None


def _differs(one: str | float | None, other: str | float | None) -> bool:
    if one is None or other is None:
        return one is not other
    return parse_quantity(one).value != parse_quantity(other).value


def batch_done(pod: PodFacts, state: InPlaceState, *, vertical: bool) -> str:
    """ "" when the containers of the last batch run as asked, else what is awaited.

    Source: CloneSet's completion checks: the daemon's hashes where it reported them, image ids
    otherwise. Raises ValueError when the daemon's annotation does not parse.
    """
    meta = reported_containers(pod)
    if state.env_from_metadata:
        if not meta:
            return "the node agent's report on environment from metadata"
        late = [c.name for c in pod.containers if not _env_agrees(pod, c, meta)]
        if late:
            return f"container {late[0]} to restart with its new environment"
    if vertical and state.update_resources:
        stale = _stale_resources(pod, state)
        if stale:
            return f"container {stale} to be resized"
    if meta and all(_image_agrees(pod, c, meta) for c in pod.containers):
        return ""
    return _stale_image(pod, state)


def _stale_image(pod: PodFacts, state: InPlaceState) -> str:
    images = {c.name: c.image for c in pod.containers}
    running = {s.name: s for s in pod.statuses}
    for name, image_id in (state.image_ids or {}).items():
        status = running.get(name)
        if status is None:
            return f"container {name} to report a status"
        if status.image_id != image_id or status.image == _with_tag(images.get(name, "")):
            continue
        if not _restarted(status, state):
            return f"container {name} to run {images.get(name, '')}"
    return ""


def _restarted(status: ContainerStatus, state: InPlaceState) -> bool:
    """The container was started after its image was changed.

    Nodes report the first name under which they know an image, so that a new tag of the same
    content would never show; OpenKruise waits for it for ever.
    """
    changed = [parse_time(at) for at, names in state.batches if status.name in names]
    last = changed[-1] if changed else None
    return last is not None and status.started is not None and status.started > last


def _with_tag(image: str) -> str:
    return image if ":" in image else f"{image}:latest"


def _stale_resources(pod: PodFacts, state: InPlaceState) -> str:
    """The first updated container whose reported resources are not those of its spec.

    Only containers this update touched count: unrelated drift must not block it.
    """
    touched = {name for _, names in state.batches for name in names}
    running = {s.name: s.resources for s in pod.statuses}
    for container in pod.containers:
        if container.name in touched and not _same_resources(
            container.resources, running.get(container.name)
        ):
            return container.name
    return ""


def _same_resources(one: Resources | None, other: Resources | None) -> bool:
    left, right = one or Resources(), other or Resources()
    for a, b in ((left.limits, right.limits), (left.requests, right.requests)):
        names = {*(a or {}), *(b or {})}
        if any(_differs((a or {}).get(n), (b or {}).get(n)) for n in names):
            return False
    return True


def _entry_hash(
    pod: PodFacts, container: Container, meta: Mapping[str, Obj], key: str
) -> int | None:
    """The reported hash of the container that runs now; None when there is none."""
    entry = meta.get(container.name)
    status = next((s for s in pod.statuses if s.name == container.name), None)
    if entry is None or status is None or entry.get("containerID") != status.container_id:
        return None
    value = (entry.get("hashes") or {}).get(key)
    return int(value) if value is not None else None


def _image_agrees(pod: PodFacts, container: Container, meta: Mapping[str, Obj]) -> bool:
    return _entry_hash(pod, container, meta, PLAIN) == plain_hash(container.name, container.image)


def _env_agrees(pod: PodFacts, container: Container, meta: Mapping[str, Obj]) -> bool:
    made = environment_hash(expected_environment(pod, container))
    return _entry_hash(pod, container, meta, ENVIRONMENT) == made


def needs_unready(pod: PodFacts, spec: UpdateSpec, *, vertical: bool) -> bool:
    """Must the pod leave service first? Only a resize without restarts may stay in it."""
    if wire.INPLACE_READY not in pod.gates:
        return False
    only_resize = vertical and spec.resources and not spec.images and not spec.env_from_metadata
    if not only_resize:
        return True
    for container in pod.containers:
        amounts = spec.resources.get(container.name, {})
        changed = {name for kind in amounts.values() for name in kind}
        for policy in container.resize_policy or ():
            if policy.restart_policy == "RestartContainer" and policy.resource_name in changed:
                return True
    return False
