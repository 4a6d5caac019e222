"""Reads of units in a worker process: sent together, answered one by one."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

import msgspec

from gitkruise.errors import DiagnosticError, SourceFailed
from gitkruise.gitops.build.builder import Builder, BuildRequest, BuildResult
from gitkruise.gitops.build.post_build import NOTHING, PostBuildInputs
from gitkruise.gitops.workers import frames
from gitkruise.gitops.workers.main import Job, ReaderSpec, ReadJob, ToRead
from gitkruise.gitops.workers.process import (
    WorkerEnded,
    WorkerFailed,
    WorkerProcess,
    beyond,
    place,
)
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.config import Unit
from gitkruise.wire.catalog.catalog import Catalog

_Job = TypeVar("_Job", bound=Job)
Outcome: TypeAlias = "BuildResult | DiagnosticError | WorkerFailed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRead:
    """A commit to read for a unit."""

    reader: Builder
    asked: BuildRequest
    catalog: Catalog
    given: PostBuildInputs

    def goes_with(self, other: PendingRead) -> bool:
        """Return whether one job can hold both: one repository, and the same kinds."""
        same = self.reader.repository is other.reader.repository
        return same and self.catalog is other.catalog


def read_all(process: WorkerProcess, readings: Sequence[PendingRead]) -> Iterator[Outcome]:
    """Yield the outcome of each read in its order, as it arrives.

    If the process ends, only its current read is affected: beyond a limit it fails, after a crash
    it is tried once more; the others go on in the next process.
    """
    left, died = deque(readings), False
    while left:
        try:
            for outcome in _answers(process, tuple(left)):
                yield outcome
                left.popleft()
                died = False
        except WorkerEnded as ended:
            if ended.limit or died:
                yield _ended(left.popleft(), ended)
                died = False
            else:
                died = True
        except WorkerFailed as failed:
            yield failed
            left.popleft()
            died = False


def _ended(read: PendingRead, ended: WorkerEnded) -> Outcome:
    """Return the answer about a commit that a process could not read."""
    reader = read.reader
    error = beyond(ended, f"Unit {reader.unit.id}")
    try:
        info = reader.repository.commit(read.asked.commit)
    except SourceFailed as unknown:
        return unknown
    return BuildResult(commit=info, findings=error.findings)


def _answers(process: WorkerProcess, readings: Sequence[PendingRead]) -> Iterator[Outcome]:
    """Yield the answer to each read, in one exchange. Raises WorkerEnded, WorkerFailed."""
    process.start()
    repository = readings[0].reader.repository
    job = ReadJob(
        cpu_s=process.budget.cpu_s,
        reads=tuple(_to_read(reading, process.number) for reading in readings),
    )
    units = [reading.reader.unit for reading in readings]
    answers = process.exchange(with_kinds(job, process, readings[0].catalog), repository, units)
    for reading in readings:
        yield _answer(process, answers, reading)


def _answer(
    process: WorkerProcess, answers: Iterator[frames.Frame], read: PendingRead
) -> BuildResult | DiagnosticError:
    held, asked = read.reader.held, read.asked
    unpacker = frames.Unpacker(read.reader.repository, asked.commit, held.objects)
    for frame in answers:
        if isinstance(frame, frames.Part):
            unpack(unpacker, frame)
        elif isinstance(frame, frames.Unread):
            return frames.error_of(frame.error)
        elif isinstance(frame, frames.Done):
            if frame.taken:
                held.process, held.token = process.number, frame.token
                held.objects = tuple(unpacker.objects)
            return frames.answer_of(frame, unpacker.objects)
    raise WorkerEnded("", "it did not answer")


def unpack(unpacker: frames.Unpacker, part: frames.Part) -> None:
    """Add some objects to an answer. Raises WorkerEnded for a part that no honest process sends."""
    try:
        unpacker.add(part)
    except IndexError as error:
        raise WorkerEnded("", f"its answer cannot be used: {error}") from error


def _to_read(read: PendingRead, process: int) -> ToRead:
    """Return one read as it is sent, as plain values: each read of a thousand units pays for it."""
    reader, asked, given = read.reader, read.asked, read.given
    held = reader.held
    return (
        reader.number, spec(reader), (asked.commit, asked.old, asked.tree, asked.looked),
        None if given is NOTHING else given, held.token if held.process == process else 0,
    )  # fmt: skip


def spec(reader: Builder) -> bytes:
    """Return the pickled inputs of a builder; the same bytes for its whole life."""
    if not reader.held.spec:
        reader.held.spec = pickle.dumps(
            ReaderSpec(
                place=place(reader.repository), unit=bare(reader.unit), gates=reader.gates,
                ignore=reader.ignore, search=reader.search,
            )
        )  # fmt: skip
    return reader.held.spec


def bare(unit: Unit) -> Unit:
    """Return the unit without the document it is written in, which refers to a file of ours."""
    return msgspec.structs.replace(unit, origin=None)


def with_kinds(job: _Job, process: WorkerProcess, catalog: Catalog) -> _Job:
    """Return the job with the kinds of `catalog`, unless the process has them already."""
    process.start()
    if catalog.definitions is None:
        if catalog is not load_catalog():
            raise ValueError("only recorded and served kinds can be sent")
        process.definitions = None
        return replace(job, recorded=True)
    known, process.definitions = process.definitions, catalog.definitions
    new = known is not catalog.definitions and known != catalog.definitions
    return replace(job, recorded=False, definitions=catalog.definitions if new else None)
