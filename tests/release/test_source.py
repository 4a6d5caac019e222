"""The commit of a release: its version has one value, and its tag has the same."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from release.source import ROOT, NotReleasable, check_tags, source_of, versioned

PYPROJECT = '[project]\nversion = "1.2.3"\n'


def tree(folder: Path, module: str = "1.2.3", image: str = "1.2.3") -> Path:
    files = {
        "pyproject.toml": PYPROJECT,
        "gitkruise/__init__.py": f'__version__ = "{module}"\n',
        "deploy/a.yaml": f"image: gitkruise:{image} # x\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=Dana", "-c", "user.email=dana@example.com")
    done = subprocess.run(("git", *who, *words), cwd=folder, check=True, capture_output=True)
    return done.stdout.decode().strip()


def committed(folder: Path) -> Path:
    tree(folder)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def test_this_tree_names_one_version() -> None:
    assert versioned(ROOT)


@pytest.mark.parametrize(
    ("places", "named"),
    [
        ({"module": "1.2.4"}, "gitkruise/__init__.py: 1.2.4"),
        ({"image": "1.2.2"}, "deploy/a.yaml: 1.2.2"),
    ],
)
def test_a_second_version_is_refused(tmp_path: Path, places: dict[str, str], named: str) -> None:
    with pytest.raises(NotReleasable, match=named):
        versioned(tree(tmp_path, **places))


@pytest.mark.parametrize("tags", [[], ["v1.2.3"], ["v1.2.3", "green"], ["verified"]])
def test_a_tag_of_the_version_or_of_something_else_passes(tags: list[str]) -> None:
    check_tags(tags, "1.2.3")


@pytest.mark.parametrize("tags", [["v1.2.4"], ["v1.2"], ["v1.2.3", "v1.3.0"]])
def test_a_tag_of_another_version_is_refused(tags: list[str]) -> None:
    with pytest.raises(NotReleasable, match=r"1\.2\.3"):
        check_tags(tags, "1.2.3")


def test_a_tagged_commit(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repository")
    git(repository, "tag", "v1.2.3")
    source = source_of(tmp_path / "source", repository=repository)
    assert source.commit == git(repository, "rev-parse", "HEAD")
    assert source.epoch == int(git(repository, "log", "-1", "--format=%ct"))
    assert (source.root / "pyproject.toml").read_text() == PYPROJECT
    assert not (source.root / ".git").exists()


def test_a_wrong_tag_and_a_change_are_refused(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repository")
    git(repository, "tag", "v2.0.0")
    with pytest.raises(NotReleasable, match=r"v2\.0\.0"):
        source_of(tmp_path / "source", repository=repository)
    (repository / "deploy" / "a.yaml").write_text("image: gitkruise:1.2.3\n")
    with pytest.raises(NotReleasable, match=r"deploy/a\.yaml"):
        source_of(tmp_path / "other", repository=repository)
