"""Roles and their bindings at admission: Kubernetes' defaults and rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gitkruise.admission.rules import formats
from gitkruise.admission.rules.field_errors import Path, invalid, required, unsupported
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import GroupKind, Obj

_GROUP: Final = "rbac.authorization.k8s.io"
_ROLE: Final = GroupKind(_GROUP, "Role")
_CLUSTER_ROLE: Final = GroupKind(_GROUP, "ClusterRole")
_BINDING: Final = GroupKind(_GROUP, "RoleBinding")
_CLUSTER_BINDING: Final = GroupKind(_GROUP, "ClusterRoleBinding")
_ROLES: Final = frozenset({_ROLE, _CLUSTER_ROLE})
KINDS: Final = frozenset({*_ROLES, _BINDING, _CLUSTER_BINDING})
_BOUND: Final = {_BINDING: ("Role", "ClusterRole"), _CLUSTER_BINDING: ("ClusterRole",)}
_PEOPLE: Final = frozenset({"User", "Group"})
_SUBJECTS: Final = ("ServiceAccount", "User", "Group")
_MIXED: Final = "rules cannot apply to both regular resources and non-resource URLs"
_RESOURCE_RULES: Final = (
    ("apiGroups", "resource rules must supply at least one api group"),
    ("resources", "resource rules must supply at least one resource"),
)


def default_role(request: AdmissionRequest, _gates: Gates) -> Obj:
    """Write the rules of a role even if there are none, and the groups of what a binding names."""
    new = request.new
    if request.key.group_kind in _ROLES:
        return {**new, "rules": new.get("rules") or None}
    ref = new.get("roleRef") or {}
    out = {**new, "roleRef": {**ref, "apiGroup": ref.get("apiGroup") or _GROUP}}
    if new.get("subjects"):
        out["subjects"] = [_subject_with_group(subject) for subject in new["subjects"]]
    return out


def _subject_with_group(subject: Obj) -> Obj:
    if subject.get("kind") not in _PEOPLE or subject.get("apiGroup"):
        return subject
    return {**subject, "apiGroup": _GROUP}


def role_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """Validate an object of one of KINDS."""
    kind, obj, old = request.key.group_kind, request.new, request.old
    if kind not in _ROLES:
        yield from _binding(kind, obj)
        if old is not None and obj.get("roleRef") != old.get("roleRef"):
            yield invalid(("roleRef",), _as_go(obj["roleRef"]), "cannot change roleRef")
        return
    for index, rule in enumerate(obj.get("rules") or ()):
        yield from _rule(rule, ("rules", index), namespaced=kind == _ROLE)
    combined = obj.get("aggregationRule")
    if combined is not None and not combined.get("clusterRoleSelectors"):
        why = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield required(("aggregationRule", "clusterRoleSelectors"), why)


def _rule(rule: Obj, at: Path, *, namespaced: bool) -> Iterator[Problem]:
    """ValidatePolicyRule."""
    urls: Path = (*at, "nonResourceURLs")
    if not rule.get("verbs"):
        yield required((*at, "verbs"), "verbs must contain at least one value")
    if not rule.get("nonResourceURLs"):
        yield from (required((*at, n), why) for n, why in _RESOURCE_RULES if not rule.get(n))
        return
    if namespaced:
        why = "namespaced rules cannot apply to non-resource URLs"
        yield invalid(urls, rule["nonResourceURLs"], why)
    if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
        yield invalid(urls, rule["nonResourceURLs"], _MIXED)


def _binding(kind: GroupKind, obj: Obj) -> Iterator[Problem]:
    """ValidateRoleBinding and ValidateClusterRoleBinding."""
    ref, allowed = obj["roleRef"], _BOUND[kind]
    if ref["apiGroup"] != _GROUP:
        yield unsupported(("roleRef", "apiGroup"), ref["apiGroup"], (_GROUP,))
    if ref.get("kind") not in allowed:
        yield unsupported(("roleRef", "kind"), ref.get("kind") or "", allowed, as_listed=True)
    if not ref.get("name"):
        yield required(("roleRef", "name"))
    for index, subject in enumerate(obj.get("subjects") or ()):
        yield from _subject(subject, ("subjects", index), namespaced=kind == _BINDING)


def _subject(subject: Obj, at: Path, *, namespaced: bool) -> Iterator[Problem]:
    """ValidateRoleBindingSubject."""
    kind, name, group = (subject.get(field) or "" for field in ("kind", "name", "apiGroup"))
    if not name:
        yield required((*at, "name"))
    if kind not in _SUBJECTS:
        yield unsupported((*at, "kind"), kind, _SUBJECTS, as_listed=True)
        return
    if kind in _PEOPLE:
        if group != _GROUP:
            yield unsupported((*at, "apiGroup"), group, (_GROUP,))
        return
    if name:
        yield from (invalid((*at, "name"), name, why) for why in formats.dns_subdomain(name))
    if group:
        yield unsupported((*at, "apiGroup"), group, ("",))
    if not namespaced and not subject.get("namespace"):
        yield required((*at, "namespace"))


def _as_go(ref: Obj) -> dict[str, Any]:
    """Return a reference with the names of the Go type's fields, which the server prints."""
    fields = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))
    return {name: ref.get(field, "") for name, field in fields}
