"""A plan as it is shown: the worst first, equal changes folded into one, no secret left in it.

The one form that the terminal, JSON, Markdown and HTML are written from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from gitkruise.errors import Finding
from gitkruise.model.gitops.change import ChangeKind
from gitkruise.model.gitops.document import FieldPath, GitCommit
from gitkruise.model.planning.forecast import RolloutForecast
from gitkruise.printable import many
from gitkruise.wire.primitives.names import ObjectKey


class Tone(StrEnum):
    """Meaning of a piece of text; writers choose colours and weights."""

    PLAIN = "plain"
    STRONG = "strong"
    ALARM = "alarm"


class Span(NamedTuple):
    text: str
    tone: Tone = Tone.PLAIN


Sentence: TypeAlias = tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRow:
    """One changed field; before or after may be MISSING or Veiled.

    `path` is how people write it, `words` are the values in short, `line` where git has it (0
    when unknown), `remark` what the change means. `loud`: it makes pods be recreated.
    """

    field: FieldPath
    path: str
    before: Any
    after: Any
    words: str
    line: int = 0
    remark: str = ""
    loud: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEffects:
    """Numbers of pods that a change affects, by effect.

    `rolled` are pods of workloads without a forecast: their template changes, so that they are
    replaced; `uncounted` are workloads whose number of pods is unknown. `gone` are pods of
    workloads that are deleted.
    """

    in_place: int = 0
    recreated: int = 0
    rolled: int = 0
    added: int = 0
    removed: int = 0
    gone: int = 0
    uncounted: int = 0

    @property
    def scaled(self) -> str:
        """Return the numbers of created and deleted pods in words; "" for none."""
        numbers = ((self.added, "created"), (self.removed, "deleted"))
        return ", ".join(f"{many(number)} {how}" for number, how in numbers if number)

    def __add__(self, other: PodEffects) -> PodEffects:
        sums = {name: getattr(self, name) + getattr(other, name) for name in self.__slots__}
        return PodEffects(**sums)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """One step of a wave: how many of `total` pods are on the new revision after it, and the pods
    it moves, by name or by number."""

    done: int
    total: int
    moves: str
    lasts: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutView:
    """A forecast rollout in words. `budget` is "" where no pod has to wait, `hold` () when the
    rollout ends complete."""

    prediction: RolloutForecast
    effect: tuple[Sentence, ...]
    budget: str = ""
    steps: tuple[StepView, ...] = ()
    hold: Sentence = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportEntry:
    """One object, or several whose change is the same.

    `sources` are `file:line` in the order of `keys`. `effect` says what it does to pods where
    there is no rollout to show; `notes` are what people learn too late.
    """

    kind: ChangeKind
    keys: tuple[ObjectKey, ...]
    sources: tuple[str, ...]
    rows: tuple[FieldRow, ...] = ()
    rollouts: tuple[RolloutView, ...] = ()
    effect: Sentence = ()
    notes: tuple[str, ...] = ()
    pods: PodEffects = PodEffects()
    drift: bool = False  # live differs though git did not move
    pending: bool = False  # of an earlier commit, which the cluster does not have yet
    stays: bool = False  # left git, and is not deleted for it
    replaced: bool = False  # deleted and created again
    unknown: str = ""  # why nothing is said of pods: only the cluster knows
    rejected: str = ""  # code of the error for which nothing of it is applied

    @property
    def folded(self) -> bool:
        return len(self.keys) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Objects by what becomes of them; how long the slowest rollout takes and how many rollouts
    end held or stuck."""

    created: int = 0
    changed: int = 0
    deleted: int = 0
    drifted: int = 0
    pending: int = 0
    unchanged: int = 0
    pods: PodEffects = PodEffects()
    lasts: timedelta = timedelta()
    held: int = 0
    stuck: int = 0

    @property
    def objects(self) -> int:
        """Objects that a sync would write to or delete."""
        return self.created + self.changed + self.deleted + self.drifted + self.pending


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    """Everything a plan shows. `blast` is what cannot be taken back, worst first; `cluster` is ""
    when no live object was looked at, and `live` says whether pods have their real names.
    `outside` are the manifests that changed in no folder of a unit of the configuration file."""

    target: GitCommit
    base: GitCommit | None = None
    cluster: str = ""
    dirty: bool = False
    live: bool = False
    blast: tuple[Span, ...] = ()
    entries: tuple[ReportEntry, ...] = ()
    totals: Totals = field(default_factory=Totals)
    findings: tuple[Finding, ...] = ()
    outside: tuple[str, ...] = ()
