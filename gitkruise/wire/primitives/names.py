"""Names of objects and kinds, and the references between objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

Obj: TypeAlias = Mapping[str, Any]  # a raw Kubernetes object; never changed in place
OWN_GROUP: Final = "gitkruise.io"
OWN_API: Final = f"{OWN_GROUP}/v1alpha1"  # of all its kinds, and of what commands print
CONFIG_FILE: Final = "gitkruise.yaml"  # a configuration in a repository; read, never applied
KUSTOMIZATION_NAMES: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
ACCOUNT: Final = "system:serviceaccount:"  # how users begin that are service accounts


class GroupKind(NamedTuple):
    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


class ObjectKey(NamedTuple):
    """Identity of an object across API versions; namespace is "" for cluster-scoped kinds."""

    group: str
    kind: str
    namespace: str
    name: str

    @property
    def group_kind(self) -> GroupKind:
        return _group_kind(self.group, self.kind)

    def __str__(self) -> str:
        return (
            f"{self.kind} {self.namespace}/{self.name}"
            if self.namespace
            else f"{self.kind} {self.name}"
        )


@lru_cache(maxsize=1024)
def _group_kind(group: str, kind: str) -> GroupKind:
    """There are few, and they are asked for with every change."""
    return GroupKind(group, kind)


def kinds_of(by_group: Mapping[str, Iterable[str]]) -> frozenset[GroupKind]:
    """Kinds by the names that they have in each group."""
    return frozenset(GroupKind(group, kind) for group, kinds in by_group.items() for kind in kinds)


# Short names of kinds whose own name means another kind without its group.
_SHORT: Final = {
    GroupKind("apps.kruise.io", "StatefulSet"): "asts",
    GroupKind("apps.kruise.io", "DaemonSet"): "ads",
}


def noun(kind: GroupKind) -> str:
    """A kind as command lines name it: `cloneset`, and `asts` for OpenKruise's StatefulSet.

    Its DaemonSet is `ads`: a short name that kubectl knows, too.
    """
    return _SHORT.get(kind) or kind.kind.lower()


def short_name(key: ObjectKey) -> str:
    """An object without its namespace: `cloneset/web`."""
    return f"{noun(key.group_kind)}/{key.name}"


def named(key: ObjectKey) -> str:
    """An object as command lines name it: `cloneset/web -n shop`."""
    space = f" -n {key.namespace}" if key.namespace else ""
    return f"{short_name(key)}{space}"


def account_user(namespace: str, name: str) -> str:
    """The user that a service account is: `system:serviceaccount:shop:deployer`."""
    if not namespace or not name:
        raise ValueError("a service account has a namespace and a name")
    return f"{ACCOUNT}{namespace}:{name}"


def split_api_version(api_version: str) -> tuple[str, str]:
    """(group, version) of an `apiVersion`: ("apps", "v1"), ("", "v1")."""
    group, slash, version = api_version.rpartition("/")
    return (group, version) if slash else ("", api_version)


def join_api_version(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version


def key_of(obj: Obj) -> ObjectKey:
    """Key of a raw object that carries apiVersion and kind."""
    meta = obj.get("metadata") or {}
    group, _ = split_api_version(obj["apiVersion"])
    return ObjectKey(group, obj["kind"], meta.get("namespace") or "", meta.get("name") or "")


def is_object(obj: Any, key: ObjectKey) -> bool:
    """Return whether a raw object is `key`; one without a namespace may be in any."""
    if not isinstance(obj, Mapping):
        return False
    meta = obj.get("metadata")
    group, _ = split_api_version(str(obj.get("apiVersion", "")))
    if not isinstance(meta, Mapping) or (group, obj.get("kind")) != (key.group, key.kind):
        return False
    return (
        meta.get("name") == key.name and (meta.get("namespace") or key.namespace) == key.namespace
    )


def controller_of(obj: Obj) -> Obj | None:
    """The owner reference marked `controller: true`, or None."""
    refs = (obj.get("metadata") or {}).get("ownerReferences") or ()
    return next((ref for ref in refs if ref.get("controller")), None)


def controller_reference(owner: Obj) -> dict[str, Any]:
    """The owner reference a controller writes on what it creates for `owner`."""
    meta = owner["metadata"]
    return controlled_by(owner["apiVersion"], owner["kind"], meta["name"], meta["uid"])


def controlled_by(version: str, kind: str, name: str, uid: str) -> dict[str, Any]:
    """The same for an owner in parts."""
    return {
        "apiVersion": version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
