"""metadata of any object: its name, labels, annotations and references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from gitkruise.admission import formats
from gitkruise.admission.labels import annotation_problems, label_problems
from gitkruise.admission.request import AdmissionRequest
from gitkruise.admission.rules import EACH, Rule, broken, like, present
from gitkruise.admission.words import forbidden, invalid, required
from gitkruise.errors import Problem
from gitkruise.model.settings import Gates
from gitkruise.wire.names import GroupKind

_RBAC: Final = "rbac.authorization.k8s.io"


def _path_segment(text: str) -> list[str]:
    """Names of roles: anything that is one segment of a URL path."""
    if text in {".", ".."}:
        return [f"may not be '{text}'"]
    return [f"may not contain '{bad}'" for bad in "/%" if bad in text]


# kinds whose names are no DNS subdomains
_NAMES: Final[Mapping[GroupKind, formats.Format]] = {
    GroupKind("", "Namespace"): formats.dns_label,
    GroupKind("", "Service"): formats.service_name,
    **{
        GroupKind(_RBAC, kind): _path_segment
        for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    },
}
_RULES: Final[tuple[Rule, ...]] = (
    (("labels",), (label_problems,)),
    (("annotations",), (annotation_problems,)),
    (("finalizers", EACH), (present, like(formats.qualified_name))),
    (("ownerReferences", EACH, ("apiVersion", "kind", "name", "uid")), (present,)),
)


def metadata_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """apimachinery's ValidateObjectMeta; the name's format depends on the kind."""
    assert request.obj is not None
    meta = request.obj.get("metadata") or {}
    name = meta.get("name") or request.key.name
    if not name:
        yield required(("metadata", "name"), "name or generateName is required")
    elif request.old is None:
        name_format = _NAMES.get(request.key.group_kind, formats.dns_subdomain)
        yield from (invalid(("metadata", "name"), name, text) for text in name_format(name))
    yield from broken(_RULES, meta, ("metadata",))
    owners = meta.get("ownerReferences") or ()
    controllers = [owner.get("name", "") for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        first, second = controllers[:2]
        text = f"Only one reference can have Controller set to true. Found {first} and {second}"
        yield forbidden(("metadata", "ownerReferences"), text)
