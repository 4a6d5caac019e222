"""Delete guards: Namespaces and CustomResourceDefinitions that contain objects of others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from gitkruise.errors import ApiError, Finding, MethodNotAllowed, NotFound, Retry
from gitkruise.gitops.cluster.inventory import NOT_OURS, listed_key
from gitkruise.kube.client.discovery import listed
from gitkruise.kube.client.transport import Transport
from gitkruise.planner.sync.ownership import mark_of
from gitkruise.wire.catalog.catalog import Catalog, Kind
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, controller_of
from gitkruise.wire.primitives.paths import get

_NAMESPACE: Final = GroupKind("", "Namespace")
_CRD: Final = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
# What the cluster itself puts into every namespace.
_FURNITURE: Final = frozenset({("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")})


async def held_by_others(
    transport: Transport,
    catalog: Catalog,
    key: ObjectKey,
    obj: Obj,
    *,
    going: Collection[ObjectKey] = (),
) -> str:
    """Return why the live `obj`, which git no longer contains, must not be deleted: it contains
    objects without the mark of its unit, which would go too. "" when nothing forbids it.

    Those that are `going` do not count: the deletion waits for theirs. A kind that cannot be listed
    counts as containing objects: what is not seen is not deleted.
    """
    if key.group_kind == _NAMESPACE:
        kinds = [k for k in _stored(catalog) if k.namespaced]
        return await _first_stranger(transport, kinds, mark_of(obj), going, space=key.name)
    if key.group_kind == _CRD:
        held = GroupKind(get(obj, "spec", "group"), get(obj, "spec", "names", "kind"))
        kind = catalog.stored(held)
        return await _first_stranger(transport, [kind] if kind else [], mark_of(obj), going)
    return ""


def _stored(catalog: Catalog) -> list[Kind]:
    kinds = {k.group_kind for k in catalog.kinds() if "list" in k.verbs}
    found = [catalog.stored(gk) for gk in sorted(kinds - NOT_OURS)]
    return [kind for kind in found if kind is not None]


async def _first_stranger(
    transport: Transport,
    kinds: Sequence[Kind],
    label: str,
    going: Collection[ObjectKey],
    *,
    space: str = "",
) -> str:
    for kind in kinds:
        try:
            objects = await listed(transport, kind.ref, namespace=space)
        except (NotFound, MethodNotAllowed):
            continue  # known to us, and not to this cluster
        except ApiError as error:
            if error.retry is Retry.NEVER:
                return f"whether it holds any {kind.ref.plural} may not be seen"
            return f"whether it holds any {kind.ref.plural} cannot be seen: {error.message}"
        strange = [obj for obj in objects if _is_strange(kind, obj, label)]
        others = [obj for obj in strange if listed_key(kind, obj) not in going]
        if others:
            name = others[0]["metadata"]["name"]
            more = f" and {len(others) - 1} more" if len(others) > 1 else ""
            return f"it holds {kind.kind} {name}{more}, which this unit did not make"
    return ""


def _is_strange(kind: Kind, obj: Obj, label: str) -> bool:
    if (kind.kind, obj["metadata"]["name"]) in _FURNITURE or controller_of(obj) is not None:
        return False
    return mark_of(obj) != label


def held_back(key: ObjectKey, why: str) -> Finding:
    """Return GK2310, the error of a deletion that would delete objects of others."""
    return Finding(
        code="GK2310",
        message=f"{key} left git and stays: {why}",
        notes=(
            ("unchanged", f"the live {key} with all it holds"),
            ("next", "move or delete what is left there; the deletion follows by itself"),
        ),
        object=str(key),
    )
