"""Rollback as a computed commit: the old template and the partition that lets every pod return.

A plain revert is not enough: a partition held while the template goes back keeps the bad pods
running (CloneSet moves only pods above the partition, and never back for a raised one).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gitkruise.errors import Finding, UsageProblem
from gitkruise.git.documents import parse_file
from gitkruise.git.edit import edit_field
from gitkruise.git.repo import Repository
from gitkruise.model.change import MISSING, FieldChange
from gitkruise.model.document import Document
from gitkruise.planner.sync.differ import all_differences
from gitkruise.wire.names import ObjectKey, split_api_version
from gitkruise.wire.paths import get


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """The file to write, and what it changes in the object."""

    file: str
    data: bytes
    fields: tuple[FieldChange, ...]


def partition_path(document: Document) -> tuple[str, ...]:
    """Where a CloneSet of this document's version keeps its partition."""
    _, version = split_api_version(str(document.obj["apiVersion"]))
    rolling = ("rollingUpdate",) if version != "v1alpha1" else ()
    return ("spec", "updateStrategy", *rolling, "partition")


def compute_rollback(repository: Repository, key: ObjectKey, *, now: str, to: str) -> Rollback:
    """Template of commit `to`, partition 0, everything else as at commit `now`.

    Raises UsageProblem GK7020 when the object is in neither, and SourceFailed.
    """
    current = find_document(repository, now, key)
    target = find_document(repository, to, key)
    file = current.file
    data = _read(repository, now, file)
    wanted = all_differences(
        get(current.obj, "spec", "template"), get(target.obj, "spec", "template"), None
    )
    for change in wanted:
        if change.after is MISSING:
            raise _structural(key, change)
        data = edit_field(data, file, key, ("spec", "template", *change.path), change.after)
    where = partition_path(current)
    if get(current.obj, *where) not in {None, 0, "0", "0%"}:
        data = edit_field(data, file, key, where, 0)
    after = _object(data, file, key)
    return Rollback(file=file, data=data, fields=all_differences(current.obj, after, None))


def _structural(key: ObjectKey, change: FieldChange) -> UsageProblem:
    path = ".".join(str(part) for part in change.path)
    return UsageProblem(
        Finding(
            code="GK7021",
            message=f"{key}: the rollback would have to take out spec.template.{path}",
            notes=(
                ("why", "only values are edited, so that the commit changes what you see"),
                ("next", "edit the manifest by hand, and set partition to 0 in the same commit"),
            ),
        )
    )


def find_document(repository: Repository, commit: str, key: ObjectKey) -> Document:
    """The document of `key` at a commit, wherever it is written. Raises UsageProblem GK7020."""
    for entry in repository.list_tree(commit):
        if entry.path.endswith((".yaml", ".yml", ".json")):
            parsed = parse_file(repository.read_blob(entry.id), entry.path)
            for document in parsed.documents:
                if _is(document.obj, key):
                    return document
    raise UsageProblem(Finding(code="GK7020", message=f"{key} is not in git at {commit[:7]}"))


def _is(obj: Mapping[str, Any], key: ObjectKey) -> bool:
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
