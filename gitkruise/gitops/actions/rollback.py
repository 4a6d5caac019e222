"""Rollback as a computed commit: the old template and the partition that lets every pod return.

A plain revert is not enough: a partition held while the template goes back keeps the bad pods
running (CloneSet moves only pods above the partition, and never back for a raised one).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

from gitkruise.errors import Finding, InvalidManifests, SourceFailed, UsageProblem
from gitkruise.git.edit.copy_field import graft
from gitkruise.git.edit.set_field import edit_field, refused
from gitkruise.git.parsing.documents import parse_file
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.kustomized import Kustomized, KustomizedEdits, KustomizedFolder
from gitkruise.gitops.config.loader import SUFFIXES
from gitkruise.model.gitops.change import FieldChange
from gitkruise.model.gitops.document import Document, FieldPath, GitCommit
from gitkruise.model.gitops.gate import gate_of, open_gate, replicas_of, strategy_path
from gitkruise.model.workloads.labels import SIDECARSET
from gitkruise.model.workloads.sidecarset_revision import RECORDED
from gitkruise.planner.sync.diff import all_differences
from gitkruise.wire.primitives.names import ObjectKey, is_object, key_of
from gitkruise.wire.primitives.paths import drop, get, put

_TEMPLATE: Final = (("spec", "template"),)
_SIDECARS: Final = tuple(("spec", field) for field in RECORDED)
_COMMITS_MAX: Final = 200  # looked through for older templates


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """The object's file as it is to be written, `others` that set its images, and what all of them
    change in the object."""

    file: str
    data: bytes
    fields: tuple[FieldChange, ...]
    others: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateSpan:
    """A run of commits in which an object had one template: its first commit, its last, and the
    object as the last one left it."""

    since: GitCommit
    until: GitCommit
    document: Document


@dataclass(frozen=True, slots=True)
class _Version:
    """An object as it is at a commit."""

    commit: str
    document: Document


def template_paths(key: ObjectKey) -> tuple[FieldPath, ...]:
    """The fields that a revision of the object is made of: a pod template, or sidecars."""
    return _SIDECARS if key.group_kind == SIDECARSET else _TEMPLATE


def compute_rollback(
    repository: Repository,
    key: ObjectKey,
    *,
    now: str,
    to: str,
    file: str = "",
    earlier: str = "",
    folder: KustomizedFolder | None = None,
) -> Rollback:
    """Template of commit `to`, no pod kept by partition or canary, not paused, everything else as
    at commit `now`.

    `file` is where the object is written, where that is known, and `earlier` where it was at `to`;
    `folder` is that of a unit whose kustomizations may set fields of it. Raises UsageProblem GK7020
    when the object is in neither, InvalidManifests GK3602 when its lines cannot be edited, and
    SourceFailed.
    """
    kustomized = Kustomized.of(repository, now, folder)
    if kustomized is not None:
        return _kustomized_rollback(repository, kustomized, key, now=now, to=to, file=file)
    current = find_document(repository, now, key, file)
    target = find_document(repository, to, key, earlier or file)
    file = current.file
    data = _with_template(repository, key, _Version(now, current), _Version(to, target))
    partition = strategy_path(current, "partition")
    if not _lets_all_go(current):
        with _also(partition):
            data = edit_field(data, file, key, partition, open_gate(key.group_kind).value)
    paused = strategy_path(current, "paused")
    if get(current.obj, *paused):
        with _also(paused):
            data = edit_field(data, file, key, paused, value=False)
    after = next(d.obj for d in parse_file(data, file).documents if is_object(d.obj, key))
    for path in template_paths(key):
        if get(after, *path) != get(target.obj, *path):
            raise refused("GK3602", f"cannot put the template of {key} back", current, path)
    return Rollback(file=file, data=data, fields=all_differences(current.obj, after, None))


def _kustomized_rollback(
    repository: Repository,
    kustomized: Kustomized,
    key: ObjectKey,
    *,
    now: str,
    to: str,
    file: str,
) -> Rollback:
    """`compute_rollback` of a rendered object: each field goes back in the place that sets it."""
    current = _state(repository, now, key, file, kustomized.given)
    target = _state(repository, to, key, file, kustomized.given)
    for commit, found in ((now, current), (to, target)):
        if found is None:
            raise _not_in_git(key, commit)
    assert current is not None
    assert target is not None
    wanted = current.obj
    for path in template_paths(key):
        old = get(target.obj, *path)
        wanted = put(wanted, path, old) if old is not None else drop(wanted, path)
    edits = kustomized.edits(now)
    changes = all_differences(current.obj, wanted, None)
    if all(map(_is_value, changes)):
        for change in changes:
            edits.set(current, change.path, change.after, wanted)
    else:
        _restored(repository, edits, _Version(now, current), _Version(to, target), wanted)
    paused = bool(get(current.obj, *strategy_path(current, "paused")))
    for name, value, due in (
        ("partition", open_gate(key.group_kind).value, not _lets_all_go(current)),
        ("paused", False, paused),
    ):
        if due:
            path = strategy_path(current, name)
            with _also(path):
                edits.set(current, path, value)
            wanted = put(wanted, path, value)
    fields = all_differences(current.obj, wanted, None)
    (first, data), *rest = edits.files.items() or {current.file: edits.data(current.file)}.items()
    return Rollback(file=first, data=data, fields=fields, others=dict(rest))


@contextmanager
def _also(path: FieldPath) -> Iterator[None]:
    """Explain the refusal of an edit that a rollback makes besides that of the template."""
    try:
        yield
    except InvalidManifests as error:
        again = ("next", "edit this line by hand, commit, and roll back again")
        raise InvalidManifests(
            *(
                replace(
                    found,
                    message=f"a rollback lets every pod go back, so it changes {path[-1]}, too: "
                    f"{found.message}",
                    notes=(*(note for note in found.notes if note[0] != "next"), again),
                )
                for found in error.findings
            )
        ) from error


def _is_value(change: FieldChange) -> bool:
    """Return whether a change puts one value in the place of another."""
    return all(
        isinstance(value, str | int | float | bool) for value in (change.before, change.after)
    )


def _restored(
    repository: Repository,
    edits: KustomizedEdits,
    now: _Version,
    to: _Version,
    wanted: Any,
) -> None:
    """Put back a template that had other fields: by the lines of the object's own file, and by the
    values that kustomizations set. Raises InvalidManifests GK3602 where that is not all."""
    current = now.document
    old, new = edits.own(current), edits.own(to.document, to.commit)
    own = key_of(old.obj) if "kind" in old.obj else None
    same = all(get(old.obj, *p) == get(new.obj, *p) for p in (*_TEMPLATE, *_SIDECARS))
    for change in all_differences(current.obj, wanted, None):
        set_elsewhere = edits.elsewhere(current, change.path, current.obj)
        if _is_value(change) and edits.elsewhere(current, change.path, wanted):
            edits.set(current, change.path, change.after, wanted)
        elif same or set_elsewhere or own is None:
            place = edits.place(current, change.path)
            dotted = ".".join(map(str, change.path))
            message = f"cannot put {dotted} back as it was: it came or went with other lines"
            raise refused("GK3602", message, *place)
    if own is not None and not same:
        edits.files[old.file] = _with_template(
            repository,
            own,
            _Version(now.commit, old),
            _Version(to.commit, new),
            edits.data(old.file),
        )


def _with_template(
    repository: Repository,
    key: ObjectKey,
    now: _Version,
    to: _Version,
    data: bytes | None = None,
) -> bytes:
    """The file, or `data`, with the old template: by its values where those are all, else by its
    lines."""
    current, target = now.document, to.document
    data = _read(repository, now.commit, current.file) if data is None else data
    for path in template_paths(key):
        if get(current.obj, *path) != get(target.obj, *path):
            data = _with_part(data, current, path, get(target.obj, *path), key) or graft(
                data, current.file, key, path, _read(repository, to.commit, target.file)
            )
    return data


def _with_part(
    data: bytes, current: Document, path: FieldPath, wanted: Any, key: ObjectKey
) -> bytes | None:
    """The file with one part of a template as it was, where only values differ; else None."""
    changes = all_differences(get(current.obj, *path), wanted, None)
    if not all(isinstance(c.after, str | int | float | bool | None) for c in changes):
        return None
    try:
        for change in changes:
            data = edit_field(data, current.file, key, (*path, *change.path), change.after)
    except InvalidManifests:
        return None
    return data


def templates(
    repository: Repository,
    commit: str,
    key: ObjectKey,
    file: str,
    folder: KustomizedFolder | None = None,
) -> Iterator[TemplateSpan]:
    """Yield the templates of the object, newest first, as far back as this file contains it, and
    those that it was moved from.

    They are as the kustomization of `folder` renders them, where there is one.
    """
    newest: tuple[GitCommit, Document] | None = None
    since: GitCommit | None = None
    for each, found in _states(repository, commit, key, file, folder):
        if newest is not None and since is not None:
            if _template(found, key) == _template(newest[1], key):
                since = each
                continue
            yield TemplateSpan(since=since, until=newest[0], document=newest[1])
        newest, since = (each, found), each
    if newest is not None and since is not None:
        yield TemplateSpan(since=since, until=newest[0], document=newest[1])


def _states(
    repository: Repository, commit: str, key: ObjectKey, file: str, folder: KustomizedFolder | None
) -> Iterator[tuple[GitCommit, Document]]:
    """Yield the commits that may have changed the object, newest first, each with the object.

    A commit that cannot be read is stepped over, because no cluster applied it; the first without
    the object ends it. The first with it may have moved it from another file, which leads on; what
    kustomize renders is not followed.
    """
    kustomized = Kustomized.of(repository, commit, folder)
    rendered = kustomized.given if kustomized else None
    left = _COMMITS_MAX
    while left > 0:
        first: GitCommit | None = None
        paths = paths_of(repository, commit, file, folder)
        for each in repository.commits_between("", commit, paths=paths, limit=left):
            left -= 1
            try:
                found = _state(repository, each.id, key, file, rendered)
            except InvalidManifests:
                continue
            if found is None:
                break
            first = each
            yield each, found
        before = _moved_from(repository, first, key) if first and rendered is None else None
        if before is None:
            return
        commit, file = before


def _moved_from(
    repository: Repository, commit: GitCommit, key: ObjectKey
) -> tuple[str, str] | None:
    """Return the parent of a commit that moved the object, and the file that it took it from; None
    where it is not in just one."""
    parent = next(iter(commit.parents), "")
    if not parent or not repository.here(parent):
        return None
    changed = repository.changed_paths(parent, commit.id)
    found = [
        path
        for path in changed
        if path.endswith(SUFFIXES)
        and _has(repository, parent, key, path)
        and not _has(repository, commit.id, key, path)
    ]
    return (parent, found[0]) if len(found) == 1 else None


def _has(repository: Repository, commit: str, key: ObjectKey, file: str) -> bool:
    try:
        return _in_file(repository, commit, key, file) is not None
    except InvalidManifests:
        return False


def paths_of(
    repository: Repository, commit: str, file: str, folder: KustomizedFolder | None
) -> list[str]:
    """Return the file of an object, and the folders of the kustomization that renders it."""
    kustomized = Kustomized.of(repository, commit, folder)
    return [file, *(kustomized.folders(commit) if kustomized else ())]


def _state(
    repository: Repository, commit: str, key: ObjectKey, file: str, folder: KustomizedFolder | None
) -> Document | None:
    """The object at a commit, rendered if its unit was a kustomization by then, else as its file
    has it. Raises InvalidManifests where that cannot be read."""
    kustomized = Kustomized.of(repository, commit, folder)
    if kustomized is not None:
        return kustomized.document(commit, key)
    return _in_file(repository, commit, key, file)


def file_at(
    repository: Repository,
    commit: str,
    key: ObjectKey,
    file: str,
    folder: KustomizedFolder | None,
    *,
    to: str,
) -> str:
    """Return the file that had an object at an earlier commit `to`; "" where its history does not
    say. It is in `file` at `commit`."""
    if Kustomized.of(repository, commit, folder) is not None or _has(repository, to, key, file):
        return file
    states = _states(repository, commit, key, file, None)
    found = (d.file for each, d in states if repository.is_ancestor(each.id, to))
    return next(found, "")


def commit_of_partition(
    repository: Repository,
    commit: str,
    key: ObjectKey,
    file: str,
    folder: KustomizedFolder | None = None,
) -> tuple[GitCommit | None, frozenset[str]]:
    """Return the commit that set the partition of `commit`, as far as git is read, and the files
    that the object was in since."""
    found: GitCommit | None = None
    wanted: Any = None
    files: set[str] = set()
    for each, document in _states(repository, commit, key, file, folder):
        has = get(document.obj, *strategy_path(document, "partition"))
        if found is not None and has != wanted:
            break
        found, wanted = each, has
        files.add(document.file)
    return found, frozenset(files)


def rollback_target(
    repository: Repository,
    commit: str,
    key: ObjectKey,
    file: str,
    folder: KustomizedFolder | None = None,
    failed: Collection[str] = (),
) -> TemplateSpan | None:
    """Return the default template to go back to; None without an earlier one.

    It is the newest that git asked of all pods: going back to another canary would move pods
    forward that never had it. The first of all counts, as creation takes no notice of partitions.
    A template whose rollout got stuck, at one of the commits `failed`, is stepped over.
    Where the newest template is itself a return to an older one, and its partition keeps pods from
    returning, it is that: going back was begun and is not done. Raises SourceFailed GK3108 where
    that depends on commits which a shallow clone leaves out.
    """
    pasts = _begun_here(repository, templates(repository, commit, key, file, folder))
    newest, before = next(pasts, None), next(pasts, None)
    if newest is None or before is None:
        return None
    older = next(pasts, None)
    if older is not None and _same_template(newest, older, key) and not _asked_of_all(newest):
        return newest
    chosen = before
    bad = [found for id_ in failed if (found := _template_at(repository, id_, key, file, folder))]
    for past in chain([before, older] if older else [before], pasts):
        if _same_template(newest, past, key) or _template(past.document, key) in bad:
            continue
        chosen = past
        if _asked_of_all(past):
            break
    return chosen


def _begun_here(repository: Repository, spans: Iterable[TemplateSpan]) -> Iterator[TemplateSpan]:
    """Yield spans whose first commit has all its parents here: others may have begun earlier."""
    for span in spans:
        for parent in span.since.parents:
            repository.commit(parent)
        yield span


def _template_at(
    repository: Repository, commit: str, key: ObjectKey, file: str, folder: KustomizedFolder | None
) -> list[Any] | None:
    """Return the template at a commit that was recorded; None where git has no such object now."""
    try:
        found = _state(repository, commit, key, file, folder) if repository.here(commit) else None
    except InvalidManifests:
        return None
    return _template(found, key) if found is not None else None


def _same_template(one: TemplateSpan, other: TemplateSpan, key: ObjectKey) -> bool:
    return _template(one.document, key) == _template(other.document, key)


def _template(document: Document, key: ObjectKey) -> list[Any]:
    return [get(document.obj, *path) for path in template_paths(key)]


def _asked_of_all(past: TemplateSpan) -> bool:
    document = past.document
    paused = get(document.obj, *strategy_path(document, "paused"))
    return _lets_all_go(document) and not paused


def _lets_all_go(document: Document) -> bool:
    """Return whether its partition or canary keeps no pod; one that means nothing lets no pod
    go."""
    try:
        return gate_of(document).keeps_none(replicas_of(document))
    except ValueError:
        return False


def find_document(repository: Repository, commit: str, key: ObjectKey, file: str = "") -> Document:
    """The document of `key` at a commit, in `file` or anywhere.

    Raises UsageProblem GK7020, and InvalidManifests when `file` cannot be read.
    """
    here = _in_file(repository, commit, key, file) if file else None
    if here is not None:
        return here
    for entry in repository.list_tree(commit):
        if entry.is_file and entry.path.endswith(SUFFIXES):
            parsed = parse_file(repository.read_blob(entry.id), entry.path)
            for document in parsed.documents:
                if is_object(document.obj, key):
                    return document
    raise _not_in_git(key, commit)


def _not_in_git(key: ObjectKey, commit: str) -> UsageProblem:
    return UsageProblem(Finding(code="GK7020", message=f"{key} is not in git at {commit[:7]}"))


def _in_file(repository: Repository, commit: str, key: ObjectKey, file: str) -> Document | None:
    try:
        entry = repository.find(commit, file)
    except SourceFailed:
        return None
    if entry is None or not entry.is_file:
        return None
    parsed = parse_file(repository.read_blob(entry.id), file).checked()
    return next((d for d in parsed.documents if is_object(d.obj, key)), None)


def _read(repository: Repository, commit: str, file: str) -> bytes:
    entry = next(e for e in repository.list_tree(commit, file) if e.path == file)
    return repository.read_blob(entry.id)
