"""The generated tables are what the type list says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from gitkruise.wire.kruise._go_types import TYPES

SCHEMAS = Path(__file__).parents[3] / "schemas"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_tables", SCHEMAS / "generate_tables.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_are_fresh(generator: ModuleType) -> None:
    types = generator.parse((SCHEMAS / "types.txt").read_text())
    assert types == TYPES, "run schemas/generate_tables.py"
    assert generator.TARGET.read_text() == generator.render(types)


@pytest.mark.parametrize(
    "text", ["A: a!str\nA: b!str", "A: a!Nothing", "A: a str", "A: ", "A: m?map<Nothing>"]
)
def test_a_table_that_makes_no_sense_is_refused(generator: ModuleType, text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the words differ by cause
        generator.parse(text)
