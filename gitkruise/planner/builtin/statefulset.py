"""StatefulSet: numbered pods with claims of their own, created, updated and deleted in order.

Source: statefulset controller of Kubernetes 1.34. Claims are kept (policy Retain).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gitkruise.model.planning.plan import Action, Create, Delete, Hold, Holds, Patch, Plan, Reason
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.planning.workload import Workload
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import POD, PodFacts
from gitkruise.model.workloads.revision import REVISION, Revision, in_order, revision_of
from gitkruise.planner.builtin.pod_owner import (
    Controlled,
    claimants,
    claims_on,
    observe_controlled,
    template_data,
)
from gitkruise.planner.pods.round_result import becoming_available, earliest
from gitkruise.planner.revisions.registration import (
    RevisionHistory,
    RevisionOwner,
    register,
)
from gitkruise.planner.revisions.revisions import template_of
from gitkruise.planner.statefulset.facts import ordinal_of
from gitkruise.planner.statefulset.identity import (
    POD_INDEX,
    claims_of,
    create_pod,
    delete_pod,
    pods_by_ordinal,
)
from gitkruise.wire.kruise.hashes import revision_hash, revision_name
from gitkruise.wire.primitives.names import Obj, ObjectKey, controller_reference
from gitkruise.wire.primitives.paths import get

_HISTORY_LIMIT: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulFacts:
    """One StatefulSet, its pods by ordinal, and its revisions, oldest first.

    `adoptions` are those of pods and revisions, and releases.
    """

    raw: Obj
    adoptions: tuple[Patch, ...]
    pods: Mapping[int, PodFacts]
    revisions: tuple[Revision, ...]
    now: datetime

    @property
    def ordinals(self) -> range:
        first = get(self.raw, "spec", "ordinals", "start", default=0)
        return range(first, first + self.raw["spec"].get("replicas", 1))

    @property
    def in_order(self) -> bool:
        """Return whether each pod waits for the one before it."""
        return bool(self.raw["spec"].get("podManagementPolicy") != "Parallel")

    def healthy(self, pod: PodFacts) -> bool:
        least = self.raw["spec"].get("minReadySeconds") or 0
        return pod.active and pod.update_ready(self.now, min_ready_s=least)


def observe_stateful_set(view: ClusterView, key: ObjectKey, now: datetime) -> StatefulFacts | None:
    """None when the StatefulSet is gone."""
    found: Controlled | None = observe_controlled(
        view, key, now, member=lambda pod: ordinal_of(pod.name, key.name) is not None
    )
    if found is None:
        return None
    pods = pods_by_ordinal(found.pods, key.name)
    owned = view.owned(found.raw["metadata"]["uid"], REVISION, key.namespace)
    revisions = in_order(revision_of(raw) for raw in owned)
    return StatefulFacts(
        raw=found.raw,
        adoptions=(*claims_on(found.raw, view, REVISION), *found.claims),
        pods=pods,
        revisions=revisions,
        now=now,
    )


def plan_stateful_set(s: StatefulFacts, gates: Gates) -> Plan:
    """Plan the next steps: while pods wait for each other, one pod at a time."""
    del gates
    if s.adoptions:
        return Plan(actions=s.adoptions)
    history = _history(s)
    if s.raw["metadata"].get("deletionTimestamp"):
        return Plan()
    if history.action is not None:
        return Plan(actions=(history.action,))
    actions: list[Action] = list(_steps(s, history.current, history.update))
    actions += _forgotten(s, history)
    status = _status(s, history)
    same = status == s.raw.get("status")
    due = becoming_available(s.pods.values(), s.raw["spec"].get("minReadySeconds") or 0)
    return Plan(
        actions=tuple(actions),
        holds=_holds(s, history.update, {a.key.name for a in actions if isinstance(a, Delete)}),
        status=None if same else status,
        wake_at=earliest(at for at in due if at > s.now),
    )


def _holds(s: StatefulFacts, update: Revision, going: Collection[str]) -> Holds:
    """Pods of other revisions that stay this round; those above the partition go one by one."""
    on_delete = get(s.raw, "spec", "updateStrategy", "type") == "OnDelete"
    found: dict[Reason, set[str]] = {}
    for ordinal, pod in s.pods.items():
        old = pod.revision != update.name and pod.deleting is None
        if not old or ordinal not in s.ordinals or pod.name in going:
            continue
        why = Hold.PARTITION if ordinal < _partition(s) else Hold.BUDGET
        found.setdefault((Hold.ON_DELETE if on_delete else why, ""), set()).add(pod.name)
    return {reason: frozenset(pods) for reason, pods in found.items()}


def _history(s: StatefulFacts) -> RevisionHistory:
    template, meta = s.raw["spec"]["template"], s.raw["metadata"]
    count = int(get(s.raw, "status", "collisionCount", default=0))
    data = template_data(template)
    text = revision_hash(data, count)
    made = Revision(
        name=revision_name(meta["name"], text),
        number=0,
        data=data,
        hash_label=text,
        labels={**get(template, "metadata", "labels", default={}), wire.HISTORY_HASH: text},
    )
    where = RevisionOwner(meta["namespace"], controller_reference(s.raw))
    named = str(get(s.raw, "status", "currentRevision", default=""))
    return register(made, s.revisions, {}, count, where, current=named)


def _steps(s: StatefulFacts, current: Revision, update: Revision) -> Iterator[Action]:
    """Fill the ordinals, then take away what is too much, then update from the highest down."""
    settled = True
    for ordinal in s.ordinals:
        pod = s.pods.get(ordinal)
        if pod is None:
            yield _create(s, ordinal, current if ordinal < _partition(s) else update)
        elif pod.deleting is None and not pod.active:
            yield _delete(s, pod)  # it ended, and is made again
        settled = settled and pod is not None and s.healthy(pod)
        if s.in_order and not settled:
            return
    surplus = sorted((n for n in s.pods if n not in s.ordinals), reverse=True)
    for ordinal in surplus:
        pod = s.pods[ordinal]
        if pod.deleting is None:
            lower = (s.pods[n] for n in surplus if n < ordinal)
            if s.in_order and not s.healthy(pod) and not all(map(s.healthy, lower)):
                return
            yield _delete(s, pod)
        if s.in_order:
            return
    yield from _update(s, update)


def _update(s: StatefulFacts, update: Revision) -> Iterator[Action]:
    """Delete one pod of another revision; the next one follows when its successor serves."""
    if get(s.raw, "spec", "updateStrategy", "type") == "OnDelete":
        return
    for ordinal in reversed(s.ordinals):
        pod = s.pods.get(ordinal)
        if ordinal < _partition(s) or pod is None:
            return
        if pod.revision != update.name and pod.deleting is None:
            yield _delete(s, pod)
            return
        if not s.healthy(pod):
            return


def _partition(s: StatefulFacts) -> int:
    """Ordinals below this one stay on the current revision."""
    kept = get(s.raw, "spec", "updateStrategy", "rollingUpdate", "partition", default=0)
    return s.ordinals.start + int(kept or 0)


def _create(s: StatefulFacts, ordinal: int, revision: Revision) -> Create:
    return create_pod(
        s.raw,
        template_of(revision.data),
        ordinal,
        revision=revision.name,
        labels={POD_INDEX: str(ordinal)},
        claims=claims_of(s.raw, f"{s.raw['metadata']['name']}-{ordinal}"),
    )


def _delete(s: StatefulFacts, pod: PodFacts) -> Delete:
    return delete_pod(s.raw, pod)


def _forgotten(s: StatefulFacts, history: RevisionHistory) -> tuple[Delete, ...]:
    """Revisions beyond the limit that no pod carries."""
    carried = {p.revision for p in s.pods.values()}
    limit = s.raw["spec"].get("revisionHistoryLimit", _HISTORY_LIMIT)
    namespace = s.raw["metadata"]["namespace"]
    return history.forget(limit, namespace, lambda old: old.name in carried)


def _status(s: StatefulFacts, history: RevisionHistory) -> Obj:
    """The counters; a finished update makes the update revision the current one."""
    pods = [p for n, p in s.pods.items() if p.phase]
    staying = [p for p in pods if p.deleting is None]
    numbers = {
        "replicas": len(pods),
        "readyReplicas": sum(p.in_service for p in pods),
        "currentReplicas": sum(p.revision == history.current.name for p in staying),
        "updatedReplicas": sum(p.revision == history.update.name for p in staying),
    }
    rolling = get(s.raw, "spec", "updateStrategy", "type", default="RollingUpdate")
    everything = numbers["updatedReplicas"] == numbers["readyReplicas"] == numbers["replicas"]
    done = rolling == "RollingUpdate" and everything and numbers["replicas"] == len(s.ordinals)
    if done:
        numbers["currentReplicas"] = numbers["updatedReplicas"]
    return {
        "observedGeneration": s.raw["metadata"].get("generation") or 0,
        "replicas": numbers.pop("replicas"),
        **{name: number for name, number in numbers.items() if number},
        "availableReplicas": sum(s.healthy(p) for p in pods),
        "currentRevision": history.update.name if done else history.current.name,
        "updateRevision": history.update.name,
        "collisionCount": history.collision_count,
    }


STATEFULSET: Final[Workload[StatefulFacts]] = Workload(
    kind=wire.STATEFULSET,
    version="v1",
    owns=(POD, REVISION),
    observe=observe_stateful_set,
    decide=plan_stateful_set,
    watches={POD: claimants(wire.STATEFULSET)},
)
