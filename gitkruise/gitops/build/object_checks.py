"""Checks of metadata, images and variables: Kubernetes' rules for every kind, and our own for
git."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gitkruise.admission.rules.formats import dns_label, dns_subdomain, service_name
from gitkruise.admission.rules.labels import annotation_problems, label_problems
from gitkruise.errors import Finding, Problem, Severity
from gitkruise.gitops.build.redacted_findings import rule
from gitkruise.model.gitops.document import Desired, Document
from gitkruise.model.planning.canary import ANNOTATION, PLAIN, canary_of
from gitkruise.model.workloads.labels import (
    ADVANCED_STATEFULSET,
    CLONESET,
    DEPLOYMENT,
    LIST_PULL_JOB,
    PULL_JOB,
    RECREATE,
    STATEFULSET,
)
from gitkruise.model.workloads.launch_priority import ANNOTATION as LAUNCH_ORDER
from gitkruise.model.workloads.launch_priority import ORDERED, misspelt_order
from gitkruise.planner.sync.annotations import HEALTH, IGNORE, SWITCHES, pointers
from gitkruise.planner.sync.hooks import JOB, hook_of
from gitkruise.printable import shown
from gitkruise.wire.primitives.names import GroupKind, Obj, split_api_version
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.images import is_image

Rule = Callable[[Desired], Iterator[Finding]]

# Filled in by the server; a manifest that carries them was exported from a cluster.
SERVER_FIELDS: Final = (
    ("status",),
    ("metadata", "uid"),
    ("metadata", "resourceVersion"),
    ("metadata", "creationTimestamp"),
    ("metadata", "generation"),
    ("metadata", "managedFields"),
    ("metadata", "selfLink"),
    ("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"),
    ("metadata", "annotations", "deployment.kubernetes.io/revision"),
    ("metadata", "annotations", "deprecated.daemonset.template.generation"),
)
_NAME: Final = ("metadata", "name")
# Of a Job: the cluster makes them of its uid, and takes them for no other.
_SELECTOR: Final = ("spec", "selector")
_UIDS: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")
_JOB_LABELS: Final = tuple(
    (*at, "metadata", "labels", name)
    for at in ((), ("spec", "template"))
    for name in (*_UIDS, "batch.kubernetes.io/job-name", "job-name")
)
_NAMES: Final = {GroupKind("", "Namespace"): dns_label, GroupKind("", "Service"): service_name}
_FREE_NAMED: Final = frozenset({GroupKind("policy", "PodDisruptionBudget")})
_FREE_NAMES: Final = frozenset({"rbac.authorization.k8s.io", "certificates.k8s.io"})
# Objects with the metadata of a pod.
_TEMPLATES: Final = ((), ("spec", "template"), ("spec", "jobTemplate", "spec", "template"))
_CONTAINERS: Final = ("initContainers", "containers")
_OF_COMPLETION: Final = ("spec", "completionPolicy", "ttlSecondsAfterFinished")
_LIFETIMES: Final[Mapping[GroupKind, tuple[str, ...]]] = {
    JOB: ("spec", "ttlSecondsAfterFinished"),
    RECREATE: ("spec", "ttlSecondsAfterFinished"),
    PULL_JOB: _OF_COMPLETION,
    LIST_PULL_JOB: _OF_COMPLETION,
    GroupKind("apps.kruise.io", "BroadcastJob"): _OF_COMPLETION,
}
_POD_SPECS: Final = (
    ("spec",),
    ("spec", "template", "spec"),
    ("spec", "jobTemplate", "spec", "template", "spec"),
)
# Kubernetes' own, which its controllers take away again. Another one would keep the object, and
# our prune of it, waiting for a program that git does not name.
_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_FINALIZER_GROUPS: Final = ("kubernetes.io", "k8s.io")
_HELD: Final = (
    "the object could not be deleted until some program takes it away; that program adds it itself"
)
# Kinds whose pods have the name of their revision as a label; of a DaemonSet it is the hash alone.
_REVISIONS_IN_LABELS: Final = frozenset({CLONESET, STATEFULSET, ADVANCED_STATEFULSET})
_LABEL_MAX: Final = 63
_HASH_MAX: Final = 10
_WHY_LONG: Final = (
    "they have the label controller-revision-hash, NAME-HASH, of at most "
    f"{_LABEL_MAX} characters; a hash has up to {_HASH_MAX}"
)
_FOR_THE_CLUSTER: Final = (
    ("deletionTimestamp", "an object is deleted by taking it out of git"),
    ("ownerReferences", "an owner's uid exists in one cluster alone, and the object dies with it"),
)


def server_fields(obj: Obj) -> tuple[tuple[str, ...], ...]:
    """Return the paths that a server fills in, for the kind of an object."""
    group, _ = split_api_version(obj["apiVersion"])
    generated = any(get(obj, *_SELECTOR, "matchLabels", name) for name in _UIDS)
    if GroupKind(group, obj["kind"]) != JOB or get(obj, "spec", "manualSelector") or not generated:
        return SERVER_FIELDS
    return (*SERVER_FIELDS, _SELECTOR, *_JOB_LABELS)


def lifetime(obj: Obj) -> tuple[str, ...]:
    """The path of the time after which a finished Job or request is deleted; () without.

    A unit would apply it again, and it would be carried out again, for ever. A finished hook is the
    memory that it ran.
    """
    group, _ = split_api_version(obj["apiVersion"])
    path = _LIFETIMES.get(GroupKind(group, obj["kind"]), ())
    return path if path and get(obj, *path) is not None else ()


def name_problems(document: Document, group: str) -> Iterator[Finding]:
    """GK2005 for a name that the API server rejects (apimachinery's rules: most are DNS
    subdomains)."""
    kind, name = document.obj["kind"], document.obj["metadata"]["name"]
    if _NAME in document.unread:
        return
    if group in _FREE_NAMES or GroupKind(group, kind) in _FREE_NAMED:
        wrong = [] if name not in {".", ".."} and not set("/%") & set(name) else ["one path part"]
    else:
        wrong = _NAMES.get(GroupKind(group, kind), dns_subdomain)(name)
    if wrong:
        yield Finding(
            code="GK2005",
            message=f"{name[:60]!a} cannot be the name of a {kind}",
            places=(document.place(_NAME),),
            notes=(("why", wrong[0]), ("next", "use lower case letters, digits and -")),
        )


def own_rules(desired: Desired) -> Iterator[Finding]:
    """All findings of this module for one object, except of its name."""
    for check in _RULES:
        yield from check(desired)


def _metadata(desired: Desired) -> Iterator[Finding]:
    meta: Any = desired.obj["metadata"]
    problems: list[Problem] = []
    for field, check in (("labels", label_problems), ("annotations", annotation_problems)):
        entries = meta.get(field)
        if isinstance(entries, Mapping) and all(isinstance(v, str) for v in entries.values()):
            problems += check(entries, ("metadata", field))
    for problem in problems:
        why = rule(problem.reason) if desired.secret else problem.message[:300]
        yield _refused(desired, problem.path, "GK2101", f"{problem.field}: {why}")


def _the_servers(desired: Desired) -> Iterator[Finding]:
    """GK2021, a warning: the field is removed before applying. Empty ones are written by
    generators."""
    document = desired.document
    for path in server_fields(document.obj):
        if get(document.obj, *path) and path not in _JOB_LABELS:
            name = ".".join(path[:2]) if len(path) < 3 else path[2]
            yield Finding(
                code="GK2021",
                message=f"{desired.key}: {name} is left out: a server fills it in",
                places=(document.place(path, key=True),),
                notes=(("next", "take it out of the file"),),
                object=str(desired.key),
                severity=Severity.WARNING,
            )


def _the_clusters(desired: Desired) -> Iterator[Finding]:
    meta = desired.obj["metadata"]
    for field, why in _FOR_THE_CLUSTER:
        if meta.get(field):
            yield _refused(
                desired, ("metadata", field), "GK2022",
                f"metadata.{field} does not belong into git", (("why", why),),
            )  # fmt: skip
    listed = meta.get("finalizers")
    for number, name in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(name, str) and not _is_kubernetes(name):
            named = f"metadata.finalizers[{number}]" if desired.secret else repr(name[:80])
            yield _refused(
                desired, ("metadata", "finalizers", number), "GK2022",
                f"the finalizer {named} does not belong into git",
                (("why", _HELD),),
            )  # fmt: skip


def _is_kubernetes(finalizer: str) -> bool:
    domain, slash, _ = finalizer.partition("/")
    if not slash:
        return finalizer in _FINALIZERS
    return any(domain == group or domain.endswith("." + group) for group in _FINALIZER_GROUPS)


def _containers(obj: Obj) -> Iterator[tuple[tuple[str | int, ...], Obj]]:
    for at in _POD_SPECS:
        spec = get(obj, *at)
        for field in _CONTAINERS if isinstance(spec, Mapping) else ():
            listed = spec.get(field)
            for number, container in enumerate(listed if isinstance(listed, list) else ()):
                if isinstance(container, Mapping):
                    yield (*at, field, number), container


def _images(desired: Desired) -> Iterator[Finding]:
    """GK2023: a kubelet would fail only when it pulls the image."""
    for at, container in _containers(desired.obj):
        image = container.get("image")
        if isinstance(image, str) and image.strip() and not is_image(image):
            yield _refused(
                desired, (*at, "image"), "GK2023", f"{image[:80]!r} is no image reference",
                (("why", "every pod would wait for it for ever"),
                 ("next", "registry/name:tag or registry/name@sha256:…, in lower case")),
            )  # fmt: skip


def _variables(desired: Desired) -> Iterator[Finding]:
    """GK2024: the last one counts, and its position depends on the applier."""
    for at, container in _containers(desired.obj):
        seen: set[str] = set()
        listed = container.get("env")
        for number, entry in enumerate(listed if isinstance(listed, list) else ()):
            name = entry.get("name") if isinstance(entry, Mapping) else None
            if isinstance(name, str) and name in seen:
                yield _refused(
                    desired, (*at, "env", number, "name"), "GK2024",
                    f"the variable {name[:80]} is set twice in one container",
                    (("next", "keep one"),),
                )  # fmt: skip
            seen.add(str(name))


def _canary(desired: Desired) -> Iterator[Finding]:
    """GK2025, a warning: a canary that no controller acts on. Admission rejects a qualified value
    that is invalid."""
    notes = get(desired.obj, "metadata", "annotations", default={})
    if desired.key.group_kind != DEPLOYMENT or not {ANNOTATION, PLAIN} & set(notes):
        return
    key = ANNOTATION if ANNOTATION in notes else PLAIN
    try:
        canary_of(notes)
        recreate = get(desired.obj, "spec", "strategy", "type") == "Recreate"
        why = "strategy Recreate replaces all pods" if recreate else ""
    except ValueError as error:
        why = str(error) if key == PLAIN else ""
    if why:
        next_ = f'write {ANNOTATION}: "3" or "30%", or take it out'
        yield _without_canary(desired, ("metadata", "annotations", key), why, next_)


def _misplaced_canary(desired: Desired) -> Iterator[Finding]:
    """GK2025 for a canary anywhere but in the metadata of a Deployment."""
    deployment = desired.key.group_kind == DEPLOYMENT
    why, next_ = "only a Deployment has a canary", "take it out; a partition holds back other pods"
    if deployment:
        why, next_ = "it is in the pod template", "move it to metadata.annotations"
    for at in _TEMPLATES[1 if deployment else 0 :]:
        path = (*at, "metadata", "annotations", ANNOTATION)
        if get(desired.obj, *path) is not None:
            yield _without_canary(desired, path, why, next_)


def _without_canary(desired: Desired, path: tuple[str, ...], why: str, next_: str) -> Finding:
    return Finding(
        code="GK2025",
        message=f"{desired.key}: the annotation {path[-1]} is ignored: {why}",
        places=(desired.document.place(path),),
        notes=(("effect", "it pauses no rollout"), ("next", next_)),
        object=str(desired.key),
        severity=Severity.WARNING,
    )


def _lifetime(desired: Desired) -> Iterator[Finding]:
    """GK2026, a warning: what git names is not deleted after its end."""
    path = lifetime(desired.document.obj)
    if path and not hook_of(desired.document.obj):  # that one runs again for a new commit alone
        yield Finding(
            code="GK2026",
            message=f"{desired.key}: {path[-1]} is left out: git says how long the object stays",
            places=(desired.document.place(path, key=True),),
            notes=(("why", "once deleted it would be applied again, and carried out again"),
                   ("next", "take the field out; remove the object from git when it is done")),
            object=str(desired.key),
            severity=Severity.WARNING,
        )  # fmt: skip


def _launch_order(desired: Desired) -> Iterator[Finding]:
    """GK2027, a warning: OpenKruise ignores a value that differs from Ordered in case."""
    for at in _TEMPLATES:
        notes = get(desired.obj, *at, "metadata", "annotations", default={})
        found = misspelt_order(notes) if isinstance(notes, Mapping) else ""
        if found:
            place = (*at, "metadata", "annotations", LAUNCH_ORDER)
            yield Finding(
                code="GK2027",
                message=f'{desired.key}: "{found}" is no value of {LAUNCH_ORDER}',
                places=(desired.document.place(place),),
                notes=(("effect", "containers start in no particular order"),
                       ("next", f"write {ORDERED}")),
                object=str(desired.key),
                severity=Severity.WARNING,
            )  # fmt: skip


def _without_effect(desired: Desired) -> Iterator[Finding]:
    """GK2028: a value of an annotation of ours that would be ignored without a word, and the
    object deleted or corrected nevertheless."""
    notes = get(desired.obj, "metadata", "annotations", default={})
    wrong = {
        name: f"write {' or '.join(words)}"
        for name, words in SWITCHES.items()
        if notes.get(name, "").lower() not in {"", *map(str.lower, words)}
    }
    if not all(pointer.startswith("/") for pointer in pointers(notes.get(IGNORE, ""))):
        wrong[IGNORE] = "write JSON pointers, such as /spec/replicas, separated by spaces or commas"
    for name, instead in wrong.items():
        value = "the value" if desired.secret else f'"{shown(notes[name], 80)}"'
        yield _refused(
            desired, ("metadata", "annotations", name), "GK2028",
            f"{value} has no meaning in {name}",
            (("why", "the annotation would have no effect"), ("next", instead)),
        )  # fmt: skip


def _long_name(desired: Desired) -> Iterator[Finding]:
    """GK2029, a warning: pods have their revision as a label, which is the name with a hash."""
    name, room = desired.key.name, _LABEL_MAX - _HASH_MAX - 1
    if desired.key.group_kind in _REVISIONS_IN_LABELS and len(name) > room:
        yield Finding(
            code="GK2029",
            message=f"{desired.key}: pods may be rejected for its name of {len(name)} characters",
            places=(desired.document.place(("metadata", "name")),),
            notes=(("why", _WHY_LONG), ("next", f"take a name of {room} characters at most")),
            object=str(desired.key),
            severity=Severity.WARNING,
        )  # fmt: skip


def _refused(
    desired: Desired, path: tuple[str | int, ...], code: str, message: str,
    notes: tuple[tuple[str, str], ...] = (),
) -> Finding:  # fmt: skip
    return Finding(
        code=code,
        message=f"{desired.key}: {message}",
        places=(desired.document.place(path),),
        notes=notes,
        object=str(desired.key),
    )


_RULES: Final[tuple[Rule, ...]] = (
    _metadata, _the_servers, _the_clusters, _images, _variables, _canary, _misplaced_canary,
    _lifetime, _launch_order, _without_effect, _long_name,
)  # fmt: skip


def own_health(document: Document, why: str) -> Finding:
    """Return the finding for an object with an invalid health expression."""
    return Finding(
        code="GK2017",
        message=f"{HEALTH} of {document.obj['kind']} {document.obj['metadata']['name']}: {why}",
        places=(document.place(("metadata", "annotations", HEALTH)),),
        notes=(
            ("why", "it is Ignore, or an expression in CEL that is true when the object is well"),
            ("next", "such as: status.phase == 'Up'"),
        ),
    )
