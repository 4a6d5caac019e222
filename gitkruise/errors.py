"""Every error gitkruise raises on purpose, and what each one makes its catcher do.

GitkruiseError
├── DiagnosticError         carries findings for a person                       never retried
│   ├── UsageProblem        GK7xxx: wrong words or settings                     exit 2
│   │   └── NothingToDo     GK7041: git asks for it already
│   ├── InvalidManifests    GK1xxx, GK2xxx, GK9xxx: what was read is wrong      exit 3
│   ├── SourceFailed        GK3xxx: git                                         exit 4, backed off
│   │   └── RefMissing · PathMissing · HistoryMissing · BranchNotReady · RecordMissing
│   │       · RendererMissing
│   ├── ClusterFailed       GK4xxx: the API server                              exit 5, backed off
│   ├── TimedOut            a wait ran out                                      exit 6
│   ├── PartlyApplied       some objects were refused; the list is in it        exit 7
│   └── Crashed             GK9000, GK9012: any other exception, contained      exit 70, backed off
└── ApiError                what an API server answers; status and reason are Kubernetes'
    ├── BadRequest 400 · Forbidden 403 · NotFound 404 · MethodNotAllowed 405
    ├── NotAcceptable 406 · AlreadyExists 409 · TooLarge 413 · UnsupportedMediaType 415
    ├── InvalidObject 422 · NotSupported 501                                    never retried
    ├── Conflict 409        the object moved since we looked                    planned again now
    ├── ApplyConflict 409   another field manager owns a field                  never retried
    ├── WatchExpired 410    the server forgot our resourceVersion               listed again
    ├── Unreasoned 500      names no reason; Untyped: an apply against a schema backed off
    └── TooManyRequests 429 · InternalError 500 · Unavailable 503 · GatewayTimeout 504
        · Unauthorized 401: the credentials are at fault, never the object      backed off
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, ClassVar, Final

from gitkruise.printable import visible
from gitkruise.redaction import scrubbed


class Retry(Enum):
    """Reaction of the work queue to a round that ended in this error."""

    NEVER = "never"
    REPLAN = "replan"
    RELIST = "relist"
    BACKOFF = "backoff"


class Severity(StrEnum):
    """Weight of a finding: an error keeps something from happening, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


class Concern(Enum):
    """The party a finding concerns; states and retries follow from it, never from a code."""

    CONTENT = "content"  # what was read from git, or settings
    REMOTE = "remote"  # the source does not answer
    HISTORY = "history"  # the source's newest commit is refused: signature, rewritten history
    SOURCE = "source"  # anything else of git
    CONNECTION = "connection"  # the API server does not answer
    CLUSTER = "cluster"  # the API server answered and refused
    PROGRAM = "program"  # an exception of gitkruise or a shortage of its machine, contained


CRASHED: Final = "GK9000"
SHORT: Final = "GK9012"
# The ranges of codes (docs/codes.md) by concern; the first that fits. The only reader of codes.
_CONCERNS: Final = (
    (CRASHED, Concern.PROGRAM), (SHORT, Concern.PROGRAM), ("GK3204", Concern.HISTORY),
    ("GK3306", Concern.SOURCE), ("GK3308", Concern.SOURCE), ("GK33", Concern.HISTORY),
    ("GK31", Concern.REMOTE), ("GK3", Concern.SOURCE), ("GK41", Concern.CONNECTION),
    ("GK4", Concern.CLUSTER), ("GK", Concern.CONTENT),
)  # fmt: skip


class GitkruiseError(Exception):
    """Base class: never raised itself; caught only at a ring's outer edge.

    Class attributes are the whole policy: the queue reads `retry`, conditions read `reason`,
    the CLI reads `exit_code`, HTTP handlers read `status`.
    """

    retry: ClassVar[Retry] = Retry.NEVER
    reason: ClassVar[str] = "InternalError"
    exit_code: ClassVar[int] = 1
    status: ClassVar[int] = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePlace:
    """A spot in a file of a commit. Lines and columns count from 1; 0 means unknown."""

    file: str
    line: int = 0
    column: int = 0
    snippet: tuple[tuple[int, str], ...] = ()  # (line number, text), the marked line among them
    length: int = 1  # characters to underline
    label: str = ""  # what to say at the caret

    def __post_init__(self) -> None:
        """Escape what would move a cursor: paths and lines are other people's."""
        object.__setattr__(self, "file", visible(self.file))
        object.__setattr__(self, "label", visible(self.label))
        object.__setattr__(self, "snippet", tuple((n, visible(t)) for n, t in self.snippet))

    def __str__(self) -> str:
        line = f":{self.line}" if self.line else ""
        return f"{self.file}{line}:{self.column}" if self.column else f"{self.file}{line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem, for a person: what, where, why, what stayed unchanged, what to do next.

    `notes` are (label, text) in the order shown; usual labels: "why", "unchanged", "next".
    `code` is stable (`GKnnnn`); `object` is `Kind namespace/name` where one is known.
    """

    code: str
    message: str
    places: tuple[SourcePlace, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    object: str = ""
    severity: Severity = Severity.ERROR

    def __post_init__(self) -> None:
        """Keep passwords of URLs, private keys, tokens and control characters out of every
        outlet."""
        object.__setattr__(self, "message", visible(scrubbed(self.message)))
        object.__setattr__(self, "object", visible(self.object))
        object.__setattr__(self, "notes", tuple((n, visible(scrubbed(t))) for n, t in self.notes))

    @property
    def is_error(self) -> bool:
        """Return whether the finding keeps something from happening."""
        return self.severity is Severity.ERROR

    @property
    def concern(self) -> Concern:
        """The party that the finding concerns."""
        return next(concern for start, concern in _CONCERNS if self.code.startswith(start))

    def __str__(self) -> str:
        where = f" ({self.places[0]})" if self.places else ""
        return f"{self.code}: {self.message}{where}"

    @property
    def with_cause(self) -> str:
        """Return the finding in one line, with git's own words where it has them."""
        git_message = dict(self.notes).get("git said", "")
        return f"{self} ({git_message})" if git_message else str(self)


class DiagnosticError(GitkruiseError):
    """Carries one or more findings; the CLI prints all, conditions and commits the first."""

    def __init__(self, *findings: Finding) -> None:
        if not findings:
            raise ValueError("an error names at least one finding")
        super().__init__("; ".join(str(f) for f in findings))
        self.findings = findings


class UsageProblem(DiagnosticError):
    reason, exit_code, status = "UsageProblem", 2, 422


class NothingToDo(UsageProblem):
    """Git asks for it already: to a command that was to bring it about, a success."""


class InvalidManifests(DiagnosticError):
    reason, exit_code, status = "InvalidManifests", 3, 422


class SourceFailed(DiagnosticError):
    retry, reason, exit_code = Retry.BACKOFF, "SourceFailed", 4


class RefMissing(SourceFailed):
    """A ref or revision that is not in the repository."""


class RendererMissing(SourceFailed):
    """GK3401: the program that renders a path is not installed, or not understood."""


class PathMissing(SourceFailed):
    """A path that is not in the commit: reading it again changes nothing."""


class HistoryMissing(SourceFailed):
    """A git object, or the history that leads to it, that is neither here nor in a remote."""


class BranchNotReady(SourceFailed):
    """A branch that is not ready for a commit: uncommitted changes, or diverged from its remote."""

    status = 409


class HistoryCut(HistoryMissing):
    """GK3108: a shallow clone lacks the history that an answer needs."""


class RecordMissing(SourceFailed):
    """A repository without a status branch: no cluster has written to it yet."""


class ClusterFailed(DiagnosticError):
    retry, reason, exit_code = Retry.BACKOFF, "ClusterFailed", 5


class LeaseRefused(ClusterFailed):
    """A lease that this process never waits for: its holder divides the work in another way."""


class TimedOut(DiagnosticError):
    reason, exit_code = "TimedOut", 6


class PartlyApplied(DiagnosticError):
    retry, reason, exit_code = Retry.BACKOFF, "PartlyApplied", 7


class Crashed(DiagnosticError):
    """Any other exception, at the edge of the one thing it concerns."""

    retry, reason, exit_code = Retry.BACKOFF, "UnexpectedError", 70


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of a Status' details.causes. `field` is a path such as `spec.replicas`.

    `path` leads to the spot where `field` does not; it stays on this side of the wire.
    """

    field: str
    reason: str  # FieldValueInvalid, FieldValueRequired, FieldValueForbidden, ...
    message: str
    path: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusDetails:
    """Details that an API server adds to a failure (meta/v1 StatusDetails).

    `shown`: written as `{}` when nothing else is set, as in kube-apiserver's generic answers.
    """

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_s: int = 0
    shown: bool = False

    def as_obj(self) -> dict[str, Any]:
        pairs: Mapping[str, Any] = {
            "name": self.name,
            "group": self.group,
            "kind": self.kind,
            "uid": self.uid,
            "causes": [
                {
                    **({"reason": c.reason} if c.reason else {}),
                    "message": c.message,
                    **({"field": c.field} if c.field else {}),
                }
                for c in self.causes
            ],
            "retryAfterSeconds": self.retry_after_s,
        }
        return {key: value for key, value in pairs.items() if value}


class ApiError(GitkruiseError):
    """An API server's refusal. `message` is the server's sentence, unchanged.

    `warnings` are the server's Warning headers.
    """

    exit_code = 5

    def __init__(self, message: str, details: StatusDetails | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = details or StatusDetails()
        self.warnings: tuple[str, ...] = ()

    def as_status(self) -> dict[str, Any]:
        """The meta/v1 Status document of this failure."""
        details = self.details.as_obj()
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            **({"reason": self.reason} if self.reason else {}),
            **({"details": details} if details or self.details.shown else {}),
            "code": self.status,
        }


class BadRequest(ApiError):
    reason, status = "BadRequest", 400


class Unauthorized(ApiError):
    retry, reason, status = Retry.BACKOFF, "Unauthorized", 401


class Forbidden(ApiError):
    reason, status = "Forbidden", 403


class NotFound(ApiError):
    reason, status = "NotFound", 404


class MethodNotAllowed(ApiError):
    reason, status = "MethodNotAllowed", 405


class NotAcceptable(ApiError):
    reason, status = "NotAcceptable", 406


class AlreadyExists(ApiError):
    reason, status = "AlreadyExists", 409


class Conflict(ApiError):
    retry, reason, status = Retry.REPLAN, "Conflict", 409


class ApplyConflict(ApiError):
    """Server-side apply met other managers' fields; one cause a field, FieldManagerConflict."""

    reason, status = "Conflict", 409


class WatchExpired(ApiError):
    retry, reason, status = Retry.RELIST, "Expired", 410


class TooLarge(ApiError):
    reason, status = "RequestEntityTooLarge", 413


class UnsupportedMediaType(ApiError):
    reason, status = "UnsupportedMediaType", 415


class InvalidObject(ApiError):
    reason, exit_code, status = "Invalid", 3, 422


class TooManyRequests(ApiError):
    retry, reason, status = Retry.BACKOFF, "TooManyRequests", 429


class InternalError(ApiError):
    retry, reason, status = Retry.BACKOFF, "InternalError", 500


class Unreasoned(InternalError):
    """A 500 without a reason: an API server's answer to an error of a foreign type."""

    reason = ""


class Untyped(ApiError):
    """A 500, too: an apply that the schema of its kind does not type. The object is at fault."""

    retry, reason, status = Retry.BACKOFF, "", 500
    says: ClassVar[str] = "failed to create typed patch object"


class NotSupported(ApiError):
    """The path exists in Kubernetes and cannot work here (exec into a simulated container)."""

    reason, status = "NotImplemented", 501


class Unavailable(ApiError):
    retry, reason, status = Retry.BACKOFF, "ServiceUnavailable", 503


class NotLeading(Unavailable):
    """A write without the lease that allows it: not sent, or ended before its answer came."""


class GatewayTimeout(ApiError):
    retry, reason, status = Retry.BACKOFF, "Timeout", 504


_BY_STATUS: Mapping[int, type[ApiError]] = {
    cls.status: cls
    for cls in (
        BadRequest, Unauthorized, Forbidden, NotFound, MethodNotAllowed, NotAcceptable, Conflict,
        WatchExpired, TooLarge, UnsupportedMediaType, InvalidObject, TooManyRequests,
        InternalError, NotSupported, Unavailable, GatewayTimeout,
    )
}  # fmt: skip


def api_error(status: Mapping[str, Any], code: int) -> ApiError:
    """Return the error of a meta/v1 Status, or of an HTTP code with any body."""
    details, message = _details(status), str(status.get("message") or f"the server answered {code}")
    if code == Untyped.status and message.startswith(Untyped.says):
        return Untyped(" ".join(message.split()), details)
    return _class_of(code, str(status.get("reason", "")), details)(message, details)


def denial(status: Mapping[str, Any], message: str, code: int) -> ApiError:
    """Return the refusal of a webhook: code and reason are its own, and any reason will do."""
    reason, details = str(status.get("reason") or ""), _details(status)
    known = _class_of(code, reason, details)
    kind: type[ApiError] = type("Denied", (known,), {"reason": reason, "status": code})
    return kind(message, details)


def _details(status: Mapping[str, Any]) -> StatusDetails:
    raw = status.get("details") or {}
    causes: Sequence[Mapping[str, Any]] = raw.get("causes") or ()
    return StatusDetails(
        **{key: raw.get(key, "") for key in ("name", "group", "kind", "uid")},
        causes=tuple(
            Cause(c.get("field", ""), c.get("reason", ""), c.get("message", "")) for c in causes
        ),
        retry_after_s=int(raw.get("retryAfterSeconds") or 0),
    )


def _class_of(code: int, reason: str, details: StatusDetails) -> type[ApiError]:
    if code == 409 and reason == "AlreadyExists":
        return AlreadyExists
    if code == 409 and any(c.reason == "FieldManagerConflict" for c in details.causes):
        return ApplyConflict
    return _BY_STATUS.get(code) or (InternalError if code >= 500 else BadRequest)


class MapKey(str):
    """A step of a path that is a map's key, not a field: printed in brackets, as `limits[cpu]`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken rule of one object, before it becomes a Status cause or a Finding.

    `path` is the chain of keys and indexes to the field; `reason` is Kubernetes' cause reason.
    """

    path: tuple[str | int, ...]
    reason: str
    message: str  # without the field, e.g. 'Invalid value: -1: must be greater than or equal to 0'
    suggestion: str = ""  # the nearest known name, for "did you mean"
    named: tuple[str | int, ...] = ()  # what the server calls the field, where it is not its path

    @property
    def field(self) -> str:
        """The path as Kubernetes prints it: `spec.containers[0].image`."""
        out = ""
        for part in self.named or self.path:
            keyed = isinstance(part, int | MapKey)
            out += f"[{part}]" if keyed else f".{part}" if out else str(part)
        return out


def invalid_object(kind: str, group: str, name: str, problems: Sequence[Problem]) -> InvalidObject:
    """The 422 a kube-apiserver answers for `problems`, in its words."""
    if not problems:
        raise ValueError(f"{kind} {name}: nothing is wrong")
    texts = list(dict.fromkeys(f"{p.field}: {p.message}" for p in problems))
    listed = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    title = f"{kind}.{group}" if group else kind
    causes = (Cause(p.field, p.reason, p.message, p.path if p.named else ()) for p in problems)
    details = StatusDetails(name=name, group=group, kind=kind, causes=tuple(causes))
    return InvalidObject(f'{title} "{name}" is invalid: {listed}', details)


def errors_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings with the errors before the warnings."""
    return tuple(sorted(findings, key=lambda finding: not finding.is_error))


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The exceptions in a group of groups; an exception alone is its own leaf."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error
