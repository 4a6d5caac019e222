"""Documents of a commit as the objects a unit wants: keys, namespaces, order, digests."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any

from gitkruise.errors import Finding
from gitkruise.gitops.build import ordering_checks
from gitkruise.gitops.build.field_types import untyped
from gitkruise.gitops.build.object_checks import lifetime, name_problems, own_health, server_fields
from gitkruise.kube.system.cel import BadCelExpression, holds
from gitkruise.model.gitops.change import ChangeKind, ObjectChange, Redacted
from gitkruise.model.gitops.document import Desired, Document
from gitkruise.model.planning.canary import MARKS
from gitkruise.planner.report.redaction import covered
from gitkruise.planner.report.summary import shown
from gitkruise.planner.sync import dependencies
from gitkruise.planner.sync.annotations import (
    HOLD,
    annotation,
    apply_word,
    bare,
    digest_of,
    health_words,
    hold_of,
)
from gitkruise.planner.sync.apply_order import WAVE_ANNOTATIONS, stage_of, wave_of
from gitkruise.planner.sync.diff import all_differences
from gitkruise.planner.sync.hooks import JOB, LAST, asleep, hook_of
from gitkruise.wire.catalog.catalog import Catalog, Kind
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, split_api_version
from gitkruise.wire.primitives.paths import drop, get, put
from gitkruise.wire.primitives.secret_names import concealed
from gitkruise.wire.schema.empty_words import without_empty_words
from gitkruise.wire.values.base64_text import with_stored_bytes


def desired_of(
    document: Document, catalog: Catalog, namespace: str
) -> tuple[Desired | None, list[Finding]]:
    """Return the object of a document, and the problems of its name, kind and annotations.

    `namespace` is given to namespaced objects without one. An object of a kind that the catalog
    does not know is namespaced if it names a namespace; the API server decides later.
    """
    findings = [*untyped(document)] or [*_naming(document)]
    if findings:
        return None, findings
    obj = document.obj
    group, version = split_api_version(obj["apiVersion"])
    kind = catalog.by_kind(group, version, obj["kind"])
    namespaced = kind.namespaced if kind else bool(get(obj, "metadata", "namespace"))
    findings += _scope(document, kind)
    where = (get(obj, "metadata", "namespace") or namespace) if namespaced else ""
    clean = _without_words(kind, _clean(obj, where))
    try:
        wave = wave_of(clean)
    except ValueError:
        findings.append(_bad_wave(document))
        wave = 0
    try:
        awaited = dependencies.depends_on(clean)
    except ValueError as error:
        findings.append(ordering_checks.unreadable(document, str(error)))
        awaited = ()
    try:
        apply_word(clean)
    except ValueError as error:
        findings.append(ordering_checks.no_word(document, str(error)))
    try:
        hook = hook_of(clean)
    except ValueError as error:
        findings.append(ordering_checks.no_hook(document, str(error)))
        hook = ""
    if hook and GroupKind(group, obj["kind"]) != JOB:
        findings.append(ordering_checks.no_hook(document, f"a {obj['kind']}"))
    if _is_text(get(clean, "metadata", "annotations", default={})):
        findings += [*_bad_health(document, clean), *_bad_hold(document, clean)]
    if findings:
        return None, findings
    if hook:
        clean, hook = _as_hook(clean, hook)
    key = ObjectKey(group, obj["kind"], where, obj["metadata"]["name"])
    return Desired(
        key=key,
        version=version,
        obj=clean,
        digest=digest_of(clean),
        document=document,
        namespaced=namespaced,
        wave=wave,
        stage=stage_of(GroupKind(group, obj["kind"])),
        secret=key.group_kind == GroupKind("", "Secret"),
        hook=hook,
        depends_on=awaited,
    ), []


def _without_words(kind: Kind | None, obj: Obj) -> Obj:
    """Return the object without the empty texts for which the server stores its defaults."""
    kept: Obj = without_empty_words(kind.strict, obj) if kind is not None else obj
    return kept


def _as_hook(job: Obj, hook: str) -> tuple[Obj, str]:
    """Return a hook Job as it is sent, and its hook; a `last` hook is sent asleep, as an ordinary
    object."""
    return (asleep(job), "") if hook == LAST else (job, hook)


def _naming(document: Document) -> Iterator[Finding]:
    obj = document.obj
    for field in ("apiVersion", "kind"):
        if not isinstance(obj.get(field), str) or not obj[field]:
            yield Finding(
                code="GK2001",
                message=f"this object has no {field}",
                places=(document.place((field,)),),
                notes=(("next", "every object needs apiVersion, kind and metadata.name"),),
            )
            return
    name = get(obj, "metadata", "name")
    if get(obj, "metadata", "generateName") and not name:
        yield Finding(
            code="GK2006",
            message=f"{obj['kind']} has generateName and no name",
            places=(document.place(("metadata", "generateName"), key=True),),
            notes=(("why", "every sync would create another object"), ("next", "give it a name")),
        )
    elif not isinstance(name, str) or not name:
        scalar = isinstance(name, int | float)
        path = ("metadata", "name") if scalar else ("metadata",)
        written = document.written(path) or name
        yield Finding(
            code="GK2005",
            message=f"{obj['kind']} has no metadata.name" + (" that is text" if scalar else ""),
            places=(document.place(path),),
            notes=(("next", f'quote it: "{written}"' if scalar else "give it a name"),),
        )
    else:
        yield from name_problems(document, split_api_version(obj["apiVersion"])[0])


def _scope(document: Document, kind: Kind | None) -> Iterator[Finding]:
    if kind and not kind.namespaced and get(document.obj, "metadata", "namespace"):
        yield Finding(
            code="GK2008",
            message=f"{kind.kind} is cluster-scoped and cannot be in a namespace",
            places=(document.place(("metadata", "namespace"), key=True),),
            notes=(("next", "take metadata.namespace out"),),
        )


def _bad_health(document: Document, obj: Obj) -> Iterator[Finding]:
    """Yield a finding for an expression that has no answer for the object as it is in git, where
    fields that the cluster sets are missing."""
    words = health_words(obj)
    try:
        if words:
            holds(words, obj)
    except BadCelExpression as error:
        yield own_health(document, str(error))


def _bad_hold(document: Document, obj: Obj) -> Iterator[Finding]:
    try:
        hold_of(obj)
    except ValueError:
        place = document.place(("metadata", "annotations", HOLD))
        what = f"{obj['kind']} {obj['metadata']['name']}"
        yield ordering_checks.no_hold(what, annotation(obj, HOLD), (place,))


def _bad_wave(document: Document) -> Finding:
    notes = document.obj["metadata"]["annotations"]
    name = next(name for name in WAVE_ANNOTATIONS if name in notes)
    return Finding(
        code="GK2009",
        message="the wave of an object must be an integer",
        places=(document.place(("metadata", "annotations", name)),),
        notes=(("next", 'for example gitkruise.io/wave: "1"'),),
    )


def _clean(obj: Obj, namespace: str) -> Obj:
    """Remove server fields, forged or copied marks of gitkruise, the lifetime of a Job or request,
    and rules that the cluster aggregates; move stringData of Secrets to `data`, and write base64 as
    the API server stores it."""
    marks = (("metadata", "annotations", name) for name in MARKS)
    for path in filter(None, (*server_fields(obj), lifetime(obj), *marks)):
        obj = drop(obj, path)
    obj = bare(obj)
    if namespace:
        obj = put(obj, ("metadata", "namespace"), namespace)
    if obj.get("kind") == "Secret" and _is_text(obj.get("stringData")):
        obj = _merged_data(obj)
    if obj.get("kind") == "ClusterRole" and obj.get("aggregationRule"):
        obj = drop(obj, ("rules",))
    return with_stored_bytes(obj)


def _is_text(entries: Any) -> bool:
    """Return whether the entries are a map of strings, as the API server requires of stringData."""
    return isinstance(entries, dict) and all(isinstance(v, str) for v in entries.values())


def _merged_data(secret: Obj) -> Obj:
    """Merge stringData into data, encoded: stringData wins (core/v1 Secret)."""
    text: dict[str, Any] = {
        key: base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()
        for key, value in secret["stringData"].items()
    }
    before = secret.get("data") or {}
    if not text or not isinstance(before, dict):
        return secret if text else drop(secret, ("stringData",))
    data = {**before, **text}
    merged: Obj = put(drop(secret, ("stringData",)), ("data",), data)
    return merged


def duplicates(objects: Sequence[Desired]) -> Iterator[Finding]:
    """One finding for each object that is declared more than once."""
    first: dict[ObjectKey, Desired] = {}
    for desired in objects:
        before = first.setdefault(desired.key, desired)
        if before is not desired:
            yield Finding(
                code="GK1301",
                message=f"{desired.key} is declared twice",
                places=(
                    before.document.place(("kind",), key=True, label="first"),
                    desired.document.place(("kind",), key=True, label=_second(before, desired)),
                ),
                notes=(
                    ("unchanged", "neither is applied; the live object stays as it is"),
                    ("next", "keep one"),
                ),
                object=str(desired.key),
            )


def _second(first: Desired, second: Desired) -> str:
    """The label of the second declaration, `second (replicas differs: 10 and 8)`: users see which
    is right."""
    fields = all_differences(first.obj, second.obj, None)
    if not fields:
        return "second (the same)"
    change = ObjectChange(
        kind=ChangeKind.CONFIGURE, key=first.key, before=first.obj, after=second.obj, fields=fields
    )
    change_shown = next(covered(change, bytes(32)))  # no fingerprint of it is shown
    path = concealed(change_shown.path)
    name = ".".join(map(str, path[-2:] if len(path) > 2 else path[-1:]))
    private = any(d.secret or d.document.may_be_secret(change_shown.path) for d in (first, second))
    plain = not private and not any(
        isinstance(v, Redacted | dict | list) for v in (change_shown.before, change_shown.after)
    )
    values = f": {shown(change_shown.before)} and {shown(change_shown.after)}" if plain else ""
    more = f", and {len(fields) - 1} more" if len(fields) > 1 else ""
    return f"second ({name} differs{values}{more})"
