"""Is what git asks for something a cluster would accept? Every problem with its file and line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gitkruise.errors import BadRequest, Cause, Finding, Forbidden, InvalidObject, Problem
from gitkruise.gitops.desired import desired_of, duplicates
from gitkruise.gitops.in_place_only import REFUSAL, in_place_problems
from gitkruise.gitops.order import impossible
from gitkruise.gitops.own_rules import own_rules
from gitkruise.gitops.slips import is_sure
from gitkruise.gitops.veil import veil
from gitkruise.model.change import Desired
from gitkruise.model.document import Document
from gitkruise.model.settings import Gates
from gitkruise.wire.catalog import Catalog, Kind
from gitkruise.wire.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.paths import get, put
from gitkruise.wire.schema import unknown_fields, validate

if TYPE_CHECKING:
    from gitkruise.model.pod import PodFacts
    from gitkruise.model.pods import Pods

_NO_UID: Final = "00000000-0000-4000-8000-000000000000"  # what a server gives before it checks
_MESSAGE_MAX: Final = 500
_STEP: Final = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")


class Nothing:
    """The view of a check without a cluster: no object exists."""

    def get(self, key: ObjectKey) -> Obj | None:
        del key
        return None

    def objects(self, group_kind: GroupKind, namespace: str) -> Sequence[Obj]:
        del group_kind, namespace
        return ()

    def owned(self, uid: str, group_kind: GroupKind, namespace: str) -> Sequence[Obj]:
        del uid, group_kind, namespace
        return ()

    def pods_of(self, uid: str, namespace: str) -> Pods:
        from gitkruise.model.pods import Pods  # noqa: PLC0415  a check without pods needs none

        del uid, namespace
        return Pods()

    def pod(self, key: ObjectKey) -> PodFacts | None:
        del key
        return None

    def pods(self, namespace: str) -> Sequence[PodFacts]:
        del namespace
        return ()


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of one document, under the kinds it was judged by."""

    document: Document
    catalog: Catalog
    desired: Desired | None
    findings: tuple[Finding, ...]


Memo: TypeAlias = dict[int, Checked]  # by the identity of the document


def check_documents(
    documents: Sequence[Document],
    catalog: Catalog,
    *,
    namespace: str,
    gates: Gates = Gates(),
    memo: Memo | None = None,
) -> tuple[list[Desired], list[Finding]]:
    """(objects that stand up to every check, all findings in file order).

    With a `memo` (of one namespace and gates) documents seen before are not judged again; it
    holds the documents of the last call.
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
    whole = all(finding.severity != "error" for finding in findings)
    return objects, [*findings, *(impossible(objects) if whole else ())]


def _clashes(objects: Sequence[Desired]) -> Iterator[Finding]:
    """What SidecarSets of one commit would do to each other."""
    if sum(d.key.kind == "SidecarSet" for d in objects) > 1:
        from gitkruise.gitops.sidecar_clashes import sidecar_clashes  # noqa: PLC0415  seldom needed

        yield from sidecar_clashes(objects)


def _sound(judged: Sequence[Checked]) -> list[Desired]:
    """Objects that nothing is wrong with."""
    good = [one for one in judged if all(f.severity != "error" for f in one.findings)]
    return [one.desired for one in good if one.desired is not None]


def _checked(document: Document, catalog: Catalog, namespace: str, gates: Gates) -> Checked:
    desired, wrong = desired_of(document, catalog, namespace)
    if desired is not None:
        found = (*check_object(desired, catalog, gates), *own_rules(desired))
        wrong = [_veiled(f, desired) for f in found]
    return Checked(document, catalog, desired, tuple(wrong))


def with_crds(catalog: Catalog, documents: Sequence[Document]) -> Catalog:
    """The catalog after the commit's own CRDs are applied; broken ones are found later."""
    for document in documents:
        if document.obj.get("kind") == "CustomResourceDefinition":
            try:
                catalog = catalog.with_crd(document.obj)
            except (InvalidObject, KeyError, TypeError, AttributeError):
                continue  # check_object says what is wrong with it
    return catalog


def check_object(
    desired: Desired, catalog: Catalog, gates: Gates, *, old: Obj | None = None
) -> Iterator[Finding]:
    """Unknown fields, types, then the rules of the kind (against `old` when it is an update)."""
    kind = catalog.by_kind(desired.key.group, desired.version, desired.key.kind)
    if kind is None:
        return  # judged by the cluster that serves it
    unknown = unknown_fields(kind.strict, desired.obj)
    for problem in unknown:
        yield _unknown(desired, problem, sure=is_sure(desired.obj, kind, problem, unknown))
    wrong = validate(kind.strict, desired.obj)
    yield from (_shape(desired, problem) for problem in wrong)
    if not unknown and not wrong:
        yield from _rules(desired, kind, gates, old)
        if old is not None:
            yield from in_place_problems(desired, old, gates)


def _unknown(desired: Desired, problem: Problem, *, sure: bool) -> Finding:
    *parent, name = problem.path
    hint = f'did you mean "{problem.suggestion}"?' if problem.suggestion else ""
    next_ = hint.replace("did you mean", "rename it to").rstrip("?") or "take it out"
    if sure:
        next_ = f"gitkruise validate --fix {desired.document.file}     (renames it)"
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


def _dotted(path: Sequence[str | int]) -> str:
    return Problem(tuple(path), "", "").field or "itself"


def _shape(desired: Desired, problem: Problem) -> Finding:
    written = desired.document.written(problem.path)
    value = _value_at(desired.obj, problem.path)
    plain = isinstance(value, bool) and written.lower() not in {"true", "false"}
    number = isinstance(value, int | float) and not isinstance(value, bool)
    wants_text = "must be of type string" in problem.message or ' "string"' in problem.message
    notes: tuple[tuple[str, str], ...] = ()
    if plain:
        notes = (("why", f"the plain word {written} means {str(value).lower()} in YAML"),)
    if wants_text and (plain or number):
        notes = (*notes, ("next", f'quote it: "{written}"'))
    return Finding(
        code="GK1204",
        message=_cut(f"{desired.key}: {problem.field}: {problem.message}"),
        places=(desired.document.place(problem.path),),
        notes=notes,
        object=str(desired.key),
    )


def _cut(message: str) -> str:
    """What a server says may quote the whole value; a person needs its beginning."""
    return message if len(message) <= _MESSAGE_MAX else f"{message[:_MESSAGE_MAX]}…"


def _value_at(obj: Any, path: Sequence[str | int]) -> Any:
    return get(obj, *path)


def _rules(desired: Desired, kind: Kind, gates: Gates, old: Obj | None) -> Iterator[Finding]:
    from gitkruise.admission.chain import OFFLINE, admit  # noqa: PLC0415  once there is an object
    from gitkruise.admission.request import CREATE, UPDATE, AdmissionRequest  # noqa: PLC0415

    request = AdmissionRequest(
        operation=CREATE if old is None else UPDATE,
        kind=kind,
        key=desired.key,
        obj=put(desired.obj, ("metadata", "uid"), _NO_UID) if old is None else desired.obj,
        old=old,
        view=Nothing(),
    )
    try:
        admit(request, gates, OFFLINE)
    except InvalidObject as error:
        for cause in error.details.causes:
            if not _asks_the_cluster(cause) and REFUSAL not in cause.message:
                yield _rule(desired, cause, old)
    except (BadRequest, Forbidden) as error:
        yield Finding(
            code="GK2100",
            message=_cut(f"{desired.key}: {error.message}"),
            places=(desired.document.place(("spec",), key=True),),
            object=str(desired.key),
        )


def _asks_the_cluster(cause: Cause) -> bool:
    return cause.field.startswith("spec.scaleStrategy.podsToDelete")


def parse_field(text: str) -> tuple[str | int, ...]:
    """`spec.template.spec.containers[0].image` as a path; keys in brackets are taken whole."""
    return tuple(
        int(index) if index.isdigit() else index or name for name, index in _STEP.findall(text)
    )


def _rule(desired: Desired, cause: Cause, old: Obj | None) -> Finding:
    path = cause.path or parse_field(cause.field)
    for test, explain in _EXPLAINED:
        if test(desired, cause, old):
            return explain(desired, cause, old)
    return Finding(
        code="GK2101",
        message=_cut(f"{desired.key}: {cause.field}: {cause.message}"),
        places=(desired.document.place(path),),
        object=str(desired.key),
    )


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


def _veiled(finding: Finding, desired: Desired) -> Finding:
    """A finding about a Secret says where, never what."""
    return veil(finding, desired.document.obj) if desired.secret else finding


_Test = Callable[[Desired, Cause, Obj | None], bool]
_Explain = Callable[[Desired, Cause, Obj | None], Finding]
_EXPLAINED: Final[tuple[tuple[_Test, _Explain], ...]] = (
    (_is_mismatch, _mismatch),
    (_is_selector_change, _selector_change),
)
