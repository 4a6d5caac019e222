"""Sync snapshots in shorthand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitkruise.model.gitops.document import Desired, DesiredSet, Document, GitCommit
from gitkruise.model.gitops.sync_round import Live, PruneRules, SyncPlan, SyncSnapshot
from gitkruise.planner.sync.annotations import UNIT, digest_of, marked
from gitkruise.planner.sync.apply_order import stage_of, wave_of
from gitkruise.planner.sync.dependencies import depends_on
from gitkruise.planner.sync.drift import Memo
from gitkruise.planner.sync.plan import find_drift, plan_sync
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, split_api_version

LABEL = "abcdefabcdef"
COMMIT = GitCommit(id="c" * 40, subject="change")


def thing(name: str = "a", kind: str = "ConfigMap", /, **more: Any) -> Obj:
    """A manifest; `wave` and `note_x=…` become annotations, the rest are fields."""
    versions = {"CloneSet": "apps.kruise.io/v1beta1", "Deployment": "apps/v1",
                "StatefulSet": "apps/v1",
                "Ingress": "networking.k8s.io/v1",
                "CustomResourceDefinition": "apiextensions.k8s.io/v1"}  # fmt: skip
    notes = more.pop("notes", {})
    meta: dict[str, Any] = {"name": name}
    if kind not in {"Namespace", "PersistentVolume", "CustomResourceDefinition"}:
        meta["namespace"] = "shop"
    if notes:
        meta["annotations"] = notes
    return {"apiVersion": versions.get(kind, "v1"), "kind": kind, "metadata": meta, **more}


def desired(obj: Obj) -> Desired:
    group, version = split_api_version(obj["apiVersion"])
    meta = obj["metadata"]
    return Desired(
        key=ObjectKey(group, obj["kind"], meta.get("namespace", ""), meta["name"]),
        version=version,
        obj=obj,
        digest=digest_of(obj),
        document=Document(obj=obj, file="app.yaml", line=1),
        wave=wave_of(obj),
        stage=stage_of(GroupKind(group, obj["kind"])),
        depends_on=depends_on(obj),
    )


def applied(obj: Obj, *, ready: bool = True, why: str = "", **drifted: Any) -> Live:
    """`obj` as we applied it; `drifted` replaces top-level fields."""
    body = marked(desired(obj), unit="shop/web", label=LABEL, commit="c", path="app.yaml:1")
    return Live(obj={**body, **drifted}, ready=ready, why=why)


def foreign(obj: Obj, label: str = "") -> Live:
    """`obj` as another manager created it."""
    labels = {UNIT: label} if label else {}
    return Live(obj={**obj, "metadata": {**obj["metadata"], "labels": labels}}, ready=True)


def key(obj: Obj) -> ObjectKey:
    return desired(obj).key


def snapshot(
    wanted: list[Obj], live: list[Live], *, inventory: list[Obj] | None = None, **more: Any
) -> SyncSnapshot:
    """Desired objects against live ones; the inventory is everything live unless given."""
    seen: Mapping[ObjectKey, Live] = {key(one.obj): one for one in live}
    known = seen.keys() if inventory is None else {key(obj) for obj in inventory}
    rules: dict[str, Any] = {
        "unit_label": LABEL,
        "inventory_complete": True,
        "prune": PruneRules(),
        "correct_drift": True,
        **more,
    }
    return SyncSnapshot(
        desired=DesiredSet(commit=COMMIT, objects=tuple(desired(obj) for obj in wanted)),
        live=seen,
        inventory=frozenset(known),
        **rules,
    )


def planned(s: SyncSnapshot, catalog: Catalog, memo: Memo | None = None) -> SyncPlan:
    """The plan of a snapshot with all the drift there is."""
    return plan_sync(s, find_drift(s, catalog, memo), catalog, memo)
