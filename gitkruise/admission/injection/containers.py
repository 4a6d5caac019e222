"""One sidecar of a SidecarSet as the container, or the pair of containers, a pod gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gitkruise.admission.injection.resources_policy import planned_resources
from gitkruise.admission.injection.transfers import IS_INJECTED, PodSources
from gitkruise.model.workloads.sidecarset import Sidecar
from gitkruise.model.workloads.sidecarset_annotations import version_alt_key, version_key
from gitkruise.wire.kruise.go_types import TYPES
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get

BEFORE: Final = "BeforeAppContainer"
_FIELDS: Final = frozenset(name for name, _, _ in TYPES["Container"])
_VERSIONS: Final = (
    ("SIDECARSET_VERSION", version_key),
    ("SIDECARSET_VERSION_ALT", version_alt_key),
)


@dataclass(frozen=True, slots=True)
class BuiltContainer:
    """A container to inject, and whether it goes before those of the pod."""

    container: Obj
    before: bool


@dataclass(slots=True)
class InjectionResult:
    """Everything the SidecarSets of one pod bring; filled set by set."""

    inits: list[BuiltContainer] = field(default_factory=list)
    containers: list[BuiltContainer] = field(default_factory=list)
    volumes: list[Obj] = field(default_factory=list)
    pull_secrets: list[str] = field(default_factory=list)
    working: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ContainerBuilder:
    """Builds for one pod: `spec` is its spec as sent, `sidecar_names` those of all its sets."""

    sources: PodSources
    spec: Obj
    sidecar_names: frozenset[str]

    def add(
        self, sidecar: Sidecar, volumes: Mapping[str, Obj], result: InjectionResult, *, init: bool
    ) -> None:
        """Add the containers of `sidecar` to `result`. Raises ValueError (`planned_resources`)."""
        container = self._container(sidecar.raw)
        for name in _needed(sidecar.raw):
            if name in volumes:
                result.volumes.append(volumes[name])
        before = sidecar.raw.get("podInjectPolicy") == BEFORE
        target = result.inits if init else result.containers
        if not sidecar.hot or (init and not sidecar.native):
            target.append(BuiltContainer(container, before))
            return
        result.working[sidecar.name] = sidecar.pair[0]
        images = (container.get("image"), sidecar.empty_image)
        for name, image, version, other in zip(
            sidecar.pair, images, ("1", "0"), ("0", "1"), strict=True
        ):
            result.notes |= {version_key(name): version, version_alt_key(name): other}
            env = [*container["env"], *(_from_note(key, at(name)) for key, at in _VERSIONS)]
            one = {**container, "name": name, "image": image, "env": env}
            target.append(
                BuiltContainer({k: v for k, v in one.items() if k != "image" or v}, before)
            )

    def _container(self, raw: Obj) -> dict[str, Any]:
        """The core container, with what it borrows."""
        out = {key: value for key, value in raw.items() if key in _FIELDS}
        if policy := raw.get("resourcesPolicy"):
            out["resources"] = planned_resources(policy, self.spec, self.sidecar_names)
        shares = get(raw, "shareVolumePolicy", "type") == "enabled"
        mounts, devices = raw.get("volumeMounts") or (), raw.get("volumeDevices") or ()
        used = {one.get("mountPath") for one in mounts} | {d.get("devicePath") for d in devices}
        if shares:
            mounts = [*mounts, *_free(self.sources.mounts, "mountPath", used)]
        if get(raw, "shareVolumeDevicePolicy", "type") == "enabled":
            taken = {d.get("devicePath") for d in devices} | {m.get("mountPath") for m in mounts}
            devices = [*devices, *_free(self.sources.devices, "devicePath", taken)]
        for name, listed in (("volumeMounts", mounts), ("volumeDevices", devices)):
            if listed:
                out[name] = list(listed)
        borrowed = [*self.sources.transferred(raw.get("transferEnv") or ())]
        if shares:
            borrowed += self.sources.mount_env
        out["env"] = _environment(raw.get("env") or (), borrowed)
        return out


def _needed(raw: Obj) -> Iterable[str]:
    """Names of the volumes of a sidecar's own mounts and devices."""
    for kind in ("volumeMounts", "volumeDevices"):
        for one in raw.get(kind) or ():
            yield one.get("name") or ""


def _free(lent: Iterable[Obj], path: str, used: set[Any]) -> Iterable[Obj]:
    """Yield the mounts at paths that are still free; adds those paths to `used`."""
    for one in lent:
        if one.get(path) not in used:
            used.add(one.get(path))
            yield one


def _environment(own: Iterable[Obj], borrowed: Iterable[Obj]) -> list[Obj]:
    """Own variables win over borrowed ones, and the mark of injection over all."""
    env: list[Obj] = [variable for variable in own if variable.get("name") != IS_INJECTED]
    env.append({"name": IS_INJECTED, "value": "true"})
    known = {variable.get("name") for variable in env}
    for variable in borrowed:
        if variable["name"] not in known:
            known.add(variable["name"])
            env.append(variable)
    return env


def _from_note(name: str, annotation: str) -> Obj:
    path = f"metadata.annotations['{annotation}']"
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
