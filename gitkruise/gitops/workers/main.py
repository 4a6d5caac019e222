"""A worker process: reads content of strangers within limits, and answers in typed frames."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import resource
import signal
import socket
import struct
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gitkruise.errors import DiagnosticError
from gitkruise.git.kustomize.remote_bases import ListedBase
from gitkruise.git.parsing.parse_cache import ParseCache
from gitkruise.git.parsing.parse_cache_db import ParsedStore
from gitkruise.git.plumbing.process import Tether
from gitkruise.git.plumbing.refs import Remote
from gitkruise.git.repository.path_history import PathHistory
from gitkruise.git.repository.remote import RemoteEnd, keyring_of
from gitkruise.git.repository.repository import IMPORTED, Repository
from gitkruise.gitops.build.base_mirrors import BaseMirrors
from gitkruise.gitops.build.builder import Builder, BuildRequest
from gitkruise.gitops.build.post_build import NOTHING, PostBuildInputs
from gitkruise.gitops.build.release import KnownData, knowing
from gitkruise.gitops.build.untrusted import PageRequest
from gitkruise.gitops.charts.cache import ChartCache
from gitkruise.gitops.preview.inputs import live_units, read_units
from gitkruise.gitops.workers import frames
from gitkruise.gitops.workers.jobs import first_true, page, plan_text
from gitkruise.kube.client.discovery import served_by
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.config import Config, Unit
from gitkruise.model.gitops.document import Desired
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import Obj

if TYPE_CHECKING:
    from gitkruise.gitops.preview.cluster_facts import ClusterFacts

HEADER: Final = struct.Struct("!I")
_READERS_MAX: Final = 5_000
_DIES_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG
_MESSAGE_MAX: Final = 128 << 10  # bytes of parts that wait for others
_YOUNG_OBJECTS: Final = 20_000  # reading makes many objects that are kept: look at them seldom
_FILE_MAX: Final = 512 << 20  # bytes of a file that is written
_FILES_MAX: Final = 256  # open at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The first message to a worker."""

    parent: int
    scratch: str  # a folder of its own for temporary files
    store: str = ""  # where parsed files are kept for the next start
    charts: str = ""  # where charts are that were fetched; "" for one that strangers have read
    memory: int  # bytes of data


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A repository on this machine."""

    git_dir: str
    far: bool  # a mirror, which may lack objects that its remote has
    base: ListedBase | None = None  # of a repository of bases
    imported: bool = False  # commits are artifacts of a registry


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSpec:
    """The inputs of a Builder."""

    place: Place
    unit: Unit
    gates: Gates
    ignore: tuple[str, ...]
    search: str


# One read, as plain values for what is sent a thousand times: number and spec of the reader,
# the fields of the Question, what was gathered in the cluster, and the answer that is known.
ToRead: TypeAlias = tuple[int, bytes, tuple[str, str, str, str], PostBuildInputs | None, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One request. `definitions`: the cluster's CustomResourceDefinitions, if they are new; without
    a cluster `recorded` kinds count. A job that needs no kinds has neither."""

    cpu_s: int
    recorded: bool = False
    definitions: Sequence[Obj] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadJob(Job):
    """Read commits for units, one after another; `cpu_s` holds for each."""

    reads: tuple[ToRead, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiftJob(Job):
    """Find the units that a commit leaves unchanged: for each its live commit and content."""

    commit: str
    units: tuple[tuple[int, bytes, str, str], ...]  # number and spec of each reader, then those


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthJob(Job):
    """Evaluate expressions on objects, up to a true one or `every` one; `cpu_s` holds for each
    object. With `strict` a missing field is a failure."""

    every: bool
    strict: bool
    asked: tuple[tuple[tuple[str, ...], bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTextJob(Job):
    """Plan a pull request from facts of the cluster; a stranger's without."""

    place: Place
    base: str
    head: str
    config: Config
    gates: Gates
    facts: ClusterFacts | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageJob(Job):
    """Make the page of a plan or a diff."""

    place: Place
    config: Config
    gates: Gates
    asked: PageRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class SideJob(Job):
    """Read all units of a commit; with `base`, as a cluster that follows it has them."""

    place: Place
    commit: str
    config: Config
    gates: Gates
    base: bool
    known: KnownData | None


class Wire:
    """The socket to the parent."""

    def __init__(self, end: socket.socket) -> None:
        self._end, self._parts = end, bytearray()

    def receive(self) -> bytes | None:
        """Return the next message; None when the parent is gone."""
        head = self._exactly(HEADER.size)
        return self._exactly(HEADER.unpack(head)[0]) if head is not None else None

    def send(self, frame: frames.Frame) -> None:
        """Send a frame; parts of an answer wait for others, so that a small answer is one
        message."""
        body = frames.encode(frame)
        self._parts += HEADER.pack(len(body))
        self._parts += body
        if not isinstance(frame, frames.Part) or len(self._parts) > _MESSAGE_MAX:
            self._end.sendall(self._parts)
            self._parts.clear()

    def ask(self, wanted: frames.FetchObjects | frames.FetchBase) -> Any:
        """Have the parent fetch something; return its answer, raise its error."""
        self.send(wanted)
        reply = self.receive()
        if reply is None:
            raise SystemExit(0)
        answer = pickle.loads(reply)  # noqa: S301  from our parent
        if isinstance(answer, DiagnosticError):
            raise answer
        return answer

    def _exactly(self, size: int) -> bytes | None:
        found = bytearray()
        while len(found) < size:
            some = self._end.recv(min(size - len(found), 1 << 20))
            if not some:
                return None
            found += some
        return bytes(found)


class _LentEnd(RemoteEnd):
    """The remote of a mirror, asked by the parent: this process has no credentials."""

    def __init__(self, wire: Wire, base: ListedBase | None) -> None:
        self._wire, self._base = wire, base

    def close(self) -> None:
        """Leave the connection to the parent."""

    def fetch_objects(self, ids: Iterable[str]) -> None:
        self._wire.ask(frames.FetchObjects(objects=tuple(ids), base=self._base))

    def deepen(self, kept: object, further: int) -> None:
        del kept
        self._wire.ask(frames.FetchObjects(commits=further, base=self._base))


@dataclass(slots=True)
class _Known:
    """A builder, and the objects of its last answer."""

    reader: Builder
    token: int = 0
    objects: tuple[Desired, ...] = ()


@dataclass(slots=True)
class WorkerMemory:
    """Everything that a worker keeps from one job to the next."""

    wire: Wire
    cache: ParseCache
    catalog: Catalog = field(default_factory=load_catalog)
    repositories: dict[Place, tuple[Repository, PathHistory]] = field(default_factory=dict)
    readers: OrderedDict[int, _Known] = field(default_factory=OrderedDict)

    def repository(self, place: Place) -> tuple[Repository, PathHistory]:
        if place not in self.repositories:
            far = _LentEnd(self.wire, place.base) if place.far else None
            git_dir = Path(place.git_dir)
            protocol = IMPORTED if place.imported else "file"
            remote = Remote(url=place.git_dir, protocol=protocol, path=git_dir)
            opened = Repository(
                remote, git_dir, credentials=keyring_of(None), timeout_s=60.0, far=far
            )
            self.repositories[place] = opened, PathHistory(opened)
        return self.repositories[place]

    def commit(self, listed: ListedBase, ref: str) -> tuple[Repository, str]:
        """Return the commit of a remote base, which the parent fetches (a `BaseOrigin`)."""
        place, commit = self.wire.ask(frames.FetchBase(listed, ref))
        return self.repository(place)[0], commit

    def known(self, number: int, packed: bytes) -> _Known:
        """Return the builder of that number, created on first use."""
        found = self.readers.pop(number, None)
        if found is None:
            spec: ReaderSpec = pickle.loads(packed)  # noqa: S301  from our parent
            repository, history = self.repository(spec.place)
            found = _Known(
                Builder(
                    repository=repository, unit=spec.unit, gates=spec.gates, cache=self.cache,
                    search=spec.search, ignore=spec.ignore, shared=history,
                )
            )  # fmt: skip
        self.readers[number] = found
        while len(self.readers) > _READERS_MAX:
            self.readers.popitem(last=False)
        return found

    def learn(self, job: Job) -> None:
        """Set the kinds of the catalog for a job."""
        if job.definitions is not None:
            self.catalog = served_by(load_catalog(), job.definitions)
        elif job.recorded:
            self.catalog = load_catalog()


def _read(memory: WorkerMemory, job: ReadJob) -> None:
    with memory.cache.one_save():
        for number, one in enumerate(job.reads, 1):
            more = number < len(job.reads)
            limit_cpu(job.cpu_s)
            try:
                _read_one(memory, one, more=more)
            except DiagnosticError as error:
                memory.wire.send(frames.Unread(frames.raised(error), more))


def _read_one(memory: WorkerMemory, one: ToRead, *, more: bool) -> None:
    number, spec, asked, given, token = one
    known = memory.known(number, spec)
    commit, old, tree, looked = asked
    question = BuildRequest(commit=commit, old=old, tree=tree, looked=looked)
    answer = known.reader.answer(question, memory.catalog, given or NOTHING)
    if answer.objects is not None:
        before = known.objects if token and token == known.token else ()
        for part in frames.parts(answer.objects, before):
            memory.wire.send(part)
        known.token, known.objects = known.token + 1, answer.objects
    memory.wire.send(frames.done(answer, known.token, more=more))


def _sift(memory: WorkerMemory, job: SiftJob) -> None:
    known = [(memory.known(n, spec).reader, old, tree) for n, spec, old, tree in job.units]
    unchanged = tuple(reader.is_unchanged(job.commit, old, tree) for reader, old, tree in known)
    info = known[0][0].repository.commit(job.commit)
    memory.wire.send(frames.UnchangedUnits(info, unchanged))


def _judge(memory: WorkerMemory, job: HealthJob) -> None:
    for texts, obj in job.asked:
        limit_cpu(job.cpu_s)
        memory.wire.send(first_true(texts, obj, every=job.every, strict=job.strict))
    memory.wire.send(frames.Over())


def _plan_text(memory: WorkerMemory, job: PlanTextJob) -> None:
    repository, _ = memory.repository(job.place)
    plan = plan_text(
        repository, job.config, memory.catalog, job.gates, job.facts, base=job.base, head=job.head
    )
    memory.wire.send(plan)


def _page(memory: WorkerMemory, job: PageJob) -> None:
    repository, _ = memory.repository(job.place)
    memory.wire.send(page(repository, job.config, memory.catalog, job.gates, job.asked))


def _side(memory: WorkerMemory, job: SideJob) -> None:
    repository, _ = memory.repository(job.place)
    read = live_units if job.base else read_units
    with knowing(job.known):
        for unit, objects, findings, bases in read(
            repository, job.commit, job.config, memory.catalog, job.gates
        ):
            for part in frames.parts(objects, ()):
                memory.wire.send(part)
            memory.wire.send(frames.BuiltSide(unit, tuple(findings), bases))
    memory.wire.send(frames.Read(repository.commit(job.commit)))


_JOBS: Final[Mapping[type[Job], Any]] = {
    ReadJob: _read,
    SiftJob: _sift,
    HealthJob: _judge,
    PlanTextJob: _plan_text,
    PageJob: _page,
    SideJob: _side,
}


def serve(wire: Wire, start: Start) -> None:
    """Answer one request after another until the parent is gone."""
    store = ParsedStore(Path(start.store)) if start.store else None
    ChartCache.shared = ChartCache(Path(start.charts)) if start.charts else None
    memory = WorkerMemory(wire, ParseCache(store=store))
    BaseMirrors.shared = memory
    gc.set_threshold(_YOUNG_OBJECTS)
    gc.freeze()  # kinds and modules stay for good
    while (request := wire.receive()) is not None:
        job: Job = pickle.loads(request)  # noqa: S301  from our parent
        limit_cpu(job.cpu_s)
        memory.learn(job)
        try:
            _JOBS[type(job)](memory, job)
        except DiagnosticError as error:
            wire.send(frames.raised(error))
        limit_cpu(0)


def limit_cpu(seconds: int) -> None:
    """Let the kernel end this process after `seconds` more of CPU time; 0 is no limit."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    whole = int(used.ru_utime + used.ru_stime) + 1 + seconds
    limit = whole if seconds else resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


def _limit(start: Start) -> None:
    """Set soft limits: programs that are started set their own, lower or higher."""
    limits = {
        resource.RLIMIT_DATA: start.memory,
        resource.RLIMIT_FSIZE: _FILE_MAX,
        resource.RLIMIT_NOFILE: _FILES_MAX,
        resource.RLIMIT_CORE: 0,
    }
    for name, soft in limits.items():
        hard = resource.getrlimit(name)[1]
        resource.setrlimit(name, (soft if hard < 0 else min(soft, hard), hard))


def die_with(parent: int) -> None:
    """End with the parent in every case; processes that this one starts end with it."""
    if sys.platform != "linux":
        return  # the end of the socket has to do
    kernel = ctypes.CDLL(None, use_errno=True)

    def tie() -> None:
        kernel.prctl(_DIES_WITH_PARENT, signal.SIGKILL, 0, 0, 0)

    tie()
    if os.getppid() != parent:
        raise SystemExit(0)
    Tether.hook = tie


def main() -> None:
    """Run the worker. Its one argument is the number of the socket; the first message is a
    Start."""
    wire = Wire(socket.socket(fileno=int(sys.argv[1])))
    first = wire.receive()
    if first is None:
        return
    start: Start = pickle.loads(first)  # noqa: S301  from our parent
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(start.parent)
    tempfile.tempdir = start.scratch
    _limit(start)
    serve(wire, start)
