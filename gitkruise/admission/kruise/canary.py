"""Validation of the canary annotation of a Deployment (rule CAN-8).

The plain key `canary` is not validated: other programs use it for purposes of their own, and a
write that this cluster accepted before must not fail because of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gitkruise.admission.rules.field_errors import invalid
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import MapKey, Problem
from gitkruise.model.planning.canary import ANNOTATION, canary_of
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import DEPLOYMENT
from gitkruise.wire.primitives.paths import get

KINDS: Final = frozenset({DEPLOYMENT})
_PATH: Final = ("metadata", "annotations", MapKey(ANNOTATION))
_FORM: Final = "must be a number of pods, such as 3, or a whole percentage, such as 30%"


def canary_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """Yield the problem of a value that means no number of pods, unless it is stored already."""
    text = get(request.obj, *_PATH)
    if text is None or text == get(request.old, *_PATH):
        return
    try:
        canary_of({ANNOTATION: str(text)})
    except ValueError:
        yield invalid(_PATH, text, _FORM)
