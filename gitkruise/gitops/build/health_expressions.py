"""The finding for an invalid health annotation of an object."""

from __future__ import annotations

from gitkruise.errors import Finding
from gitkruise.model.gitops.document import Document
from gitkruise.planner.sync.annotations import HEALTH


def own_health(document: Document, why: str) -> Finding:
    """Return the finding for an object with an invalid health expression."""
    return Finding(
        code="GK2017",
        message=f"{HEALTH} of {document.obj['kind']} {document.obj['metadata']['name']}: {why}",
        places=(document.place(("metadata", "annotations", HEALTH)),),
        notes=(
            ("why", "it is Ignore, or an expression in CEL that is true when the object is well"),
            ("next", "such as: status.phase == 'Up'"),
        ),
    )
