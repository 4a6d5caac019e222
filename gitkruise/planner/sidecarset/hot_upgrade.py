"""Hot upgrade: two containers take turns, one serves and one waits on a placeholder image.

    at rest        serving V     | waiting EMPTY
    spec V to W    serving V     | the waiting one := W and becomes the working one   (upgrade)
    both ready     the old one := EMPTY                                               (flip)
    at rest        waiting EMPTY | serving W, roles changed

Which container an upgrade changes is looked up in `_CHOICE`; what becomes of it in `upgraded`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from gitkruise.model.workloads.sidecarset import Sidecar
from gitkruise.model.workloads.sidecarset_annotations import (
    WORKING,
    Notes,
    version_alt_key,
    version_key,
    working_containers,
)

PLACEHOLDER_VERSION: Final = "0"


class HotContainer(NamedTuple):
    """One container of a pair in a pod. `up`: it is ready and runs what the pod's spec says."""

    name: str
    image: str
    up: bool


@dataclass(frozen=True, slots=True)
class HotUpgradeStep:
    """Changes of one pair of hot containers: new images, annotations, the working container."""

    images: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    working: str = ""  # "" leaves it as it is


@lru_cache(maxsize=65536)
def _working(text: str) -> dict[str, str]:
    return working_containers({WORKING: text})


def working_in(notes: Notes) -> Mapping[str, str]:
    """The working container of each hot sidecar, by the sidecar's name."""
    text = notes.get(WORKING)
    return _working(text) if text else {}


def roles(sidecar: Sidecar, notes: Notes) -> tuple[str, str]:
    """(working, idle) container of a hot sidecar; the second one works unless the first is named.

    Source: OpenKruise reads a missing entry so too.
    """
    first, second = sidecar.pair
    return (first, second) if working_in(notes).get(sidecar.name) == first else (second, first)


_FIRST, _SECOND, _IDLE = "first", "second", "idle"
# first holds EMPTY, second does, first is up, second is -> which one changes. None: whichever.
_CHOICE: Final[tuple[tuple[tuple[bool | None, ...], str], ...]] = (
    ((True, None, None, None), _FIRST),
    ((None, True, None, None), _SECOND),
    ((None, None, True, False), _SECOND),
    ((None, None, False, True), _FIRST),
    ((None, None, None, None), _IDLE),
)


def chosen(
    sidecar: Sidecar, notes: Notes, first: HotContainer, second: HotContainer
) -> tuple[HotContainer, HotContainer]:
    """(the container an upgrade changes, the other one)."""
    empty = sidecar.empty_image
    seen = (first.image == empty, second.image == empty, first.up, second.up)
    which = next(
        which
        for pattern, which in _CHOICE
        if all(want is None or want == is_ for want, is_ in zip(pattern, seen, strict=True))
    )
    if which == _IDLE:
        which = _FIRST if roles(sidecar, notes)[1] == first.name else _SECOND
    return (first, second) if which == _FIRST else (second, first)


def upgraded(
    sidecar: Sidecar, notes: Notes, first: HotContainer, second: HotContainer, version: str
) -> HotUpgradeStep:
    """The pair on its way to the sidecar's image; `version` is the SidecarSet's resourceVersion.

    A rollback while the new side is not up yet takes that side back to the placeholder, so that
    the old one goes on serving. OpenKruise leaves it, and resets the serving one once the new
    side is up.
    """
    change, other = chosen(sidecar, notes, first, second)
    if other.image == sidecar.image:
        if change.image in {sidecar.empty_image, sidecar.image}:
            return HotUpgradeStep()
        made = rest(sidecar, idle=change.name, working=other.name)
        image = sidecar.empty_image or sidecar.image
        return HotUpgradeStep(images={change.name: image}, notes=made.notes, working=other.name)
    if change.image == sidecar.image:
        return HotUpgradeStep(working=change.name)
    return HotUpgradeStep(
        images={change.name: sidecar.image},
        notes={
            version_key(change.name): version,
            version_alt_key(change.name): notes.get(version_key(other.name), ""),
            version_alt_key(other.name): version,
        },
        working=change.name,
    )


def rest(sidecar: Sidecar, *, idle: str, working: str) -> HotUpgradeStep:
    """The flip: the idle container back to the placeholder. The pod's hashes stay."""
    return HotUpgradeStep(
        images={idle: sidecar.empty_image},
        notes={
            version_key(idle): PLACEHOLDER_VERSION,
            version_alt_key(working): PLACEHOLDER_VERSION,
        },
    )
