"""House style of the texts in Python: how docstrings open, and words that are not used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.test_docs import banned
from tests.test_tidy import FILES, ROOT, sources

OPENING: Final = re.compile(r"(What|Whether|Where|Who|How|Why)\b")
# In prose about code both are plain English as often as not.
AMBIGUOUS: Final = re.compile(r"\b(made|else)$", re.IGNORECASE)
PRODUCT: Final = [
    path
    for path in [*sources("bench", "docs"), *FILES]
    if path.relative_to(ROOT).parts[0] != "tests"
]
Text = tuple[str, int, bool]  # a literal, its line, and whether it is a docstring


def texts(source: str) -> Iterator[Text]:
    """Literals of several words."""
    tree = ast.parse(source)
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    first = (node.body[0] for node in ast.walk(tree) if isinstance(node, documented) and node.body)
    docs = {id(node.value) for node in first if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and " " in str(node.value).strip():
            yield str(node.value), node.lineno, id(node) in docs


def faults(source: str, *, users: bool) -> list[str]:
    """Violations of the style; `users` read the docstrings as help."""
    found = []
    for text, line, doc in texts(source):
        words = [word for word in banned(text) if users or not (doc and AMBIGUOUS.search(word))]
        found += [f"line {line}: {word.partition(': ')[2]}" for word in words]
        if doc and OPENING.match(text):
            found.append(f"line {line}: opens with {text.split()[0]}")
    return found


@pytest.mark.parametrize(
    ("source", "users", "many"),
    [
        ('"""What it does."""', False, 1),
        ('def f():\n    """Whether it is so."""', False, 1),
        ('class A:\n    """How it is so."""', False, 1),
        ('"""Whatever it does."""', False, 0),
        ('x = "What it does"', False, 0),
        ('x = "the record stands there"', False, 1),
        ('x = f"{y} is made anew"', False, 2),
        ('"""Parts that are made of others, or else of this."""', False, 0),
        ('"""Parts that are made of others, or else of this."""', True, 2),
        ('"""Give `or else` a try."""', True, 0),
    ],
)
def test_the_check(source: str, *, users: bool, many: int) -> None:
    assert len(faults(source, users=users)) == many


@pytest.mark.parametrize("path", PRODUCT, ids=lambda p: str(p.relative_to(ROOT)))
def test_texts_follow_the_house_style(path: Path) -> None:
    users = path.is_relative_to(ROOT / "gitkruise" / "cli" / "commands")
    assert faults(path.read_text(), users=users) == []
