"""Revisions of a SidecarSet: the latest one, its version tag, and which are forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from gitkruise.model.planning.plan import Action, Create, Event, Patch
from gitkruise.model.workloads.revision import Revision
from gitkruise.model.workloads.sidecarset import VERSION_LABEL, SidecarSetFacts
from gitkruise.model.workloads.sidecarset_annotations import HashMark
from gitkruise.model.workloads.sidecarset_hash import HASH
from gitkruise.model.workloads.sidecarset_revision import (
    REVISION_NAMESPACE,
    new_revision,
    newest_of_version,
)
from gitkruise.planner.pods.json_diff import json_diff
from gitkruise.planner.revisions.registration import (
    RevisionHistory,
    RevisionOwner,
    forget,
    patch_revision,
    register,
)
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get

NAMESPACE_OBJECT: Final[Obj] = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": REVISION_NAMESPACE},
}


def next_history(
    owner: SidecarSetFacts, revisions: Sequence[Revision], others: Mapping[str, Revision]
) -> RevisionHistory:
    """Find, revive or create the revision of the present spec, and tag it with `customVersion`.

    Raises Malformed for a spec no admission lets through. Source: SSET-60 to SSET-63.
    """
    made = new_revision(owner, 0)
    where = RevisionOwner(REVISION_NAMESPACE, owner.owner_reference)
    found = register(made, revisions, others, owner.collision_count, where)
    return _tagged(owner, found)


def _tagged(owner: SidecarSetFacts, found: RevisionHistory) -> RevisionHistory:
    """The custom version moves to the latest revision; an older tag of that one is lost, and said.

    OpenKruise overwrites it in silence.
    """
    tag, latest = owner.custom_version, found.update
    before = latest.labels.get(VERSION_LABEL, "")
    if not tag or before == tag or found.creating:
        return found
    body: dict[str, Any] = {"metadata": {"labels": {VERSION_LABEL: tag}}}
    if isinstance(found.action, Patch):
        body = {**found.action.steps[0].body, **body}
    text = f"revision {latest.name} was version {before} and is version {tag} from now on"
    moved = Event("Warning", "CustomVersionMoved", text) if before else None
    return replace(found, action=patch_revision(latest, body, REVISION_NAMESPACE, done=moved))


def registration(found: RevisionHistory, *, homeless: bool) -> list[Action]:
    """The writes that register it; the namespace of revisions first where there is none."""
    match found.action:
        case None:
            return []
        case Create(obj=obj, done=done, failed=failed) if homeless:
            later = Create(obj=obj, wave=1, done=done, failed=failed)
            return [Create(obj=NAMESPACE_OBJECT), later]
        case action:
            return [action]


def surplus(
    owner: SidecarSetFacts, found: RevisionHistory, carried: Callable[[], Iterable[HashMark]]
) -> tuple[Action, ...]:
    """Delete the oldest revisions beyond the limit, but for those in use; `carried` are the marks
    of pods. The newest always stays, whatever the limit. Source: SSET-64; what pods run
    is known by its hash too, where the name they recorded is missing or wrong.
    """
    need = len(found.known) - owner.history_limit
    if need <= 0:
        return ()
    run = (carried_by(mark, found.known) for mark in set(carried()))
    active = {r.name for r in run if r} | {found.update.name, *_pinned(owner, found.known)}
    idle = [r for r in found.known[:-1] if r.uid and r.name not in active]
    return forget(idle[:need], REVISION_NAMESPACE)


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


def carried_by(mark: HashMark, known: Sequence[Revision]) -> Revision | None:
    """The revision a pod was born with or upgraded to: by name, else by the hash it recorded.

    The name may be missing or one behind where a pod is made right after a change.
    """
    by_hash = [r for r in known if mark.hash and r.annotations.get(HASH) == mark.hash]
    named = [r for r in known if r.name == mark.revision]
    best = [*(r for r in named if r in by_hash), *reversed(by_hash), *named]
    return best[0] if best else None


def not_upgradable_reason(found: RevisionHistory, mark: HashMark) -> str:
    """Reason why a pod that carries `mark` cannot take the latest revision live."""
    old = carried_by(mark, found.known)
    if old is None:
        return "its revision is not in history any more"
    return difference(old.data, found.update.data)


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
