"""New pods: their names, their claims, and the pod itself from a revision's template."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from itertools import chain
from typing import Any, Final

from gitkruise.errors import Unavailable
from gitkruise.model.planning.plan import Create, Event
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.cloneset import CloneSetFacts
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import LifecycleState
from gitkruise.model.workloads.revision import Revision
from gitkruise.planner.revisions.revisions import template_of
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import format_time

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH: Final = 5
_LETTERS: Final = "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in range(256)).encode()
_TRIES_PER_ID: Final = 1000
_AT_ONCE: Final = 64
_COPIED: Final = ("labels", "annotations", "finalizers")


def instance_ids(
    seed: int, count: int, *, taken: Collection[str], free: Iterable[str] = ()
) -> tuple[str, ...]:
    """`count` distinct ids in order: first `free` ones (claims that wait for a pod), then new ones
    derived from `seed`, never one of `taken`.

    Wire form is OpenKruise's: five characters of an alphabet without vowels.
    """
    chosen = sorted(set(free) - set(taken))[:count]
    used = {*taken, *chosen}
    for made in _derived(seed, count * _TRIES_PER_ID):
        if len(chosen) >= count:
            break
        if made not in used:
            used.add(made)
            chosen.append(made)
    if len(chosen) < count:
        raise Unavailable(f"{count} more pods find no free instance ids")
    return tuple(sorted(chosen))


def _derived(seed: int, limit: int) -> Iterator[str]:
    return chain.from_iterable(_some(seed, first) for first in range(0, limit, _AT_ONCE))


@lru_cache(maxsize=256)
def _some(seed: int, first: int) -> tuple[str, ...]:
    """Each wave of a rollout walks over the ids of the waves before it: they are made once."""
    digests = (sha256(f"{seed}/{at}".encode()).digest() for at in range(first, first + _AT_ONCE))
    return tuple([digest[:_LENGTH].translate(_LETTERS).decode() for digest in digests])


def waves(count: int) -> list[int]:
    """Slow-start batch of each of `count` creations: 1, 2, 4, … pods a batch."""
    return [(at + 1).bit_length() - 1 for at in range(count)]


def new_pod(
    owner: CloneSetFacts, revision: Revision, instance: str, now: datetime, gates: Gates
) -> Obj:
    """The pod of `instance` on `revision`. Raises ValueError when the revision holds no template.

    Volumes of claims come first, by name, and replace template volumes of the same name.
    """
    template = template_of(revision.data)
    source = template.get("metadata") or {}
    meta: dict[str, Any] = {key: source[key] for key in _COPIED if source.get(key)}
    shown = revision.short if gates.clone_set_short_hash else revision.name
    meta["labels"] = {
        **meta.get("labels", {}),
        wire.REVISION_HASH: shown,
        wire.TEMPLATE_HASH: revision.short,
        wire.INSTANCE_ID: instance,
        wire.LIFECYCLE_STATE: str(LifecycleState.PREPARING_NORMAL),
    }
    meta["annotations"] = {**meta.get("annotations", {}), wire.LIFECYCLE_TIME: format_time(now)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{owner.name}-{instance}",
            "generateName": f"{owner.name}-",
            "namespace": owner.namespace,
            **meta,
            "ownerReferences": [owner.owner_reference],
        },
        "spec": _spec(owner, template["spec"], instance),
    }


def _spec(owner: CloneSetFacts, spec: Obj, instance: str) -> Obj:
    made = {key: value for key, value in spec.items() if value is not None}
    gates = list(made.get("readinessGates") or ())
    if not any(g.get("conditionType") == wire.INPLACE_READY for g in gates):
        gates.append({"conditionType": wire.INPLACE_READY})
    made["readinessGates"] = gates
    claimed = sorted(get(c, "metadata", "name", default="") for c in owner.claim_templates)
    if claimed:
        made["volumes"] = [
            {
                "name": name,
                "persistentVolumeClaim": {"claimName": claim_name(owner, name, instance)},
            }
            for name in claimed
        ] + [v for v in made.get("volumes") or () if v["name"] not in claimed]
    return made


def claim_name(owner: CloneSetFacts, template: str, instance: str) -> str:
    return f"{template}-{owner.name}-{instance}"


def new_claims(owner: CloneSetFacts, instance: str, existing: Collection[str]) -> tuple[Obj, ...]:
    """The claims of `instance` that do not exist yet, from the live claim templates."""
    made = []
    for template in owner.claim_templates:
        source: Mapping[str, Any] = template.get("metadata") or {}
        name = claim_name(owner, source.get("name", ""), instance)
        if name in existing:
            continue
        matched = owner.selector_raw.get("matchLabels") or {}
        meta: dict[str, Any] = {
            "name": name,
            "namespace": owner.namespace,
            "labels": {**(source.get("labels") or {}), **matched, wire.INSTANCE_ID: instance},
            "ownerReferences": [*(source.get("ownerReferences") or ()), owner.owner_reference],
        }
        if source.get("annotations"):
            meta["annotations"] = dict(source["annotations"])
        made.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": meta,
                "spec": template.get("spec") or {},
            }
        )
    return tuple(made)


def creations(
    owner: CloneSetFacts,
    plan: Sequence[tuple[str, Revision]],
    *,
    existing_claims: Collection[str],
    first_wave: int,
    now: datetime,
    gates: Gates,
) -> list[Create]:
    """Create actions for (instance, revision) pairs, in slow-start waves from `first_wave` on."""
    made = []
    for (instance, revision), wave in zip(plan, waves(len(plan)), strict=True):
        name = f"{owner.name}-{instance}"
        made.append(
            Create(
                obj=new_pod(owner, revision, instance, now, gates),
                claims=new_claims(owner, instance, existing_claims),
                wave=first_wave + wave,
                done=Event("Normal", "SuccessfulCreate", f"created pod {name}"),
                failed=Event("Warning", "FailedCreate", f"could not create pod {name}: "),
            )
        )
    return made
