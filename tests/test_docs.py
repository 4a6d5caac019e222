"""The documentation says what the code does: codes, reference pages, links, words."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from gitkruise.model.states import State
from gitkruise.planner.sync import marks

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples-repo" / "README.md",
         *sorted(DOCS.glob("*.md"))]  # fmt: skip
CODE = re.compile(r"\bGK\d{4}\b")


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_code_has_an_entry_and_every_entry_a_code() -> None:
    used = {c for p in (ROOT / "gitkruise").rglob("*.py") for c in CODE.findall(p.read_text())}
    entries = re.findall(r"^### (GK\d{4})$", (DOCS / "codes.md").read_text(), re.MULTILINE)
    assert set(entries) == used, "docs/codes.md has one entry for each code in the source"
    assert entries == sorted(set(entries))


@pytest.mark.parametrize("page", ["cli.md", "configuration.md"])
def test_a_reference_page_is_fresh(page: str) -> None:
    assert script("generate").PAGES[page]() == (DOCS / page).read_text(), "make docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)|(?:src|srcset)=\"([^\"]+)\"", page.read_text()):
        link = "".join(target)
        if link.startswith(("https://", "#")):
            continue
        file, _, anchor = link.partition("#")
        there = (page.parent / file).resolve()
        assert there.exists(), f"{page.name} points to {link}"
        if anchor:
            heads = re.findall(r"^#+ (.+)$", there.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", h).lower().replace(" ", "-") for h in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_codes_named_in_a_page_exist(page: Path) -> None:
    assert set(CODE.findall(page.read_text())) <= set(CODE.findall((DOCS / "codes.md").read_text()))


def test_concepts_name_every_state_and_every_annotation() -> None:
    text = (DOCS / "concepts.md").read_text()
    rows = re.findall(r"^\| \S+ \| `?\S+`? \| (\w+) \|", text, re.MULTILINE)
    assert rows[1:] == [str(state) for state in State]
    assert {name for name in (*marks.OURS, marks.UNIT) if f"`{name}`" not in text} == set()


def test_the_readme_is_short_and_starts_with_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 250
    assert re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[0].split("#")[0].strip() == "make demo"
    assert "make test" in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[0]
