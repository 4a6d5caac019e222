"""The Debian package: the program of the image, with man pages and completions."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from release.archives import compressed
from release.pages import COMPLETIONS, MAN
from release.program import PYTHON
from release.source import Source

ARCHITECTURE: Final = "amd64"
# Debian has a folder of its own for completions of zsh that packages bring.
_ELSEWHERE: Final = {COMPLETIONS["zsh"]: "zsh/vendor-completions/_gitkruise"}
_MAJOR, _MINOR = (int(part) for part in PYTHON.split("."))
_NEEDS: Final = (
    f"python3 (>= {PYTHON})", f"python3 (<< {_MAJOR}.{_MINOR + 1})", "libc6 (>= 2.34)",
    "libstdc++6", "git", "ca-certificates",
)  # fmt: skip
_CONTROL: Final = f"""\
Package: gitkruise
Version: {{version}}
Architecture: {ARCHITECTURE}
Maintainer: gitkruise <root@localhost>
Installed-Size: {{size}}
Depends: {", ".join(_NEEDS)}
Recommends: openssh-client, gpg
Section: admin
Priority: optional
Description: GitOps controller for OpenKruise-style rollouts
 gitkruise turns git pushes into rollouts and writes their outcome back into
 git. The package holds the program with its pinned Python packages in
 /opt/gitkruise, and needs no other package index.
"""
_LICENSE: Final = "Files: *\nLicense: Apache-2.0\n\n"


def build_package(source: Source, root: Path, shared: Mapping[str, str], out: Path) -> None:
    """Write a .deb of the tree below `root` with files of share/.

    dpkg-deb sorts the entries, and lowers their times to the commit's.
    """
    tree = root.with_name(root.name + "-package")
    shutil.copytree(root, tree, symlinks=True)
    for path, text in shared.items():
        _write_shared(tree / "usr" / "share", path, text.encode())
    license_text = (source.root / "LICENSE").read_text()
    _write(tree / "usr/share/doc/gitkruise/copyright", (_LICENSE + license_text).encode())
    files = [p for p in sorted(tree.rglob("*")) if p.is_file() and not p.is_symlink()]
    sums = "".join(f"{_md5(path)}  {path.relative_to(tree)}\n" for path in files)
    size = sum(path.stat().st_size for path in files) // 1024
    _write(tree / "DEBIAN" / "md5sums", sums.encode())
    control = _CONTROL.format(version=source.version, size=size)
    _write(tree / "DEBIAN" / "control", control.encode())
    for folder in [tree, *(path for path in tree.rglob("*") if path.is_dir())]:
        if not folder.is_symlink():
            folder.chmod(0o755)
    variables = {**os.environ, "SOURCE_DATE_EPOCH": str(source.epoch)}  # noqa: TID251  for a child process
    words = ("dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(tree), str(out))
    subprocess.run(words, check=True, env=variables, stdout=subprocess.DEVNULL)


def _write_shared(share: Path, path: str, data: bytes) -> None:
    """Write a file where Debian looks for it; its man pages are compressed."""
    if path.startswith(MAN):
        _write(share / f"{path}.gz", compressed(data))
    else:
        _write(share / _ELSEWHERE.get(path, path), data)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o644)


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
