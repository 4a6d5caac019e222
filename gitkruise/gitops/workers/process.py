"""One worker process as its parent sees it: started, given jobs, killed beyond its limits."""

from __future__ import annotations

import itertools
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final

import msgspec

from gitkruise.errors import DiagnosticError, Finding, InvalidManifests
from gitkruise.git.kustomize.remote_bases import BaseOrigin, ListedBase
from gitkruise.git.manifests.gpg_home import clear_private_folders
from gitkruise.git.plumbing.process import SEARCH_PATH
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.base_mirrors import BaseMirrors, listed_bases
from gitkruise.gitops.build.untrusted import CheckResult
from gitkruise.gitops.workers import frames
from gitkruise.gitops.workers.main import HEADER, Job, Place, Start
from gitkruise.model.gitops.config import Unit

_NUMBERS: Final = itertools.count(1)
_GOES_ON: Final = (
    frames.Part,
    CheckResult,
    frames.BuiltSide,
)  # frames that others follow
_READ: Final = (frames.Done, frames.Unread)  # the end of one of several reads
_PROGRAM: Final = "from gitkruise.gitops.workers.main import main; main()"
_STEP_S: Final = 0.5  # between two looks whether the time is over
_GRACE_S: Final = 5.0  # from the end of the socket to the end of the process
_GATHER_S: Final = 0.02  # that an answer waits for the next ones
_RECEIVED_MAX: Final = 256 << 10  # bytes of one receipt
_STDERR_MAX: Final = 16 << 10  # bytes of the last words of a worker


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBudget:
    """The limits of one job. The wall clock covers waiting, on git for instance."""

    cpu_s: int
    wall_s: int
    memory: int  # bytes of data
    output: int  # bytes


TRUSTED: Final = JobBudget(cpu_s=30, wall_s=300, memory=1536 << 20, output=256 << 20)
STRANGER: Final = JobBudget(cpu_s=10, wall_s=90, memory=768 << 20, output=16 << 20)
HEALTH: Final = JobBudget(cpu_s=1, wall_s=30, memory=512 << 20, output=1 << 20)


class WorkerEnded(Exception):
    """A worker process ended in the middle of a job. `limit` names the limit it exceeded; "" if it
    crashed or was killed by another program."""

    def __init__(self, limit: str, how: str) -> None:
        super().__init__(how)
        self.limit, self.how = limit, how


class WorkerFailed(RuntimeError):
    """A worker process raised an exception that is our defect; the text is its traceback."""


class WorkerProcess:
    """A process that runs one job at a time. Blocking; `start` and `exchange` in one thread each.

    A process that was killed is replaced by the next job.
    """

    def __init__(
        self, budget: JobBudget, store: str = "", charts: str = "",
        bases: LentBases | None = None,
    ) -> None:  # fmt: skip
        self.budget, self._store, self._charts = budget, store, charts
        self._bases = bases
        self.number = 0  # of the process; another one knows nothing of what was sent before
        self.definitions: object = None  # of the catalog it has
        self._process: subprocess.Popen[bytes] | None = None
        self._end: socket.socket | None = None
        self._received = bytearray()  # what came with the frame before
        self._stderr: IO[bytes] | None = None
        self._scratch = ""
        self._closed = self._busy = False
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """Return the process id, 0 without a process."""
        return self._process.pid if self._process is not None else 0

    @property
    def more(self) -> bool:
        """Return whether more of the answer has been received than was taken."""
        return len(self._received) > 0

    def start(self) -> None:
        """Start the process if there is none. Its imports take a while; the caller does not
        wait."""
        if self._closed:
            raise WorkerEnded("", "gitkruise is ending")
        if self._process is not None:
            return
        ours, theirs = socket.socketpair()
        stderr = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        scratch = tempfile.mkdtemp(prefix="gitkruise-worker-")
        paths = ":".join(path for path in sys.path if path)
        self._process = subprocess.Popen(  # noqa: S603  our own program
            [sys.executable, "-P", "-c", _PROGRAM, str(theirs.fileno())],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr, cwd="/",
            env={"PATH": SEARCH_PATH, "LC_ALL": "C.UTF-8", "PYTHONPATH": paths},
            pass_fds=(theirs.fileno(),), start_new_session=True,
        )  # fmt: skip
        theirs.close()
        self._end, self._stderr, self._scratch = ours, stderr, scratch
        self.number, self.definitions = next(_NUMBERS), None
        self._received.clear()
        start = Start(
            parent=os.getpid(), scratch=scratch, store=self._store, charts=self._charts,
            memory=self.budget.memory,
        )  # fmt: skip
        self._send(pickle.dumps(start))

    def close(self) -> None:
        """End the process for good. Safe to call from another thread in the middle of a job."""
        self._closed = True
        self._kill()
        process = self._process
        if process is not None:
            process.wait()
            self._forget()

    def exchange(
        self, job: Job, mirror: Repository | None, units: Iterable[Unit] = ()
    ) -> Iterator[frames.Frame]:
        """Run a job; yield its frames as they arrive, the last one too. Limits hold for each of its
        reads.

        `mirror` fetches missing objects; bases are fetched that `units` allow. Raises WorkerEnded,
        WorkerFailed, or what the job raised; a job that is not read to its end is ended with its
        process.
        """
        if self._busy:  # the last answer was not read to its end
            self._end_process()
        self.start()
        self._busy = True
        try:
            self._send(pickle.dumps(job))
            for frame in self._frames(_Lender(mirror, self._bases, listed_bases(units))):
                self._busy = frame.more if isinstance(frame, _READ) else isinstance(frame, _GOES_ON)
                if isinstance(frame, frames.Raised):
                    raise frames.error_of(frame)
                yield frame
                if not self._busy:
                    return
        except (OSError, EOFError) as error:
            raise self._died() from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._end_process()
            raise WorkerEnded("", f"its answer cannot be read: {error}") from error

    def _frames(self, lender: _Lender) -> Iterator[frames.Frame]:
        deadline, size = time.monotonic() + self.budget.wall_s, 0
        while True:
            (length,) = HEADER.unpack(self._exactly(HEADER.size, deadline))
            size += length
            if size > self.budget.output:
                raise self._stopped("output", f"{self.budget.output >> 20} MiB")
            frame = frames.decode(self._exactly(length, deadline))
            if isinstance(frame, frames.FetchObjects | frames.FetchBase):
                began = time.monotonic()
                self._send(pickle.dumps(lender.answer(frame)))
                deadline += time.monotonic() - began
            else:
                yield frame
                if isinstance(frame, _READ):
                    self._gather(frame)
                    deadline, size = time.monotonic() + self.budget.wall_s, 0

    def _gather(self, frame: frames.Done | frames.Unread) -> None:
        """Let answers that follow arrive together: each alone would cost switches between
        threads, which for a small unit are a sixth of its reading. None waits in the worker, so
        none is lost when it dies."""
        if frame.more and not self._received:
            time.sleep(_GATHER_S)

    def _send(self, body: bytes) -> None:
        assert self._end is not None
        self._end.settimeout(self.budget.wall_s)
        self._end.sendall(HEADER.pack(len(body)) + body)

    def _exactly(self, size: int, deadline: float) -> bytes:
        assert self._end is not None
        found = self._received
        while len(found) < size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._stopped("time", f"{self.budget.wall_s} s")
            self._end.settimeout(min(left, _STEP_S))
            try:
                some = self._end.recv(_RECEIVED_MAX)
            except TimeoutError:
                continue
            if not some:
                raise EOFError("it ended")
            found += some
        exactly = bytes(found[:size])
        del found[:size]
        return exactly

    # The end of a process -------------------------------------------------------------------

    def _stopped(self, limit: str, how: str) -> WorkerEnded:
        self._end_process()
        return WorkerEnded(limit, how)

    def _died(self) -> Exception:
        """Return the exception for a process that closed the socket."""
        process, stderr = self._process, self._stderr
        if process is None or stderr is None:
            return WorkerEnded("", "gitkruise is ending")
        try:
            status = process.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - _STDERR_MAX))
        words = stderr.read().decode("utf-8", "replace").strip()
        self._forget()
        if status == -signal.SIGXCPU:
            return WorkerEnded("CPU time", f"{self.budget.cpu_s} s")
        if words.rpartition("\n")[2].startswith("MemoryError"):
            return WorkerEnded("memory", f"{self.budget.memory >> 20} MiB")
        if status == 1 and words:
            return WorkerFailed(words)
        return WorkerEnded("", _how(status))

    def _kill(self) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            process.kill()

    def _end_process(self) -> None:
        self._kill()
        if self._process is not None:
            self._process.wait()
            self._forget()

    def _forget(self) -> None:
        with self._lock:
            process, end, stderr = self._process, self._end, self._stderr
            self._process = self._end = self._stderr = None
        self.definitions, self._busy = None, False
        if process is not None:
            clear_private_folders(process.pid)
        shutil.rmtree(self._scratch, ignore_errors=True)
        for thing in (end, stderr):
            if thing is not None:
                thing.close()


@dataclass(frozen=True, slots=True)
class LentBases:
    """Repositories of bases for a worker: `origin` brings commits, `mirrors` files of them."""

    origin: BaseOrigin
    mirrors: BaseMirrors


@dataclass(frozen=True, slots=True)
class _Lender:
    """Everything that a worker may have fetched in one job."""

    mirror: Repository | None
    bases: LentBases | None
    allowed: Sequence[ListedBase]  # by the units, which the worker cannot change

    def answer(self, wanted: frames.FetchObjects | frames.FetchBase) -> object:
        """Fetch what a worker lacks; return its place, or the error if that fails."""
        try:
            if isinstance(wanted, frames.FetchBase):
                return self._base(wanted)
            mirror = self.mirror
            if wanted.base is not None:
                mirror = self._bases(wanted.base).mirrors.repository(wanted.base)
            if mirror is not None and wanted.commits >= 0:
                mirror.deepen(wanted.commits)
            elif mirror is not None:
                mirror.sizes(wanted.objects)
        except DiagnosticError as error:
            return error
        return None

    def _base(self, wanted: frames.FetchBase) -> tuple[Place, str]:
        origin = self._bases(wanted.listed).origin
        repository, commit = origin.commit(wanted.listed, wanted.ref)
        return replace(place(repository), base=wanted.listed), commit

    def _bases(self, listed: ListedBase) -> LentBases:
        if self.bases is None or listed not in self.allowed:
            raise WorkerEnded("", "it asked for a repository that no unit allows")
        return self.bases


def place(repository: Repository) -> Place:
    """Return where a worker finds a repository."""
    return Place(
        git_dir=str(repository.git_dir), far=not repository.local, imported=repository.is_imported
    )


def _how(status: int) -> str:
    """Return how a process ended that we did not kill."""
    if status >= 0:
        return f"it ended with status {status}"
    names = {one.value: one.name for one in signal.Signals}
    return f"it was ended by {names.get(-status, f'signal {-status}')}"


def beyond(ended: WorkerEnded, what: str) -> InvalidManifests:
    """Return the error of the commit of `what`, such as `Unit shop/web`, at which a worker
    ended."""
    if ended.limit:
        return InvalidManifests(
            Finding(
                code="GK9030",
                message=f"{what}: reading is beyond a limit: {ended.limit} > {ended.how}",
                notes=(
                    ("why", "one commit may not keep everything else waiting"),
                    (
                        "next",
                        "find what is large or repeats itself in this commit, and take it out",
                    ),
                ),
            )
        )
    return InvalidManifests(
        Finding(
            code="GK9031",
            message=f"{what}: the process that read this commit died twice: {ended.how}",
            notes=(
                ("why", "a file that crashes a parser, or too little memory on the machine"),
                ("next", "give the machine more memory, or push a commit without the file"),
            ),
        )
    )


def store_path(folder: Path) -> str:
    """Return the path of the cache of parsed files."""
    return str(folder / "parsed.sqlite")
