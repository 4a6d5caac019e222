"""The defaults OpenKruise's webhook gives a SidecarSet: they enter its hashes and revisions."""

from __future__ import annotations

from typing import Any, Final

from gitkruise.wire.kruise.go_round_trip import normalise
from gitkruise.wire.kruise.template_defaults import (
    POD_SPEC,
    Default,
    Defaults,
    Step,
    fill,
    maps_at,
    round_up,
)
from gitkruise.wire.values.images import default_pull_policy

SPEC_TYPES: Final = {"v1alpha1": "SidecarSetSpecV1alpha1", "v1beta1": "SidecarSetSpecV1beta1"}
_SIDECARS: Final = ("containers", "initContainers")
_CHECKED: Final = ("livenessProbe", "readinessProbe")  # a startupProbe gets nothing


def _of_sidecars(path: tuple[Step, ...]) -> tuple[Step, ...]:
    return tuple(_CHECKED if "startupProbe" in step else step for step in path)


_CORE: Final[tuple[Default, ...]] = tuple(
    (_of_sidecars(path), field, value)
    for path, field, value in POD_SPEC
    if path and ("containers" in path[0] or path[0] == "volumes")
)
_SPEC: Final = Defaults(
    (
        ((), "revisionHistoryLimit", 10),
        (("updateStrategy",), "type", "RollingUpdate"),
        (("updateStrategy",), "maxUnavailable", 1),
        (("updateStrategy",), "partition", 0),
        (("injectionStrategy", "revision"), "policy", "Always"),
        (("patchPodMetadata", "*"), "patchPolicy", "Retain"),
        (("containers", "*"), "podInjectPolicy", "BeforeAppContainer"),
        (("initContainers", "*"), "podInjectPolicy", "AfterAppContainer"),
        ((_SIDECARS, "*", "upgradeStrategy"), "upgradeType", "ColdUpgrade"),
        ((_SIDECARS, "*", "shareVolumePolicy"), "type", "disabled"),
        (
            (_SIDECARS, "*", "transferEnv", "*", "sourceContainerNameFrom", "fieldRef"),
            "apiVersion",
            "v1",
        ),
        *_CORE,
        # the CRD's own defaults, which the API server gives once more behind the webhook
        (("imagePullSecrets", "*"), "name", ""),
        ((_SIDECARS, "*", "resourcesPolicy"), "targetContainersNameRegex", ".*"),
    )
)
_AMOUNTS: Final = ((_SIDECARS, "*", "resources", ("limits", "requests")),)


def default_sidecarset_spec(spec: Any, version: str) -> dict[str, Any]:
    """A SidecarSet's spec as OpenKruise stores it: typed and defaulted. Raises Malformed.

    `version` is v1alpha1 or v1beta1. Source: SetDefaultsSidecarSet.
    """
    typed: dict[str, Any] = normalise(SPEC_TYPES[version], spec)
    for volume in maps_at(typed, ("volumes", "*")):
        if volume.keys() <= {"name"}:
            volume["emptyDir"] = {}
    fill(typed, _SPEC)
    for container in maps_at(typed, (_SIDECARS, "*")):
        if "imagePullPolicy" not in container:
            container["imagePullPolicy"] = default_pull_policy(container.get("image", ""))
    round_up(typed, _AMOUNTS)
    return typed
