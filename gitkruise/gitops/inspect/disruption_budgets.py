"""Other objects that disrupt the same pods, and the number of pods that each may disrupt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from gitkruise.errors import Forbidden
from gitkruise.model.workloads.labels import CLONESET, DEPLOYMENT, SIDECARSET
from gitkruise.model.workloads.sidecarset_annotations import injected_sets

if TYPE_CHECKING:
    from gitkruise.gitops.inspect.cluster_view import Managed, Survey
    from gitkruise.wire.primitives.names import GroupKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """The other objects that change pods of one: each with its own budget over its own pods.

    `unread` says which could not be read, and why.
    """

    others: tuple[Managed, ...] = ()
    unread: tuple[str, ...] = ()


ALONE: Final = Sharing()


async def sharing(
    found: Managed, look: Callable[[GroupKind], Awaitable[Survey]], now: datetime
) -> Sharing:
    """The SidecarSets in the pods of `found`, and the CloneSets and Deployments that own them.

    `look` surveys one kind in every namespace; it is asked only where pods tell of that kind.
    """
    sets = {name for pod in found.pods for name in injected_sets(pod.annotations)}
    owners = {pod.controller_uid for pod in found.pods} - {""}
    asked = [(SIDECARSET, sets - _own(found, SIDECARSET))]
    if found.key.group_kind == SIDECARSET:
        asked += [(CLONESET, owners), (DEPLOYMENT, owners)]
    others: list[Managed] = []
    unread: list[str] = []
    for kind, wanted in asked:
        if not wanted:
            continue
        try:
            survey = await look(kind)
        except Forbidden as error:
            unread.append(f"{kind.kind}s that change these pods cannot be read: {error.message}")
        else:
            others += [m for m in survey.managed(now) if _names(m) & wanted]
    return Sharing(others=tuple(others), unread=tuple(unread))


def _own(found: Managed, kind: GroupKind) -> set[str]:
    return {found.key.name} if found.key.group_kind == kind else set()


def _names(m: Managed) -> set[str]:
    """Return the references of pods to it: the name of a SidecarSet, the uid of a controller."""
    if m.key.group_kind == SIDECARSET:
        return {m.key.name}
    return {m.obj["metadata"]["uid"], *(pod.controller_uid for pod in m.pods)}
