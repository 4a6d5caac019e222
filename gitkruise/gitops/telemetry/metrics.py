"""Prometheus metrics of a running controller: counts, states, and durations of pushes."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gitkruise.gitops.resources.conditions import unit_conditions
from gitkruise.gitops.source.follower import SourceFollower
from gitkruise.gitops.status.publisher import Outbox
from gitkruise.gitops.status.unit_status import Reporter
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.record import Rollout, UnitRecord
from gitkruise.model.gitops.unit_state import SETTLED
from gitkruise.wire.primitives.requests import ApiRequest

# Seconds: from a hook on a quiet cluster to a rollout that takes a working day.
BUCKETS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 14_400)
_PODS: Final[dict[str, Callable[[Rollout], int]]] = {
    "asked": lambda r: r.asked,
    "updated": lambda r: r.updated,
    "updatedReady": lambda r: r.updated_ready,
    "ready": lambda r: r.ready,
    "available": lambda r: r.available,
    "total": lambda r: r.total,
}


@dataclass(slots=True)
class _Life:
    """Ids of the commits of one unit that were applied and ready last."""

    sent: str
    ready: str


class MetricsSource(Protocol):
    """Source of the values that a scrape reads."""

    @property
    def reporters(self) -> Mapping[str, Reporter]:
        """By unit."""
        ...

    @property
    def outboxes(self) -> Mapping[str, Outbox]:
        """By sink."""
        ...

    @property
    def followers(self) -> Mapping[str, SourceFollower]:
        """By source."""
        ...

    @property
    def reconciled(self) -> Mapping[str, datetime]:
        """By unit: the end of its last round without a failure."""
        ...

    @property
    def leads(self) -> bool:
        """Return whether this process may write."""
        ...


class Metrics:
    """Counts records and answers of the API server, in Prometheus' text format.

    Labels are what a configuration bounds (units, workloads, sinks, resources), never commits or
    pods. A push counts from its committer's time, for git keeps no other; a clock that is ahead
    counts as now. The commit a unit is found at counts for nothing, as it was pushed long ago.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._registry = CollectorRegistry(auto_describe=False)
        self._standings: list[MetricsSource] = []
        self._lives: dict[str, _Life] = {}
        self._overtaken: dict[str, frozenset[str]] = {}
        self._requests = Counter(
            "gitkruise_api_requests",
            "Requests to the API server by verb, resource and HTTP status.",
            ("verb", "resource", "code"),
            registry=self._registry,
        )
        self._superseded = Counter(
            "gitkruise_superseded",
            "Commits that a newer one overtook before they were out.",
            ("unit",),
            registry=self._registry,
        )
        self._leader = Gauge(
            "gitkruise_leader",
            "1 while this process holds the lease, 0 while it waits for it.",
            registry=self._registry,
        )
        self._applied = self._histogram("applied", "all of it was sent to the cluster")
        self._ready = self._histogram("ready", "everything is as git asks, or held as git asks")

    def _histogram(self, name: str, until: str) -> Histogram:
        return Histogram(
            f"gitkruise_push_to_{name}_seconds",
            f"From the time of a commit until {until}.",
            ("unit",),
            buckets=BUCKETS,
            registry=self._registry,
        )

    def of(self, metrics: MetricsSource) -> None:
        """Report from now on what runs there, too."""
        self._standings.append(metrics)
        self._leader.set_function(lambda: float(metrics.leads))
        self._registry.register(_Gauges(metrics, self._clock))

    def of_shards(self, held: Callable[[], Mapping[int, bool]]) -> None:
        """Report which shards this process holds."""
        self._registry.register(_Shards(held))

    def of_process(self) -> None:
        """Add CPU time, memory and open files of this process, where the system reports them."""
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """Everything, as Prometheus reads text (0.0.4)."""
        there = {name for standing in self._standings for name in standing.reporters}
        for unit in self._overtaken.keys() - there if self._standings else ():
            self._forget(unit)
        return generate_latest(self._registry)

    def answered(self, request: ApiRequest, status: int) -> None:
        """One request got its answer."""
        resource = "/".join(filter(None, (request.resource.plural, request.subresource)))
        self._requests.labels(request.verb, resource, str(status)).inc()

    def receive(self, record: UnitRecord) -> None:
        """Take a new record of a unit."""
        overtaken = frozenset(commit.id for commit, _ in record.superseded)
        fresh = overtaken - self._overtaken.get(record.unit, frozenset())
        self._overtaken[record.unit] = overtaken
        if fresh:
            self._superseded.labels(record.unit).inc(len(fresh))
        sent = record.sent
        if sent is None or sent != record.causal:
            return
        life = self._lives.setdefault(record.unit, _Life(sent.id, sent.id))
        if sent.id != life.sent:
            life.sent = sent.id
            self._observe(self._applied, record.unit, sent)
        if sent.id != life.ready and record.state in SETTLED:
            life.ready = sent.id
            self._observe(self._ready, record.unit, sent)

    def _forget(self, unit: str) -> None:
        """A unit that was removed has no metrics."""
        self._overtaken.pop(unit)
        self._lives.pop(unit, None)
        for metric in (self._superseded, self._applied, self._ready):
            metric.remove(unit)

    def _observe(self, histogram: Histogram, unit: str, commit: GitCommit) -> None:
        if commit.time is not None:
            seconds = (self._clock.now() - commit.time).total_seconds()
            histogram.labels(unit).observe(max(seconds, 0.0))


class _Gauges(Collector):
    """Gauges with the values of the moment; removed units have none."""

    def __init__(self, metrics: MetricsSource, clock: Clock) -> None:
        self._metrics, self._clock = metrics, clock

    def collect(self) -> Iterator[Metric]:
        reporters = list(self._metrics.reporters.values())
        yield _conditions(reporters, self._clock.now())
        yield _unit_states(reporters)
        yield _times(
            "gitkruise_unit_reconciled_timestamp_seconds",
            "Time at which a unit was last found in order, or handled without a failure.",
            "unit",
            self._metrics.reconciled,
        )
        yield _rollout_states(reporters)
        yield _rollout_pods(reporters)
        yield _drift(reporters)
        yield _gauge(
            "gitkruise_statuswrite_pending",
            "1 while a sink's branch lacks the newest records.",
            ("sink",),
            (((n,), 0 if box.idle else 1) for n, box in self._metrics.outboxes.items()),
        )
        yield from _sources(self._metrics.followers)


class _Shards(Collector):
    """Gauges of the shards that this process holds."""

    def __init__(self, held: Callable[[], Mapping[int, bool]]) -> None:
        self._held = held

    def collect(self) -> Iterator[Metric]:
        yield _gauge(
            "gitkruise_shard_held",
            "1 for a shard whose lease this process holds, 0 for the others.",
            ("shard",),
            (((str(number),), float(held)) for number, held in self._held().items()),
        )


def _gauge(
    name: str, text: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]
) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for of, value in values:
        family.add_metric(of, value)
    return family


def _sources(followers: Mapping[str, SourceFollower]) -> Iterator[Metric]:
    yield _gauge(
        "gitkruise_source_failing",
        "1 while something prevents following a source.",
        ("source",),
        (((name,), 0 if f.problem is None else 1) for name, f in followers.items()),
    )
    reads = {name: f.read_at for name, f in followers.items() if f.read_at is not None}
    yield _times(
        "gitkruise_source_read_timestamp_seconds",
        "Time of the last answer of the repository of a source.",
        "source",
        reads,
    )


def _times(name: str, text: str, label: str, times: Mapping[str, datetime]) -> Metric:
    return _gauge(name, text, (label,), (((of,), at.timestamp()) for of, at in times.items()))


def _unit_states(reporters: Iterable[Reporter]) -> Metric:
    return _gauge(
        "gitkruise_unit_state",
        "1 for the state that a unit has.",
        ("unit", "state"),
        (((r.unit.id, r.known.state), 1) for r in reporters),
    )


def _rollouts(reporters: Iterable[Reporter]) -> Iterator[tuple[str, str, Rollout]]:
    """Yield unit, workload and rollout."""
    for reporter in reporters:
        for rollout in reporter.known.rollouts:
            key = rollout.key
            workload = "/".join(filter(None, (key.kind, key.namespace, key.name)))
            yield reporter.unit.id, workload, rollout


def _rollout_states(reporters: Iterable[Reporter]) -> Metric:
    return _gauge(
        "gitkruise_rollout_state",
        "1 for the state that the rollout of a workload has.",
        ("unit", "workload", "state"),
        (((unit, workload, r.state), 1) for unit, workload, r in _rollouts(reporters)),
    )


def _conditions(reporters: Iterable[Reporter], now: datetime) -> Metric:
    return _gauge(
        "gitkruise_unit_condition",
        "1 for the status that each condition of a unit has.",
        ("unit", "type", "status"),
        (
            ((r.unit.id, one.type, one.status), 1)
            for r in reporters
            for one in unit_conditions(r.known, suspended=r.unit.spec.suspended(now) is not None)
        ),
    )


def _rollout_pods(reporters: Iterable[Reporter]) -> Metric:
    return _gauge(
        "gitkruise_rollout_pods",
        "Pods of a workload by how far its rollout has brought them.",
        ("unit", "workload", "state"),
        (
            ((unit, workload, state), count(rollout))
            for unit, workload, rollout in _rollouts(reporters)
            for state, count in _PODS.items()
        ),
    )


def _drift(reporters: Iterable[Reporter]) -> Metric:
    return _gauge(
        "gitkruise_drift_fields",
        "Fields that differ from git and are not being corrected, by who set them.",
        ("unit", "manager"),
        (
            ((r.unit.id, manager), count)
            for r in reporters
            for manager, count in collections.Counter(d.manager for d in r.known.drift).items()
        ),
    )
