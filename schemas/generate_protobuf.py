#!/usr/bin/env python3
"""Writes protobuf.json: field numbers of Kubernetes' built-in types, read from their Go sources.

    python schemas/generate_protobuf.py ~/go/pkg/mod/k8s.io

(modules api, apimachinery and apiextensions-apiserver). kubectl from 1.32 and typed Go clients send
objects of built-in kinds in Kubernetes' protobuf encoding; the table is what reading them needs.
The packages are those of the recorded OpenAPI documents. A type is a list of
[number, JSON name, type, marks]; marks are * (a pointer: zero is a value), [] (repeated), + (its
fields stand in the parent's JSON) and | (the field alone is the type's JSON).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

META = "meta/v1"
SPECIAL = {
    "metav1.Time": "time", "metav1.MicroTime": "microtime", "resource.Quantity": "quantity",
    "intstr.IntOrString": "intstr", "runtime.RawExtension": "raw", "metav1.FieldsV1": "raw",
    "types.UID": "string", "types.NodeName": "string", "[]byte": "bytes", "bool": "bool",
    "float64": "double", "string": "string", "JSON": "raw",
}  # fmt: skip
ALIASES = {"metav1": META, "v1": "core/v1", "corev1": "core/v1", "rbacv1": "rbac/v1"}
NUMBERS = {"int", "int32", "int64", "uint32", "byte", "rune"}
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.DOTALL | re.MULTILINE)
EMPTY = re.compile(r"^type (\w+) struct ?\{\}$", re.MULTILINE)
NAMED = re.compile(r"^type (\w+) (=? ?[\w\[\]*.]+)$", re.MULTILINE)
FIELD = re.compile(r"^\s*(?:(\w+)\s+)?([\w\[\]*.]+)\s+`([^`]*)`", re.MULTILINE)
TAG = re.compile(r'(\w+):"([^"]*)"')


# Packages outside the module `api`: where they are in which module.
ELSEWHERE = {
    META: ("apimachinery", "pkg/apis/meta/v1"),
    "apiextensions/v1": ("apiextensions-apiserver", "pkg/apis/apiextensions/v1"),
}


def packages() -> list[str]:
    """A package for each group version with a recorded OpenAPI document, without OpenKruise's."""
    found = {META}
    for path in Path(__file__).with_name("openapi").glob("*.json"):
        *group, version = path.stem.split("__")[1:]
        if not group or not group[0].endswith(".kruise.io"):
            found.add(f"{group[0].partition('.')[0] if group else 'core'}/{version}")
    return sorted(found)


def sources(root: Path, package: str) -> str:
    """The Go text of a package's types."""
    module, folder = ELSEWHERE.get(package, ("api", package))
    files = (max(root.glob(f"{module}@v*")) / folder).glob("types*.go")
    return "\n".join(file.read_text() for file in sorted(files))


class Types:
    """Go names of one package resolved to the table's types."""

    def __init__(self, package: str, text: str) -> None:
        self.package = package
        self.named = {name: base.strip("= ") for name, base in NAMED.findall(text)}
        self.empty = set(EMPTY.findall(text))
        self.structs = {name for name, _ in STRUCT.findall(text)} | self.empty
        self.lists = {name for name, base in self.named.items() if base.startswith("[]")}

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
        name, *options = tag.get("json", "").split(",")
        if name == "-":
            continue  # of a type that SPECIAL names
        marks, of = ("*" if go.startswith("*") else ""), go.lstrip("*")
        if of.startswith("[]") and of != "[]byte":
            marks, of = "[]", of[2:].lstrip("*")
        elif of in types.lists and ",rep," in tag["protobuf"]:
            marks, of = "[]", types.named[of][2:]
        if "inline" in options:
            marks += "+"
        if "json" not in tag:
            name, marks = tag["protobuf"].rpartition("name=")[2], marks + "|"
        yield [int(tag["protobuf"].split(",")[1]), name, types.resolve(of), marks]


def table(root: Path) -> dict[str, list[list[object]]]:
    out: dict[str, list[list[object]]] = {}
    for package in packages():
        text = sources(root, package)
        types = Types(package, text)
        out |= {f"{package}.{name}": [] for name in types.empty}
        for name, body in STRUCT.findall(text):
            found = list(fields(types, body))
            if found:
                out[f"{package}.{name}"] = found
    for row in (row for rows in out.values() for row in rows):
        of = str(row[2]).removeprefix("map:")
        if "." in of and of not in out:
            row[2] = "string"  # a named string of another package
    return out


def main() -> None:
    rows = table(Path(sys.argv[1]))
    lines = [f"{json.dumps(n)}:{json.dumps(rows[n], separators=(',', ':'))}" for n in sorted(rows)]
    Path(__file__).with_name("protobuf.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
