"""Images of a unit as they are: their tags in git, and the tag that the policy chooses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gitkruise.errors import DiagnosticError, Finding
from gitkruise.gitops.images.references import ImageReference, references_to
from gitkruise.gitops.images.tags import SeenTags, TagReader
from gitkruise.model.gitops.config import Unit
from gitkruise.model.gitops.document import Desired
from gitkruise.model.gitops.image_policy import (
    ChosenTag,
    FollowedImage,
    tag_to_write,
)

_UNSEEN: Final = ChosenTag("", "its tags are not known")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageState:
    """An image of a unit: the references in git, and what its registry has.

    `error` says why the tags are not known.
    """

    unit: Unit
    image: FollowedImage
    references: tuple[ImageReference, ...]
    seen: SeenTags | None = None
    error: Finding | None = None

    @property
    def chosen(self) -> ChosenTag:
        return self.seen.chosen if self.seen is not None else _UNSEEN

    @property
    def due(self) -> tuple[tuple[ImageReference, str], ...]:
        """Return the references to edit, each with its new text. Digests are left alone."""
        if not self.chosen.tag:
            return ()
        found = []
        for one in self.references:
            tag = "" if one.pinned else tag_to_write(one.tag, self.chosen.tag, self.image)
            if tag:
                found.append((one, f"{one.name}:{tag}"))
        return tuple(found)

    @property
    def current(self) -> tuple[str, ...]:
        """Return the tags, or digests, that git has."""
        return tuple(dict.fromkeys(r.reference.removeprefix(r.name)[1:] for r in self.references))


async def image_states(
    unit: Unit, objects: Iterable[Desired], reader: TagReader
) -> tuple[ImageState, ...]:
    """Return the images of a unit whose desired `objects` are given; each registry is asked."""
    objects = tuple(objects)
    found = []
    for image in unit.spec.images:
        references = tuple(references_to(image.repository, objects))
        try:
            seen, error = await reader.read(image), None
        except DiagnosticError as failed:
            seen, error = None, failed.findings[0]
        found.append(
            ImageState(unit=unit, image=image, references=references, seen=seen, error=error)
        )
    return tuple(found)
