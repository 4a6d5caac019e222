"""Reader of status branches in a clone or a bare repository, offline."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gitkruise.errors import Finding, RecordMissing, Severity, SourceFailed, errors_first
from gitkruise.gitops.status.codecs import BASE, CHART, COMMIT, DRIFT, PROMOTION, key_of_id
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.promotion import PromotionRecord
from gitkruise.model.gitops.record import (
    BaseRecord,
    ChartRecord,
    DriftRecord,
    Intervention,
    RolloutStep,
    commit_about,
)
from gitkruise.model.gitops.unit_state import SUSPENDED, State
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.times import parse_time

if TYPE_CHECKING:
    from gitkruise.git.repository.repository import Repository
    from gitkruise.model.gitops.record import UnitRecord

_PREFIX: Final = "gitkruise/status/"
_OWN: Final = f"refs/heads/{_PREFIX}"
_FETCHED: Final = f"refs/remotes/**/{_PREFIX}**"
_OF_UNIT: Final = ("/status.yaml", "/objects.tsv", "/drift.yaml")
_REMOVALS: Final = 100  # of one name; only the newest of an object counts
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
# Codes of the API server's rejections, as they begin a problem: admission, webhooks, rights.
_BY_SERVER: Final = ("GK2102", "GK5101", "GK4301")
_BY_SOURCE: Final = ("GK32", "GK33")  # as they begin: history, signatures
_FINDING: Final = re.compile(r"GK\d{4}: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedObject:
    """One line of objects.tsv."""

    key: ObjectKey
    state: State
    commit: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedUnit:
    """The status.yaml and objects.tsv of one unit; `problems` are its findings, one line each
    and errors first, and `next` is the first step that one of them recommends."""

    unit: str
    cluster: str
    source: str
    state: State
    message: str
    since: datetime | None
    attempted: GitCommit | None
    applied: GitCommit | None
    causal: GitCommit | None
    problems: tuple[str, ...] = ()
    next: str = ""
    objects: Mapping[ObjectKey, RecordedObject] = field(default_factory=dict)
    objects_known: bool = True  # the status of a Unit does not list their states
    outdated: str = ""  # why the newest record is not in git, or not read
    drift: tuple[DriftRecord, ...] = ()
    promotion: PromotionRecord | None = None
    sent: GitCommit | None = None
    waits: str = ""  # what `attempted` waits for before all of it is carried out
    path: str = ""  # the unit's folder; "" in records of earlier versions
    chart: ChartRecord | None = None
    bases: tuple[BaseRecord, ...] = ()

    @property
    def pending(self) -> bool:
        """Return whether parts of `attempted` are not sent to the cluster yet."""
        sent, newest = self.sent, self.attempted
        return sent is not None and newest is not None and sent.id != newest.id

    @property
    def suspended(self) -> bool:
        """Return whether the unit is suspended; the message begins with who did so, and why."""
        return self.message.startswith(SUSPENDED)

    @property
    def shown_problems(self) -> tuple[str, ...]:
        """Return the problems, first that the record is out of date."""
        return (self.outdated, *self.problems) if self.outdated else self.problems

    @property
    def obstacle(self) -> str:
        """Return the message if it is a finding: of a healthy unit, why its source cannot be
        read."""
        return self.message if _FINDING.match(self.message) else ""

    @property
    def by_finding(self) -> bool:
        """Return whether a finding is the reason of the state; another reason is an object."""
        return bool(self.obstacle) or self.state is State.REJECTED

    @property
    def correction(self) -> str:
        """Return the next step for the user of a rejected commit; "" for any other unit.

        A plan does not ask the API server, so it shows nothing of what only that one rejects, and
        nothing of a history or signature that the source refuses.
        """
        if self.state is not State.REJECTED or self.attempted is None:
            return ""
        if any(problem.startswith(_BY_SERVER) for problem in self.problems):
            return self.next or f"a commit that corrects what {self.attempted.short} asks for"
        refused = next((p for p in self.problems if p.startswith(_BY_SOURCE)), "")
        if refused:
            return self.next or f"gitkruise explain {refused[:6]}"
        return f"gitkruise plan {self.attempted.short}"

    @property
    def about(self) -> GitCommit | None:
        """Return the commit that state and message are about."""
        live = self.causal or self.applied
        return commit_about(self.state, self.waits, attempted=self.attempted, live=live)


def recorded_unit(record: UnitRecord) -> RecordedUnit:
    """Return a record of this process as a reader of its status branch sees it."""
    objects = (
        RecordedObject(key=o.key, state=o.state, commit=o.commit, message=o.message)
        for o in record.objects
    )
    findings = errors_first(record.findings)
    return RecordedUnit(
        unit=record.unit,
        cluster=record.cluster,
        source=record.source,
        state=record.state,
        message=record.message,
        since=record.since,
        attempted=record.attempted,
        applied=record.applied,
        causal=record.causal,
        problems=tuple(_problem(f.code, f.places, f.message) for f in findings),
        next=_next(dict(f.notes) for f in findings),
        objects={news.key: news for news in objects},
        drift=record.drift,
        promotion=record.promotion,
        sent=record.sent,
        waits=record.waits,
        path=record.path,
        chart=record.chart,
        bases=record.bases,
    )


def status_branches(repository: Repository) -> dict[str, str]:
    """Return cluster name → full ref of its status branch.

    A clone's own branch may be behind what it fetched; a bare repository has only its own. Of
    several remotes (a fork, and what it was forked from) the newest record counts.
    """
    names = repository.refs(_OWN, _FETCHED)
    found = {name.removeprefix(_OWN): name for name in names if name.startswith(_OWN)}
    fetched: dict[str, list[str]] = {}
    for name in names:
        if not name.startswith(_OWN):
            fetched.setdefault(name.partition(f"/{_PREFIX}")[2], []).append(name)
    for cluster, names in fetched.items():
        found[cluster] = names[0] if len(names) == 1 else _newest(repository, names)
    return found


def _newest(repository: Repository, refs: Sequence[str]) -> str:
    """Return the ref whose commit was written last: the one that builds on the others, or the one
    with the latest date, which is that of its controller's clock."""
    from gitkruise.gitops.source.ancestry import leads_to  # noqa: PLC0415  start-up budget

    tips = {ref: repository.resolve(ref) for ref in refs}
    times = {ref: repository.commit(tip).time or _LONG_AGO for ref, tip in tips.items()}
    best, *others = sorted(refs, key=lambda ref: times[ref], reverse=True)
    for ref in others:
        best = ref if leads_to(repository, tips[best], tips[ref]) else best
    return best


def status_branch(repository: Repository, cluster: str) -> str:
    """Return the ref of one cluster's status branch, or of the only one. Raises SourceFailed
    GK3205."""
    found = status_branches(repository)
    if cluster in found or (not cluster and len(found) == 1):
        return found.get(cluster) or next(iter(found.values()))
    if not found:
        raise unrecorded()
    if cluster:
        message, next_ = f'no cluster "{cluster}" has written here', "name one of these"
    else:
        message, next_ = "which cluster's record do you mean?", "gitkruise history --cluster NAME"
    notes = (("recorded", ", ".join(sorted(found))), ("next", next_))
    raise SourceFailed(Finding(code="GK3205", message=message, notes=notes))


def unrecorded() -> RecordMissing:
    """Return the error for a repository without a status branch."""
    notes = (
        ("recorded", "none"),
        ("why", "one that was deleted is written again within five minutes"),
        ("next", "git fetch, if this is a clone"),
    )
    message = "there is no status branch here"
    return RecordMissing(Finding(code="GK3205", message=message, notes=notes))


def read_units(repository: Repository, ref: str) -> list[RecordedUnit]:
    """Read every unit on a status branch; one whose record is not ours is Unknown. Raises
    SourceFailed GK3206 when no record is one of ours."""
    from gitkruise.gitops.status.parser import read_yaml  # noqa: PLC0415  imports libyaml

    tree = repository.list_tree(repository.resolve(ref), enter=_has_units)
    of_units = [e for e in tree if e.path.startswith("units/") and e.path.endswith(_OF_UNIT)]
    read = repository.read_blobs([entry.id for entry in of_units])
    files = dict(zip((entry.path for entry in of_units), read, strict=True))
    out, unreadable = [], []
    for path, status in sorted(files.items()):
        if not path.endswith("/status.yaml"):
            continue
        table = files.get(path.replace("status.yaml", "objects.tsv"))
        drift = files.get(path.replace("status.yaml", "drift.yaml"))
        try:
            raw = read_yaml(status, path)
            objects = read_objects(table) if table is not None else {}
            found = read_yaml(drift, path) if drift is not None else {}
            out.append(_unit(raw, objects, found.get("drift") or ()))
        except (ValueError, KeyError, TypeError) as error:
            unreadable.append((path, foreign(ref, path, error)))
    if unreadable and not out:
        raise unreadable[0][1]
    return out + [_unreadable(path, error.findings[0]) for path, error in unreadable]


def _has_units(folder: str) -> bool:
    """Return whether units are in a folder, or it is that of a unit, without its rollouts."""
    return folder.startswith("units") and folder.count("/") <= 2


def _unreadable(path: str, finding: Finding) -> RecordedUnit:
    return RecordedUnit(
        unit=path.removeprefix("units/").removesuffix("/status.yaml"),
        cluster="",
        source="",
        state=State.UNKNOWN,
        message=f"{finding.code}: {finding.message}",
        since=None,
        attempted=None,
        applied=None,
        causal=None,
        problems=(_problem(finding.code, (), finding.message),),
        next=_next([dict(finding.notes)]),
        objects_known=False,
    )


def clusters_with(repository: Repository, units: Collection[str]) -> tuple[str, ...]:
    """Return the clusters with a record of one of `units` (`namespace/name`), in order."""
    paths = [f"units/{unit}/status.yaml" for unit in units]
    branches = {c: repository.resolve(ref) for c, ref in status_branches(repository).items()}
    return tuple(
        cluster
        for cluster, tip in sorted(branches.items())
        if any(repository.find(tip, path) is not None for path in paths)
    )


def read_steps(
    repository: Repository, ref: str, unread: dict[str, Finding], *, file: str = ""
) -> list[tuple[ObjectKey, RolloutStep]]:
    """Read every step of every object, or of those that a `file` can be of, newest first.

    Adds a warning GK3206 to `unread`, by path, for each file that is no record of ours.
    """
    from gitkruise.gitops.status.parser import read_rollout  # noqa: PLC0415  imports libyaml

    out: list[tuple[ObjectKey, RolloutStep]] = []
    entries = repository.list_tree(repository.resolve(ref))
    rollouts = [e for e in entries if "/rollouts/" in e.path and e.path.endswith(file)]
    read = repository.read_blobs([entry.id for entry in rollouts])
    for entry, data in zip(rollouts, read, strict=True):
        try:
            key, steps = read_rollout(data)
        except ValueError as error:
            unread[entry.path] = _skipped(ref, entry.path, error)
            continue
        out += [(key, step) for step in steps]
    order = {id(pair): n for n, pair in enumerate(out)}  # later steps of a file are newer
    return sorted(out, key=lambda pair: (pair[1].started, order[id(pair)]), reverse=True)


def removed_steps(
    repository: Repository, ref: str, name: str, unread: dict[str, Finding]
) -> Iterator[tuple[ObjectKey, datetime | None, tuple[RolloutStep, ...]]]:
    """Yield (object, time, steps) of each object of this name whose record was removed, newest
    first: the steps are those of its last record, the time is that of the removal.

    `unread` as for `read_steps`.
    """
    from gitkruise.gitops.status.parser import read_rollout  # noqa: PLC0415  imports libyaml

    pattern = f"units/*/*/rollouts/**/*.{name}.yaml"
    tip = repository.resolve(ref)
    for id_, paths in repository.files_touched("", tip, limit=_REMOVALS, removed=pattern):
        commit = repository.commit(id_)
        for path in paths:
            entry = repository.find(commit.parents[0], path)
            if entry is None:
                continue
            try:
                key, steps = read_rollout(repository.read_blob(entry.id))
            except ValueError as error:
                unread[path] = _skipped(commit.parents[0], path, error)
                continue
            yield key, commit.time, tuple(steps)


def interventions(
    repository: Repository, ref: str, unread: dict[str, Finding]
) -> list[Intervention]:
    """Read corrected drift, takeovers and prunes of all units, newest first.

    `unread` as for `read_steps`.
    """
    from gitkruise.gitops.status.parser import read_interventions  # noqa: PLC0415  imports libyaml

    out: list[Intervention] = []
    for entry in repository.list_tree(repository.resolve(ref)):
        if entry.path.startswith("units/") and entry.path.endswith("/interventions.yaml"):
            try:
                out += read_interventions(repository.read_blob(entry.id))
            except ValueError as error:
                unread[entry.path] = _skipped(ref, entry.path, error)
    return sorted(out, key=lambda one: one.at, reverse=True)


def _skipped(ref: str, path: str, error: Exception) -> Finding:
    """Return the warning for a file that a reader of a whole branch leaves out."""
    return replace(foreign(ref, path, error).findings[0], severity=Severity.WARNING)


class PodsToGo(NamedTuple):
    """Pods of a rollout that are not updated yet, and all that were asked for.

    `paused` and `kept` are what the live spec asks: that it waits, and how many old pods stay.
    A record does not tell them from what git asks, so they are False and 0 there.
    """

    to_go: int
    replicas: int
    paused: bool = False
    kept: int = 0


def steps_of(repository: Repository, cluster: str, key: ObjectKey) -> tuple[RolloutStep, ...]:
    """Return the recorded steps of an object, oldest first; () if unrecorded.

    `cluster` may be "" where only one cluster has written. Raises SourceFailed GK3206 where its
    own file is not ours: the object is recorded, and how is not known.
    """
    found = status_branches(repository)
    ref = found.get(cluster) if cluster or len(found) != 1 else next(iter(found.values()))
    from gitkruise.gitops.status.serializer import rollout_file  # noqa: PLC0415  imports libyaml

    unread: dict[str, Finding] = {}
    steps = read_steps(repository, ref, unread, file=f"/{rollout_file(key)}") if ref else []
    if unread:
        raise SourceFailed(*(replace(f, severity=Severity.ERROR) for f in unread.values()))
    return tuple(step for of, step in reversed(steps) if of == key)


def pods_to_go(repository: Repository, cluster: str, key: ObjectKey) -> PodsToGo | None:
    """Return how many pods of a rollout are not updated yet, by its newest step; None if
    unrecorded."""
    steps = steps_of(repository, cluster, key)
    if not steps:
        return None
    newest = steps[-1]
    return PodsToGo(max(newest.replicas - newest.updated, 0), newest.replicas)


def foreign(ref: str, path: str, error: Exception) -> SourceFailed:
    """Return the error for a branch that others have written to."""
    return SourceFailed(
        Finding(
            code="GK3206",
            message=f"{path} on {ref} is not a record of gitkruise: {error}",
            notes=(
                ("unchanged", "the cluster; the next change of the unit's state writes it again"),
                ("next", f"git log {ref} -- {path}   shows who changed it"),
            ),
        )
    )


def _unit(
    raw: Mapping[str, Any],
    objects: Mapping[ObjectKey, RecordedObject],
    drift: Sequence[Mapping[str, Any]],
) -> RecordedUnit:
    def commit(name: str) -> GitCommit | None:
        return COMMIT.read(raw[name]) if raw.get(name) else None

    findings = sorted(
        raw.get("findings") or (), key=lambda f: f.get("severity") == Severity.WARNING
    )
    return RecordedUnit(
        unit=str(raw["unit"]),
        cluster=str(raw.get("cluster", "")),
        source=str(raw.get("source", "")),
        state=State(raw["state"]),
        message=str(raw.get("message", "")),
        since=parse_time(str(raw.get("since", ""))),
        attempted=commit("attempted"),
        applied=commit("applied"),
        causal=commit("causal"),
        problems=tuple(_problem(f["code"], f.get("places") or (), f["message"]) for f in findings),
        next=_next(f.get("notes") or {} for f in findings),
        objects=objects,
        drift=tuple(_drift(row, objects) for row in drift),
        promotion=PROMOTION.read(raw["promotion"]) if raw.get("promotion") else None,
        sent=commit("sent"),
        waits=str(raw.get("waits", "")),
        path=str(raw.get("path", "")),
        chart=CHART.read(raw["chart"]) if raw.get("chart") else None,
        bases=tuple(map(BASE.read, raw.get("bases") or ())),
    )


def _drift(row: Mapping[str, Any], objects: Mapping[ObjectKey, RecordedObject]) -> DriftRecord:
    """Parse one field of drift.yaml, which names its object in words."""
    key = next((k for k in objects if str(k) == row["object"]), None)
    kind, _, name = str(row["object"]).partition(" ")
    namespace, _, short = name.rpartition("/")
    return DRIFT.read(row, key=key or ObjectKey("", kind, namespace, short))


def _next(notes: Iterable[Mapping[str, str]]) -> str:
    """Return the first step that the notes of findings recommend, as one line."""
    return next((" ".join(found["next"].split()) for found in notes if found.get("next")), "")


def _problem(code: str, places: Sequence[object], message: str) -> str:
    where = f"{places[0]}: " if places else ""
    return f"{code} {where}{message}"


def read_objects(data: bytes) -> dict[ObjectKey, RecordedObject]:
    """Return the lines of an objects.tsv by object. Raises ValueError on a foreign file."""
    out = {}
    for line in data.decode().splitlines()[1:]:
        id_, state, commit, _, message = (*line.split("\t"), "", "")[:5]
        key = key_of_id(id_)
        out[key] = RecordedObject(
            key=key, state=State(state), commit=commit.strip("-"), message=message
        )
    return out


def local_repository(url: str) -> str:
    """Return the path of a repository on this machine, or "" if it is remote or missing."""
    path = Path(url.removeprefix("file://"))
    return str(path.resolve()) if path.exists() else ""
