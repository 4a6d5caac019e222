"""The commit of an installed program, as pip and the image tell it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gitkruise.cli.context.installed_from import InstalledFrom, installed_from
from tests.git.repos import run_git

COMMIT = "4f2c9e1d08b7a6c54f2c9e1d08b7a6c54f2c9e1d"
NAME = "installed-somehow"


def install(folder: Path, direct_url: dict[str, Any] | None) -> None:
    """Leave what pip leaves in a folder of packages."""
    info = folder / "installed_somehow-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n")
    if direct_url is not None:
        (info / "direct_url.json").write_text(json.dumps(direct_url))


ROWS: list[tuple[dict[str, Any] | None, str]] = [
    (None, ""),
    ({"url": "https://git.example/x.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}, COMMIT),
    ({"url": "https://files.example/x.whl", "archive_info": {}}, ""),
    ({"url": "file:///nowhere", "dir_info": {"editable": True}}, ""),
    ({"url": "file:///nowhere", "dir_info": {}}, ""),
]


@pytest.mark.parametrize(("direct_url", "commit"), ROWS)
def test_what_pip_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    direct_url: dict[str, Any] | None, commit: str,
) -> None:  # fmt: skip
    install(tmp_path, direct_url)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert installed_from({}, NAME) == InstalledFrom(commit)
    assert installed_from({"GITKRUISE_COMMIT": "4f2c9e1"}, NAME) == InstalledFrom("4f2c9e1")


def test_a_checkout_has_its_head_and_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "the checkout"
    checkout.mkdir()
    run_git(checkout, "init", "--quiet")
    (checkout / "module.py").write_text("")
    run_git(checkout, "add", ".")
    run_git(checkout, "commit", "-qm", "first")
    install(tmp_path, {"url": checkout.as_uri(), "dir_info": {"editable": True}})
    monkeypatch.syspath_prepend(str(tmp_path))
    head = run_git(checkout, "rev-parse", "HEAD").strip()
    assert installed_from({}, NAME) == InstalledFrom(head)
    (checkout / "module.py").write_text("1\n")
    assert installed_from({}, NAME) == InstalledFrom(head, changed=True)


def test_a_program_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed_from({}, "not-installed-anywhere") == InstalledFrom()
