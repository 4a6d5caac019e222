"""What to say of an object that does not say well when it is well."""

from __future__ import annotations

from gitkruise.errors import Finding
from gitkruise.model.document import Document
from gitkruise.planner.sync.marks import HEALTH


def own_health(document: Document, why: str) -> Finding:
    """The finding for an object that does not say well when it is well."""
    return Finding(
        code="GK2017",
        message=f"{HEALTH} of {document.obj['kind']} {document.obj['metadata']['name']}: {why}",
        places=(document.place(("metadata", "annotations", HEALTH)),),
        notes=(
            ("why", "it is Ignore, or an expression in CEL that is true when the object is well"),
            ("next", "such as: status.phase == 'Up'"),
        ),
    )
