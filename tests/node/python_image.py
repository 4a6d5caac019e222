"""An image of gitkruise from what this machine runs: interpreter, libraries, installed packages."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath
from typing import Final

from packaging.requirements import Requirement

from release.oci import Image
from tests.node.images import image_of

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ("gitkruise", "schemas", "deploy", "examples-repo")
SITE, CODE = PurePosixPath("/site"), PurePosixPath("/src")
# Parts of a standard library that no program here imports, and that are most of its size.
LEFT_OUT: Final = frozenset(
    {"test", "tests", "site-packages", "dist-packages", "idlelib", "tkinter", "ensurepip"}
)
CACHED: Final = f".{sys.implementation.cache_tag}.pyc"


def gitkruise_image() -> Image:
    """Return the image; its entry point is the command, and its files lie where they lie here."""
    python = Path(sys.executable).resolve()
    library = Path(sysconfig.get_path("stdlib"))
    found = {str(python): python}
    found |= {str(path): path for path in _kept(library)}
    found |= {str(SITE / path): real for path, real in _packages("gitkruise")}
    for name in SOURCES:
        found |= {str(CODE / p.relative_to(ROOT)): p for p in _kept(ROOT / name)}
    found |= {str(path): path for path in _linked(found.values())}
    files = {path.lstrip("/"): real.read_bytes() for path, real in sorted(found.items())}
    settings = {
        "Entrypoint": [str(python), "-m", "gitkruise"],
        "Env": [f"PYTHONPATH={CODE}:{SITE}", "PYTHONUNBUFFERED=1"],
    }
    return image_of(files, settings)


def _kept(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if not LEFT_OUT.isdisjoint(parts) or parts[0].startswith("config-"):
            continue
        if path.is_file() and (path.suffix != ".pyc" or path.name.endswith(CACHED)):
            yield path


def _packages(name: str) -> Iterator[tuple[PurePosixPath, Path]]:
    """Files of what a distribution requires, all the way down; not its own."""
    seen, open_ = {name}, [name]
    while open_:
        for text in distribution(open_.pop()).requires or ():
            needed = Requirement(text)
            if needed.name in seen or (needed.marker and not needed.marker.evaluate({"extra": ""})):
                continue
            seen.add(needed.name)
            open_.append(needed.name)
            for file in distribution(needed.name).files or ():
                real = Path(str(file.locate()))
                if ".." not in file.parts and real.is_file():
                    yield file, real


def _linked(files: Iterable[Path]) -> set[Path]:
    """The libraries of this machine that programs and extension modules are linked with.

    Those that packages bring lie next to their modules, here and in the image.
    """
    binaries = [str(f) for f in files if re.search(r"\.so(\.|$)", f.name) or f.parent.name == "bin"]
    output = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False).stdout
    paths = re.findall(r"(?:=> |\t)(/\S+) \(0x", output)
    return {Path(path) for path in paths if not path.startswith(sys.prefix)}
