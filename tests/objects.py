"""Objects drawn from the schemas of the API: of every kind, in every form that a schema admits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random  # noqa: TID251  drawn from a seed
from typing import Any, Final

from gitkruise.wire.catalog.catalog import Kind
from gitkruise.wire.schema.nodes import Node

DEPTH_MAX: Final = 14
AGAIN_MAX: Final = 2  # times that a schema contains itself
APIEXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
FORMATS: Final[Mapping[str, Sequence[Any]]] = {
    "byte": ("aGk=",), "date-time": ("2026-11-21T10:00:00Z", "2026-11-21T09:00:00Z"),
    "quantity": ("1", "100m", "1Gi"), "double": (0.5, 3),
}  # fmt: skip
# What OpenAPI leaves open in the schemas of definitions.
OPEN: Final[Mapping[str, Sequence[Any]]] = {
    "CustomResourceSubresourceStatus": ({},),
    "JSON": ({"key": [1, None]}, "a", 0, False),
    "JSONSchemaPropsOrArray": ({"type": "string"}, [{"type": "string"}]),
    "JSONSchemaPropsOrBool": ({"type": "string"}, True, False),
    "JSONSchemaPropsOrStringArray": ({"type": "string"}, ["a"]),
}
MICRO: Final = "2026-11-21T10:00:00.000001Z"


@dataclass(frozen=True, slots=True)
class Drawing:
    """Draws values. `often` is the chance of an optional field: 1 gives all of them.

    `lacking` is the chance that a required field is not given after all. `texts` are values to
    draw from by name of the field, for texts that have to mean something.
    """

    draw: Random
    often: float = 1.0
    lacking: float = 0.0
    texts: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def object(self, kind: Kind) -> dict[str, Any]:
        """An object of the kind, without what the server alone writes."""
        drawn = self.value(kind.schema)
        return {**drawn, "apiVersion": kind.api_version, "kind": kind.kind}

    def value(self, node: Node, name: str = "", above: tuple[str, ...] = ()) -> Any:
        """A value of the schema for the field `name`; `above` are the components it is in."""
        choices = self._choices(node, name)
        if choices:
            return self.draw.choice(choices)
        within = (*above, node.component)
        if node.has_fields:
            return self._fields(node, within)
        if node.additional is not None:
            return {"key": self.value(node.additional, "", within)}
        if node.items is not None:
            return [self.value(node.items, name, within)]
        return self._scalar(node)

    def _choices(self, node: Node, name: str) -> Sequence[Any]:
        """The values of a field that has only a few, () for any other."""
        if name in self.texts:
            return self.texts[name]
        if node.int_or_string:
            return (1, "50%")
        return node.enum or OPEN.get(node.component.removeprefix(APIEXTENSIONS), ())

    def _fields(self, node: Node, above: tuple[str, ...]) -> dict[str, Any]:
        drawn = {}
        for name, child in node.children():
            deep = len(above) > DEPTH_MAX or above.count(child.component or "-") >= AGAIN_MAX
            holds = child.items or child.additional
            deep = deep or above.count((holds and holds.component) or "-") >= AGAIN_MAX
            required = name in node.required and self.draw.random() >= self.lacking
            if required or (not deep and self.draw.random() < self.often):
                drawn[name] = self.value(child, name, above)
        return drawn

    def _scalar(self, node: Node) -> Any:
        if node.component.endswith(".MicroTime"):
            return MICRO
        if node.format in FORMATS:
            return self.draw.choice(FORMATS[node.format])
        plain = {"boolean": True, "integer": 1, "number": 0.5, "string": "a", "array": ["a"]}
        return plain.get(node.type, {"key": "a"})
