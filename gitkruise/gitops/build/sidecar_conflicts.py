"""SidecarSets of one commit that cannot be in a cluster together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from gitkruise.admission.conversion.registry import convert
from gitkruise.admission.kruise.sidecarset import HUB
from gitkruise.admission.kruise.sidecarset_conflicts import conflicts
from gitkruise.errors import Finding
from gitkruise.model.gitops.document import Desired
from gitkruise.model.workloads.labels import SIDECARSET
from gitkruise.model.workloads.sidecarset import sidecarset_facts


def sidecar_clashes(objects: Sequence[Desired]) -> Iterator[Finding]:
    """One finding for each two SidecarSets that would inject two things of one name into some pod.

    The objects have passed the checks of their kind.
    """
    sets = [d for d in objects if d.key.group_kind == SIDECARSET]
    facts = [sidecarset_facts(convert(d.obj, HUB)) for d in sets]
    for at, (d, mine) in enumerate(zip(sets, facts, strict=True)):
        for other, theirs in zip(sets[:at], facts[:at], strict=True):
            for _, what in islice(conflicts(mine, theirs), 1):
                yield _clash(other, d, what)


def _clash(one: Desired, other: Desired, what: str) -> Finding:
    return Finding(
        code="GK2107",
        message=f"{one.key} and {other.key} both bring {what} to some of the same pods",
        places=(
            one.document.place(("spec",), key=True, label="first"),
            other.document.place(("spec",), key=True, label="second"),
        ),
        notes=(
            ("why", "OpenKruise refuses whichever comes second"),
            ("next", "give it another name, or let their selectors choose different pods"),
        ),
        object=str(other.key),
    )
