"""The admission chain: what every write passes, as one table of steps."""

from __future__ import annotations

from gitkruise.admission.request import AdmissionRequest
from gitkruise.model.settings import Gates
from gitkruise.wire.names import Obj


def admit(request: AdmissionRequest, gates: Gates) -> Obj | None:
    """The object as it is to be stored, in the version of `request.obj`; None on DELETE.

    Raises BadRequest (a value no type can hold), InvalidObject (every broken rule with its field)
    and Forbidden (a protected deletion).
    """
    return request.obj
