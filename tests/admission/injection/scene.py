"""SidecarSets, pods, and what injection makes of them, in few words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from gitkruise.admission.injection.inject import Injection, inject
from gitkruise.admission.injection.matching import NewPod
from gitkruise.model.workloads.revision import Revision
from gitkruise.model.workloads.sidecarset import Pin, SidecarSetFacts, sidecarset_facts
from gitkruise.model.workloads.sidecarset_hash import HASH, HASH_WITHOUT_IMAGE

NOW: Final = datetime(2026, 7, 2, 8, tzinfo=UTC)
APP: Final = {"app": "web"}
SPACE: Final = "app1"
BEFORE, AFTER = "BeforeAppContainer", "AfterAppContainer"


def side(name: str, inject_at: str = BEFORE, **more: Any) -> dict[str, Any]:
    return {"name": name, "image": f"{name}:1", "podInjectPolicy": inject_at, **more}


def hot(name: str, **more: Any) -> dict[str, Any]:
    upgrade = {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": f"{name}-empty:1"}
    return side(name, upgradeStrategy=upgrade, **more)


def sidecarset(name: str = "ss", **spec: Any) -> SidecarSetFacts:
    """A stored SidecarSet for pods labelled app=web; `notes`, `labels` go into its metadata."""
    notes = {HASH: "H", HASH_WITHOUT_IMAGE: "W", **spec.pop("notes", {})}
    meta = {"name": name, "annotations": notes, "labels": spec.pop("labels", {})}
    return sidecarset_facts(
        {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "SidecarSet",
            "metadata": meta,
            "spec": {"selector": {"matchLabels": APP}, **spec},
            "status": {"latestRevision": f"{name}-7xx"},
        }
    )


def app(name: str = "app", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "app:1", **more}


def pod(*containers: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A pod labelled app=web; `labels` and `notes` go into its metadata, the rest into its spec."""
    meta: dict[str, Any] = {"name": "p", "labels": {**APP, **more.pop("labels", {})}}
    if notes := more.pop("notes", None):
        meta["annotations"] = notes
    spec = {"containers": list(containers) or [app()], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def injection(
    sent: dict[str, Any],
    *sets: SidecarSetFacts,
    space_labels: Mapping[str, str] | None = None,
    history: Mapping[str, Revision] | None = None,
    lot: str = "",
    sort_by_name: bool = False,
) -> Injection:
    """The injection of `sets` into a pod of namespace app1; `history` by name and version."""

    def find(_: SidecarSetFacts, pin: Pin) -> Revision | None:
        return (history or {}).get(pin.revision_name or pin.custom_version or "")

    newborn = NewPod(
        namespace=SPACE,
        namespace_labels={"ns": SPACE} if space_labels is None else space_labels,
        labels=sent["metadata"]["labels"],
        draw_seed=lot,
    )
    return inject(sent, sets, newborn, find, NOW, sort_by_name=sort_by_name)


def injected(sent: dict[str, Any], *sets: SidecarSetFacts, **more: Any) -> Any:
    """The pod after injection."""
    return injection(sent, *sets, **more).pod


def names(made: Any, kind: str = "containers") -> list[str]:
    return [one["name"] for one in made["spec"].get(kind) or ()]


def named(made: Any, name: str, kind: str = "containers") -> Any:
    return next(one for one in made["spec"][kind] if one["name"] == name)


def env(container: Mapping[str, Any]) -> list[str]:
    return [variable["name"] for variable in container.get("env") or ()]


def mounts(container: Mapping[str, Any]) -> list[str]:
    return [mount["mountPath"] for mount in container.get("volumeMounts") or ()]
