"""Before a commit is taken: what our rules and the cluster's dry run say against its changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gitkruise.errors import Finding, Forbidden
from gitkruise.gitops.apply import Sent
from gitkruise.gitops.check import check_object
from gitkruise.kube.discovery import listed
from gitkruise.kube.transport import Transport
from gitkruise.model.change import Desired, DesiredSet
from gitkruise.model.labels import CLONESET
from gitkruise.model.settings import Gates
from gitkruise.wire.catalog import Catalog
from gitkruise.wire.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.request import NAMESPACES

# Kinds whose update rules we know as well as the server does; others are left to its dry run.
_OURS: Final = frozenset({CLONESET})
NAMESPACE: Final = GroupKind("", "Namespace")
_UNSERVED, _UNREACHABLE = "GK4201", "GK4102"


def check_updates(
    changed: Sequence[Desired], live: Mapping[ObjectKey, Obj], catalog: Catalog, gates: Gates
) -> list[Finding]:
    """What the rules of our kinds say against changing the live objects this way."""
    return [
        finding
        for d in changed
        if d.key.group_kind in _OURS and d.key in live
        for finding in check_object(d, catalog, gates, old=live[d.key])
    ]


def testable(changed: Sequence[Desired], missing: frozenset[str]) -> list[Desired]:
    """What a dry run can judge: nothing in a namespace that the commit itself brings."""
    return [d for d in changed if d.key.namespace not in missing]


async def brought(
    desired: DesiredSet, live: Mapping[ObjectKey, Obj], transport: Transport
) -> frozenset[str]:
    """Namespaces that the commit brings and that are not there yet, whoever made those that are.

    Who may not list them takes those for new that carry no unit's mark. Raises ApiError.
    """
    unseen = {
        d.key.name for d in desired.objects if d.key.group_kind == NAMESPACE and d.key not in live
    }
    if not unseen:
        return frozenset()
    try:
        there = {space["metadata"]["name"] for space in await listed(transport, NAMESPACES)}
    except Forbidden:
        there = set()
    return frozenset(unseen - there)


def unreachable(sent: Sequence[Sent]) -> Finding | None:
    """The first sign that the cluster could not be asked."""
    found = (s.finding for s in sent if s.retry and s.finding is not None)
    return next((f for f in found if f.code == _UNREACHABLE), None)


def refusals(desired: DesiredSet, sent: Sequence[Sent]) -> Iterator[Finding]:
    """Refusals that stand: kinds that the commit brings cannot be tried before they exist."""
    bring_kinds = any(d.key.kind == "CustomResourceDefinition" for d in desired.objects)
    for item in sent:
        finding = item.finding
        if finding is not None and not (bring_kinds and finding.code == _UNSERVED):
            yield finding
