"""The commit that a release is built from: its files, version and time."""

from __future__ import annotations

import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from release.archives import unpack

ROOT: Final = Path(__file__).parents[1]
_IN_MODULE: Final = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
_IN_MANIFEST: Final = re.compile(r"(?:image: gitkruise:|app\.kubernetes\.io/version: )(\S+)")


class NotReleasable(Exception):
    """The tree cannot be released; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A commit: `root` holds its files without git metadata, `epoch` is its time."""

    root: Path
    version: str
    commit: str
    epoch: int


def source_of(into: Path, *, repository: Path = ROOT, release: bool = True) -> Source:
    """Unpack HEAD into a folder. With `release`, the tree must be clean and its tag must fit.

    Raises NotReleasable.
    """
    version = versioned(repository)
    if release:
        _check_clean(repository)
        check_tags(_git(repository, "tag", "--points-at", "HEAD").split(), version)
    packed = subprocess.run(
        ("git", "-c", "tar.umask=0022", "archive", "--format=tar", "HEAD"),
        cwd=repository, check=True, capture_output=True,
    ).stdout  # fmt: skip
    unpack(packed, into)
    commit, epoch = _git(repository, "log", "-1", "--format=%H %ct").split()
    return Source(root=into, version=version, commit=commit, epoch=int(epoch))


def versioned(root: Path) -> str:
    """The version of pyproject.toml, which every other place must name as well.

    Raises NotReleasable.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text())
    version = str(project["project"]["version"])
    named = {"gitkruise/__init__.py": _IN_MODULE.findall(_text(root / "gitkruise/__init__.py"))}
    for path in sorted((root / "deploy").rglob("*.yaml")):
        if found := _IN_MANIFEST.findall(_text(path)):
            named[str(path.relative_to(root))] = found
    wrong = sorted(f"{file}: {v}" for file, found in named.items() for v in found if v != version)
    if wrong:
        raise NotReleasable(f"pyproject.toml has version {version}, but {', '.join(wrong)}")
    return version


def check_tags(tags: list[str], version: str) -> None:
    """Refuse a commit whose release tag names another version.

    Raises NotReleasable.
    """
    releases = [tag for tag in tags if re.fullmatch(r"v\d.*", tag)]
    if releases and releases != [f"v{version}"]:
        message = f"HEAD has the tags {', '.join(releases)}, but pyproject.toml has {version}"
        raise NotReleasable(f"{message}; next: move the tag, or change the version")


def _check_clean(repository: Path) -> None:
    changed = _git(repository, "status", "--porcelain", "--untracked-files=no")
    if changed:
        files = ", ".join(line[3:] for line in changed.splitlines())
        raise NotReleasable(f"uncommitted changes: {files}; next: commit or stash them")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _git(repository: Path, *words: str) -> str:
    done = subprocess.run(("git", *words), cwd=repository, check=True, capture_output=True)
    return done.stdout.decode()
