"""Ids of rules and cases: each is defined once in docs/behaviour, and tests name no other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = sorted((ROOT / "docs" / "behaviour").glob("*.md"))
TESTS: Final = sorted((ROOT / "tests").rglob("*.py"))
SOURCES: Final = [*TESTS, *sorted((ROOT / "gitkruise").rglob("*.py"))]
ID: Final = r"(?:B-[A-Z]\d\d|[A-Z]+-\d+[a-z]?)"
DEFINITION: Final = re.compile(rf"^(?:\| |#+ )({ID})\b", re.MULTILINE)
REFERENCE: Final = re.compile(rf"\b{ID}\b")
NAME: Final = re.compile(r"def test_(?:quirk_)?([a-z]+)_(\d+[a-z]?)_")
INDEXED: Final = re.compile(r"^\| \[([\w-]+\.md)\]\(\1\) \| ([A-Z, -]+) \|", re.MULTILINE)
# Names of rows that look like an id, in tables and in parameters; error codes are no ids.
LOOKS: Final = r"(?!GK\d)([A-Z]{1,9}-?\d+[a-z]?)(?:[ :,][^\"\n]*)?\""
ROW: Final = re.compile(rf'^\s+f?"{LOOKS}: |\bids?=\[?f?"{LOOKS}', re.MULTILINE)


def definitions() -> list[str]:
    return [m[1] for page in PAGES for m in DEFINITION.finditer(page.read_text())]


def family(id_: str) -> str:
    return id_[:3] if id_.startswith("B-") else id_.partition("-")[0]


def references(text: str, families: set[str]) -> Iterator[str]:
    named = (f"{m[1].upper()}-{m[2]}" for m in NAME.finditer(text))
    for id_ in (*REFERENCE.findall(text), *named):
        if family(id_) in families:
            yield id_


def test_an_id_is_defined_once() -> None:
    assert [id_ for id_, count in Counter(definitions()).items() if count > 1] == []


@pytest.mark.slow
def test_an_id_in_a_test_a_module_or_a_page_is_defined() -> None:
    defined = set(definitions())
    families = {family(id_) for id_ in defined}
    unknown = {
        f"{path.relative_to(ROOT)}: {id_}"
        for path in (*SOURCES, *PAGES)
        for id_ in references(path.read_text(), families)
        if id_ not in defined
    }
    assert unknown == set()


@pytest.mark.slow
def test_a_row_with_the_name_of_an_id_has_a_defined_one() -> None:
    defined = set(definitions())
    unknown = {
        f"{path.relative_to(ROOT)}: {key or row}"
        for path in TESTS
        for key, row in ROW.findall(path.read_text())
        if (key or row) not in defined
    }
    assert unknown == set()


def test_the_index_names_every_page_and_every_family() -> None:
    index = (ROOT / "docs" / "behaviour" / "README.md").read_text()
    rows = dict(INDEXED.findall(index))
    for page in PAGES:
        families = {family(m[1]) for m in DEFINITION.finditer(page.read_text())}
        if page.name != "README.md":
            assert set(rows.get(page.name, "").split(", ")) == families, page.name


BAD_INPUT: Final = re.compile(rf"^\| ({ID}) \|.*\|([^|]*)\|$", re.MULTILINE)


@pytest.fixture(scope="module")
def tried() -> set[str]:
    return {id_ for path in TESTS for id_ in REFERENCE.findall(path.read_text())}


@pytest.mark.slow
def test_bad_input_is_tried_or_the_page_says_why_not(tried: set[str]) -> None:
    rows = BAD_INPUT.findall((ROOT / "docs" / "behaviour" / "bad-input.md").read_text())
    assert len(rows) > 100
    assert [id_ for id_, instead in rows if id_ not in tried and not instead.strip()] == []
