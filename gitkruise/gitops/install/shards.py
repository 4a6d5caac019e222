"""Shards of an installation: what `--shards` changes in the objects of deploy/.

The controller gets the flag, a replica for each shard, and the rights to the Leases of so many
shards. Its replicas are replaced together: those with another number of shards are refused.
"""

from __future__ import annotations

from typing import Final

from gitkruise.errors import ApplyConflict
from gitkruise.kube.system.lease_terms import SYNC_LEASE, member_lease, shard_lease
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get, put

FLAG: Final = "--shards"
LOOK: Final = "list"  # on Leases: the verb of a replica's look at those of all
CONTROLLER: Final = ("Deployment", "gitkruise")
LEASES_ROLE: Final = ("Role", "gitkruise-lease")
# All together. The API server refuses Recreate where it has defaulted the fields of this strategy.
STRATEGY: Final = {
    "type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "100%"},
}  # fmt: skip
_ARGS: Final = ("spec", "template", "spec", "containers", 0, "args")


def with_shards(obj: Obj, count: int) -> Obj:
    """Return an object of an installation as `count` shards need it."""
    if count == 1:
        return obj
    match obj["kind"], obj["metadata"]["name"]:
        case kind_and_name if kind_and_name == CONTROLLER:
            args = [*get(obj, *_ARGS), FLAG, str(count)]
            spec = {"replicas": count, "strategy": STRATEGY, **obj["spec"]}
            changed: Obj = put({**obj, "spec": spec}, _ARGS, args)
            return changed
        case kind_and_name if kind_and_name == LEASES_ROLE:
            rules = [_with_leases(rule, count) for rule in obj["rules"]]
            return {**obj, "rules": rules}
        case _:
            return obj


def sets_replicas(key: ObjectKey, conflict: ApplyConflict, count: int) -> bool:
    """Return whether the conflict is about the replicas of the controller alone, which `--shards`
    sets: a user has scaled it."""
    fields = {cause.field for cause in conflict.details.causes}
    controller = (key.kind, key.name) == CONTROLLER
    return count > 1 and controller and fields == {".spec.replicas"}


def _with_leases(rule: Obj, count: int) -> Obj:
    """Name the Leases of the shards; a replica looks at them, and at who sits, by one list."""
    if named := rule.get("resourceNames"):
        return {**rule, "resourceNames": [*named, *lease_names(count)]}
    return {**rule, "verbs": [*rule["verbs"], LOOK]}


def lease_names(count: int) -> list[str]:
    """Return the names of the Leases of the shards and of the replicas that share them."""
    numbers = range(count)
    return [make(SYNC_LEASE, n) for make in (shard_lease, member_lease) for n in numbers]


def shards_in(controller: Obj | None) -> int:
    """Return the number of shards that a live controller was installed with."""
    args = get(controller, *_ARGS, default=[])
    words = [*args, *(part for arg in args for part in str(arg).split("=", 1)), ""]
    places = [n for n, word in enumerate(words[:-1]) if word == FLAG]
    counts = [int(words[n + 1]) for n in places if words[n + 1].isdecimal()]
    return max(counts, default=1)
