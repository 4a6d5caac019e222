#!/usr/bin/env python3
"""Writes protobuf.json: field numbers of Kubernetes' built-in types, read from their Go sources.

    python schemas/generate_protobuf.py ~/go/pkg/mod/k8s.io      (modules api and apimachinery)

kubectl from 1.32 sends objects of built-in kinds in Kubernetes' protobuf encoding; the table is
what reading them needs. A type is a list of [number, JSON name, type, marks]; marks are * (a
pointer: zero is a value), [] (repeated) and + (its fields stand in the parent's JSON).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGES = (
    "core/v1", "apps/v1", "batch/v1", "rbac/v1", "networking/v1", "policy/v1", "autoscaling/v1",
    "autoscaling/v2", "authentication/v1", "authorization/v1", "coordination/v1", "events/v1",
    "discovery/v1", "scheduling/v1", "storage/v1",
)  # fmt: skip
META = "meta/v1"
SPECIAL = {
    "metav1.Time": "time", "metav1.MicroTime": "microtime", "resource.Quantity": "quantity",
    "intstr.IntOrString": "intstr", "runtime.RawExtension": "raw", "metav1.FieldsV1": "raw",
    "types.UID": "string", "types.NodeName": "string", "[]byte": "bytes", "bool": "bool",
    "float64": "double", "string": "string",
}  # fmt: skip
ALIASES = {"metav1": META, "v1": "core/v1", "corev1": "core/v1", "rbacv1": "rbac/v1"}
NUMBERS = {"int", "int32", "int64", "uint32", "byte", "rune"}
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"^type (\w+) (=? ?[\w\[\]*.]+)$", re.MULTILINE)
FIELD = re.compile(r"^\s*(?:(\w+)\s+)?([\w\[\]*.]+)\s+`([^`]*)`", re.MULTILINE)
TAG = re.compile(r'(\w+):"([^"]*)"')


def sources(root: Path, package: str) -> str:
    """The Go text of a package's types."""
    module = "apimachinery" if package == META else "api"
    found = max(root.glob(f"{module}@v*"))
    folder = found / "pkg/apis" / package if package == META else found / package
    return (folder / "types.go").read_text()


class Types:
    """Go names of one package resolved to the table's types."""

    def __init__(self, package: str, text: str) -> None:
        self.package = package
        self.named = {name: base.strip("= ") for name, base in NAMED.findall(text)}
        self.structs = {name for name, _ in STRUCT.findall(text)}

    def resolve(self, go: str) -> str:
        special = SPECIAL.get(f"metav1.{go}") if self.package == META else None
        if special or go in SPECIAL:
            return special or SPECIAL[go]
        if go in NUMBERS:
            return "int"
        if go.startswith("map["):
            return "map:" + self.resolve(go[go.index("]") + 1 :])
        if go.startswith("[]"):
            return "items"  # a named list travels as a message with one repeated field
        alias, dot, name = go.rpartition(".")
        if dot:
            return f"{ALIASES[alias]}.{name}" if alias in ALIASES else "string"
        return f"{self.package}.{go}" if go in self.structs else self.resolve(self.named[go])


def fields(types: Types, body: str) -> Iterator[list[object]]:
    for _, go, tags in FIELD.findall(body):
        tag = dict(TAG.findall(tags))
        if "protobuf" not in tag:
            continue
        name, *options = tag["json"].split(",")
        marks, of = ("*" if go.startswith("*") else ""), go.lstrip("*")
        if of.startswith("[]") and of != "[]byte":
            marks, of = "[]", of[2:].lstrip("*")
        if "inline" in options:
            marks += "+"
        yield [int(tag["protobuf"].split(",")[1]), name, types.resolve(of), marks]


def table(root: Path) -> dict[str, list[list[object]]]:
    out: dict[str, list[list[object]]] = {}
    for package in (META, *PACKAGES):
        text = sources(root, package)
        types = Types(package, text)
        for name, body in STRUCT.findall(text):
            found = list(fields(types, body))
            if found:
                out[f"{package}.{name}"] = found
    for row in (row for rows in out.values() for row in rows):
        if "." in str(row[2]) and str(row[2]) not in out:
            row[2] = "string"  # a named string of another package
    return out


def main() -> None:
    rows = table(Path(sys.argv[1]))
    lines = [f"{json.dumps(n)}:{json.dumps(rows[n], separators=(',', ':'))}" for n in sorted(rows)]
    Path(__file__).with_name("protobuf.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
