"""The helm that the tests run, and a stand-in that only prints."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from gitkruise.git.plumbing.process import SEARCH_PATH
from tests.conftest import need

_BUILT: Final = Path(__file__).parent / "helm" / "program" / "bin"


def real() -> str:
    """The folder of helm, built or installed. Skips the test where there is none."""
    found = shutil.which("helm", path=f"{_BUILT}:{SEARCH_PATH}") or shutil.which("helm") or ""
    need("helm", present=bool(found), how="make helm-assets")
    return str(Path(found).parent)


def registry() -> str:
    """The registry for charts. Skips the test where it is not built."""
    found = _BUILT / "registry"
    need("helm", present=found.exists(), how="make helm-assets")
    return str(found)


def stand_in(folder: Path, script: str, version: str = "v3.19.0") -> str:
    """A folder with `script` as its helm."""
    folder.mkdir()
    (folder / "helm").write_text(
        f'#!/bin/sh\n[ "$1" = version ] && {{ printf "%s" "{version}"; exit; }}\n{script}\n'
    )
    (folder / "helm").chmod(0o755)
    return str(folder)
