"""ControllerRevisions of a SidecarSet: their bytes, names and metadata, and the way back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from gitkruise.model.workloads.labels import HISTORY_HASH
from gitkruise.model.workloads.revision import Revision, in_order
from gitkruise.model.workloads.sidecarset import OWNER_VERSION, VERSION_LABEL, SidecarSetFacts
from gitkruise.model.workloads.sidecarset_hash import (
    HASH,
    HASH_WITHOUT_IMAGE,
    hash_without_image,
    sidecarset_hash,
)
from gitkruise.wire.kruise.go_round_trip import normalise
from gitkruise.wire.kruise.hashes import revision_hash, revision_name
from gitkruise.wire.primitives.gojson import compact, through_doubles
from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import put

REVISION_NAMESPACE: Final = "kruise-system"  # OpenKruise's POD_NAMESPACE when nothing else is said
SET_LABEL: Final = "kruise.io/sidecarset-name"
RECORDED: Final = (
    "containers", "imagePullSecrets", "initContainers", "patchPodMetadata", "volumes",
)  # fmt: skip


def sidecarset_revision_data(raw: Obj) -> bytes:
    """The `data` of the ControllerRevision for a SidecarSet as stored, in either version.

    Five fields of the typed spec, null where they are empty, in a patch that replaces the spec.
    Raises Malformed. Source: OpenKruise's history control of SidecarSets.
    """
    typed = normalise("SidecarSetSpecV1beta1", raw.get("spec"))
    fields = {name: typed.get(name) for name in RECORDED}
    return compact(through_doubles({"spec": {"$patch": "replace", **fields}}))


def new_revision(facts: SidecarSetFacts, number: int) -> Revision:
    """The revision of the SidecarSet's current spec, under its first name.

    The hash label keeps the count it was made with, whatever name a collision leads to.
    """
    data = sidecarset_revision_data(facts.raw)
    hash_text = revision_hash(data, facts.collision_count)
    labels = {**facts.labels, HISTORY_HASH: hash_text, SET_LABEL: facts.name}
    if facts.custom_version:
        labels[VERSION_LABEL] = facts.custom_version
    return Revision(
        name=revision_name(facts.name, hash_text),
        number=number,
        data=data,
        hash_label=hash_text,
        labels=labels,
        annotations=dict(facts.annotations),
    )


def newest_of_version(
    revisions: Iterable[Revision], set_name: str, custom_version: str
) -> Revision | None:
    """The newest revision of a set that carries a custom version; `in_order` is the order."""
    wanted = {SET_LABEL: set_name, VERSION_LABEL: custom_version}
    found = in_order(r for r in revisions if wanted.items() <= r.labels.items())
    return found[-1] if found else None


def restored(raw: Obj, revision: Revision) -> Obj:
    """A SidecarSet as a revision recorded it: the five fields are its whole spec.

    Metadata and status stay the present ones but for the hashes and `latestRevision`. Raises
    ValueError when the data hold no SidecarSet.
    """
    out: Obj = {**raw, "apiVersion": OWNER_VERSION, "spec": _recorded_spec(revision)}
    for key, compute in ((HASH, sidecarset_hash), (HASH_WITHOUT_IMAGE, hash_without_image)):
        value = revision.annotations.get(key) or compute(out)
        out = put(out, ("metadata", "annotations", key), value)
    changed: Obj = put(out, ("status", "latestRevision"), revision.name)
    return changed


def _recorded_spec(revision: Revision) -> dict[str, Any]:
    try:
        spec = read_json(revision.data)["spec"]
        return {name: spec[name] for name in RECORDED if spec.get(name) is not None}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"ControllerRevision {revision.name} records no SidecarSet: {error!r}"
        raise ValueError(problem) from error
