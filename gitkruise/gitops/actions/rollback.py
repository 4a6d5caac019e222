"""Rollback as a computed commit: the old template and the partition that lets every pod return.

A plain revert is not enough: a partition held while the template goes back keeps the bad pods
running (CloneSet moves only pods above the partition, and never back for a raised one).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

from gitkruise.errors import Finding, InvalidManifests, SourceFailed, UsageProblem
from gitkruise.git.edit.copy_field import graft
from gitkruise.git.edit.set_field import edit_field, refused
from gitkruise.git.parsing.documents import parse_file
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.image_tags import (
    Kustomizations,
    kustomizations,
    reparsed,
    tags_as_they_were,
    with_images,
)
from gitkruise.model.gitops.change import FieldChange
from gitkruise.model.gitops.document import Document, FieldPath, GitCommit
from gitkruise.model.workloads.labels import CLONESET, SIDECARSET
from gitkruise.model.workloads.sidecarset_revision import RECORDED
from gitkruise.planner.sync.diff import all_differences
from gitkruise.wire.primitives.names import ObjectKey, split_api_version
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.intstr import Partition, UnreadableAmount

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


def strategy_path(document: Document, field: str) -> tuple[str, ...]:
    """Return the path of an update strategy field, by the kind and version of the document.

    CloneSet moved them below rollingUpdate in v1beta1; SidecarSet has them in one place.
    """
    group, version = split_api_version(str(document.obj["apiVersion"]))
    moved = (group, document.obj.get("kind")) == CLONESET and version != "v1alpha1"
    return ("spec", "updateStrategy", *(("rollingUpdate",) if moved else ()), field)


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
    folder: str | None = None,
) -> Rollback:
    """Template of commit `to`, partition 0, not paused, everything else as at commit `now`.

    `file` is where the object is written, where that is known; `folder` is the path of a unit whose
    kustomizations may set images. Raises UsageProblem GK7020 when
    the object is in neither, InvalidManifests GK3602 when its lines cannot be edited, and
    SourceFailed.
    """
    current = find_document(repository, now, key, file)
    target = find_document(repository, to, key, file)
    file = current.file
    data = _with_template(repository, key, (now, current), (to, target))
    partition = strategy_path(current, "partition")
    if not _lets_all_go(current):
        data = edit_field(data, file, key, partition, 0)
    paused = strategy_path(current, "paused")
    if get(current.obj, *paused):
        data = edit_field(data, file, key, paused, value=False)
    here, there = (kustomizations(repository, commit, folder) for commit in (now, to))
    after = _object(data, file, key)
    others = tags_as_they_were(repository, after, (now, here), there)
    after = with_images(after, reparsed(here, others))
    old = with_images(target.obj, there)
    for path in template_paths(key):
        if get(after, *path) != get(old, *path):
            raise refused("GK3602", f"cannot put the template of {key} back", current, path)
    before = with_images(current.obj, here)
    fields = all_differences(before, after, None)
    if others and data == _read(repository, now, file):  # the object's own file stays as it is
        (file, data), *rest = others.items()
        others = dict(rest)
    return Rollback(file=file, data=data, fields=fields, others=others)


def _with_template(
    repository: Repository,
    key: ObjectKey,
    now: tuple[str, Document],
    to: tuple[str, Document],
) -> bytes:
    """The file with the old template: by its values where those are all, else by its lines."""
    (commit, current), (older, target) = now, to
    data = _read(repository, commit, current.file)
    for path in template_paths(key):
        if get(current.obj, *path) != get(target.obj, *path):
            data = _with_part(data, current, (path, get(target.obj, *path)), key) or graft(
                data, current.file, key, path, _read(repository, older, target.file)
            )
    return data


def _with_part(
    data: bytes, current: Document, part: tuple[FieldPath, Any], key: ObjectKey
) -> bytes | None:
    """The file with one part of a template as it was, where only values differ; else None."""
    path, wanted = part
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
    repository: Repository, commit: str, key: ObjectKey, file: str, folder: str | None = None
) -> Iterator[TemplateSpan]:
    """Yield the templates of the object, newest first, as far back as this file contains it.

    Images are those that the kustomizations of `folder` set.
    """
    setters = kustomizations(repository, commit, folder)
    paths = [file, *(setter.file for setter in setters)]
    commits = repository.commits_between("", commit, paths=paths, limit=_COMMITS_MAX)
    newest: tuple[GitCommit, Document] | None = None
    since: GitCommit | None = None
    for each in commits:
        found = _with_its_images(repository, each.id, key, file, folder if setters else None)
        if found is None:
            break
        if newest is not None and since is not None:
            if _template(found, key) == _template(newest[1], key):
                since = each
                continue
            yield TemplateSpan(since=since, until=newest[0], document=newest[1])
        newest, since = (each, found), each
    if newest is not None and since is not None:
        yield TemplateSpan(since=since, until=newest[0], document=newest[1])


def commit_of_partition(
    repository: Repository, commit: str, key: ObjectKey, file: str
) -> GitCommit | None:
    """Return the commit that set the partition of `commit`, as far as git is read."""
    found: GitCommit | None = None
    wanted: Any = None
    for each in repository.commits_between("", commit, paths=[file], limit=_COMMITS_MAX):
        document = _in_file(repository, each.id, key, file)
        has = get(document.obj, *strategy_path(document, "partition")) if document else None
        if document is None or (found is not None and has != wanted):
            break
        found, wanted = each, has
    return found


def rollback_target(
    repository: Repository, commit: str, key: ObjectKey, file: str, folder: str | None = None
) -> TemplateSpan | None:
    """Return the default template to go back to; None without an earlier one.

    It is the newest that git asked of all pods: going back to another canary would move pods
    forward that never had it. The first of all counts, as creation takes no notice of partitions.
    Where the newest template is itself a return to an older one, and its partition keeps pods from
    returning, it is that: going back was begun and is not done.
    """
    pasts = templates(repository, commit, key, file, folder)
    newest, before = next(pasts, None), next(pasts, None)
    if newest is None or before is None:
        return None
    older = next(pasts, None)
    if older is not None and _same_template(newest, older, key) and not _asked_of_all(newest):
        return newest
    chosen = before
    for past in chain([before, older] if older else [before], pasts):
        if _same_template(newest, past, key):
            continue
        chosen = past
        if _asked_of_all(past):
            break
    return chosen


def _same_template(one: TemplateSpan, other: TemplateSpan, key: ObjectKey) -> bool:
    return _template(one.document, key) == _template(other.document, key)


def _template(document: Document, key: ObjectKey) -> list[Any]:
    return [get(document.obj, *path) for path in template_paths(key)]


def _asked_of_all(past: TemplateSpan) -> bool:
    document = past.document
    paused = get(document.obj, *strategy_path(document, "paused"))
    return _lets_all_go(document) and not paused


def _lets_all_go(document: Document) -> bool:
    """Return whether its partition keeps no pod; one that means nothing lets no pod go."""
    try:
        return Partition(get(document.obj, *strategy_path(document, "partition"))).keeps_none()
    except UnreadableAmount:
        return False


def find_document(repository: Repository, commit: str, key: ObjectKey, file: str = "") -> Document:
    """The document of `key` at a commit, in `file` or anywhere. Raises UsageProblem GK7020."""
    here = _in_file(repository, commit, key, file) if file else None
    if here is not None:
        return here
    for entry in repository.list_tree(commit):
        if entry.is_file and entry.path.endswith((".yaml", ".yml", ".json")):
            parsed = parse_file(repository.read_blob(entry.id), entry.path)
            for document in parsed.documents:
                if _is(document.obj, key):
                    return document
    raise UsageProblem(Finding(code="GK7020", message=f"{key} is not in git at {commit[:7]}"))


def _in_file(repository: Repository, commit: str, key: ObjectKey, file: str) -> Document | None:
    try:
        entry = repository.find(commit, file)
    except SourceFailed:
        return None
    if entry is None or not entry.is_file:
        return None
    parsed = parse_file(repository.read_blob(entry.id), file)
    return next((d for d in parsed.documents if _is(d.obj, key)), None)


def _with_its_images(
    repository: Repository, commit: str, key: ObjectKey, file: str, folder: str | None
) -> Document | None:
    """The object with the images that kustomizations set; None at a commit that cannot be read."""
    found = _in_file(repository, commit, key, file)
    if found is None:
        return None
    try:
        setters: Kustomizations = kustomizations(repository, commit, folder)
    except InvalidManifests:
        return None
    return replace(found, obj=with_images(found.obj, setters))


def _is(obj: Any, key: ObjectKey) -> bool:
    if not isinstance(obj, Mapping):
        return False
    group, _ = split_api_version(str(obj.get("apiVersion", "")))
    return (
        (group, obj.get("kind")) == (key.group, key.kind)
        and get(obj, "metadata", "name") == key.name
        and get(obj, "metadata", "namespace", default=key.namespace) == key.namespace
    )


def _read(repository: Repository, commit: str, file: str) -> bytes:
    entry = next(e for e in repository.list_tree(commit, file) if e.path == file)
    return repository.read_blob(entry.id)


def _object(data: bytes, file: str, key: ObjectKey) -> Mapping[str, Any]:
    return next(d.obj for d in parse_file(data, file).documents if _is(d.obj, key))
