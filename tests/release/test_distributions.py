"""Wheel and sdist: complete, without network, and the same bytes each time."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import pytest

from release.distributions import build_distributions
from release.source import ROOT, source_of

pytestmark = pytest.mark.slow

VENDORED = ("schemas", "deploy", "examples-repo")


def built(folder: Path) -> tuple[Path, Path]:
    return build_distributions(source_of(folder / "source", release=False), folder / "dist")


def test_two_builds_are_equal_and_hold_what_the_product_reads(tmp_path: Path) -> None:
    first, second = built(tmp_path / "one"), built(tmp_path / "two")
    assert [path.name for path in first] == [path.name for path in second]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    sdist, wheel = first
    names = set(zipfile.ZipFile(wheel).namelist())
    root = tmp_path / "one" / "source"
    for folder in VENDORED:
        files = {p.relative_to(root).as_posix() for p in (root / folder).rglob("*") if p.is_file()}
        assert files
        assert files <= {name.removeprefix("gitkruise/_data/") for name in names}
    assert "gitkruise/_data/docs/codes.md" in names
    pages = {f"gitkruise/dashboard/{p.relative_to(root / 'gitkruise/dashboard')}"
             for p in (root / "gitkruise/dashboard").rglob("*") if p.is_file()}  # fmt: skip
    assert any(name.endswith(".js") for name in pages)
    assert pages <= names
    assert {name.partition("/")[0] for name in names} == {
        "gitkruise", f"{sdist.name.removesuffix('.tar.gz')}.dist-info"
    }  # fmt: skip
    with tarfile.open(sdist) as tar:
        inside = {name.partition("/")[2] for name in tar.getnames()}
    assert {"pyproject.toml", "requirements.txt", "docs/codes.md", "Makefile"} <= inside


def test_the_distributions_hold_files_of_the_commit_alone(tmp_path: Path) -> None:
    stray = ROOT / "gitkruise" / "stray.txt"
    stray.write_text("not committed")
    try:
        _, wheel = built(tmp_path)
    finally:
        stray.unlink()
    assert "gitkruise/stray.txt" not in zipfile.ZipFile(wheel).namelist()
