"""A keyring of gpg for as long as it is used: in memory where there is room for it, and private."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gitkruise.git.plumbing import process
from gitkruise.git.plumbing.process import Result

_TIME_S: Final = 30.0
_OUTPUT_MAX: Final = 1 << 16
_MEMORY: Final = Path("/dev/shm")  # noqa: S108  a place in memory, for a private folder


@contextmanager
def private_folder() -> Iterator[Path]:
    """An empty folder that only this user may read."""
    inside = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix=f"gitkruise-{os.getpid()}-", dir=inside) as name:
        yield Path(name)


def clear_private_folders(process_id: int) -> None:
    """Delete what a process that was killed left behind in `private_folder`."""
    for place in {_MEMORY, Path(tempfile.gettempdir())}:
        for folder in place.glob(f"gitkruise-{process_id}-*"):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def agent(home: Path) -> Iterator[None]:
    """gpg starts an agent by itself; it ends with the block."""
    try:
        yield
    finally:
        run(["gpgconf", "--kill", "all"], home)


def write_private(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def run(words: list[str], home: Path, data: bytes = b"") -> Result:
    """Run a program of git's or gpg's that finds `home` and nothing else. Status 127: it is not
    there."""
    environment = ["PATH=" + process.SEARCH_PATH, "LC_ALL=C", f"HOME={home}", f"GNUPGHOME={home}"]
    child = process.launch(["env", "-i", *environment, *words])
    return process.collect(child, data, timeout_s=_TIME_S, output_max=_OUTPUT_MAX)
