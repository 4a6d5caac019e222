"""Revisions of a SidecarSet: the latest one, its version tag, and which are forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from gitkruise.model.plan import Action, Create, Event, Patch
from gitkruise.model.revision import Revision
from gitkruise.model.sidecarset import VERSION_LABEL, SidecarSetFacts
from gitkruise.model.sidecarset_revision import (
    REVISION_NAMESPACE,
    new_revision,
    newest_of_version,
)
from gitkruise.planner.json_diff import json_diff
from gitkruise.planner.registration import Registered, Shelf, forget, patch_revision, register
from gitkruise.wire.names import Obj
from gitkruise.wire.paths import get

NAMESPACE_OBJECT: Final[Obj] = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": REVISION_NAMESPACE},
}


def next_history(
    owner: SidecarSetFacts, revisions: Sequence[Revision], others: Mapping[str, Revision]
) -> Registered:
    """Find, revive or create the revision of the present spec, and tag it with `customVersion`.

    Raises Malformed for a spec no admission lets through. Source: behaviour 2.8, 1 to 5.
    """
    made = new_revision(owner, 0)
    found = register(made, revisions, others, owner.collision_count, _shelf(owner))
    return _tagged(owner, found)


def _shelf(owner: SidecarSetFacts) -> Shelf:
    return Shelf(
        owner_name=owner.name, namespace=REVISION_NAMESPACE, reference=owner.owner_reference
    )


def _tagged(owner: SidecarSetFacts, found: Registered) -> Registered:
    """The custom version moves to the latest revision; an older tag of that one is lost, and said.

    OpenKruise overwrites it in silence.
    """
    tag, latest = owner.custom_version, found.latest
    before = latest.labels.get(VERSION_LABEL, "")
    if not tag or before == tag or found.creating:
        return found
    body: dict[str, Any] = {"metadata": {"labels": {VERSION_LABEL: tag}}}
    if isinstance(found.action, Patch):
        body = {**found.action.steps[0].body, **body}
    patch = patch_revision(latest, body, _shelf(owner))
    if before:
        text = f"revision {latest.name} was version {before} and is version {tag} from now on"
        patch = replace(patch, done=Event("Warning", "CustomVersionMoved", text))
    return replace(found, action=patch)


def registration(found: Registered, *, homeless: bool) -> list[Action]:
    """The writes that register it; the namespace of revisions first where there is none."""
    match found.action:
        case None:
            return []
        case Create() as create if homeless:
            return [Create(obj=NAMESPACE_OBJECT), replace(create, wave=1)]
        case action:
            return [action]


def surplus(
    owner: SidecarSetFacts, found: Registered, carried: Callable[[], Collection[str]]
) -> tuple[Action, ...]:
    """Delete the oldest revisions beyond the limit, but for those in use; `carried` names those
    that pods run. The newest always stays, whatever the limit. Source: behaviour 2.8, 6.
    """
    need = len(found.known) - owner.history_limit
    if need <= 0:
        return ()
    active = {*carried(), found.latest.name, *_pinned(owner, found.known)}
    idle = [r for r in found.known[:-1] if r.uid and r.name not in active]
    return forget(idle[:need], _shelf(owner))


def _pinned(owner: SidecarSetFacts, known: Sequence[Revision]) -> set[str]:
    """Revisions that new pods get."""
    pin = owner.pin
    if pin is None:
        return set()
    names = {pin.revision_name} if pin.revision_name else set()
    if pin.custom_version:
        newest = newest_of_version(known, owner.name, pin.custom_version)
        names |= {newest.name} if newest else set()
    return names


def why_not(found: Registered, carried: str) -> str:
    """Why a pod with the revision `carried` cannot take the latest one live."""
    old = next((r for r in found.known if r.name == carried), None)
    if old is None:
        return "its revision is not in history any more"
    return difference(old.data, found.latest.data)


@lru_cache(maxsize=1024)
def difference(old: bytes, new: bytes) -> str:
    """The first thing besides images that differs between the sidecars of two revisions."""
    for operation in json_diff(_sidecars(old), _sidecars(new)):
        if operation.path[2:] != ("image",):
            return f"{'.'.join(map(str, operation.path[:3]))} changed"
    return "its sidecars were recorded otherwise"


def _sidecars(data: bytes) -> dict[str, Any]:
    """Sidecars of revision data by list and name; init containers once one keeps running."""
    spec: Obj = json.loads(data)["spec"]
    inits = spec.get("initContainers") or ()
    lists = {"containers": spec.get("containers") or ()}
    if any(get(container, "restartPolicy") == "Always" for container in inits):
        lists["initContainers"] = inits
    return {field: {c["name"]: c for c in found} for field, found in lists.items()}
