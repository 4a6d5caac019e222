"""Validation of documents: everything that the API server would reject, with file and line."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gitkruise.errors import (
    BadRequest,
    Cause,
    Finding,
    Forbidden,
    InvalidObject,
    Problem,
    Severity,
    SourcePlace,
)
from gitkruise.gitops.build.desired import desired_of, duplicates
from gitkruise.gitops.build.field_types import cut, has_null, nulls, shape, untyped
from gitkruise.gitops.build.in_place_only import REFUSAL, in_place_problems
from gitkruise.gitops.build.object_checks import own_rules
from gitkruise.gitops.build.ordering_checks import impossible
from gitkruise.gitops.build.redacted_findings import may_be_secret, parse_field, unquoted
from gitkruise.gitops.build.typos import is_sure, place_of
from gitkruise.gitops.config.other_tools import instead_of_field
from gitkruise.kube.system.package_data import KUBERNETES, load_catalog
from gitkruise.model.gitops.document import Desired, Document, FieldPath
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import ADVANCED_DAEMONSET, ADVANCED_STATEFULSET
from gitkruise.wire.catalog.catalog import Catalog, Kind
from gitkruise.wire.catalog.crds import schemas_problems
from gitkruise.wire.primitives.names import OWN_GROUP, GroupKind, Obj, ObjectKey, split_api_version
from gitkruise.wire.primitives.paths import get, put
from gitkruise.wire.schema.structural import (
    MAX_SUGGESTIONS,
    unknown_fields,
    validate,
    with_defaults,
)
from gitkruise.wire.schema.validation import TYPE_INVALID

if TYPE_CHECKING:
    from gitkruise.model.workloads.pod import PodFacts
    from gitkruise.model.workloads.pod_groups import PodGroups

CRD: Final = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
_NO_UID: Final = "00000000-0000-4000-8000-000000000000"  # what a server gives before it checks


class Nothing:
    """The view of a check without a cluster: it has no objects."""

    def get(self, key: ObjectKey) -> Obj | None:
        del key
        return None

    def objects(self, group_kind: GroupKind, namespace: str) -> Sequence[Obj]:
        del group_kind, namespace
        return ()

    def owned(self, uid: str, group_kind: GroupKind, namespace: str) -> Sequence[Obj]:
        del uid, group_kind, namespace
        return ()

    def pods_of(self, uid: str, namespace: str) -> PodGroups:
        from gitkruise.model.workloads.pod_groups import PodGroups  # noqa: PLC0415  a check without pods needs none

        del uid, namespace
        return PodGroups()

    def pod(self, key: ObjectKey) -> PodFacts | None:
        del key
        return None

    def pods(self, namespace: str) -> Sequence[PodFacts]:
        del namespace
        return ()


@dataclass(frozen=True, slots=True)
class CheckedDocument:
    """Result of checking one document with the kinds of `catalog`."""

    document: Document
    catalog: Catalog
    desired: Desired | None
    findings: tuple[Finding, ...]


Memo: TypeAlias = dict[int, CheckedDocument]  # by the identity of the document


def check_documents(
    documents: Sequence[Document],
    catalog: Catalog,
    *,
    namespace: str,
    gates: Gates = Gates(),
    memo: Memo | None = None,
) -> tuple[list[Desired], list[Finding]]:
    """Return (objects that pass every check, all findings in file order).

    With a `memo` (of one namespace and gates) unchanged documents are not checked again; it holds
    the documents of the last call.
    """
    served = with_crds(catalog, documents)
    known = memo if memo is not None else {}
    fresh: Memo = {}
    for document in documents:
        old = known.get(id(document))
        if old is None or old.document is not document or old.catalog is not served:
            old = _checked(document, served, namespace, gates)
        fresh[id(document)] = old
    known.clear()
    known.update(fresh)
    judged = list(fresh.values())
    objects = [one.desired for one in judged if one.desired is not None]
    findings = [finding for one in judged for finding in one.findings]
    findings += [*duplicates(objects), *_clashes(_sound(judged))]
    whole = all(not finding.is_error for finding in findings)
    return objects, [*findings, *(impossible(objects) if whole else ())]


def unknown_builtins(objects: Iterable[Desired], catalog: Catalog) -> Iterator[Finding]:
    """Yield a warning for each object of Kubernetes' own groups whose kind the schemas lack.

    Without a cluster nothing else judges it: a newer Kubernetes may serve it, and so may an older
    one.
    """
    groups = {kind.group for kind in catalog.kinds() if _is_builtin(kind.group)}
    for d in objects:
        group, kind = d.key.group, d.key.kind
        own = group in groups or "." not in group  # that of a custom kind has a dot
        if own and catalog.by_kind(group, d.version, kind) is None:
            meant = served_as(d, catalog)
            version = ".".join(KUBERNETES)
            yield Finding(
                code="GK4201",
                severity=Severity.WARNING,
                message=f"Kubernetes {version} knows no kind {kind} ({d.obj['apiVersion']})",
                places=(d.document.place(("apiVersion",)),),
                notes=(
                    (
                        "why it matters",
                        "a cluster that does not serve it gets nothing of the commit",
                    ),
                    ("next", written(meant) if meant else "correct kind and apiVersion"),
                ),
                object=str(d.key),
            )


def _is_builtin(group: str) -> bool:
    return "." not in group or group.endswith(".k8s.io")


def served_as(d: Desired, catalog: Catalog) -> Kind | None:
    """Return the kind that is known in another case or version, or of Kubernetes in another
    group; for OpenKruise's workloads of the same name, Kubernetes has no other."""
    group, version, name = d.key.group, d.version, d.key.kind.lower()
    own = d.key.group_kind in {ADVANCED_STATEFULSET, ADVANCED_DAEMONSET}
    alike = [
        kind
        for kind in catalog.kinds()
        if kind.kind.lower() == name
        and kind.verbs
        and (kind.group == group or (_is_builtin(kind.group) and not own))
    ]
    alike.sort(key=lambda kind: (kind.group != group, kind.version != version))
    return next(iter(alike), None)


def written(kind: Kind) -> str:
    """Return the advice to write the apiVersion and the name of a kind."""
    return f"write apiVersion: {kind.api_version}, kind: {kind.kind}"


def _clashes(objects: Sequence[Desired]) -> Iterator[Finding]:
    """Findings for SidecarSets of one commit that conflict with each other."""
    if sum(d.key.kind == "SidecarSet" for d in objects) > 1:
        from gitkruise.gitops.build.sidecar_conflicts import sidecar_clashes  # noqa: PLC0415  seldom needed

        yield from sidecar_clashes(objects)


def _sound(judged: Sequence[CheckedDocument]) -> list[Desired]:
    """Return the objects without errors."""
    good = [one for one in judged if all(not f.is_error for f in one.findings)]
    return [one.desired for one in good if one.desired is not None]


def _checked(document: Document, catalog: Catalog, namespace: str, gates: Gates) -> CheckedDocument:
    desired, wrong = desired_of(document, catalog, namespace)
    if desired is not None:
        wrong = [*check_object(desired, catalog, gates), *_of_known_values(desired)]
    return CheckedDocument(document, catalog, desired, tuple(wrong))


def _of_known_values(desired: Desired) -> Iterator[Finding]:
    """Yield the findings of our own rules, but for errors about values that were not read."""
    document = desired.document
    paths = {path for one in document.unread for path in (one, one[:-1])}  # a label, and its map
    unread = {_position(document.place(path, key=key)) for path in paths for key in (False, True)}
    for finding in own_rules(desired):
        if not (finding.is_error and unread & set(map(_position, finding.places))):
            yield finding


def _position(place: SourcePlace) -> tuple[int, int]:
    return place.line, place.column


def with_crds(catalog: Catalog, documents: Sequence[Document]) -> Catalog:
    """Return the catalog after the commit's own CRDs are applied; broken ones are reported
    later."""
    for document in documents:
        obj = document.obj
        if obj.get("kind") == CRD.kind and not any(untyped(document)):
            group, version = split_api_version(obj.get("apiVersion") or "")
            kind = catalog.by_kind(group, version, CRD.kind)
            if kind is None or wrongly_typed(kind, obj):
                continue  # check_object says what is wrong with it
            with suppress(InvalidObject):
                catalog = catalog.with_crd(obj)
    return catalog


def with_definitions(catalog: Catalog, documents: Iterable[Document]) -> Catalog:
    """Return the kinds after all units of a commit are applied, `documents` theirs: the definition
    of a custom resource may be another unit's."""
    recorded = load_catalog()
    crds = [d for d in documents if d.obj.get("kind") == CRD.kind]
    return with_crds(catalog, [d for d in crds if recorded.stored(defined_kind(d.obj)) is None])


def defined_kind(crd: Obj) -> GroupKind:
    """Return the kind that a CustomResourceDefinition defines, perhaps a wrong one."""
    return GroupKind(
        str(get(crd, "spec", "group", default="")),
        str(get(crd, "spec", "names", "kind", default="")),
    )


def wrongly_typed(kind: Kind, obj: Obj) -> list[Problem]:
    """Return every value of an object that breaks the schema of its kind."""
    problems = [*validate(kind.strict, obj), *nulls(kind.strict, obj)]
    if not problems and kind.group_kind == CRD:
        problems = [p for p in schemas_problems(obj) if p.reason == TYPE_INVALID]
    return problems


def check_object(
    desired: Desired, catalog: Catalog, gates: Gates, *, old: Obj | None = None
) -> Iterator[Finding]:
    """Check unknown fields, types, then the rules of the kind (against `old` for an update).

    A value that was not read breaks neither.
    """
    kind = catalog.by_kind(desired.key.group, desired.version, desired.key.kind)
    if kind is None:
        return  # judged by the cluster that serves it
    wrong = wrongly_typed(kind, desired.obj)
    mistyped = {problem.path for problem in wrong if problem.reason == TYPE_INVALID}
    unknown = [
        problem  # fields of a map where no map is wanted follow from that
        for problem in unknown_fields(kind.strict, desired.obj)
        if problem.path[:-1] not in mistyped
    ]
    for number, problem in enumerate(unknown):
        sure = is_sure(desired.obj, kind, problem, unknown)
        looked_for = not sure and number < MAX_SUGGESTIONS
        place = place_of(desired.obj, kind, problem) if looked_for else ""
        yield _unknown(desired, problem, sure=sure, place=place)
    document, subject = desired.document, str(desired.key)
    known = (problem for problem in wrong if problem.path not in document.unread)
    yield from (shape(document, subject, desired.obj, problem) for problem in known)
    if not unknown and not wrong:
        yield from _rules(desired, kind, gates, old)
        if old is not None:
            yield from in_place_problems(desired, old, gates)


def _unknown(desired: Desired, problem: Problem, *, sure: bool, place: str) -> Finding:
    *parent, name = problem.path
    if len(parent) > 0 and problem.path[0] != "metadata" and may_be_secret(desired, problem.path):
        return _unknown_in_secret(desired, problem)
    hint = f'did you mean "{problem.suggestion}"?' if problem.suggestion else ""
    next_ = hint.replace("did you mean", "rename it to").rstrip("?") or "take it out"
    instead = (
        instead_of_field(desired.key.kind, problem.path) if desired.key.group == OWN_GROUP else ""
    )
    if instead:
        hint = next_ = instead
    elif place:
        hint, next_ = f"is it a field of {place}?", f"move it to {place}, or take it out"
    elif sure:
        file = shlex.quote(desired.document.file)
        next_ = f"gitkruise validate --fix {file}     (renames it)"
    return Finding(
        code="GK1203",
        message=f'unknown field "{name}" in {desired.key.kind} {_dotted(parent)}',
        places=(desired.document.place(problem.path, key=True, label=hint),),
        notes=(
            ("why it matters", "the API server would drop it silently and go on without it"),
            ("next", next_),
        ),
        object=str(desired.key),
    )


def _unknown_in_secret(desired: Desired, problem: Problem) -> Finding:
    """GK1203 without the name of the field: with a wrong indentation it may be a value."""
    return Finding(
        code="GK1203",
        message=f"unknown field in {desired.key.kind} {problem.path[0]}",
        places=(desired.document.place(problem.path, key=True),),
        notes=(
            ("why it matters", "the API server would drop it silently and go on without it"),
            ("next", "take it out, or correct the indentation"),
        ),
        object=str(desired.key),
    )


def _dotted(path: Sequence[str | int]) -> str:
    return Problem(tuple(path), "", "").field or "itself"


def _rules(desired: Desired, kind: Kind, gates: Gates, old: Obj | None) -> Iterator[Finding]:
    from gitkruise.admission.chain import OFFLINE, admit  # noqa: PLC0415  once there is an object
    from gitkruise.admission.rules.request import CREATE, UPDATE, AdmissionRequest  # noqa: PLC0415

    obj = desired.obj
    if has_null(obj):
        obj = with_defaults(kind.strict, obj)  # as a server's decoder does before admission
    request = AdmissionRequest(
        operation=CREATE if old is None else UPDATE,
        kind=kind,
        key=desired.key,
        obj=put(obj, ("metadata", "uid"), _NO_UID) if old is None else obj,
        old=old,
        view=Nothing(),
    )
    try:
        admit(request, gates, OFFLINE)
    except InvalidObject as error:
        for cause in unquoted(error, desired).details.causes:
            asks = _asks_the_cluster(cause) or _is_of_unread(desired, cause)
            if not asks and REFUSAL not in cause.message:
                yield _rule(desired, cause, old)
    except (BadRequest, Forbidden) as error:
        yield Finding(
            code="GK2100",
            message=cut(f"{desired.key}: {unquoted(error, desired).message}"),
            places=(desired.document.place(("spec",), key=True),),
            object=str(desired.key),
        )


def _asks_the_cluster(cause: Cause) -> bool:
    return cause.field.startswith("spec.scaleStrategy.podsToDelete")


def _is_of_unread(desired: Desired, cause: Cause) -> bool:
    """Return whether a rule is about a value that was not read, or about labels with one."""
    path = cause.path or parse_field(cause.field)
    return any(one[: len(path)] == path for one in desired.document.unread)


def _rule(desired: Desired, cause: Cause, old: Obj | None) -> Finding:
    path = cause.path or parse_field(cause.field)
    for test, explain in _EXPLAINED:
        if test(desired, cause, old):
            return explain(desired, cause, old)
    return Finding(
        code="GK2101",
        message=cut(f"{desired.key}: {cause.field}: {cause.message}"),
        places=(desired.document.place(_as_written(desired, path)),),
        object=str(desired.key),
    )


def _as_written(desired: Desired, path: FieldPath) -> FieldPath:
    """Return the path of a value in its file: a server moves `stringData` of a Secret to `data`."""
    texts = ("stringData", *path[1:])
    moved = path[:1] == ("data",) and get(desired.document.obj, *texts) is not None
    return texts if moved and desired.key.kind == "Secret" else path


def _is_selector_change(desired: Desired, cause: Cause, old: Obj | None) -> bool:
    return old is not None and get(old, "spec", "selector") != get(desired.obj, "spec", "selector")


def _selector_change(desired: Desired, cause: Cause, old: Obj | None) -> Finding:
    del cause
    was = _labels(get(old, "spec", "selector", "matchLabels", default={}))
    return Finding(
        code="GK2201",
        message=f"spec.selector of a {desired.key.kind} cannot change after creation",
        places=(
            desired.document.place(
                ("spec", "selector"), key=True, label=f"the live object has {was}"
            ),
        ),
        notes=(
            ("why", "the running pods would be orphaned"),
            ("unchanged", f"the live {desired.key} and its pods"),
            ("next", "put the old selector back, or add a second object and retire this one"),
        ),
        object=str(desired.key),
    )


def _is_mismatch(desired: Desired, cause: Cause, old: Obj | None) -> bool:
    del old
    return "does not match template" in cause.message


def _mismatch(desired: Desired, cause: Cause, old: Obj | None) -> Finding:
    del cause, old
    wants = _labels(get(desired.obj, "spec", "selector", "matchLabels", default={}))
    has = _labels(get(desired.obj, "spec", "template", "metadata", "labels", default={}))
    return Finding(
        code="GK2202",
        message=f"{desired.key}: the selector does not match the labels of its own template",
        places=(
            desired.document.place(("spec", "selector"), key=True, label=f"selects {wants}"),
            desired.document.place(
                ("spec", "template", "metadata", "labels"),
                key=True,
                label=f"pods would carry {has or 'no labels'}",
            ),
        ),
        notes=(
            ("why", "the controller would create pods for ever and never count one as its own"),
            ("next", "make the template's labels contain every label of the selector"),
        ),
        object=str(desired.key),
    )


def _labels(labels: Mapping[str, Any]) -> str:
    return ", ".join(f"{k}={v}" for k, v in sorted(labels.items()))


_Test = Callable[[Desired, Cause, Obj | None], bool]
_Explain = Callable[[Desired, Cause, Obj | None], Finding]
_EXPLAINED: Final[tuple[tuple[_Test, _Explain], ...]] = (
    (_is_mismatch, _mismatch),
    (_is_selector_change, _selector_change),
)
