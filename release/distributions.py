"""Wheel and sdist. The wheel is built from the unpacked sdist, which so proves to be complete."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from release.archives import unpack
from release.source import Source


def build_distributions(source: Source, out: Path) -> tuple[Path, Path]:
    """Write (sdist, wheel) into a folder, without network and isolated environment.

    hatchling takes the times of their entries from SOURCE_DATE_EPOCH, and sorts them.
    """
    stem = f"gitkruise-{source.version}"
    sdist = out / f"{stem}.tar.gz"
    wheel = out / f"{stem}-py3-none-any.whl"
    _hatchling(source.root, "sdist", sdist, source.epoch)
    unpacked = source.root.with_name(source.root.name + "-sdist")
    unpack(sdist, unpacked)
    (root,) = unpacked.iterdir()
    _hatchling(root, "wheel", wheel, source.epoch)
    return sdist, wheel


def _hatchling(root: Path, kind: str, built: Path, epoch: int) -> None:
    built.parent.mkdir(parents=True, exist_ok=True)
    variables = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}  # noqa: TID251  for a child process
    subprocess.run(
        (sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(built.parent.resolve())),
        cwd=root, env=variables, check=True, capture_output=True,
    )  # fmt: skip
    if not built.is_file():
        raise FileNotFoundError(f"hatchling did not write {built.name}")
