"""The installed program as a tree of files below /opt/gitkruise, for the image and the package.

The tree is a virtual environment that no command of this machine made: its packages are the pinned
wheels for Debian's interpreter, and its scripts name the place where the tree will be.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

from release.source import NotReleasable, Source

PYTHON: Final = "3.13"  # of SUITE in root_files
HOME: Final = "opt/gitkruise"
# Wheels that the C library of the suite runs (PEP 600).
_GLIBC: Final = ("2_34", "2_28", "2_17", "2_12", "2_5")
_SCRIPT: Final = """\
#!/{home}/bin/python3
import sys

from {module} import {function}

sys.exit({function}())
"""
_SETTINGS: Final = """\
home = /usr/bin
include-system-site-packages = false
version = {python}
"""


def write_program(source: Source, wheel: Path, root: Path) -> None:
    """Write the tree and the links of its commands below a root folder.

    Needs the package registry: wheels are checked against the hashes of requirements.txt.
    """
    home = root / HOME
    packages = home / "lib" / f"python{PYTHON}" / "site-packages"
    pins = source.root / "requirements.txt"
    _pip(packages, "--require-hashes", "--no-deps", "-r", str(pins))
    _pip(packages, "--no-deps", "--no-index", str(wheel))
    _forget_where_from(packages)
    (home / "pyvenv.cfg").write_text(_SETTINGS.format(python=PYTHON))
    commands = home / "bin"
    commands.mkdir()
    (commands / "python3").symlink_to(f"/usr/bin/python{PYTHON}")
    (commands / "python").symlink_to("python3")
    links = root / "usr" / "bin"
    links.mkdir(parents=True, exist_ok=True)
    project = tomllib.loads((source.root / "pyproject.toml").read_text())["project"]
    for name, entry in project["scripts"].items():
        module, _, function = entry.partition(":")
        text = _SCRIPT.format(home=HOME, module=module, function=function)
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
        (links / name).symlink_to(f"/{HOME}/bin/{name}")


def _forget_where_from(packages: Path) -> None:
    """Remove the path of the wheel's file, which differs between builds, and its digest."""
    (direct,) = packages.glob("gitkruise-*.dist-info/direct_url.json")
    direct.unlink()
    record = direct.with_name("RECORD")
    kept = [
        line for line in record.read_text().splitlines(keepends=True) if direct.name not in line
    ]
    record.write_text("".join(kept))


def compile_program(root: Path, base: Path) -> None:
    """Compile the modules of the tree with the interpreter of a Debian root file system.

    A read-only file system cannot keep what an import compiles. Hashes take the place of times,
    and are never checked. `kubernetes` is left out: 70 MB, of which a few modules are imported by
    clusters with credential plug-ins. Needs root, for chroot.

    Raises NotReleasable when the file system lacks a library of an extension module.
    """
    inside = base / HOME
    inside.mkdir(parents=True, exist_ok=True)
    subprocess.run(("mount", "--bind", str(root / HOME), str(inside)), check=True)
    try:
        _in(base, f"python{PYTHON}", "-m", "compileall", "-q", "--invalidation-mode",
            "unchecked-hash", "-x", "/site-packages/kubernetes/", f"/{HOME}/lib")  # fmt: skip
        linked = _in(base, "sh", "-c", f"find /{HOME} -name '*.so*' -exec ldd {{}} +")
    finally:
        subprocess.run(("umount", str(inside)), check=True)
    missing = sorted(set(re.findall(r"^\s*(\S+) => not found$", linked, re.MULTILINE)))
    if missing:
        raise NotReleasable(f"no package of the image has {', '.join(missing)}")


def _in(base: Path, *words: str) -> str:
    """Output of a command inside of a root file system."""
    clean = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONHASHSEED": "0"}
    command = ("chroot", str(base), *words)
    return subprocess.run(command, check=True, env=clean, stdout=subprocess.PIPE, text=True).stdout


def _pip(target: Path, *words: str) -> None:
    platforms = [f"--platform=manylinux_{glibc}_x86_64" for glibc in _GLIBC]
    platforms += [f"--platform=manylinux{old}_x86_64" for old in ("2014", "2010", "1")]
    abis = [f"--abi={abi}" for abi in (f"cp{PYTHON.replace('.', '')}", "abi3", "none")]
    subprocess.run(
        (sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check",
         "--no-compile", "--only-binary", ":all:", "--implementation", "cp", "--python-version",
         PYTHON, *platforms, *abis, "--target", str(target), *words),
        check=True,
    )  # fmt: skip
    shutil.rmtree(target / "bin", ignore_errors=True)  # scripts for this machine's interpreter
