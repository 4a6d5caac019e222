"""Newer tags of a unit's images as one edit, in the places that set them.

A reference is edited where it is written: in the manifest, or in the kustomization whose `images:`,
patch or replacement sets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gitkruise.errors import Finding, NothingToDo
from gitkruise.git.edit.set_field import edit_field, refused
from gitkruise.git.plumbing.commits import ACTION, format_message, squashed_trailers
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.actions import check_written
from gitkruise.gitops.actions.kustomized import Kustomized, KustomizedFolder
from gitkruise.gitops.images.references import ImageReference
from gitkruise.gitops.images.survey import ImageState
from gitkruise.gitops.preview.inputs import name_in_config
from gitkruise.model.gitops.change import FieldChange
from gitkruise.model.gitops.config import Unit
from gitkruise.model.gitops.document import GitCommit
from gitkruise.printable import many, shown
from gitkruise.wire.primitives.names import ObjectKey

UPDATE: Final = "update-images"  # of the trailer that names an action
_UNIT: Final = "Gitkruise-Unit"
_SUBJECT_MAX: Final = 72
_ARROW: Final = " → "  # between the tags in the body of a commit
_COMMITS_MAX: Final = 200  # looked through for the last update of an image


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageChange:
    """An image whose references change: its tags in git before, and the new one."""

    repository: str
    before: tuple[str, ...]
    after: str

    @property
    def name(self) -> str:
        """Return the last part of the repository."""
        return self.repository.rpartition("/")[2]

    def __str__(self) -> str:
        return f"{self.repository} {', '.join(self.before)}{_ARROW}{self.after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageUpdate:
    """Files to write for the images of one unit, and the fields that change in each object."""

    unit: Unit
    images: tuple[ImageChange, ...]
    fields: Mapping[ObjectKey, tuple[FieldChange, ...]]
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """Return the subject of the commit."""
        first, *others = self.images
        whole = f"{self.unit.name}: " + ", ".join(f"{i.name} {i.after}" for i in self.images)
        if len(whole) <= _SUBJECT_MAX or not others:
            return whole
        return (
            f"{self.unit.name}: {first.name} {first.after}, and {many(len(others), 'image')} more"
        )

    @property
    def why(self) -> str:
        """Return the body of the commit."""
        return "\n".join(map(str, self.images))

    def message(self, subject: str = "") -> str:
        """Return the message of the commit; its trailers name the unit."""
        unit = name_in_config(self.unit)
        trailers = [(ACTION, UPDATE), *([(_UNIT, unit)] if unit else [])]
        return format_message(subject or self.subject, self.why, trailers)


def updates_images_of(repository: Repository, commit: str, unit: Unit) -> bool:
    """Return whether a commit is, or squashes, one of these for a unit, by its trailers."""
    name = name_in_config(unit)
    return any(
        trailers.get(ACTION) == UPDATE and trailers.get(_UNIT, "") == name
        for trailers in squashed_trailers(repository.message(commit))
    )


def not_taken_back(
    repository: Repository, commit: str, states: Iterable[ImageState]
) -> list[ImageState]:
    """Leave out images whose last update wrote the tag that they would get now.

    A rollback or a user took it back since, so that only another tag is written. Raises NothingToDo
    GK7041 where that leaves no image to update.
    """
    kept, taken = [], []
    for state in states:
        before = _last_update(repository, commit, state) if state.due else None
        if before is not None and before[1] == state.chosen.tag:
            taken.append(f"{state.image.repository} {before[1]} of {before[0].short}")
        else:
            kept.append(state)
    if taken and not any(state.due for state in kept):
        message = f"{', '.join(taken)} was taken back, and is not written again"
        raise NothingToDo(Finding(code="GK7041", message=message))
    return kept


def _last_update(
    repository: Repository, commit: str, state: ImageState
) -> tuple[GitCommit, str] | None:
    """Return the last of these commits that is about an image, and the tag that it wrote."""
    kustomized = Kustomized.of(repository, commit, KustomizedFolder.of(state.unit))
    paths = {reference.desired.document.file for reference in state.references}
    paths |= set(kustomized.folders(commit) if kustomized is not None else ())
    for each in repository.commits_between("", commit, paths=[*paths], limit=_COMMITS_MAX):
        if not updates_images_of(repository, each.id, state.unit):
            continue
        for line in repository.message(each.id).splitlines():
            image, arrow, tag = line.rpartition(_ARROW)
            if arrow and image.startswith(f"{state.image.repository} "):
                return each, tag
    return None


def compute_update(
    repository: Repository, commit: str, unit: Unit, states: Iterable[ImageState]
) -> ImageUpdate:
    """Return the edit that writes the tags that the policies choose.

    Raises NothingToDo GK7041, InvalidManifests GK3602 for a place that cannot be edited, and
    UsageProblem GK3602 for a chart.
    """
    due = [(state, state.due) for state in states if state.due]
    if not due:
        message = (
            f"unit {unit.id}: there is nothing to do: git has the tags that the policies choose"
        )
        raise NothingToDo(Finding(code="GK7041", message=message))
    check_written(unit, due[0][1][0][0].desired, "image")
    edits = [one for _, changes in due for one in changes]
    kustomized = Kustomized.of(repository, commit, KustomizedFolder.of(unit))
    if kustomized is None:
        files = _edited_files(repository, commit, edits)
    else:
        places = kustomized.edits(commit)
        for reference, text in edits:
            places.set(reference.desired.document, reference.path, text)
        files = places.files
    fields: dict[ObjectKey, tuple[FieldChange, ...]] = {}
    for reference, text in edits:
        change = FieldChange(path=reference.path, before=reference.reference, after=text)
        fields[reference.key] = (*fields.get(reference.key, ()), change)
    return ImageUpdate(
        unit=unit,
        images=tuple(_change(state, [r for r, _ in changes]) for state, changes in due),
        fields=fields,
        files=files,
    )


def _change(state: ImageState, references: Sequence[ImageReference]) -> ImageChange:
    before = dict.fromkeys(reference.tag or "no tag" for reference in references)
    return ImageChange(
        repository=state.image.repository, before=tuple(before), after=state.chosen.tag
    )


def _edited_files(
    repository: Repository, commit: str, edits: Iterable[tuple[ImageReference, str]]
) -> dict[str, bytes]:
    """Return the edited files of objects that are taken as they are written."""
    files: dict[str, bytes] = {}
    for reference, text in edits:
        document = reference.desired.document
        if document.file not in files:
            entry = repository.find(commit, document.file)
            assert entry is not None  # it was read at this commit
            files[document.file] = repository.read_blob(entry.id)
        if "${" in document.written(reference.path):
            message = f"cannot write {shown(text)} in the place of a variable"
            raise refused("GK3602", message, document, reference.path)
        files[document.file] = edit_field(
            files[document.file], document.file, reference.key, reference.path, text
        )
    return files
