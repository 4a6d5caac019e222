"""Build of one commit for one unit: the desired objects, or every reason why it is rejected."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final, TypeVar

from gitkruise.errors import Concern, Finding, InvalidManifests, PathMissing, SourceFailed
from gitkruise.git.helm.release import FetchedChart, Release
from gitkruise.git.manifests.reader import Manifests, ParseCache, content_at, read_desired
from gitkruise.git.plumbing import process
from gitkruise.git.repository.path_history import PathHistory
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.base_mirrors import rendering_of
from gitkruise.gitops.build.post_build import NOTHING, PostBuild, PostBuildInputs, named, wants
from gitkruise.gitops.build.release import about_templates, release_of
from gitkruise.gitops.build.validate import Memo, check_documents
from gitkruise.gitops.source.verification import Trusted, anything
from gitkruise.model.gitops.config import Unit
from gitkruise.model.gitops.document import Desired, DesiredSet, GitCommit
from gitkruise.model.gitops.record import BaseRecord
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.printable import shown
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import KUSTOMIZATION_NAMES, ObjectKey

_VALIDATE: Final = "gitkruise validate {file}"
_RENDER: Final = "correct {file}, and try: gitkruise plan --include-dirty"  # validate skips it
_SERVER: Final = (
    "correct {file}, or the rule of the cluster that the message names, and try: "
    "gitkruise plan --server --include-dirty"
)
_PLAIN: Final = "commit plain files in its place, or list {file} in .gitkruiseignore"
_SPLIT: Final = "split {file} into smaller files"
_SMALLER: Final = f"{_SPLIT}, or an object of more than 1 MiB into smaller ones"
# What validates a file helps with none of these.
_NEXT: Final = {
    "GK2102": _SERVER, "GK3011": _PLAIN, "GK3012": _PLAIN, "GK3013": _PLAIN,
    "GK3015": "give the file a name in UTF-8, with git mv", "GK3404": _RENDER, "GK3406": _RENDER,
    "GK9001": _SPLIT, "GK9004": _SPLIT, "GK9005": _SMALLER,
}  # fmt: skip
_Read = TypeVar("_Read")
_NUMBERS = itertools.count(1)  # of readers in this process


@dataclass(frozen=True, slots=True)
class ReadBefore:
    """Parsed files and checked documents of other commits of one repository, with the same gates.

    Commits share nearly all of their files.
    """

    files: ParseCache = field(default_factory=ParseCache)
    checked: dict[tuple[str, str], Memo] = field(default_factory=dict)  # by unit and namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltCommit:
    """Result of reading a commit; `desired` is set only if the commit has no errors.

    `touched` is the newest commit that changed the unit's files, `causal` the newest that changed
    the desired objects; `overtaken` are commits between the last one read and this one that changed
    the files and are never applied on their own. `by_cluster`: the API server, or a definition that
    it serves, rejected the commit and may accept it later. `blocked_by`: nothing else keeps the
    commit back, but these units are not ready. `undecided`: it waits, and its approval is open.
    `wanted` are the objects that the commit names, valid or not; None when they are unknown.
    `chart` is that of a repository of charts, `bases` are those of other repositories: the commit
    does not contain them.
    """

    commit: GitCommit
    touched: GitCommit
    causal: GitCommit
    desired: DesiredSet | None
    findings: tuple[Finding, ...] = ()
    overtaken: tuple[GitCommit, ...] = ()
    by_cluster: bool = False
    blocked_by: str = ""
    undecided: bool = False
    wanted: frozenset[ObjectKey] | None = None
    chart: FetchedChart | None = None
    bases: tuple[BaseRecord, ...] = ()

    def same_as(self, other: BuiltCommit | None) -> bool:
        """Return whether both want the same objects at the same commit."""
        return other is not None and (self.desired, self.commit) == (other.desired, other.commit)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """A commit to read, and the state of the one before it.

    `old` is the live commit, `tree` names its content ("" without one), and `looked` is the newest
    commit that was read, accepted or not.
    """

    commit: str
    old: str = ""
    tree: str = ""
    looked: str = ""

    @classmethod
    def of(cls, commit: str, before: BuiltCommit | None, looked: str) -> BuildRequest:
        """Return the request for `commit` after the live commit `before`."""
        if before is None:
            return cls(commit=commit, looked=looked)
        tree = before.desired.tree if before.desired is not None else ""
        return cls(commit=commit, old=before.commit.id, tree=tree, looked=looked)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult:
    """Content of a commit for a unit.

    Without `objects` the commit is rejected, unless it is the `same` as the live one. `touching` is
    the newest commit since then that changed the unit's files.
    """

    commit: GitCommit
    touching: GitCommit | None = None
    overtaken: tuple[GitCommit, ...] = ()
    same: bool = False
    objects: tuple[Desired, ...] | None = None
    tree: str = ""
    findings: tuple[Finding, ...] = ()
    path_missing: bool = False
    bases: tuple[BaseRecord, ...] = ()


def rejected_commit(commit: GitCommit, findings: tuple[Finding, ...]) -> BuiltCommit:
    """Return the intake of a commit that is not read."""
    return BuiltCommit(
        commit=commit, touched=commit, causal=commit, desired=None, findings=findings
    )


def built_commit(answer: BuildResult, before: BuiltCommit | None) -> BuiltCommit:
    """Return the intake of a build result after the live commit `before`."""
    info = answer.commit
    if answer.same and before is not None:
        touched = answer.touching or before.touched
        return replace(before, commit=info, touched=touched, overtaken=answer.overtaken)
    known = before.touched if before is not None and answer.tree else info
    touched = answer.touching or known
    built = BuiltCommit(
        commit=info, touched=touched, causal=touched, desired=None, overtaken=answer.overtaken,
        findings=answer.findings, wanted=frozenset() if answer.path_missing else None,
    )  # fmt: skip
    if answer.objects is None:
        return built
    desired = DesiredSet(commit=info, objects=answer.objects, tree=answer.tree)
    same = before is not None and _digests(before.desired) == _digests(desired)
    causal = before.causal if before is not None and same else touched
    wanted = frozenset(d.key for d in desired.objects)
    return replace(built, desired=desired, causal=causal, wanted=wanted, bases=answer.bases)


@dataclass(slots=True)
class KnownObjects:
    """The objects of the last answer of a worker process, which it need not send again.

    `token` numbers that answer among those of `process`; 0 if there is no answer. `spec` is the
    builder as the worker receives it.
    """

    spec: bytes = b""
    process: int = 0
    token: int = 0
    objects: tuple[Desired, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """Builds commits of one unit. Blocking: call it in a thread or in a worker process."""

    repository: Repository
    unit: Unit
    gates: Gates
    cache: ParseCache
    memo: Memo = field(default_factory=dict)
    search: str = process.SEARCH_PATH  # where renderers and sops are looked for
    finisher: PostBuild = field(init=False)
    trusted: Trusted = anything
    ignore: tuple[str, ...] = ()
    shared: InitVar[PathHistory | None] = None  # one for all units of a repository
    history: PathHistory = field(init=False)
    number: int = field(init=False, default_factory=lambda: next(_NUMBERS))
    held: KnownObjects = field(init=False, default_factory=KnownObjects, compare=False)

    def __post_init__(self, shared: PathHistory | None) -> None:
        finisher = PostBuild(self.repository, self.unit, search=self.search)
        object.__setattr__(self, "finisher", finisher)
        object.__setattr__(self, "history", shared or PathHistory(self.repository))

    def read(
        self,
        commit: str,
        catalog: Catalog,
        before: BuiltCommit | None,
        looked: str,
        inputs: PostBuildInputs = NOTHING,
    ) -> BuiltCommit:
        """Read, render, finish and check the unit's path at `commit`. Raises SourceFailed.

        `before` is the live commit, `looked` the newest commit that was read, accepted or not.
        """
        refused = self.refused(commit)
        if refused is not None:
            return refused
        asked = BuildRequest.of(commit, before, looked)
        return built_commit(self.answer(asked, catalog, inputs), before)

    def refused(self, commit: str) -> BuiltCommit | None:
        """Return the intake of a commit that is not trusted; None when it may be read."""
        flaw = self.trusted(commit)
        if flaw is None:
            return None
        return rejected_commit(self.repository.commit(commit), (flaw,))

    def answer(
        self, request: BuildRequest, catalog: Catalog, post_inputs: PostBuildInputs
    ) -> BuildResult:
        """Build a trusted commit. Raises SourceFailed."""
        commit, path = request.commit, self.unit.spec.path
        info = self.repository.commit(commit)
        manifests: Manifests | None = None
        inputs: tuple[str, ...] = (path,)
        wrong: tuple[Finding, ...] = ()
        missing = False
        try:
            release = release_of(self.unit, catalog, post_inputs.release)
            content = self._look(content_at, commit, release)
            inputs, tree = content.inputs, named(content.tree, post_inputs)
            if not request.tree or tree != request.tree:
                manifests = replace(self._look(read_desired, commit, release), tree=tree)
        except (InvalidManifests, PathMissing) as error:
            inputs, wrong = (path,), error.findings
            missing = isinstance(error, PathMissing)
        touching = self.history.touching(request.old, commit, inputs)
        found = BuildResult(
            commit=info,
            touching=touching[0] if touching else None,
            overtaken=self._overtaken(touching, request.looked or request.old, commit, inputs),
            findings=wrong,
            path_missing=missing,
        )
        if wrong:
            return found
        if manifests is None:
            return replace(found, same=True)
        return self._checked(self.finisher.finish(manifests, post_inputs), catalog, found)

    def is_unchanged(self, commit: str, old: str, tree: str) -> bool:
        """Return whether `commit` has the content `tree` of the accepted commit `old`, and no
        commit in between changed a file of the unit.

        False when this is uncertain; the commit is then built.
        """
        if not tree or wants(self.unit):
            return False
        try:
            content = self._look(content_at, commit, None)
            if content.tree != tree:
                return False
            return not self.history.touching(old, commit, content.inputs)
        except (InvalidManifests, SourceFailed):
            return False

    def _look(self, read: Callable[..., _Read], commit: str, release: Release | None) -> _Read:
        return read(
            self.repository,
            commit,
            self.unit.spec.path,
            rendering=rendering_of(self.unit, release, search=self.search),
            ignore=self.ignore,
            cache=self.cache,
        )

    def _overtaken(
        self, touching: list[GitCommit], looked: str, commit: str, folders: Sequence[str]
    ) -> tuple[GitCommit, ...]:
        """Return the unread commits that changed the unit and are not the newest to do so."""
        if not looked or len(touching) < 2:
            return ()
        unseen = {c.id for c in self.history.touching(looked, commit, folders)}
        return tuple(c for c in touching[1:] if c.id in unseen)

    def _checked(self, manifests: Manifests, catalog: Catalog, found: BuildResult) -> BuildResult:
        namespace = self.unit.spec.target.namespace or self.unit.namespace
        objects, wrong = check_documents(
            manifests.documents, catalog, namespace=namespace, gates=self.gates, memo=self.memo
        )
        findings = about_templates(self.unit, (*manifests.findings, *wrong))
        good = all(not f.is_error for f in findings)
        taken = tuple(objects) if good else None
        return replace(
            found, objects=taken, tree=manifests.tree, findings=findings, bases=manifests.bases
        )


def _digests(desired: DesiredSet | None) -> dict[ObjectKey, str]:
    return {d.key: d.digest for d in desired.objects} if desired else {}


def with_unchanged(
    built: BuiltCommit, live: BuiltCommit | None, recorded: str
) -> tuple[Finding, ...]:
    """Complete each error of a commit: the live commit that stays live, and the next command,
    unless it has both. Charts and values change without a commit: then it is the live one.

    `recorded` is the id of the commit that was live at a start that could not build it; "" where
    none is known."""
    short = live.causal.short if live else recorded[:7]
    stays = f"commit {short} stays live" if short else "what runs stays as it is"
    text = f"{stays}; nothing of this commit was applied"
    if built.commit.id == (live.commit.id if live else recorded):
        text = f"what was applied of commit {short} before stays live"
    unchanged, findings = ("unchanged", text), built.findings
    return tuple(completed(f, unchanged) if f.is_error else f for f in findings)


def next_step(finding: Finding) -> str:
    """Return what to do about a finding that has a place and says nothing of that itself."""
    file = finding.places[0].file
    usual = _RENDER if PurePosixPath(file).name in KUSTOMIZATION_NAMES else _VALIDATE
    return _NEXT.get(finding.code, usual).format(file=shlex.quote(shown(file)))


def completed(finding: Finding, unchanged: tuple[str, str]) -> Finding:
    """Return a finding with the notes `unchanged` and `next` where it lacks them."""
    notes = dict(finding.notes)
    file = finding.places[0].file if finding.places else ""
    following = [note for note in finding.notes if note[0] in {"next", "or"}]
    if not following and file and finding.concern not in {Concern.CONNECTION, Concern.CLUSTER}:
        following = [("next", next_step(finding))]
    first = [note for note in finding.notes if note[0] not in {"next", "or"}]
    if "unchanged" not in notes:
        first.append(unchanged)
    return replace(finding, notes=(*first, *following))
