"""Law of crashes: wherever a store's process is killed or its machine loses power, what it had
acknowledged is there when it is opened again, nothing is half there, and no version returns."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from gitkruise.sandbox.backend.sqlite import RESTART_GAP, SqliteStore
from tests.sandbox.backend.test_storage import batch, names
from tests.sandbox.disk import Disk, Draw, Effect, Scenario, put, traced

SCENARIOS: Final = {  # and how many images of lost power there are to judge, at least
    "short sessions": (Scenario(sessions=24, commits=4, filler=331), 20_000),
    "small objects": (Scenario(sessions=2, commits=70, checkpoint=20), 3_500),
    "large objects": (Scenario(sessions=2, commits=40, checkpoint=30, filler=2713), 16_500),
    "checkpoints": (Scenario(sessions=2, commits=24, checkpoint=4, filler=1201), 12_000),
}
BOUNDARIES: Final = 950  # in each: between two calls of the kernel a process is killed
MEMORY: Final = Path("/dev/shm")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where there is one: a crash of this machine is not the question."""
    made = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    yield made
    shutil.rmtree(made)


def check(path: Path, acked: int, where: str, *, go_on: bool) -> None:
    """STORE-1, STORE-4, STORE-5 and STORE-6 of one image."""
    store = SqliteStore(path)
    try:
        objects, version = store.load()
        found = {o["metadata"]["name"]: int(o["metadata"]["resourceVersion"]) for o in objects}
        newest = max(found.values(), default=0)
        assert newest in {acked, acked + 1}, f"{where}: {acked} acknowledged, {newest} found"
        assert found.keys() == names(newest), f"{where}: half of {newest}"
        assert version == (newest + RESTART_GAP if newest else 0), f"{where}: {version} goes on"
        if go_on:
            store.write(batch(newest + 1))
            assert {o["metadata"]["name"] for o in store.load()[0]} == names(newest + 1), where
    finally:
        store.close()


def cuts(effects: list[Effect]) -> Iterator[tuple[int, Disk]]:
    """The disk before the first effect and after each."""
    disk = Disk()
    for index, effect in enumerate(effects):
        yield index, disk
        disk.carry_out(effect)
    yield len(effects), disk


def draws(disk: Disk) -> int:
    """How often to draw what is left: the more is loose, the more there is to lose."""
    loose = sum(map(len, disk.loose.values()))
    return min(6 * loose, 60)


@pytest.mark.parametrize(("scenario", "least"), SCENARIOS.values(), ids=SCENARIOS)
def test_no_power(scenario: Scenario, least: int, folder: Path, tmp_path: Path) -> None:
    image, run = folder / "image", tmp_path / "run"
    image.mkdir()
    run.mkdir()
    killed = lost = 0
    for cut, disk in cuts(traced(scenario, run)):
        if not disk.kept:
            continue
        check(put(image, disk.killed()), disk.acked, f"killed at {cut}", go_on=True)
        killed += 1
        seen: set[tuple[bytes, ...]] = set()
        for seed in range(draws(disk)):
            left = disk.without_power(Draw(cut << 20 | seed))
            if (content := tuple(left.values())) not in seen:
                seen.add(content)
                where = f"no power at {cut}, draw {seed}"
                check(put(image, left), disk.acked, where, go_on=seed % 50 == 0)
        lost += len(seen)
    assert killed >= BOUNDARIES
    assert lost >= least
