"""Node agent's removal of images: those that it pulled for jobs that ask for it.

A pull job asks by an annotation in its sandboxConfig, which the NodeImages carry. Before such a
pull the agent writes the image into an annotation of its NodeImage, so that it knows after a
restart what it may remove. It removes an image once no tag of the NodeImage names it.

Source: IMG-40 to IMG-43. OpenKruise removes no image.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from typing import Final

from gitkruise.model.node.containers import HeldImage
from gitkruise.model.node.node_image import NodeImage
from gitkruise.model.planning.plan import Event
from gitkruise.planner.node.pull_agent import PullTask, held
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.values.images import familiar_parts, is_image

REMOVE_IMAGE: Final = "gitkruise.io/remove-image"  # in a sandboxConfig: "true"
PULLED_IMAGES: Final = "gitkruise.io/pulled-images"  # of a NodeImage; apart by spaces


class Fate(Enum):
    """Decision about an image that no tag names any more."""

    REMOVE = "remove"
    KEEP = "keep"  # something uses it: look again later
    FORGET = "forget"  # the runtime does not hold it


def pulled_images(raw: Obj) -> tuple[str, ...]:
    """Return the images that the agent may remove from the node of a raw NodeImage."""
    return tuple(((raw["metadata"].get("annotations") or {}).get(PULLED_IMAGES) or "").split())


def removed_later(node_image: NodeImage, tasks: Iterable[PullTask]) -> Iterator[PullTask]:
    """Yield the tasks whose image goes when its jobs are gone (IMG-40)."""
    for task in tasks:
        entry = node_image.spec.images.get(task.name)
        sandbox = entry.sandbox_config if entry is not None else None
        if sandbox is not None and (sandbox.annotations or {}).get(REMOVE_IMAGE) == "true":
            yield task


def unwanted(node_image: NodeImage, pulled: Iterable[str]) -> tuple[str, ...]:
    """Return those of `pulled` that no tag of the spec names."""
    wanted = {(name, tag.tag) for name, tag in node_image.tags()}
    return tuple(i for i in pulled if not is_image(i) or familiar_parts(i) not in wanted)


def fate(
    image: str, store: Iterable[HeldImage], used: Collection[str], removable: Collection[str]
) -> Fate:
    """Decide about an unwanted image (IMG-42).

    `used` holds ids and references of the images of containers. A runtime removes an image with
    all its tags, so each of them has to be in `removable`.
    """
    found = next((one for one in store if names(image, one)), None)
    if found is None:
        return Fate.FORGET
    called = {found.id, *found.tags, *found.digests}
    parts = {familiar_parts(i) for i in removable if is_image(i)}
    shared = any(familiar_parts(tag) not in parts for tag in found.tags)
    return Fate.KEEP if shared or not called.isdisjoint(used) else Fate.REMOVE


def names(image: str, one: HeldImage) -> bool:
    """Return whether a reference names an image of a runtime's store."""
    return is_image(image) and held(PullTask(*familiar_parts(image), 0), (one,)) is not None


def removal_event(image: str) -> Event:
    """Return the event on the NodeImage about an image that was removed."""
    return Event("Normal", "ImageRemoved", f"Image {image} was removed: no pull job names it")
