"""Facts of an Advanced StatefulSet: one meaning for its spec, in either version."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count, islice
from typing import Any, Final

from gitkruise.errors import Problem
from gitkruise.model.workloads.cloneset import (
    OWNER_VERSION,
    IntOrPercent,
    Lifecycle,
    UpdateStrategy,
    lifecycle_of,
    predownload_settings,
    rolling_update,
)
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET
from gitkruise.wire.primitives.integers import int_or_none
from gitkruise.wire.primitives.names import Obj, ObjectKey, controlled_by
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import parse_time
from gitkruise.wire.values.intstr import UNLIMITED, UnreadableAmount, resolve
from gitkruise.wire.values.selectors import Selector, label_selector

_RANGE: Final = re.compile(r"(\d{1,10})-(\d{1,10})")
_ROLLING: Final = ("spec", "updateStrategy", "rollingUpdate")
_WANTED: Final = 'must be an integer or a percentage such as "25%"'
RETAIN, DELETE = "Retain", "Delete"
WITH_PODS: Final = "OnPodRollingUpdate"  # of volumeClaimUpdateStrategy
CREATED_MAX: Final = 500  # pods of one round; OpenKruise creates as many at once


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulSetFacts:
    """One observed version. `reserved` are disjoint (first, last) ordinals that no pod gets,
    ascending.

    `partition` is a number of pods. `unordered`: updates follow priorities instead of ordinals.
    `retention` are the policies (whenDeleted, whenScaled) of claims; `resizes`: claims grow with
    the update of their pods.
    """

    key: ObjectKey
    raw: Obj
    uid: str
    generation: int
    deleting: datetime | None
    replicas: int
    selector: Selector
    start: int
    reserved: tuple[tuple[int, int], ...]
    in_order: bool
    update: UpdateStrategy
    partition: int
    unordered: bool
    min_ready_s: int
    scale_unavailable: IntOrPercent
    retention: tuple[str, str]
    resizes: bool
    lifecycle: Lifecycle | None
    history_limit: int
    status: Obj

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def claim_templates(self) -> Sequence[Obj]:
        return named_claims(self.raw)

    def ordinals(self, gates: Gates, pods: Collection[int]) -> tuple[int, ...]:
        """The ordinals in range that a round looks at, ascending (ASTS-30).

        These are the ordinals of `pods`, and as many others as one round may create.
        """
        most = min(max(self.replicas, 0), len(pods) + CREATED_MAX)
        first = islice(self._free(self._start(gates)), most)
        there = (at for at in pods if self.position(at, gates) is not None)
        return tuple(sorted({*first, *there}))

    def position(self, at: int, gates: Gates) -> int | None:
        """The place of an ordinal among those in range, from 0; None outside."""
        start = self._start(gates)
        if at < start or any(first <= at <= last for first, last in self.reserved):
            return None
        passed = sum(
            min(last, at) - max(first, start) + 1
            for first, last in self.reserved
            if first < at and last >= start
        )
        place = at - start - passed
        return place if place < self.replicas else None

    def _start(self, gates: Gates) -> int:
        return self.start if gates.stateful_set_start_ordinal else 0

    def _free(self, start: int) -> Iterator[int]:
        """Ordinals from `start` on that are not reserved; a wide range is passed in one step."""
        at = start
        for first, last in self.reserved:
            if last >= at:
                yield from range(at, first)
                at = max(at, last + 1)
        yield from count(at)

    @property
    def kept(self) -> int:
        """Pods that stay on the current revision, 0 to `replicas`."""
        return max(0, min(self.partition, self.replicas))

    @property
    def unavailable(self) -> int:
        """Pods that may be unavailable during updates (ASTS-61). Raises UnreadableAmount."""
        written = self.update.max_unavailable
        return max(resolve(1 if written is None else written, self.replicas, round_up=False), 1)

    @property
    def scale_limit(self) -> int:
        """Pods that may be unavailable during scaling (ASTS-41). Raises UnreadableAmount."""
        written = self.scale_unavailable
        if written is None:
            return UNLIMITED
        return max(resolve(written, self.replicas, round_up=False), 1)

    def problems(self) -> tuple[Problem, ...]:
        """Amounts that mean nothing; then no pod moves."""
        amounts = (
            ((*_ROLLING, "maxUnavailable"), self.update.max_unavailable),
            (("spec", "scaleStrategy", "maxUnavailable"), self.scale_unavailable),
        )
        return tuple(
            Problem(path, "FieldValueInvalid", f'Invalid value: "{value}": {_WANTED}')
            for path, value in amounts
            if value is not None and not _readable(value)
        )

    def asked(self, updated: int) -> int:
        """The number of pods that are to run the update revision, where `updated` do."""
        if self.update.on_delete:
            return min(updated, self.replicas)
        return self.replicas - self.kept

    @property
    def owner_reference(self) -> dict[str, Any]:
        """The controller reference on pods and revisions."""
        return controlled_by(OWNER_VERSION, ADVANCED_STATEFULSET.kind, self.name, self.uid)


def _readable(value: int | str) -> bool:
    try:
        resolve(value, 1, round_up=False)
    except UnreadableAmount:
        return False
    return True


def named_claims(owner: Obj) -> Sequence[Obj]:
    """The claim templates of a StatefulSet; one without a name, which a schema admits, is none."""
    listed = owner["spec"].get("volumeClaimTemplates") or ()
    return [template for template in listed if get(template, "metadata", "name")]


def stateful_set_facts(raw: Obj) -> StatefulSetFacts:
    """Facts of an Advanced StatefulSet as stored; defaults of admission are not assumed.

    Raises ValueError on a selector or time no API server stores.
    """
    spec: Obj = raw.get("spec") or {}
    meta: Obj = raw.get("metadata") or {}
    strategy = spec.get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    partition = rolling.get("partition")
    unordered = rolling.get("unorderedUpdate")
    limit, replicas = spec.get("revisionHistoryLimit"), spec.get("replicas")
    policy = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    return StatefulSetFacts(
        key=ObjectKey(*ADVANCED_STATEFULSET, meta.get("namespace") or "", meta["name"]),
        raw=raw,
        uid=meta.get("uid") or "",
        generation=int(meta.get("generation") or 0),
        deleting=parse_time(meta.get("deletionTimestamp")),
        replicas=1 if replicas is None else int(replicas),
        selector=label_selector(spec.get("selector")),
        start=int(get(spec, "ordinals", "start", default=0)),
        reserved=tuple(_disjoint(map(reserved_range, spec.get("reserveOrdinals") or ()))),
        in_order=spec.get("podManagementPolicy") != "Parallel",
        update=_update(strategy, rolling, unordered, meta.get("annotations") or {}),
        partition=int(partition or 0),
        unordered=unordered is not None,
        min_ready_s=int(rolling.get("minReadySeconds") or 0),
        scale_unavailable=get(spec, "scaleStrategy", "maxUnavailable"),
        retention=(policy.get("whenDeleted") or RETAIN, policy.get("whenScaled") or RETAIN),
        resizes=get(spec, "volumeClaimUpdateStrategy", "type") == WITH_PODS,
        lifecycle=lifecycle_of(spec.get("lifecycle")),
        history_limit=10 if limit is None else int(limit),
        status=raw.get("status") or {},
    )


def _update(
    strategy: Obj, rolling: Obj, unordered: Obj | None, notes: Mapping[str, str]
) -> UpdateStrategy:
    """The strategy in a CloneSet's words; priorities are below unorderedUpdate here.

    Settings of the pre-download are annotations in both versions; fields win (PRE-16).
    """
    priority = (unordered or {}).get("priorityStrategy")
    in_place = {**predownload_settings(notes), **(rolling.get("inPlaceUpdateStrategy") or {})}
    made = rolling_update(
        {**rolling, "priorityStrategy": priority, "inPlaceUpdateStrategy": in_place},
        rolling.get("podUpdatePolicy"),
    )
    return replace(made, on_delete=strategy.get("type") == "OnDelete")


def reserved_range(value: int | str) -> tuple[int, int] | None:
    """(first, last) of a reserved ordinal or of a range `3-5`; None for what is neither."""
    if isinstance(value, int):
        return (value, value)
    matched = _RANGE.fullmatch(value)
    if matched is None:
        return None
    first, last = int(matched[1]), int(matched[2])
    return (first, last) if first <= last else None


def _disjoint(spans: Iterable[tuple[int, int] | None]) -> Iterator[tuple[int, int]]:
    """`spans` in ascending order; those that touch become one."""
    begun: tuple[int, int] | None = None
    for first, last in sorted(span for span in spans if span is not None):
        if begun is None or first > begun[1] + 1:
            if begun is not None:
                yield begun
            begun = first, last
        else:
            begun = begun[0], max(begun[1], last)
    if begun is not None:
        yield begun


def ordinal_of(pod: str, owner: str) -> int | None:
    """The number at the end of a pod's name; None for a name of another form."""
    head, _, digits = pod.rpartition("-")
    number = int_or_none(digits, 32)
    return number if head == owner and number is not None and str(number) == digits else None
