"""Transfers from app containers to sidecars: volume mounts, devices and variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from gitkruise.admission.pods.env import SUBSCRIPT
from gitkruise.admission.rules import formats
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get

IS_INJECTED: Final = "IS_INJECTED"
_REFERENCE: Final = re.compile(r"\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")


@dataclass(frozen=True)
class PodSources:
    """A pod as it was sent, with the annotations SidecarSets have already patched."""

    containers: Sequence[Obj]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @cached_property
    def _apps(self) -> tuple[Obj, ...]:
        """Containers no earlier injection brought."""
        return tuple(c for c in self.containers if not _is_injected(c))

    @cached_property
    def mounts(self) -> tuple[Obj, ...]:
        """The volume mounts of all app containers, in order."""
        return tuple(m for app in self._apps for m in app.get("volumeMounts") or ())

    @cached_property
    def devices(self) -> tuple[Obj, ...]:
        """The volume devices of all app containers, in order."""
        return tuple(d for app in self._apps for d in app.get("volumeDevices") or ())

    @cached_property
    def mount_env(self) -> tuple[Obj, ...]:
        """The variables that `subPathExpr` of those mounts refer to, from the same container."""
        return tuple(variable for app in self._apps for variable in _path_variables(app))

    @cached_property
    def _env(self) -> Mapping[tuple[str, str], Obj]:
        """Every variable by container and name; the last of a name counts."""
        return {
            (container.get("name") or "", variable["name"]): variable
            for container in self.containers
            for variable in container.get("env") or ()
        }

    def transferred(self, terms: Sequence[Obj]) -> Iterator[Obj]:
        """The variables that the `transferEnv` of a sidecar asks for; what is not there is not."""
        for term in terms:
            container = self._source(term)
            if container is None:
                continue
            names = {*(term.get("envNames") or ()), term.get("envName") or ""}
            for name in sorted(names - {""}):
                variable = self._env.get((container, name))
                if variable is not None:
                    yield variable

    def _source(self, term: Obj) -> str | None:
        """Return the container's name; None for an invalid reference."""
        ref = get(term, "sourceContainerNameFrom", "fieldRef")
        if ref is None:
            return str(term.get("sourceContainerName") or "")
        found = SUBSCRIPT.fullmatch(ref.get("fieldPath") or "")
        if not found:
            return None
        where, key = found.groups()
        if where == "metadata.labels":
            return None if formats.qualified_name(key) else self.labels.get(key, "")
        return None if formats.qualified_name(key.lower()) else self.annotations.get(key, "")


def _is_injected(container: Obj) -> bool:
    return any(
        variable.get("name") == IS_INJECTED and variable.get("value") == "true"
        for variable in container.get("env") or ()
    )


def _path_variables(app: Obj) -> Iterator[Obj]:
    env = {variable.get("name"): variable for variable in app.get("env") or ()}
    for mount in app.get("volumeMounts") or ():
        for name in _REFERENCE.findall(mount.get("subPathExpr") or ""):
            if name in env:
                yield env[name]
