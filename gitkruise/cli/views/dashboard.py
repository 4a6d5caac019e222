"""Rows of the dashboard: items of `status`, `get` and `why` of a cluster that is followed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from gitkruise.cli.views.history import Journal
from gitkruise.cli.views.resources import events, rollout_obj
from gitkruise.cli.views.status import build_view, status_obj
from gitkruise.dashboard.gate import Viewer
from gitkruise.dashboard.node_rows import node_rows
from gitkruise.dashboard.pod_rows import pod_rows
from gitkruise.dashboard.sidecar_rows import sidecar_rows
from gitkruise.dashboard.source import HEAD, Rows, Topic
from gitkruise.gitops.inspect.cluster_view import Managed, Survey
from gitkruise.gitops.status.reader import RecordedUnit
from gitkruise.kube.system.clock import Clock
from gitkruise.model.workloads.labels import SIDECARSET
from gitkruise.wire.primitives.names import ObjectKey, noun
from gitkruise.wire.primitives.times import format_time

EVENTS_MAX: Final = 500
Ask = Callable[[Managed], Awaitable[Mapping[str, Any]]]
FindOut = Callable[[str, Viewer], Awaitable[Mapping[str, Any] | None]]


@dataclass(slots=True)
class ClusterSource:
    """A survey that is followed, and the records of units; `ask` explains an object, `answers`
    are what takes a computation.

    `stale` are the lines that say why the records are not fresh, `problem` why the cluster is not,
    since `problem_since`. `refresh` brings the records up to date before rows are read.
    """

    survey: Survey
    clock: Clock
    cluster: str
    repository: str  # its name; "" for none
    ask: Ask
    answers: FindOut
    refresh: Callable[[], None] = lambda: None
    proposed: Callable[[], Rows] = dict  # pull requests, and where branches are
    units: list[RecordedUnit] = field(default_factory=list)
    journal: Journal = field(default_factory=lambda: Journal({}))
    holders: Mapping[str, str] = field(default_factory=dict)  # of units of other shards, by unit
    stale: list[str] = field(default_factory=list)
    problem: str = ""
    problem_since: datetime | None = None
    unread: set[str] = field(default_factory=set)  # kinds that the account may not list
    _proposed: Rows = field(default_factory=dict)  # as last noticed

    @property
    def changed(self) -> asyncio.Event:
        return self.survey.changed

    def rows(self, topic: Topic) -> Rows:
        """Return the rows of a topic: one of _TOPICS, `commit/ID`, or the pods of an object."""
        self.refresh()
        first, *rest = topic.split("/")
        if not rest:
            read = _TOPICS.get(first)
            return read(self) if read is not None else {}
        if first == "commit" and len(rest) == 1:
            return self.journal.commit(rest[0], self.clock.now(), self.stale)
        return self._pods(*_place(rest)) if first == "pods" and len(rest) in {2, 3} else {}

    async def why(self, noun: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return the explanation of an object; None when it is gone. Raises GitkruiseError."""
        found = self._find(noun, namespace, name)
        return None if found is None else await self.ask(found)

    async def find_out(self, about: str, viewer: Viewer) -> Mapping[str, Any] | None:
        """Return the answer to a question by its path. Raises GitkruiseError."""
        return await self.answers(about, viewer)

    def look(self) -> None:
        """Notice whether the cluster can be followed, which kinds of it, and what is proposed; a
        difference is a change."""
        before, self._proposed = self._proposed, self.proposed()
        unread, self.unread = self.unread, self.survey.left_out
        if (before, unread) != (self._proposed, self.unread):
            self.changed.set()
        found = self.survey.problem
        if bool(found) != bool(self.problem):
            self.problem_since = self.clock.now() if found else None
        if found != self.problem:
            self.problem = found
            self.changed.set()

    def fleet(self) -> Iterator[tuple[str, Any]]:
        """Yield the objects by page, and the head with the units."""
        now = self.clock.now()
        view = build_view(
            self.survey.managed(now), self.units, now,
            cluster=self.cluster, source=self.repository, namespace="",
        )  # fmt: skip
        status = status_obj(view)
        for m, item in zip(view.objects, status["items"], strict=True):
            if m.key.kind != "Event":
                yield _path(m.key), {**item, "noun": noun(m.key.group_kind)}
        yield HEAD, {**self.head(), "units": [self._unit(one) for one in status["units"]]}

    def _unit(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        holder = self.holders.get(row["unit"])
        return {**row, "holder": holder} if holder else row

    def head(self) -> Mapping[str, Any]:
        """Return what every page shows of the cluster; it costs little to read."""
        return {
            "cluster": self.cluster,
            "repository": self.repository,
            "stale": self.stale,
            "unread": sorted(self.unread),
            "problem": self.problem,
            "problemSince": format_time(self.problem_since) if self.problem_since else "",
        }

    def event_rows(self) -> Rows:
        """Return the newest events by name."""
        found = events(self.survey.events(), frozenset())[-EVENTS_MAX:]
        return {f"{i['namespace']}/{i['name']}": i for i in found}

    def _pods(self, noun_: str, namespace: str, name: str) -> Rows:
        m = self._find(noun_, namespace, name)
        if m is None:
            return {}
        head = {
            "noun": noun_, "kind": m.key.kind, "namespace": namespace, "name": name,
            "state": str(m.state), "message": m.message,
            "unit": m.unit, "commit": m.commit, "path": m.path,
        }  # fmt: skip
        if m.rollout is None:
            return {HEAD: head}
        if m.key.group_kind == SIDECARSET:
            pods = sidecar_rows(m.obj, m.rollout, m.pods)
        else:
            pods = pod_rows(m.rollout, m.pods)
        return {HEAD: {**head, "rollout": rollout_obj(m.rollout)}, **pods}

    def workloads(self) -> Iterator[tuple[str, Rows]]:
        """Yield workloads by page with the rows of their pods, without SidecarSets: their pods are
        those of other workloads."""
        for m in self.survey.managed(self.clock.now()):
            if m.rollout is not None and m.key.group_kind != SIDECARSET:
                yield _path(m.key), pod_rows(m.rollout, m.pods)

    def _find(self, noun_: str, namespace: str, name: str) -> Managed | None:
        now = self.clock.now()
        found = (m for m in self.survey.managed(now, name=name) if m.key.namespace == namespace)
        return next((m for m in found if noun(m.key.group_kind) == noun_), None)


# Topics that are one word.
_TOPICS: Final[Mapping[str, Callable[[ClusterSource], Rows]]] = {
    "cluster": lambda source: {HEAD: source.head()},
    "fleet": lambda source: dict(source.fleet()),
    "events": lambda source: source.event_rows(),
    "proposed": lambda source: source.proposed(),
    "commits": lambda source: source.journal.rows(source.stale),
    "drift": lambda source: source.journal.drift(source.stale),
    "nodes": lambda source: node_rows(source.workloads()),
}


def _place(parts: list[str]) -> tuple[str, str, str]:
    noun_, *space, name = parts
    return noun_, "".join(space), name


def _path(key: ObjectKey) -> str:
    """The page of an object, below "/"."""
    return "/".join(filter(None, (noun(key.group_kind), key.namespace, key.name)))
