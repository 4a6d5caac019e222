"""The rules of the house that no linter knows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = ("errors.py", "wire", "model", "planner", "admission", "world")
PURE = {
    "__future__", "abc", "base64", "binascii", "bisect", "collections", "contextlib", "dataclasses",
    "datetime", "decimal", "difflib", "enum", "fractions", "functools", "gitkruise", "hashlib",
    "heapq", "hmac", "ipaddress", "itertools", "json", "math", "operator", "re", "string", "struct",
    "textwrap", "types", "typing", "unicodedata",
}  # fmt: skip
VAGUE = {"util", "utils", "helper", "helpers", "manager", "common", "misc", "base", "core"}
GENERATED = {"_tables.py"}
MODULE_LINES, FUNCTION_LINES = 400, 60


def sources(*roots: str) -> Iterator[Path]:
    for root in roots:
        path = ROOT / root
        yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


FILES = [p for p in sources("gitkruise", "tests", "schemas") if p.name not in GENERATED]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_module_is_small_and_says_what_it_is_for(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert path.stem not in VAGUE
    assert ast.get_docstring(tree), "open with one line on what the module is for"
    assert len(text.splitlines()) <= MODULE_LINES
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            assert lines <= FUNCTION_LINES, f"{node.name} has {lines} lines"


@pytest.mark.parametrize(
    "path", list(sources(*(f"gitkruise/{c}" for c in CORE))), ids=lambda p: str(p.relative_to(ROOT))
)
def test_core_imports_only_pure_modules(path: Path) -> None:
    allowed = PURE | ({"msgspec"} if "model" in path.parts else set())
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert {alias.name.partition(".")[0] for alias in node.names} <= allowed
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").partition(".")[0] in allowed
