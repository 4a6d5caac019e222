"""The commit that the installed program was made from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gitkruise.errors import SourceFailed
from gitkruise.git.push.worktree import WorkTree

_COMMIT = "GITKRUISE_COMMIT"  # deploy/Dockerfile sets it


@dataclass(frozen=True, slots=True)
class InstalledFrom:
    """A commit, "" where it is not known; `changed`: the files differ from it."""

    commit: str = ""
    changed: bool = False


def installed_from(variables: Mapping[str, str], name: str = "gitkruise") -> InstalledFrom:
    """Return the commit of the image, of a URL that pip installed from, or of a checkout.

    The source of the last two is pip's direct_url.json (PEP 610).
    """
    if variables.get(_COMMIT):
        return InstalledFrom(variables[_COMMIT])
    try:
        text = distribution(name).read_text("direct_url.json")
    except PackageNotFoundError:
        return InstalledFrom()
    direct_url = json.loads(text or "{}")
    if direct_url.get("dir_info", {}).get("editable"):
        return _of_checkout(Path(unquote(urlsplit(direct_url["url"]).path)))
    return InstalledFrom(direct_url.get("vcs_info", {}).get("commit_id", ""))


def _of_checkout(folder: Path) -> InstalledFrom:
    try:
        tree = WorkTree.holding(folder)
        return InstalledFrom(tree.head()[0], changed=bool(tree.dirty()))
    except SourceFailed:  # an unpacked archive, or no git on this machine
        return InstalledFrom()
