"""A template as OpenKruise holds it: typed, defaulted, and as the bytes that name a revision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gitkruise.wire.kruise.go_round_trip import Malformed, normalise
from gitkruise.wire.kruise.hashes import dump_hash
from gitkruise.wire.kruise.template_defaults import default_claim, default_template
from gitkruise.wire.primitives.gojson import compact, ordered, through_doubles
from gitkruise.wire.primitives.names import Obj

__all__ = [
    "Malformed",
    "claims_hash",
    "default_claim",
    "default_template",
    "normalise",
    "revision_data",
]


def revision_data(template: Any) -> bytes:
    """The `data` of the ControllerRevision for a stored pod template, to the byte.

    A strategic merge patch that replaces the template. No defaults are applied: what is stored
    is what is hashed. Raises Malformed. Source: OpenKruise's revision control.
    """
    typed = {"$patch": "replace", **normalise("PodTemplateSpec", template)}
    return compact(through_doubles({"spec": {"template": typed}}))


def claims_hash(templates: Sequence[Obj] | None) -> str:
    """Annotation `kruise.io/cloneset-volumeclaimtemplate-hash` for volumeClaimTemplates.

    Names and specs alone count, in name order; "" without templates. Raises Malformed.
    """
    if not templates:
        return ""
    claims = [normalise("PersistentVolumeClaim", template) for template in templates]
    kept = [
        {
            "metadata": {
                "name": claim["metadata"].get("name", ""),
                "creationTimestamp": None,
            },
            "spec": claim["spec"],
            "status": {},
        }
        for claim in sorted(claims, key=lambda claim: claim["metadata"].get("name", ""))
    ]
    for item in kept:  # an empty name is left out
        if not item["metadata"]["name"]:
            del item["metadata"]["name"]
    return str(dump_hash(ordered(kept)))
