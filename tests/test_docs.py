"""The documentation says what the code does: codes, reference pages, links, words."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from gitkruise.cli.console.command import MEANINGS
from gitkruise.model.gitops.unit_state import State
from gitkruise.planner.sync import annotations as marks

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples-repo" / "README.md",
         *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("behaviour/*.md"))]  # fmt: skip
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


@pytest.mark.parametrize(
    "page", ["cli.md", "configuration.md", "../deploy/monitoring/prometheusrule.yaml"]
)
def test_a_reference_page_is_fresh(page: str) -> None:
    assert script("generate").PAGES[page]() == (DOCS / page).read_text(), "make docs"


def test_the_table_of_exit_codes_has_those_of_all_commands() -> None:
    table = {int(code) for code, _ in script("generate").EXIT_CODES}
    assert set(MEANINGS) <= table


def test_types_of_fields_are_those_of_yaml() -> None:
    assert "| ['" not in (DOCS / "configuration.md").read_text()


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


def test_the_readme_fits_two_screens_and_starts_with_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 95
    commands = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[0].splitlines()
    assert [line.partition("#")[0].strip() for line in commands] == ["make demo", "make test"]


def test_the_readme_shows_chapters_of_the_recorded_demo() -> None:
    record = script("record")
    shown = record.recorded(record.README)
    assert "⏸ Held" in shown
    assert shown == record.excerpt(record.recorded()), "make docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_make_targets_named_in_a_page_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"^make ([a-z0-9-]+)|`make ([a-z0-9-]+)[` ]", page.read_text(), re.MULTILINE)
    assert {"".join(pair) for pair in named} <= targets


BANNED = re.compile(
    r"\b(anew|beside|nobody|somebody|whoever|whom|stands|told|tells|at\s+hand|at\s+once|for\s+want\s+of"
    r"|none\s+of|likewise|what\s+came\s+of|trouble|oddity|wish|made"
    r"|(?<!thing\s)(?<!one\s)(?<!body\s)else)\b",
    re.IGNORECASE,
)  # "everything else" is plain English, "else" for "otherwise" is not
QUOTED = re.compile(
    r"^```.*?^```$|``.*?``|`[^`\n]*`|\]\([^)]*\)|<!--.*?-->", re.MULTILINE | re.DOTALL
)
PROSE = [*PAGES, ROOT / "schemas" / "README.md", *sorted(DOCS.glob("*/**/*.md"))]
OWN = sorted((ROOT / "schemas" / "own").glob("*.yaml"))


def banned(text: str) -> list[str]:
    """The words that house style rejects, each with its line, outside code, commands and links."""
    kept = QUOTED.sub(lambda found: "\n" * found[0].count("\n"), text)
    found = BANNED.finditer(kept)
    return [f"line {kept.count(chr(10), 0, f.start()) + 1}: {f[0]}" for f in found]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The record stands.", 1),
        ("Wait, or else.", 1),
        ("Everything else stays.", 0),
        ("`kubectl told`, [a](made.md)", 0),
        ("```sh\nmake made\n```\n", 0),
        ("a seat at\nonce", 1),
    ],
)
def test_the_check_of_words(text: str, words: int) -> None:
    assert len(banned(text)) == words


@pytest.mark.parametrize("page", PROSE, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_page_has_no_banned_word(page: Path) -> None:
    assert banned(page.read_text()) == []


def descriptions(node: object) -> Iterator[str]:
    """The texts of a schema that users read: descriptions, and messages of rules."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in {"description", "message"} and isinstance(value, str):
                yield value
            yield from descriptions(value)
    elif isinstance(node, list):
        for item in node:
            yield from descriptions(item)


@pytest.mark.parametrize("schema", OWN, ids=lambda p: p.stem)
def test_a_schema_has_no_banned_word(schema: Path) -> None:
    found = [text for text in descriptions(yaml.safe_load(schema.read_text())) if banned(text)]
    assert found == []


NAMED_TEST = re.compile(r"`((?:\w+/)*test_\w+\.py)::(test_\w+)`")


def security_rows() -> list[str]:
    lines = (DOCS / "security.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.endswith("| Tests |")]
    assert len(rows) > 40, "the page states what each party can and cannot do"
    return rows


@pytest.mark.parametrize("row", security_rows(), ids=lambda r: r.split("|")[1].strip()[:60])
def test_every_statement_on_security_names_its_tests(row: str) -> None:
    named = NAMED_TEST.findall(row)
    assert named, "a statement without a test"
    for file, test in named:
        source = (ROOT / "tests" / file).read_text()
        assert re.search(rf"^(async )?def {test}\(", source, re.MULTILINE), f"{file} has no {test}"


def test_security_covers_every_party() -> None:
    text = (DOCS / "security.md").read_text()
    heads = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert heads == ["Trust", "A stranger", "A tenant", "A committer", "An operator",
                     "Outside the model"]  # fmt: skip


COVERAGE = re.compile(r"^\| (\d+) \| (.+?) \| (yes|no) \| (.+) \|$", re.MULTILINE)


def test_each_point_that_works_names_a_test_that_exists() -> None:
    rows = COVERAGE.findall((DOCS / "coverage.md").read_text())
    assert [int(number) for number, *_ in rows] == [*range(1, 284)]
    for number, _, works, test in rows:
        named = re.fullmatch(r"`([\w/.]+\.py)` `(test_\w+)`", test)
        assert bool(named) == (works == "yes"), number
        if named:
            file, function = named.groups()
            text = (ROOT / "tests" / file).read_text()
            assert re.search(rf"^(async )?def {function}\(", text, re.MULTILINE), (number, test)


def test_the_page_counts_its_points() -> None:
    page = (DOCS / "coverage.md").read_text()
    working = sum(works == "yes" for _, _, works, _ in COVERAGE.findall(page))
    assert f"{working} of 283 points work." in " ".join(page.split())
    assert working >= 275
