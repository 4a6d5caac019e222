"""Differences of desired objects from the live ones, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from gitkruise.model.gitops.document import FieldPath
from gitkruise.wire.primitives.names import Obj, ObjectKey


class MissingValue:
    """Marks a missing field, as opposed to one that is null."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = MissingValue()


@dataclass(frozen=True, slots=True, repr=False)
class Redacted:
    """A redacted value. Equal values have equal fingerprints within one process; the key never
    leaves the process, so nothing can be guessed from them."""

    fingerprint: str

    def __str__(self) -> str:
        return f"•••{self.fingerprint}"

    __repr__ = __str__  # in lists and maps too


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One field; before or after may be MISSING.

    `owners` are the other field managers of the live field, newest first, each with its last write.
    """

    path: FieldPath
    before: Any
    after: Any
    owners: tuple[tuple[str, str], ...] = ()


class ChangeKind(StrEnum):
    CREATE = "create"
    CONFIGURE = "configure"
    PRUNE = "prune"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """The difference for one object; `source` is `file:line` for every message about it."""

    kind: ChangeKind
    key: ObjectKey
    before: Obj | None
    after: Obj | None
    fields: tuple[FieldChange, ...] = ()
    source: str = ""
    drift: bool = False  # live differs though git did not move
    pending: bool = False  # of an earlier commit, which the cluster does not have yet
    replaced: bool = False  # it cannot change, and is deleted and created again
    agreed: bool = False  # a person approved that it is deleted
    spared: str = ""  # the annotation by which git left it alone, of an object that leaves git
    held: str = ""  # what it contains of others, of an object that leaves git
