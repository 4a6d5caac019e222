"""Progress of a commit in the records of units: the answer to "is my commit live?"."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Final

from gitkruise.errors import (
    DiagnosticError,
    Finding,
    HistoryCut,
    SourceFailed,
    SourcePlace,
    UsageProblem,
)
from gitkruise.git.manifests.reader import PLAIN, content_at
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.preview.inputs import (
    config_here,
    name_in_config,
    not_here,
    read_side,
    units_elsewhere,
    whole_config_at,
)
from gitkruise.gitops.source.ref_resolver import TAG, pinned
from gitkruise.gitops.status.reader import RecordedUnit
from gitkruise.model.gitops.config import Config, Unit, resolve_reference
from gitkruise.model.gitops.unit_state import SETTLED, State, stuck_for_good, worst
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.rollout_kinds import ROLLING_KINDS
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import ObjectKey

NO_RECORD: Final = "the configuration names this unit, and no controller has recorded it yet"
NO_SINK: Final = "it has no Sink with git, so no record says what becomes of its commits"
_Error = tuple[str, str, tuple[SourcePlace, ...]]  # code, object, places


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitResult:
    """Result for the commit from the record of a unit. `met` is None while it may still come.

    `passed_by`: the unit follows a tag or a commit without ours, and so says nothing about it.
    """

    news: RecordedUnit
    met: bool | None
    why: str
    passed_by: bool = False


@dataclass
class WaitCondition:
    """Has `commit` come to `goal`? Asked of the records again and again.

    applied: sent to the cluster, or overtaken by a newer one that was. held: and all is as it
    asks, held rollouts too. done: and no rollout is held or paused. The state of a record is about
    the newest commit that was read: of a commit that was not read yet it says nothing.
    """

    repository: Repository
    catalog: Catalog
    commit: str
    goal: str
    config: Config | None = None
    _same: dict[tuple[str, str], bool] = field(default_factory=dict)

    def ask(self, units: Sequence[RecordedUnit], now: datetime) -> list[WaitResult]:
        """One answer for each unit that follows this repository. Raises SourceFailed."""
        return [self._judge(news, now) for news in units if news.unit not in self.elsewhere]

    def check(self, units: Sequence[RecordedUnit]) -> None:
        """Raise UsageProblem GK7049 where all units are among those that never read the commit."""
        there = [news.unit for news in units if news.unit in self.elsewhere]
        all_there = self._whole.units.keys() == self.elsewhere.keys()
        if there and len(there) == len(units) and all_there:
            raise UsageProblem(self.elsewhere[there[0]])

    @cached_property
    def elsewhere(self) -> Mapping[str, Finding]:
        """Units that never read the commit: their files are in other repositories."""
        config = self._whole
        names = units_elsewhere(self.repository, config)
        unchanged = "git and the cluster; nothing was waited for"
        return {name: not_here(config, config.units[name], unchanged=unchanged) for name in names}

    @cached_property
    def _whole(self) -> Config:
        """The configuration with units of other repositories; nothing where it cannot be read:
        the controller refuses it, too."""
        try:
            return self.config or whole_config_at(self.repository, self.commit)
        except DiagnosticError:
            return Config()

    def unrecorded(self, units: Sequence[RecordedUnit]) -> list[WaitResult]:
        """One answer for each unit that the commit configures and no record names.

        A later commit that was read may have removed it again. Raises SourceFailed.
        """
        try:
            missing = unrecorded_units(self._config(self.commit), [news.unit for news in units])
            for later in {u.attempted.id for u in units if u.attempted} if missing else ():
                if later != self.commit and self._within(later):
                    missing &= self._config(later).units.keys()
        except DiagnosticError:
            return []  # the controller refuses it, too, and says so in its records
        return [
            WaitResult(news=_no_news(name), met=None, why=NO_RECORD) for name in sorted(missing)
        ]

    @property
    def configured(self) -> set[str]:
        """Return the units that the commit configures; none where it cannot be read."""
        return {*self._stated.units, *self.elsewhere}

    def unwritten(self, units: Sequence[RecordedUnit]) -> set[str]:
        """Return the units that the commit configures and no record will ever name."""
        return unwritten_units(self._stated, [news.unit for news in units])

    @cached_property
    def _stated(self) -> Config:
        """Configuration of the commit; nothing where it cannot be read or says nothing."""
        try:
            found = self._config(self.commit)
        except DiagnosticError:
            return Config()  # as above
        return found if any(map(name_in_config, found.units.values())) else Config()

    def _config(self, commit: str) -> Config:
        config = self.config or whole_config_at(self.repository, commit)
        return config_here(self.repository, commit, config)

    def _judge(self, recorded: RecordedUnit, now: datetime) -> WaitResult:
        applied = recorded.applied.id if recorded.applied else ""
        read = recorded.attempted.id if recorded.attempted else applied
        known = bool(read) and self._covers(read, recorded)
        live = self._live(recorded, read)
        refused = recorded.state is State.REJECTED and bool(live)
        if not known and not (refused and self._within(live)):
            if fixed := self._fixed(recorded):
                why = f"it follows {fixed}, which does not contain this commit: it does not read it"
                return WaitResult(news=recorded, met=False, why=why, passed_by=True)
            sent = recorded.sent or recorded.applied
            at = f"at {sent.short}" if sent else "nothing applied yet"
            return WaitResult(
                news=recorded, met=None, why=f"not read yet, {at}: {recorded.message}"
            )
        if recorded.waits or recorded.state is State.REJECTED:
            return self._behind(recorded, now, read, live)
        return WaitResult(
            news=recorded,
            met=self._reached(recorded, _rolled_out(recorded), now),
            why=self._message(recorded, read),
        )

    def _fixed(self, recorded: RecordedUnit) -> str:
        """Return the tag or commit that a unit follows, if it is known here and lacks ours."""
        unit = self._whole.units.get(recorded.unit)
        source = self._whole.source_of(unit) if unit is not None else None
        if source is None or source.spec.is_artifact:
            return ""
        try:
            name = pinned(source.spec.ref, self.repository.tags())
            if not name or self._covers(self.repository.resolve(name), recorded):
                return ""
        except HistoryCut:
            raise
        except DiagnosticError:
            return ""  # not known here: the controller may know it
        tag = name.removeprefix(TAG)
        return f"commit {name[:7]}" if tag == name else f"tag {tag}"

    def _live(self, recorded: RecordedUnit, read: str) -> str:
        """Return the last commit all of which was sent, if it contains ours; "" otherwise.

        The same content counts where a later commit is the newest that was read: only then is what
        a unit says of that one nothing about ours.
        """
        earlier = self.commit != read and self._within(read)
        return next(
            (
                one
                for one in _there(recorded)
                if (self._covers(one, recorded) if earlier else self._within(one))
            ),
            "",
        )

    def _behind(self, recorded: RecordedUnit, now: datetime, read: str, live: str) -> WaitResult:
        """Return the result while the newest commit that was read is not live.

        An older commit that is live is judged by its objects, but not where the branch went back
        to ours: then what is live has more than it.
        """
        if live and read not in {live, self.commit}:
            state = worst(one.state for one in recorded.objects.values())
            why = f"at {live[:7]}: {state}; {recorded.message}"
            return WaitResult(news=recorded, met=self._reached(recorded, state, now), why=why)
        if recorded.state is not State.REJECTED:
            return WaitResult(news=recorded, met=None, why=recorded.message)
        problem = recorded.problems[0] if recorded.problems else recorded.message
        if read in _there(recorded) and not self._within(read):
            return WaitResult(news=recorded, met=None, why=f"not read yet: {problem}")
        return WaitResult(news=recorded, met=False, why=f"rejected: {problem}")

    def _reached(self, recorded: RecordedUnit, state: State, now: datetime) -> bool | None:
        if self.goal == "applied" and any(self._covers(one, recorded) for one in _there(recorded)):
            return True
        if stuck_for_good(state, recorded.since, now):
            return False
        wanted = {State.DONE} if self.goal == "done" else SETTLED
        return True if state in wanted else None

    def _message(self, recorded: RecordedUnit, read: str) -> str:
        overtaken = read != self.commit and self._within(read)
        return recorded.message + (f" (overtaken by {read[:7]})" if overtaken else "")

    def _within(self, there: str) -> bool:
        """Return whether the history of `there` contains the commit."""
        return there == self.commit or self._leads_to(self.commit, there)

    def _leads_to(self, old: str, new: str) -> bool:
        """Return whether `new` builds on `old`. Raises HistoryCut: in a shallow clone the answer
        would never come."""
        try:
            return self.repository.is_ancestor(old, new)
        except HistoryCut:
            raise
        except SourceFailed:
            return False

    def _covers(self, there: str, recorded: RecordedUnit) -> bool:
        """Return whether a unit at `there` contains the commit, by history or by content."""
        if self._within(there):
            return True
        if (there, recorded.unit) not in self._same:
            self._same[there, recorded.unit] = self._asks_the_same(there, recorded)
        return self._same[there, recorded.unit]

    def _asks_the_same(self, there: str, recorded: RecordedUnit) -> bool:
        """Return whether the commit changes nothing of a unit: neither objects nor errors.

        Of a unit that git does not configure only its folder is known, by its record. The folder
        decides, too, where this machine meets errors: it may lack a program or a chart that the
        controller has, and then the same error hides another content.
        """
        if not self._leads_to(there, self.commit):
            return False
        try:
            config = self._config(self.commit)
            if recorded.unit not in config.units:
                return bool(recorded.path) and self._same_folder(there, recorded.path)
        except DiagnosticError:
            return False  # it cannot be read: the controller will say so
        alone = Config(config.sources, {recorded.unit: config.units[recorded.unit]}, config.sinks)
        before, after = self._outcome(there, alone), self._outcome(self.commit, alone)
        if before != after:
            return False
        return not after[1] or self._same_folder(there, config.units[recorded.unit].spec.path)

    def _same_folder(self, there: str, path: str) -> bool:
        """Return whether the commit changes nothing in a folder."""
        return self._folder(there, path) == self._folder(self.commit, path)

    def _folder(self, commit: str, path: str) -> tuple[str, str]:
        """Return the content of a folder, as it is and as far as it is rendered; "" without one.

        Raises SourceFailed and InvalidManifests.
        """
        if self.repository.find(commit, path) is None:
            return "", ""
        plain = content_at(self.repository, commit, path, rendering=PLAIN)
        return plain.tree, content_at(self.repository, commit, path).tree

    def _outcome(
        self, commit: str, unit: Config
    ) -> tuple[Mapping[ObjectKey, str], frozenset[_Error]]:
        """Return the digests of a unit's objects at a commit, and its errors."""
        try:
            side = read_side(self.repository, commit, unit, self.catalog, Gates())
            digests, findings = {d.key: d.digest for d in side.objects}, side.findings
        except DiagnosticError as error:
            digests, findings = {}, error.findings
        # Not their messages: some name the commit.
        errors = frozenset((f.code, f.object, f.places) for f in findings if f.is_error)
        return digests, errors


def _rolled_out(recorded: RecordedUnit) -> State:
    """Return the state of a unit apart from drift that it leaves uncorrected: that of an object
    without pods holds up no rollout, and may stay for ever."""
    if recorded.state is not State.DRIFTED:
        return recorded.state
    return worst(
        one.state
        for key, one in recorded.objects.items()
        if one.state is not State.DRIFTED or key.group_kind in ROLLING_KINDS
    )


def unrecorded_units(config: Config, recorded: Collection[str]) -> set[str]:
    """Return the units of a configuration that no record names, though others that write to the
    same sink have one: a controller that followed them would have written."""
    sinks = {config.units[name].spec.sink_ref for name in recorded if name in config.units}
    missing = config.units.keys() - set(recorded)
    return {name for name in missing if config.units[name].spec.sink_ref in sinks}


def unwritten_units(config: Config, recorded: Collection[str]) -> set[str]:
    """Return the units of a configuration without a record that have no Sink with git."""
    missing = config.units.keys() - set(recorded)
    return {name for name in missing if name_in_config(unit := config.units[name])
            and not _may_be_recorded(unit, config)}  # fmt: skip


def _may_be_recorded(unit: Unit, config: Config) -> bool:
    """Return whether the Sink of a unit has git, or is known to the cluster alone."""
    ref = unit.spec.sink_ref
    sink = config.sinks.get(resolve_reference(ref, unit.namespace)) if ref else None
    return ref is not None and (sink is None or sink.spec.git is not None)


def _there(recorded: RecordedUnit) -> tuple[str, ...]:
    """Return the commits of a unit all of which was sent, the last one first."""
    return tuple(one.id for one in (recorded.sent, recorded.applied) if one is not None)


def _no_news(unit: str) -> RecordedUnit:
    return RecordedUnit(
        unit=unit,
        cluster="",
        source="",
        state=State.WAITING,
        message=NO_RECORD,
        since=None,
        attempted=None,
        applied=None,
        causal=None,
    )


def verdict(answers: Sequence[WaitResult]) -> bool | None:
    """True when every unit has come there, False when one of them will not, None while waiting.

    Units that the commit passes by count only where there are no others.
    """
    answers = [answer for answer in answers if not answer.passed_by] or answers
    if any(answer.met is False for answer in answers):
        return False
    return True if answers and all(answer.met for answer in answers) else None
