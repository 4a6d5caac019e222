"""One commit read for one unit: the objects it wants, or every reason it cannot be taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gitkruise.errors import Finding, InvalidManifests
from gitkruise.git.manifests import Manifests, ParseCache, read_desired
from gitkruise.git.repo import Repository
from gitkruise.gitops.check import check_documents, check_object
from gitkruise.model.change import Desired, DesiredSet
from gitkruise.model.config import Unit
from gitkruise.model.document import Commit
from gitkruise.model.settings import Gates
from gitkruise.wire.catalog import Catalog
from gitkruise.wire.names import GroupKind, Obj, ObjectKey

# Kinds whose update rules we know as well as the server does; others are left to its dry run.
_OURS = frozenset({GroupKind("apps.kruise.io", "CloneSet")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What came of reading a commit. `desired` is set only when nothing is wrong.

    `causal` is the newest commit that changed the unit's files; `overtaken` are commits between
    the last one read and this one that changed them and are never applied on their own.
    """

    commit: Commit
    causal: Commit
    desired: DesiredSet | None
    findings: tuple[Finding, ...] = ()
    overtaken: tuple[Commit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Reads commits for one unit. Blocking: call it in a thread."""

    repository: Repository
    unit: Unit
    gates: Gates
    cache: ParseCache

    def read(self, commit: str, catalog: Catalog, before: Intake | None) -> Intake:
        """Read, render and check the unit's path at `commit`. Raises SourceFailed."""
        info = self.repository.commit(commit)
        old, path = before.commit.id if before else "", self.unit.spec.path
        try:
            manifests = read_desired(
                self.repository, commit, path, kind=self.unit.spec.render.kind, cache=self.cache
            )
        except InvalidManifests as error:
            touching = _touching(self.repository, old, commit, (path,))
            causal = touching[0] if touching else info
            return Intake(commit=info, causal=causal, desired=None, findings=error.findings)
        touching = _touching(self.repository, old, commit, manifests.inputs)
        causal = touching[0] if touching else before.causal if before else info
        if before and before.desired and before.desired.tree == manifests.tree:
            return Intake(commit=info, causal=before.causal, desired=before.desired)
        return self._checked(manifests, catalog, info, causal, touching[1:] if old else [])

    def _checked(
        self,
        manifests: Manifests,
        catalog: Catalog,
        info: Commit,
        causal: Commit,
        overtaken: list[Commit],
    ) -> Intake:
        namespace = self.unit.spec.target.namespace or self.unit.namespace
        objects, found = check_documents(
            manifests.documents, catalog, namespace=namespace, gates=self.gates
        )
        findings = (*manifests.findings, *found)
        wrong = any(f.severity == "error" for f in findings)
        desired = DesiredSet(commit=info, objects=tuple(objects), tree=manifests.tree)
        return Intake(
            commit=info,
            causal=causal,
            desired=None if wrong else desired,
            findings=findings,
            overtaken=tuple(overtaken),
        )


def _touching(repository: Repository, old: str, new: str, folders: Sequence[str]) -> list[Commit]:
    """Commits after `old` that change `folders`, newest first; the newest alone without `old`."""
    if old == new:
        return []
    everything = any(folder in {"", "."} for folder in folders)
    paths = [] if everything else list(folders)
    return repository.commits_between(old, new, paths=paths, limit=100 if old else 1)


def check_updates(
    desired: DesiredSet, live: Mapping[ObjectKey, Obj], catalog: Catalog, gates: Gates
) -> list[Finding]:
    """What the rules of our kinds say against changing the live objects this way."""
    return [
        finding
        for d in desired.objects
        if d.key.group_kind in _OURS and d.key in live
        for finding in check_object(d, catalog, gates, old=live[d.key])
    ]


def with_unchanged(findings: tuple[Finding, ...], live: Commit | None) -> tuple[Finding, ...]:
    """Each error says what stays as it is, unless it does already."""
    stays = f"commit {live.short} stays live" if live else "nothing was live yet"
    note = ("unchanged", f"{stays}; nothing of this commit was applied")
    return tuple(
        f
        if f.severity != "error" or any(label == "unchanged" for label, _ in f.notes)
        else Finding(
            code=f.code,
            message=f.message,
            places=f.places,
            notes=(*(n for n in f.notes if n[0] != "next"), note,
                   *(n for n in f.notes if n[0] == "next")),
            object=f.object,
            severity=f.severity,
        )
        for f in findings
    )  # fmt: skip


def own_namespaces(objects: tuple[Desired, ...]) -> frozenset[str]:
    """Namespaces that the commit itself brings."""
    return frozenset(d.key.name for d in objects if d.key.kind == "Namespace" and not d.key.group)
