"""The machine under a node: what it must allow, and the settings of it that are put back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kube.real.apiserver import find

# kubelet sets them for the whole machine and has no switch for it.
TUNED = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops")
PROGRAMS = {
    "etcd": "apt-get install etcd-server",
    "containerd": "apt-get install containerd",
    "ctr": "apt-get install containerd",
    "runc": "apt-get install runc",
    "kube-apiserver": "make kube-assets",
    "kube-controller-manager": "make kube-assets",
    "kube-scheduler": "make node-assets",
    "kubelet": "make node-assets",
    "node-app": "make node-assets",
}
PLUGINS = Path("/usr/lib/cni")  # where Debian puts the network plugins


BUILT = Path(__file__).parents[1] / "kube" / "real" / "bin"


def program(name: str) -> str:
    """Return the path of a program, or ""."""
    return find(name) or shutil.which(name, path=f"/usr/sbin:/sbin:{BUILT}") or ""


def obstacle() -> str:
    """Return why no node can run here, or ""."""
    for name, how in PROGRAMS.items():
        if not program(name):
            return f"{name} is missing: {how}"
    if not (PLUGINS / "loopback").exists():
        return "network plugins are missing: apt-get install containernetworking-plugins"
    return refusal()


def refusal() -> str:
    """Return why this kernel, or the container around us, lets no container run; or ""."""
    if os.geteuid() != 0:
        return "a node needs root"
    if not hierarchies():
        return "no cgroup hierarchy is mounted"
    for top in hierarchies():
        trial = top / f"gitkruise-trial-{os.getpid()}"
        try:
            trial.mkdir()
            trial.rmdir()
        except OSError as error:
            return f"cgroups cannot be created: {error}"
    if missing := [name for name in ("unshare", "mount") if not program(name)]:
        return f"{missing[0]} is missing"
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "none", "/mnt"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stderr.strip()


def hierarchies() -> list[Path]:
    """Mount points of cgroup controllers: several with version 1, one with version 2."""
    rows = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return [Path(row[1]) for row in rows if row[2] in {"cgroup", "cgroup2"}]


@contextmanager
def settings_kept() -> Iterator[None]:
    """Put the kernel's settings back at the end of the block."""
    before = {name: Path("/proc/sys", name).read_text() for name in TUNED}
    try:
        yield
    finally:
        for name, text in before.items():
            if Path("/proc/sys", name).read_text() != text:
                Path("/proc/sys", name).write_text(text)


@contextmanager
def cgroups(name: str) -> Iterator[None]:
    """A cgroup `name` in every hierarchy, removed with all that is below it at the end."""
    roots = [top / name for top in hierarchies()]
    try:
        for root in roots:
            root.mkdir()
            # A new cpuset of version 1 is empty, and no process may enter it.
            for setting in ("cpuset.cpus", "cpuset.mems"):
                if (root / setting).exists() and not (root / "cgroup.controllers").exists():
                    (root / setting).write_text((root.parent / setting).read_text())
        yield
    finally:
        for root in roots:
            for below, _, _ in os.walk(root, topdown=False):
                os.rmdir(below)  # noqa: PTH106  one call for each of many


def unmount_below(folder: Path) -> None:
    """Unmount everything mounted below `folder`, the last mount first."""
    rows = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in reversed([row for row in rows if row.startswith(f"{folder}/")]):
        subprocess.run(["umount", "-l", place], check=True)


def remove_log_links(folder: Path) -> None:
    """Remove kubelet's links in /var/log/containers to logs below `folder`."""
    for link in Path("/var/log/containers").glob("*"):
        if link.is_symlink() and str(link.readlink()).startswith(f"{folder}/"):
            link.unlink()


if __name__ == "__main__":
    sys.stdout.write(refusal())
