"""One commit read for one unit: the objects it wants, or every reason it cannot be taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import TypeVar

from gitkruise.errors import Finding, InvalidManifests, SourceFailed
from gitkruise.git import process
from gitkruise.git.history import History
from gitkruise.git.manifests import Manifests, ParseCache, content_at, read_desired
from gitkruise.git.repo import Repository
from gitkruise.gitops.check import Memo, check_documents
from gitkruise.gitops.ingredients import NOTHING, Finisher, Ingredients, named, wants
from gitkruise.gitops.trust import Trusted, anything
from gitkruise.model.change import DesiredSet
from gitkruise.model.config import Unit
from gitkruise.model.document import Commit
from gitkruise.model.settings import Gates
from gitkruise.wire.catalog import Catalog
from gitkruise.wire.names import ObjectKey

_Read = TypeVar("_Read")
_FINAL = frozenset({"GK3202"})  # the path is not in the commit: asking again changes nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What came of reading a commit. `desired` is set only when nothing is wrong.

    `touched` is the newest commit that changed the unit's files, `causal` the newest that changed
    what they ask for; `overtaken` are commits between the last one read and this one that changed
    the files and are never applied on their own. `by_cluster`: the cluster may change its mind.
    `awaits`: nothing is wrong, but these units are to be ready first.
    `wanted` is what the commit names, whether it can be taken or not; None when that is not known.
    """

    commit: Commit
    touched: Commit
    causal: Commit
    desired: DesiredSet | None
    findings: tuple[Finding, ...] = ()
    overtaken: tuple[Commit, ...] = ()
    by_cluster: bool = False
    awaits: str = ""
    wanted: frozenset[ObjectKey] | None = None

    def same_as(self, other: Intake | None) -> bool:
        """Whether both ask for the same at the same commit."""
        return other is not None and (self.desired, self.commit) == (other.desired, other.commit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Reads commits for one unit. Blocking: call it in a thread."""

    repository: Repository
    unit: Unit
    gates: Gates
    cache: ParseCache
    memo: Memo = field(default_factory=dict)
    search: str = process.SEARCH_PATH  # where programs for encrypted files are looked for
    finisher: Finisher = field(init=False)
    trusted: Trusted = anything
    ignore: tuple[str, ...] = ()
    shared: InitVar[History | None] = None  # one for all units of a repository
    history: History = field(init=False)

    def __post_init__(self, shared: History | None) -> None:
        finisher = Finisher(self.repository, self.unit, search=self.search)
        object.__setattr__(self, "finisher", finisher)
        object.__setattr__(self, "history", shared or History(self.repository))

    def read(
        self,
        commit: str,
        catalog: Catalog,
        before: Intake | None,
        looked: str,
        ingredients: Ingredients = NOTHING,
    ) -> Intake:
        """Read, render, finish and check the unit's path at `commit`. Raises SourceFailed.

        `before` is what is live, `looked` the newest commit that was read, taken or not.
        """
        info = self.repository.commit(commit)
        flaw = self.trusted(commit)
        if flaw is not None:
            return Intake(commit=info, touched=info, causal=info, desired=None, findings=(flaw,))
        old, path = before.commit.id if before else "", self.unit.spec.path
        manifests = None
        try:
            content = self._look(content_at, commit)
            tree = named(content.tree, ingredients)
            same = before is not None and before.desired is not None and before.desired.tree == tree
            if not same:
                manifests = replace(self._look(read_desired, commit), tree=tree)
        except (InvalidManifests, SourceFailed) as error:
            if error.findings[0].code not in _FINAL and isinstance(error, SourceFailed):
                raise
            touching = self.history.touching(old, commit, (path,))
            causal = touching[0] if touching else info
            overtaken = self._overtaken(touching, looked or old, commit, (path,))
            return Intake(
                commit=info,
                touched=causal,
                causal=causal,
                desired=None,
                findings=error.findings,
                overtaken=overtaken,
                wanted=frozenset() if error.findings[0].code in _FINAL else None,
            )
        touching = self.history.touching(old, commit, content.inputs)
        overtaken = self._overtaken(touching, looked or old, commit, content.inputs)
        touched = touching[0] if touching else before.touched if before else info
        if before is not None and manifests is None:
            return replace(before, commit=info, touched=touched, overtaken=overtaken)
        assert manifests is not None
        intake = Intake(
            commit=info, touched=touched, causal=touched, desired=None, overtaken=overtaken
        )
        return self._checked(self.finisher.finish(manifests, ingredients), catalog, intake, before)

    def unmoved(self, commit: str, intake: Intake) -> bool:
        """Whether `commit` asks for exactly what was taken with `intake`, and no commit in between
        changed a file of the unit. False where that is not sure: then it is to be read."""
        if intake.desired is None or wants(self.unit):
            return False
        try:
            content = self._look(content_at, commit)
            if content.tree != intake.desired.tree or self.trusted(commit) is not None:
                return False
            return not self.history.touching(intake.commit.id, commit, content.inputs)
        except (InvalidManifests, SourceFailed):
            return False

    def _look(self, read: Callable[..., _Read], commit: str) -> _Read:
        return read(
            self.repository,
            commit,
            self.unit.spec.path,
            kind=self.unit.spec.render.kind,
            ignore=self.ignore,
            cache=self.cache,
        )

    def _overtaken(
        self, touching: list[Commit], looked: str, commit: str, folders: Sequence[str]
    ) -> tuple[Commit, ...]:
        """Commits nobody looked at that changed the unit and are not the newest to do so."""
        if not looked or len(touching) < 2:
            return ()
        unseen = {c.id for c in self.history.touching(looked, commit, folders)}
        return tuple(c for c in touching[1:] if c.id in unseen)

    def _checked(
        self, manifests: Manifests, catalog: Catalog, intake: Intake, before: Intake | None
    ) -> Intake:
        namespace = self.unit.spec.target.namespace or self.unit.namespace
        objects, found = check_documents(
            manifests.documents, catalog, namespace=namespace, gates=self.gates, memo=self.memo
        )
        findings = (*manifests.findings, *found)
        if any(f.severity == "error" for f in findings):
            return replace(intake, findings=findings)
        desired = DesiredSet(commit=intake.commit, objects=tuple(objects), tree=manifests.tree)
        same = before is not None and _digests(before.desired) == _digests(desired)
        causal = before.causal if before is not None and same else intake.causal
        wanted = frozenset(d.key for d in objects)
        return replace(intake, desired=desired, causal=causal, findings=findings, wanted=wanted)


def _digests(desired: DesiredSet | None) -> dict[ObjectKey, str]:
    return {d.key: d.digest for d in desired.objects} if desired else {}


def with_unchanged(findings: tuple[Finding, ...], live: Commit | None) -> tuple[Finding, ...]:
    """Each error says what stays as it is and what to do next, unless it does already."""
    stays = f"commit {live.short} stays live" if live else "nothing was live yet"
    unchanged = ("unchanged", f"{stays}; nothing of this commit was applied")
    return tuple(_complete(f, unchanged) if f.severity == "error" else f for f in findings)


def _complete(finding: Finding, unchanged: tuple[str, str]) -> Finding:
    notes = dict(finding.notes)
    file = finding.places[0].file if finding.places else ""
    following = [note for note in finding.notes if note[0] in {"next", "or"}]
    if not following and file and not finding.code.startswith("GK4"):
        following = [("next", f"gitkruise validate {file}")]
    first = [note for note in finding.notes if note[0] not in {"next", "or"}]
    if "unchanged" not in notes:
        first.append(unchanged)
    return replace(finding, notes=(*first, *following))
