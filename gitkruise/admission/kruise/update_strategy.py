"""The rules of the update strategies of a CloneSet and of an Advanced DaemonSet, as OpenKruise's
webhooks have them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gitkruise.admission.conversion.registry import POLICIES
from gitkruise.admission.rules.engine import Table, at_most_all, count_or_percent, not_negative
from gitkruise.admission.rules.field_errors import (
    NOT_NEGATIVE,
    Path,
    invalid,
    required,
    unsupported,
)
from gitkruise.admission.rules.labels import is_empty, selector_problems
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.intstr import IntOrString, resolve_decimal

_AT: Final[Path] = ("spec", "updateStrategy")
_DAEMON_TYPES: Final = ("Standard", "Surging", "InPlaceIfPossible")
_WEIGHTS: Final = range(101)
_DOWNLOADS: Final = Table(
    ((("imagePreDownloadTimeoutSeconds", "imagePreDownloadMinUpdatedReadyPods"),), (not_negative,)),
)


def strategy_problems(spec: Obj, version: str) -> Iterator[Problem]:
    """Everything wrong with `spec.updateStrategy` of a defaulted CloneSet spec."""
    strategy: Obj = spec.get("updateStrategy") or {}
    if version == "v1alpha1":
        if strategy.get("type") not in POLICIES:
            yield unsupported((*_AT, "type"), strategy.get("type", ""), POLICIES)
        yield from _rolling_problems(strategy, strategy.get("type", ""), spec, _AT)
        return
    if strategy.get("type") not in (None, "", "RollingUpdate", "OnDelete"):
        yield unsupported((*_AT, "type"), strategy["type"], ("OnDelete", "RollingUpdate"))
    rolling = strategy.get("rollingUpdate")
    if rolling is not None:
        at = (*_AT, "rollingUpdate")
        policy = rolling.get("podUpdatePolicy") or ""
        if policy not in ("", *POLICIES):
            yield unsupported((*at, "podUpdatePolicy"), policy, POLICIES)
        yield from _rolling_problems(rolling, policy, spec, at)
        yield from _download_problems(rolling.get("inPlaceUpdateStrategy") or {}, at)


def daemon_set_problems(request: AdmissionRequest, gates: Gates) -> Iterator[Problem]:
    """Everything wrong with `spec.updateStrategy` of an Advanced DaemonSet, as it is written:
    its pods surge or are unavailable, never both."""
    del gates
    at = (*_AT, "rollingUpdate")
    rolling: Obj = get(request.obj, *at) or {}
    if rolling.get("rollingUpdateType") not in (None, "", *_DAEMON_TYPES):
        where = (*at, "rollingUpdateType")
        yield unsupported(where, rolling["rollingUpdateType"], _DAEMON_TYPES)
    unavailable, surge = (rolling.get(field) for field in ("maxUnavailable", "maxSurge"))
    for field, value in (("maxUnavailable", unavailable), ("maxSurge", surge)):
        if value is not None:
            yield from count_or_percent(value, (*at, field))
            yield from at_most_all(value, (*at, field))
    zeros = [value in (0, "0%") for value in (unavailable, surge) if value is not None]
    if zeros == [False, False]:
        yield invalid((*at, "maxSurge"), surge, "may not be set when maxUnavailable is non-zero")
    elif zeros == [True, True]:
        yield required((*at, "maxUnavailable"), "cannot be 0 when maxSurge is 0")
    if rolling.get("partition") is not None:
        yield from _partition_problems(rolling, 100, at)


def _rolling_problems(rolling: Obj, policy: str, spec: Obj, at: Path) -> Iterator[Problem]:
    replicas = spec.get("replicas") or 0
    yield from _partition_problems(rolling, replicas, at)
    yield from priority_problems(rolling.get("priorityStrategy"), (*at, "priorityStrategy"))
    yield from scatter_problems(rolling.get("scatterStrategy"), (*at, "scatterStrategy"))
    yield from _budget_problems(rolling, policy, replicas, at)


def _partition_problems(rolling: Obj, replicas: int, at: Path) -> Iterator[Problem]:
    at, partition = (*at, "partition"), rolling.get("partition")
    if partition is None:
        yield required(at, "partition cannot be empty")
        return
    try:
        kept = resolve_decimal(partition, replicas, round_up=True)
    except ValueError as error:
        yield invalid(at, partition, str(error))
        return
    if kept < 0:
        yield invalid(at, partition, NOT_NEGATIVE)


def _budget_problems(rolling: Obj, policy: str, replicas: int, at: Path) -> Iterator[Problem]:
    counts: dict[str, int] = {}
    for field in ("maxUnavailable", "maxSurge"):
        given: IntOrString | None = rolling.get(field)
        if given is None:
            counts[field] = 0
            continue
        try:
            counts[field] = resolve_decimal(given, replicas, round_up=True)
        except ValueError as error:
            yield invalid((*at, field), given, str(error))
    if counts.get("maxSurge", 0) > 0 and policy == "InPlaceOnly":
        text = "can not use maxSurge with strategy type InPlaceOnly"
        yield invalid((*at, "maxSurge"), rolling["maxSurge"], text)
    if len(counts) == 2 and replicas > 0 and all(count < 1 for count in counts.values()):
        text = "maxUnavailable and maxSurge should not both be less than 1"
        yield invalid((*at, "maxUnavailable"), rolling.get("maxUnavailable"), text)


def priority_problems(priority: Obj | None, at: Path) -> Iterator[Problem]:
    """One kind of priority, weights from 0 to 100, selectors that select, keys that are there."""
    weights = (priority or {}).get("weightPriority") or ()
    orders = (priority or {}).get("orderPriority") or ()
    if weights and orders:
        yield invalid(at, priority, "only one of weightPriority and orderPriority can be used")
    for term in weights:
        selector = term.get("matchSelector") or {}
        if term.get("weight", 0) not in _WEIGHTS:
            yield invalid(at, priority, "weight must be valid number in the range 1-100")
        if is_empty(selector):
            yield invalid(at, priority, "selector can not be empty")
        elif any(selector_problems(selector, at)):
            yield invalid(at, priority, "invalid selector")
    if any(not term.get("orderedKey") for term in orders):
        yield invalid(at, priority, "order key can not be empty")


def scatter_problems(terms: list[Obj] | None, at: Path) -> Iterator[Problem]:
    """Require a key in each term, and no term twice."""
    pairs = [(term.get("key", ""), term.get("value", "")) for term in terms or ()]
    if any(not key for key, _ in pairs):
        yield invalid(at, terms, "key should not be empty")
    if len(set(pairs)) < len(pairs):
        yield invalid(at, terms, "duplicated key and value")


def _download_problems(in_place: Obj, at: Path) -> Iterator[Problem]:
    at = (*at, "inPlaceUpdateStrategy")
    yield from _DOWNLOADS.problems(in_place, at)
    parallelism = in_place.get("imagePreDownloadParallelism")
    if parallelism is None:
        return
    path = (*at, "imagePreDownloadParallelism")
    if not re.fullmatch("[+-]?[0-9]+", str(parallelism)):
        yield invalid(path, parallelism, "must be an integer")
    elif int(parallelism) < 0:
        yield invalid(path, parallelism, NOT_NEGATIVE)
