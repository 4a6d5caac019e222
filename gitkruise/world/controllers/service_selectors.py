"""Index of the Services that select each pod, updated incrementally as both change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gitkruise.wire.primitives.names import Obj
from gitkruise.world.controllers.service_backends import selector_of, selects

Label: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class _Selection:
    """A Service's selector, the label of it that it is looked up by, and the pods it has."""

    selector: Mapping[str, str]
    anchor: Label
    pods: dict[str, None]


@dataclass(slots=True)
class _Space:
    """The Services of one namespace that select."""

    services: dict[str, _Selection] = field(default_factory=dict)
    anchored: dict[Label, dict[str, _Selection]] = field(default_factory=dict)


class Selections:
    """By namespace and name. Namespaces without a Service that selects cost nothing."""

    def __init__(self) -> None:
        self._spaces: dict[str, _Space] = {}

    def __contains__(self, namespace: object) -> bool:
        return namespace in self._spaces

    def has(self, namespace: str, service: str) -> bool:
        space = self._spaces.get(namespace)
        return space is not None and service in space.services

    def pods(self, namespace: str, service: str) -> list[str]:
        """The names of the pods a Service selects, in order."""
        return sorted(self._spaces[namespace].services[service].pods)

    def note(self, namespace: str, name: str, service: Obj | None, pods: Iterable[Obj]) -> None:
        """A Service as it is now, None when it is gone. `pods`: of its namespace, read at need."""
        selector = selector_of(service) if service is not None else {}
        space = self._spaces.get(namespace)
        known = space.services.get(name) if space else None
        if known is not None and known.selector == selector:
            return
        if space is not None and known is not None:
            self._drop(namespace, space, name, known.anchor)
        if not selector:
            return
        space = self._spaces.setdefault(namespace, _Space())
        anchor = min(selector.items(), key=lambda item: len(space.anchored.get(item, ())))
        chosen = {pod["metadata"]["name"]: None for pod in pods if selects(selector, pod)}
        made = _Selection(dict(selector), anchor, chosen)
        space.services[name] = space.anchored.setdefault(anchor, {})[name] = made

    def pod(self, namespace: str, before: Obj | None, after: Obj | None) -> dict[str, None]:
        """The Services that select a pod or did, now that it changed."""
        space = self._spaces[namespace]
        concerned: dict[str, None] = {}
        if before is not None:
            for name, selection in _selecting(space, before):
                selection.pods.pop(before["metadata"]["name"], None)
                concerned[name] = None
        if after is not None:
            for name, selection in _selecting(space, after):
                selection.pods[after["metadata"]["name"]] = None
                concerned[name] = None
        return concerned

    def _drop(self, namespace: str, space: _Space, name: str, anchor: Label) -> None:
        del space.services[name], space.anchored[anchor][name]
        if not space.anchored[anchor]:
            del space.anchored[anchor]
        if not space.services:
            del self._spaces[namespace]


def _selecting(space: _Space, pod: Obj) -> Iterator[tuple[str, _Selection]]:
    for label in (pod["metadata"].get("labels") or {}).items():
        for name, selection in space.anchored.get(label, {}).items():
            if selects(selection.selector, pod):
                yield name, selection
