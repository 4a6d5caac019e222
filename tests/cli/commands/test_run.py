"""gitkruise run: the line about the units that it follows."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitkruise.cli.commands.cluster.run import following
from tests.cli.calls import Caller

NEXT = "; next: name a file with --config, or kubectl apply a GitSource and a Unit"
ROWS: list[tuple[str, int, int | None, str]] = [
    ("file and cluster", 1, 2, "1 unit of FILE and 2 units of cluster dev"),
    ("file", 2, 0, "2 units of FILE and 0 units of cluster dev"),
    ("file alone", 2, None, "2 units of FILE for cluster dev"),
    ("cluster", 0, 1, "1 unit of cluster dev"),
    ("nothing", 0, 0, f"no unit yet: FILE has no Unit, and cluster dev has none{NEXT}"),
    ("unknown", 0, None, f"no unit yet: FILE has no Unit, and those of dev are unknown{NEXT}"),
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_the_units_are_counted_where_they_are(
    tmp_path: Path, row: tuple[str, int, int | None, str]
) -> None:
    _, units, custom, words = row
    file = tmp_path / "gitkruise.yaml"
    file.write_text("")
    assert following(units, file, custom, "dev") == words.replace("FILE", str(file))


def test_a_file_that_does_not_exist_is_named() -> None:
    assert "missing.yaml does not exist, and" in following(0, Path("missing.yaml"), 0, "dev")


def test_local_sources_are_for_the_embedded_cluster_alone(gk: Caller) -> None:
    ended = gk("run", "--local-sources")
    assert ended.code == 2
    assert "add --sandbox" in ended.err
