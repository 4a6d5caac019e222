"""Leftovers of a run of the tests that was killed: ended and removed when the next one starts.

Every run writes who it is into its folder. What a run without a living owner started is found by
that folder: processes by their command line, containers by the cgroup, mounts by their place.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.node.machine import TUNED, hierarchies, remove_log_links, unmount_below

PREFIX: Final = "gitkruise-node-"
OWNER: Final = "owner.json"


def claim(folder: Path) -> None:
    """Write down that this process owns `folder`, and the kernel's settings before the run."""
    settings = {name: Path("/proc/sys", name).read_text() for name in TUNED}
    text = json.dumps({"process": _identity(os.getpid()), "settings": settings})
    (folder / OWNER).write_text(text)


def sweep() -> list[Path]:
    """Remove what runs left whose process is gone; returns their folders."""
    found = [folder for folder in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))
             if _is_orphan(folder)]  # fmt: skip
    for folder in found:
        remove(folder)
    return found


def remove(folder: Path) -> None:
    """End and remove everything that belongs to a folder, then put the settings back."""
    for pid in _processes(folder):
        _kill(pid)
    for root in _cgroups(folder):
        _remove_cgroup(root)
    unmount_below(folder)
    for node in folder.iterdir():
        remove_log_links(node)
    settings = json.loads((folder / OWNER).read_text())["settings"]
    for name, text in settings.items():
        if Path("/proc/sys", name).read_text() != text:
            Path("/proc/sys", name).write_text(text)
    shutil.rmtree(folder)


def _is_orphan(folder: Path) -> bool:
    """Return whether the run that owns `folder` is gone. One without a claim is left alone."""
    try:
        owner = json.loads((folder / OWNER).read_text())["process"]
    except (OSError, ValueError):
        return False
    return bool(owner != _identity(int(owner.partition(" ")[0])))


def _identity(pid: int) -> str:
    """`pid start`: a pid that another process got since has another start; "" when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return f"{pid} {stat.rpartition(')')[2].split()[19]}"


def _processes(folder: Path) -> Iterator[int]:
    """Processes whose command line names a file below `folder`."""
    mark = f"{folder}/".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mark in command:
                yield int(entry.name)


def _cgroups(folder: Path) -> Iterator[Path]:
    """The cgroups of the nodes of a run, in every hierarchy."""
    for note in folder.glob("*/cgroup"):
        yield from (top / note.read_text() for top in hierarchies())


def _remove_cgroup(root: Path) -> None:
    """Kill the processes of a cgroup and remove it with all below it."""
    for below, _, _ in os.walk(root, topdown=False):
        for pid in (Path(below) / "cgroup.procs").read_text().split():
            _kill(int(pid))
    for _ in range(100):
        try:
            for below, _, _ in os.walk(root, topdown=False):
                os.rmdir(below)  # noqa: PTH106  one call for each of many
        except OSError:  # a process of it is not reaped yet
            time.sleep(0.05)
            continue
        return


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
