"""Typed frames: the answers of a worker process, decoded without running code of theirs.

A worker has read content of strangers, so its process is not trusted either. Requests to it are
pickled, because they are ours; answers are msgpack of exactly these types, within a size limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from gitkruise.errors import (
    DiagnosticError,
    Finding,
    HistoryMissing,
    InvalidManifests,
    PathMissing,
    RefMissing,
    RendererMissing,
    SourceFailed,
    UsageProblem,
)
from gitkruise.git.kustomize.remote_bases import ListedBase
from gitkruise.git.parsing.documents import Elsewhere
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.builder import BuildResult
from gitkruise.gitops.build.untrusted import CheckResult
from gitkruise.model.gitops.document import Desired, GitCommit
from gitkruise.model.gitops.record import BaseRecord
from gitkruise.wire.primitives.names import ObjectKey

AT_ONCE: Final = 128  # objects of one frame
_POSITIONS_MAX: Final = 256 << 10  # bytes of a file in which our own process looks for positions
_RAISED: Final[Mapping[str, type[DiagnosticError]]] = {
    kind.__name__: kind
    for kind in (
        InvalidManifests,
        SourceFailed,
        UsageProblem,
        RefMissing,
        PathMissing,
        HistoryMissing,
        RendererMissing,
    )
}


class Packed(msgspec.Struct, frozen=True, array_like=True):
    """A Desired object, with the place of its document in the file.

    `written` is the document's object if it is a Secret, whose values are hidden by how they are
    written; for any other object our process needs only `obj`, which names a namespace.
    """

    key: ObjectKey
    version: str
    obj: dict[str, Any]
    digest: str
    namespaced: bool
    wave: int
    stage: int
    secret: bool
    hook: str
    plan: str
    depends_on: tuple[ObjectKey, ...]
    file: str
    index: int
    line: int
    base: tuple[str | int, ...]
    private: bool
    written: dict[str, Any] | None


class Part(msgspec.Struct, frozen=True, array_like=True, tag="part"):
    """Some objects in their order: those from `start` to before `stop` of the answer that was sent
    last, then `objects`."""

    start: int
    stop: int
    objects: tuple[Packed, ...]


class Done(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """The end of an answer about a commit. `taken`: its objects are the parts before, known as
    `token` from now on. `more`: other reads of the job follow."""

    commit: GitCommit
    touching: GitCommit | None
    overtaken: tuple[GitCommit, ...]
    same: bool
    taken: bool
    path_missing: bool
    tree: str
    token: int
    findings: tuple[Finding, ...]
    bases: tuple[BaseRecord, ...]
    more: bool


class UnchangedUnits(msgspec.Struct, frozen=True, array_like=True, tag="unchanged"):
    """For each unit of the request, whether a commit leaves it unchanged."""

    commit: GitCommit
    unchanged: tuple[bool, ...]


class PlanText(msgspec.Struct, frozen=True, array_like=True, tag="foretold"):
    """The plan of a pull request, or its errors. `units` have an object in it that changes,
    `takers` by the merge itself.

    With both, the plan is of the other units than those that the errors are of: the `rejecting`,
    and others that reject its base in the same way.
    """

    plan: str = ""
    moved: bool = False
    units: tuple[str, ...] = ()
    summary: str = ""
    findings: tuple[Finding, ...] = ()
    rejecting: tuple[str, ...] = ()
    takers: tuple[str, ...] = ()


class PlanPage(msgspec.Struct, frozen=True, array_like=True, tag="page"):
    """A plan or a diff as a page shows it. `keys` are the objects of a plan."""

    document: dict[str, Any]
    keys: tuple[ObjectKey, ...] = ()
    findings: tuple[Finding, ...] = ()


class BuiltSide(msgspec.Struct, frozen=True, array_like=True, tag="side"):
    """The end of a unit's objects, which are the parts before, its findings and remote bases."""

    unit: str
    findings: tuple[Finding, ...]
    bases: tuple[BaseRecord, ...]


class Read(msgspec.Struct, frozen=True, array_like=True, tag="read"):
    """The end of all units' objects at a commit."""

    commit: GitCommit


class Raised(msgspec.Struct, frozen=True, array_like=True, tag="raised"):
    """An error with findings, by the name of its class."""

    kind: str
    findings: tuple[Finding, ...]


class Unread(msgspec.Struct, frozen=True, array_like=True, tag="unread"):
    """The error of one read. `more`: others of the job follow."""

    error: Raised
    more: bool


class FetchObjects(msgspec.Struct, frozen=True, array_like=True, tag="bring"):
    """Objects or commits that the mirror lacks: ids, or a number of further commits (0 for all).

    `base` is a repository of bases, if it is not the mirror of the job.
    """

    objects: tuple[str, ...] = ()
    commits: int = -1
    base: ListedBase | None = None


class FetchBase(msgspec.Struct, frozen=True, array_like=True, tag="base"):
    """A commit that a remote base names, by the repository that the unit lists and the ref."""

    listed: ListedBase
    ref: str


class Over(msgspec.Struct, frozen=True, array_like=True, tag="over"):
    """The end of a job that answers with several frames."""


Frame: TypeAlias = (
    Part
    | Done
    | UnchangedUnits
    | CheckResult
    | PlanText
    | PlanPage
    | BuiltSide
    | Read
    | Raised
    | Unread
    | FetchObjects
    | FetchBase
    | Over
)
encode: Final[Callable[[Frame], bytes]] = msgspec.msgpack.Encoder().encode
decode: Final[Callable[[bytes], Frame]] = msgspec.msgpack.Decoder(Frame).decode


def raised(error: DiagnosticError) -> Raised:
    """Return the frame of an error."""
    return Raised(type(error).__name__, error.findings)


def error_of(frame: Raised) -> DiagnosticError:
    """Return the error of a frame."""
    kind = _RAISED.get(frame.kind, InvalidManifests)
    return kind(*frame.findings)


def packed(desired: Desired) -> Packed:
    """Return the frame of an object."""
    document = desired.document
    return Packed(
        desired.key, desired.version, dict(desired.obj), desired.digest, desired.namespaced,
        desired.wave, desired.stage, desired.secret, desired.hook, desired.plan,
        desired.depends_on, document.file, document.index, document.line, document.base,
        document.private, dict(document.obj) if desired.secret else None,
    )  # fmt: skip


def parts(objects: Sequence[Desired], before: Sequence[Desired]) -> Iterator[Part]:
    """Return the objects of an answer; those in `before` by their number."""
    numbers = {id(one): number for number, one in enumerate(before)}
    start = stop = 0
    new: list[Packed] = []
    for one in objects:
        number = numbers.get(id(one))
        if number is None and len(new) < AT_ONCE:
            new.append(packed(one))
        elif number is not None and number == stop and not new:
            stop += 1
        else:
            if new or stop > start:
                yield Part(start, stop, tuple(new))
            start, stop = (0, 0) if number is None else (number, number + 1)
            new = [packed(one)] if number is None else []
    if new or stop > start:
        yield Part(start, stop, tuple(new))


class Unpacker:
    """Collects the objects of an answer; objects that are known already stay identical."""

    def __init__(self, repository: Repository, commit: str, before: Sequence[Desired]) -> None:
        self._repository, self._commit, self._before = repository, commit, before
        self._known: Mapping[str, Desired] | None = None
        self._files: dict[str, Elsewhere] = {}
        self._left = len(before)  # each of them is in an answer no more than one time
        self.objects: list[Desired] = []

    def add(self, part: Part) -> None:
        """Add the objects of a part. Raises IndexError for an object that was never sent."""
        self._left -= part.stop - part.start
        if not 0 <= part.start <= part.stop <= len(self._before) or self._left < 0:
            raise IndexError("a worker refers to objects that it did not send")
        self.objects += self._before[part.start : part.stop]
        self.objects += map(self._desired, part.objects)

    def _desired(self, one: Packed) -> Desired:
        document = self._file(one.file).document(
            one.obj if one.written is None else one.written,
            index=one.index, line=one.line, base=one.base, private=one.private,
        )  # fmt: skip
        if self._known is None:
            self._known = {d.digest: d for d in self._before}
        known = self._known.get(one.digest)
        if known is not None and (known.key, known.stage) == (one.key, one.stage):  # noqa: SIM102  the cheap test first
            if known.document == document:
                return known
        return Desired(
            key=one.key, version=one.version, obj=one.obj, digest=one.digest,
            document=document, namespaced=one.namespaced, wave=one.wave, stage=one.stage,
            secret=one.secret, hook=one.hook, plan=one.plan, depends_on=one.depends_on,
        )  # fmt: skip

    def _file(self, name: str) -> Elsewhere:
        found = self._files.get(name)
        if found is None:
            found = self._files[name] = Elsewhere(name, self._reading(name))
        return found

    def _reading(self, file: str) -> Callable[[], bytes]:
        repository, commit = self._repository, self._commit

        def read() -> bytes:
            """Read the file for its positions; b"" for one whose positions would take long."""
            try:
                entry = repository.find(commit, file)
                if entry is None or repository.sizes([entry.id])[entry.id] > _POSITIONS_MAX:
                    return b""
                return repository.read_blob(entry.id)
            except (InvalidManifests, SourceFailed):
                return b""

        return read


def done(answer: BuildResult, token: int, *, more: bool) -> Done:
    """Return the last frame of an answer about a commit."""
    return Done(
        answer.commit, answer.touching, answer.overtaken, answer.same,
        answer.objects is not None, answer.path_missing, answer.tree,
        token, answer.findings, answer.bases, more,
    )  # fmt: skip


def answer_of(frame: Done, objects: Iterable[Desired]) -> BuildResult:
    """Return the answer about a commit, with the objects of its parts."""
    return BuildResult(
        commit=frame.commit, touching=frame.touching, overtaken=frame.overtaken, same=frame.same,
        objects=tuple(objects) if frame.taken else None, path_missing=frame.path_missing,
        tree=frame.tree, findings=frame.findings, bases=frame.bases,
    )  # fmt: skip
