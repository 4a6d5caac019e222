"""Admission request: one write before it is stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from gitkruise.errors import BadRequest
from gitkruise.model.planning.view import ClusterView
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.schema.validation import validate

if TYPE_CHECKING:
    from gitkruise.wire.catalog.catalog import Kind

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest:
    """A create, update or delete of one object (or of its `subresource`).

    `obj` is the object as it would be stored, in the version of the request, or None on DELETE;
    `old` the stored one, or None on CREATE (any served version). `view` answers look-ups of other
    objects. `now` is the instant of the write, None where nothing will be written (a check of a
    manifest alone); `uid` names the request, and seeds what is drawn by lot. With `assumed`, a
    class of priority that `view` does not have counts as present.
    """

    operation: str
    kind: Kind
    key: ObjectKey
    obj: Obj | None
    old: Obj | None = None
    subresource: str = ""
    user: str = ""
    dry_run: bool = False
    now: datetime | None = None
    uid: str = ""
    assumed: bool = False
    view: ClusterView

    @property
    def is_typed(self) -> bool:
        """Return whether the schema takes the new spec. Where not, it is refused by the schema
        after admission, and there is nothing to read in it."""
        spec = self.kind.schema.child("spec")
        return spec is None or "spec" not in self.new or not validate(spec, self.new["spec"])

    @property
    def new(self) -> Obj:
        """The object that is written. Raises BadRequest where the request brings none."""
        if self.obj is None:
            raise BadRequest(f"the request to {self.operation} {self.key} brings no object")
        return self.obj
