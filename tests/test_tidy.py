"""The rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from gitkruise.errors import Concern, Finding
from tests.narrowed import NARROWED

ROOT = Path(__file__).parents[1]
CORE = ("errors.py", "wire", "model", "planner", "admission", "world")
PURE = {
    "__future__", "abc", "base64", "binascii", "bisect", "collections", "contextlib", "dataclasses",
    "datetime", "decimal", "difflib", "enum", "fractions", "functools", "gitkruise", "hashlib",
    "heapq", "hmac", "ipaddress", "itertools", "json", "math", "operator", "re", "semver", "shlex",
    "string", "struct", "textwrap", "types", "typing", "unicodedata",
}  # fmt: skip
VAGUE = {"util", "utils", "helper", "helpers", "manager", "common", "misc", "base", "core"}
GENERATED = {"cri_pb2.py"}
MODULE_LINES, FUNCTION_LINES = 500, 60


def sources(*roots: str) -> Iterator[Path]:
    for root in roots:
        path = ROOT / root
        yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


FILES = [p for p in sources("gitkruise", "tests", "schemas", "release") if p.name not in GENERATED]


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
    allowed |= {"re2"} if path.match("wire/schema/patterns.py") else set()
    allowed |= {"zoneinfo"} if path.match("wire/values/cron_schedule.py") else set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert {alias.name.partition(".")[0] for alias in node.names} <= allowed
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").partition(".")[0] in allowed


@pytest.mark.parametrize("path", list(sources("gitkruise")), ids=lambda p: str(p.relative_to(ROOT)))
def test_asserts_only_narrow_types(path: Path) -> None:
    """`python -O` drops asserts: no check of input, files, the network or a cluster is one.

    In the core, where data from outside arrives as values, each place is listed: data can make
    none of those false. What may be missing raises an error that has a name.
    """
    found = _asserts(path)
    name = str(path.relative_to(ROOT / "gitkruise"))
    checks = [text for test, text in found if not _narrows(test)]
    assert not checks, f"{name} checks by an assert"
    if name.partition("/")[0] in CORE or name in CORE:
        assert sorted(text for _, text in found) == sorted(NARROWED.get(name, ()))


def test_every_listed_assert_is_there() -> None:
    assert [name for name in NARROWED if not (ROOT / "gitkruise" / name).exists()] == []


def _asserts(path: Path) -> list[tuple[ast.expr, str]]:
    """The asserts of a module, each as `function: condition`."""
    return list(_found(ast.parse(path.read_text()), ""))


def _found(node: ast.AST, function: str) -> Iterator[tuple[ast.expr, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Assert):
            yield child.test, f"{function}: {ast.unparse(child.test)}"
        inner = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else ""
        yield from _found(child, inner or function)


def _narrows(test: ast.expr) -> bool:
    """A bare name, `x is not None` or `isinstance(x, ...)`: what a type checker needs to know."""
    match test:
        case ast.Name() | ast.Attribute():
            return True
        case ast.Compare(ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return True
        case ast.Call(func=ast.Name(id="isinstance")):
            return True
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _narrows(operand)
        case _:
            return False


# The table of concerns, and the words of conditions: data, each in one place.
READ_CODES = frozenset({"errors.py", "gitops/resources/conditions.py"})


@pytest.mark.parametrize("path", [*sources("gitkruise")], ids=str)
def test_no_branch_looks_at_an_error_code(path: Path) -> None:
    """Error classes, `Severity` and `Concern` decide; a code is for people to look up."""
    name = str(path.relative_to(ROOT / "gitkruise"))
    if name not in READ_CODES:
        assert _reads_of_code(path) == []


def _reads_of_code(path: Path) -> list[str]:
    """The comparisons and prefix tests of an attribute `code` with `GK…`, or with anything from a
    name that holds codes."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Compare(left=ast.Attribute(attr="code"), comparators=[right]):
                if not isinstance(right, ast.Constant) or str(right.value).startswith("GK"):
                    found.append(ast.unparse(node))
            case ast.Call(func=ast.Attribute(attr="startswith", value=ast.Attribute(attr="code"))):
                found.append(ast.unparse(node))
            case _:
                pass
    return found


@pytest.mark.parametrize(
    ("code", "concern"),
    [
        ("GK1004", Concern.CONTENT),
        ("GK2102", Concern.CONTENT),
        ("GK7003", Concern.CONTENT),
        ("GK9001", Concern.CONTENT),
        ("GK9000", Concern.PROGRAM),
        ("GK3103", Concern.REMOTE),
        ("GK3204", Concern.HISTORY),
        ("GK3301", Concern.HISTORY),
        ("GK3201", Concern.SOURCE),
        ("GK3501", Concern.SOURCE),
        ("GK4102", Concern.CONNECTION),
        ("GK4201", Concern.CLUSTER),
    ],
)
def test_concern_of_a_finding(code: str, concern: Concern) -> None:
    assert Finding(code=code, message="x").concern is concern


@pytest.mark.parametrize("path", [*sources("gitkruise")], ids=str)
def test_every_log_line_is_one_event_with_its_facts(path: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if _logs(node)]
    assert [text for text in map(ast.unparse, calls) if "(log_line(" not in text] == []


def _logs(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=level, value=ast.Name(id="log" | "logger"))):
            return level in {"debug", "info", "warning", "error", "exception", "critical"}
        case _:
            return False


RESERVED = {"time", "level", "logger", "message", "exception", "stack"}


@pytest.mark.parametrize("path", [*sources("gitkruise")], ids=str)
def test_no_fact_of_a_log_line_takes_the_place_of_a_field_of_every_line(path: Path) -> None:
    """`--log-format json` writes both into one object."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    made = [call for call in calls if ast.unparse(call.func) in {"log_line", "announce"}]
    assert {word.arg for call in made for word in call.keywords} & RESERVED == set()


def test_pytest_looks_into_every_folder_of_tests(pytestconfig: pytest.Config) -> None:
    left_out = pytestconfig.getini("norecursedirs")
    folders = {part for p in sources("tests") for part in p.relative_to(ROOT).parts[:-1]}
    assert [f for f in sorted(folders) if any(fnmatch(f, pattern) for pattern in left_out)] == []


_FIXED = re.compile(r"_?[A-Z][A-Z_0-9]*")  # a constant of the module, or made of such


def _is_fixed(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_fixed(node.left) and _is_fixed(node.right)
    if isinstance(node, ast.JoinedStr):
        parts = [v.value for v in node.values if isinstance(v, ast.FormattedValue)]
        return all(_is_fixed(part) or _is_escaped(part) for part in parts)
    return isinstance(node, ast.Constant) or (
        isinstance(node, ast.Name) and _FIXED.fullmatch(node.id) is not None
    )


def _is_escaped(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "re.escape"


# Patterns that tables of the module hold.
OWN_PATTERNS = {
    "gitkruise/git/plumbing/errors.py": 1,
    "gitkruise/admission/rules/formats.py": 1,
}


@pytest.mark.parametrize("path", sorted(sources("gitkruise")), ids=str)
def test_no_pattern_of_others_runs_in_a_backtracking_engine(path: Path) -> None:
    """A repository's pattern could keep `re`, which holds the interpreter, busy for years."""
    calls = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).startswith("re.")
        and node.args
        and ast.unparse(node.func) not in {"re.escape", "re.error"}
    ]
    foreign = [ast.unparse(node) for node in calls if not _is_fixed(node.args[0])]
    assert len(foreign) == OWN_PATTERNS.get(str(path.relative_to(ROOT)), 0), foreign


@pytest.mark.parametrize(
    "patch", sorted((ROOT / "tests/observer/lies").glob("*.patch")), ids=lambda p: str(p.stem)
)
def test_planted_lie_applies_to_the_code_as_it_stands(patch: Path) -> None:
    """`make lies` takes its time; a patch that went stale with the code shows here at once."""
    words = ("git", "apply", "--check", str(patch))
    applied = subprocess.run(words, cwd=ROOT, check=False, capture_output=True, text=True)
    assert applied.returncode == 0, f"write {patch.name} anew: {applied.stderr}"


def test_make_kube_assets_builds_what_the_kube_tests_run() -> None:
    """CI runs `make kube` before it builds anything else, so no other target may provide it."""
    wanted = re.compile(r'(?:find\(|_running\(server, )"([\w-]+)"')
    paths = (ROOT / "tests/kube/real").glob("*.py")
    programs = {name for path in paths for name in wanted.findall(path.read_text())} - {"etcd"}
    makefile = (ROOT / "Makefile").read_text()
    built = re.search(r"(?m)^kube-assets: \$\(addprefix \$\(KUBE_ASSETS\)/,([^)]*)\)", makefile)
    assert built
    assert programs
    assert programs <= set(built[1].split())
