"""References to an image in desired objects: by containers, wherever a kind has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.model.gitops.document import Desired, FieldPath
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.values.images import repository

_LISTS: Final = ("containers", "initContainers")


@dataclass(frozen=True, slots=True)
class ImageReference:
    """A field of an object that names an image: `reference` is its text.

    `tag` is "" for a reference without one; `pinned` says that a digest decides what is pulled.
    """

    desired: Desired
    path: FieldPath
    reference: str

    @property
    def key(self) -> ObjectKey:
        return self.desired.key

    @property
    def pinned(self) -> bool:
        return "@" in self.reference

    @property
    def name(self) -> str:
        """Return the image without tag and digest, as it is written."""
        head, slash, last = self.reference.partition("@")[0].rpartition("/")
        return f"{head}{slash}{last.partition(':')[0]}"

    @property
    def tag(self) -> str:
        return self.reference.partition("@")[0].removeprefix(self.name).removeprefix(":")


def references_to(image: str, objects: Iterable[Desired]) -> Iterator[ImageReference]:
    """Yield the references to an image, which is named without a tag."""
    wanted = repository(image)
    for desired in objects:
        for path, reference in _images(desired.obj, ()):
            if repository(reference) == wanted:
                yield ImageReference(desired, path, reference)


def _images(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    """Yield the path and the text of each image of containers in an object."""
    if not isinstance(value, Mapping):
        return
    for name, child in value.items():
        yield from _images(child, (*path, name))
        for number, item in enumerate(child) if name in _LISTS and isinstance(child, list) else ():
            image = item.get("image") if isinstance(item, Mapping) else None
            if isinstance(image, str):
                yield (*path, name, number, "image"), image
