"""The architecture page, the glossary and the tree agree."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PRODUCT: Final = ROOT / "gitkruise"
PAGE: Final = (ROOT / "docs" / "architecture.md").read_text()
GLOSSARY: Final = (ROOT / "docs" / "glossary.md").read_text()
BASES: Final = (ROOT, PRODUCT, PRODUCT / "gitops")
TREES: Final = (PRODUCT, ROOT / "tests", ROOT / "bench")
MODULES_MAX: Final = 15
# Names of earlier versions, each replaced by a word of the glossary.
BANNED: Final = {
    "Act", "Alike", "Announced", "Bell", "Bells", "Bring", "Caller", "Carrier", "Departed", "Desk",
    "Doorman", "Doorway", "Farewell", "Fates", "Finisher", "Fleet", "Healing", "Hearing",
    "Ingredients", "Intake", "Itself", "Judge", "Judged", "Keeper", "Letter", "LetterBox", "Lot",
    "Molds", "Offers", "Post", "Pruning", "PullStory", "Refusals", "Remedy", "Reported", "Shelf",
    "Side", "Sifted", "Sought", "Stand", "Steward", "Stood", "Surroundings", "Tally", "Told",
    "Trial", "UnitSync", "Veiled", "Verdict", "Verdicts", "Wish", "Wishes", "Yardstick",
}  # fmt: skip

# Words for values of an earlier vocabulary: a value is named after its type or its role.
RETIRED: Final = {
    "desk", "farewell", "hear", "heard", "ingredients", "said", "spot", "spots", "story", "tell",
    "tells", "told", "trouble", "troubles", "wish", "wishes", "yardstick",
}  # fmt: skip
# Two of them are terms: the commits that the demo plays, and the unit of the benchmarks' budgets.
TERMS: Final = {
    "gitkruise/cli/commands/cluster/demo.py: story",
    "gitkruise/cli/commands/cluster/demo_story.py: STORY",
    "bench/commands.py: YARDSTICK", "bench/commands.py: YARDSTICK_MS",
}  # fmt: skip


def named_paths() -> list[str]:
    """Paths of the page: in backticks, and in the diagrams of the walks."""
    prose: list[str] = []
    diagrams: list[str] = []
    for number, part in enumerate(PAGE.split("```")):
        (diagrams if number % 2 else prose).append(part)
    quoted = re.findall(r"`([\w/]+(?:\.py|/))`", "".join(prose))
    walks = re.findall(r"\b(?:[a-z_]+/)+[a-z_0-9]+\b", "".join(diagrams))
    return sorted({*quoted, *walks})


def exists(path: str) -> bool:
    name = path.rstrip("/")
    found = any((base / f"{name}{end}").exists() for base in BASES for end in ("", ".py"))
    # a row names the second file of a folder by its name alone
    return found or ("/" not in name and any(PRODUCT.rglob(name)))


@pytest.mark.parametrize("path", named_paths())
def test_a_path_of_the_architecture_page_exists(path: str) -> None:
    assert exists(path)


def test_the_page_answers_where_to_change_what() -> None:
    rows = re.findall(r"^\| .+\? \| .+ \|$", PAGE, re.MULTILINE)
    assert len(rows) >= 25
    assert all("`" in row for row in rows)


def test_every_ring_is_on_the_page() -> None:
    rings = {path.stem for path in PRODUCT.iterdir() if path.name[0] != "_" and path.is_dir()}
    assert {ring for ring in rings if not re.search(rf"\b{ring}\b", PAGE)} == set()


def test_terms_of_the_glossary_are_sorted_and_defined_once() -> None:
    for section in GLOSSARY.split("## ")[1:]:
        terms = re.findall(r"^\| \*\*(.+?)\*\* \| .+\. \|$", section, re.MULTILINE)
        assert terms
        assert terms == sorted(set(terms), key=str.lower)


@pytest.mark.parametrize("folder", sorted({p.parent for p in PRODUCT.rglob("*.py")}), ids=str)
def test_a_package_is_small_and_introduces_itself(folder: Path) -> None:
    modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MODULES_MAX
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PRODUCT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
    assert BANNED & places.keys() == set()


def identifiers(path: Path) -> Iterator[str]:
    """Names that a module defines: classes, functions, parameters, variables and attributes."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass


def test_names_are_standard_terms() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for tree in TREES
        for path in sorted(tree.rglob("*.py"))
        for name in identifiers(path)
        if RETIRED & set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))
    }
    assert found == TERMS
