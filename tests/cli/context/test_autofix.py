"""validate --fix renames what is surely misspelt, changes nothing else, and says what it did."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gitkruise.errors import InvalidManifests
from gitkruise.git.edit.rename_key import Renaming, rename_keys
from tests.cli.calls import Caller, python
from tests.cli.shop import CONFIG_MAP, cloneset

GOOD = cloneset().replace("    partition: 0\n", "    partition: 60%   # canary\n")
SLIP = GOOD.replace("partition:", "partiton:")
TWICE = GOOD.replace("    maxUn", "    partiton: 0\n    maxUn")
TWO_FOR_ONE = GOOD.replace("    partition: 60%", "    partiton: 0\n    partitio: 60%")
NESTED = GOOD.replace("  template:", "  templat:").replace("containers:", "contaners:")
COLOUR = GOOD.replace("partition:", "colour:")
MANY = GOOD.replace("replicas: 10", "replica: many")
ROWS: list[tuple[str, str, str, int]] = [
    # row id, file, what it should become, exit code
    ("one field", SLIP, GOOD, 0),
    ("nothing wrong", GOOD, GOOD, 0),
    ("windows line ends", SLIP.replace("\n", "\r\n"), GOOD.replace("\n", "\r\n"), 0),
    ("byte order mark", "\ufeff" + SLIP, "\ufeff" + GOOD, 0),
    ("quoted key", SLIP.replace("partiton:", "'partiton':"),
     GOOD.replace("partition:", "'partition':"), 0),
    ("two fields", SLIP.replace("selector:", "selectr:"), GOOD, 0),
    ("second document", CONFIG_MAP + "---\n" + SLIP, CONFIG_MAP + "---\n" + GOOD, 0),
    ("field of a slip", NESTED, GOOD, 0),
    ("case", GOOD.replace("matchLabels", "matchlabels"), GOOD, 0),
    ("nothing near", COLOUR, COLOUR, 1),
    ("there already", TWICE, TWICE, 1),
    ("two for one", TWO_FOR_ONE, TWO_FOR_ONE, 1),
    ("value does not fit", MANY, MANY, 1),
    ("broken yaml", SLIP + "  x: [", SLIP + "  x: [", 1),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_files(gk: Caller, row: tuple[str, str, str, int]) -> None:
    _, before, after, code = row
    file = gk.folder / "app.yaml"
    file.write_bytes(before.encode())
    assert gk("validate", "--fix", "app.yaml").code == code
    assert file.read_bytes().decode() == after
    again = gk("validate", "--fix", "app.yaml")
    assert (again.code, "renamed" in again.err) == (code, False)
    assert file.read_bytes().decode() == after
    assert [path.name for path in gk.folder.iterdir()] == ["app.yaml"]


def test_what_was_renamed_is_reported_with_its_place(gk: Caller) -> None:
    (gk.folder / "app.yaml").write_text(SLIP)
    done = gk("validate", "--fix")
    assert "renamed partiton → partition  app.yaml:24:5" in done.err
    assert "no problem" in done.err


def test_the_error_names_the_command_only_where_it_helps(gk: Caller) -> None:
    (gk.folder / "app.yaml").write_text(SLIP)
    assert "next: gitkruise validate --fix app.yaml     (renames it)" in gk("validate").out
    (gk.folder / "app.yaml").rename(gk.folder / "an app; id.yaml")
    assert "next: gitkruise validate --fix 'an app; id.yaml'     (renames" in gk("validate").out
    (gk.folder / "an app; id.yaml").unlink()
    (gk.folder / "app.yaml").write_text(GOOD.replace("replicas: 10", "replica: many"))
    output = gk("validate").out
    assert "--fix" not in output
    assert 'rename it to "replicas"' in output


def test_a_link_is_followed_and_modes_stay(gk: Caller) -> None:
    real = gk.folder / "real.yaml"
    real.write_text(SLIP)
    real.chmod(0o640)
    (gk.folder / "app.yaml").symlink_to("real.yaml")
    assert gk("validate", "--fix", "app.yaml").code == 0
    assert (gk.folder / "app.yaml").is_symlink()
    assert (real.read_text(), stat.S_IMODE(real.stat().st_mode)) == (GOOD, 0o640)


FULL_DISK = """
import resource, sys
sys.dont_write_bytecode = True  # half a module is no module
from gitkruise.cli.root import run
resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
print("exit", run(["validate", "--fix", {file!r}]))
"""


def test_a_file_that_cannot_be_written_stays_and_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "app.yaml"
    file.write_text(SLIP)
    out = python(FULL_DISK.format(file=str(file)))
    assert "exit 1" in out
    assert "error[GK3603]: cannot write" in out
    assert [path.read_text() for path in tmp_path.iterdir()] == [SLIP]


ALIASED = "a: &x {partiton: 1}\nb: *x\n"
REFUSED: dict[str, tuple[str, list[Renaming]]] = {
    "an alias carries it on": (ALIASED, [(0, ("a", "partiton"), "partition")]),
    "no such field": (ALIASED, [(0, ("a", "other"), "partition")]),
    "no such document": (ALIASED, [(3, ("a", "partiton"), "partition")]),
    "an escape": ('"part\\u0069ton": 1\n', [(0, ("partiton",), "partition")]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_no_more_than_the_key_ever_changes(name: str) -> None:
    text, renamings = REFUSED[name]
    with pytest.raises(InvalidManifests, match="GK3602"):
        rename_keys(text.encode(), "a.yaml", renamings)
