"""A unit left only if its own configuration lacks it: another one says nothing about it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.app import RunOptions, controller
from gitkruise.gitops.config.loader import load_config
from gitkruise.gitops.runtime.removals import RememberedUnit, Removals, _parsed, _written
from gitkruise.model.gitops.config import Config
from gitkruise.model.gitops.record import Removal
from tests.gitops.runtime.test_finalizer import HEAD, House, leaves
from tests.gitops.runtime.test_finalizer import LEFT as OBJECTS
from tests.gitops.stage import MakeStage

END: Final = Removal(policy="MirrorPrune", timeout=timedelta(minutes=5))
MINE, OTHER = "/srv/shop/gitkruise.yaml", "/srv/pay/gitkruise.yaml"


class FileHouse(House):
    """Its program starts with a configuration file, or with none."""

    def configured(self, file: Path | None, text: str) -> RunOptions:
        config = Config()
        if file is not None:
            file.write_text(text.format(url=self.stage.origin.bare))
            config = load_config(file)
        return replace(self.program(None), config=config)

    async def start(self, file: Path | None, text: str = "") -> None:
        program = self.configured(file, text)
        async with controller(program, self.stage.wire, self.stage.clock):
            await self.stage.rest(60)


@pytest.fixture
def files(staged: MakeStage, tmp_path: Path) -> FileHouse:
    return FileHouse(staged(), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("other", ["another file", "no file"])
def test_objects_stay_until_their_own_configuration_lacks_the_unit(
    files: FileHouse, tmp_path: Path, other: str, caplog: pytest.LogCaptureFixture
) -> None:
    own, another = tmp_path / "own.yaml", tmp_path / "another.yaml"

    async def script() -> None:
        files.push(*OBJECTS)
        await files.start(own, HEAD + leaves(""))
        assert files.there() == 4
        await files.start(another if other == "another file" else None, HEAD)
        assert files.there() == 4
        await files.start(own, HEAD)
        assert files.there() == 0

    files.stage.play(script)
    messages = [r.getMessage() for r in caplog.records if "another-configuration" in r.getMessage()]
    assert len(messages) == 1
    for part in ("shop/leaves", f"configuration={own}", f'next="gitkruise run --config {own}"'):
        assert part in messages[0]


@pytest.mark.slow
def test_a_unit_that_another_configuration_takes_belongs_to_it(
    files: FileHouse, tmp_path: Path
) -> None:
    own, another = tmp_path / "own.yaml", tmp_path / "another.yaml"

    async def script() -> None:
        files.push(*OBJECTS)
        await files.start(own, HEAD + leaves(""))
        await files.start(another, HEAD + leaves(""))
        await files.start(own, HEAD)
        assert files.there() == 4
        await files.start(another, HEAD)
        assert files.there() == 0

    files.stage.play(script)


def remembered(origin: str, **units: str | None) -> Removals:
    known = {name: RememberedUnit(END, file) for name, file in units.items()}
    return Removals(None, origin, known)  # type: ignore[arg-type]  # nothing is written


ROWS: Final[list[tuple[str, list[str], dict[str, list[str]]]]] = [
    (MINE, ["a", "old"], {OTHER: ["b"]}),
    (OTHER, ["b", "old"], {MINE: ["a"]}),
    ("", [], {MINE: ["a"], OTHER: ["b"], "": ["old"]}),
]


@pytest.mark.parametrize(("origin", "left", "elsewhere"), ROWS)
def test_units_left_by_the_configuration_that_had_them(
    origin: str, left: list[str], elsewhere: dict[str, list[str]]
) -> None:
    """What an earlier version stored names no file: any file may lack it, but not no file."""
    removals = remembered(origin, a=MINE, b=OTHER, old=None, there=MINE)
    assert sorted(removals.left({"there"})) == left
    assert removals.elsewhere({"there"}) == elsewhere


def test_stored_units_are_read_as_they_were_written() -> None:
    known = {"a": RememberedUnit(END, MINE), "b": RememberedUnit(END, "")}
    assert _parsed(_written(known), "") == known


def test_units_that_an_earlier_version_stored_are_read() -> None:
    stored: list[Any] = [[["Delete", "Foreground", "5m", 10, ""], ["a"]]]
    assert _parsed(stored, "") == {"a": RememberedUnit(replace(END, policy="Delete"), None)}
