"""Prerequisites of git: a version that is new enough, a repository or a mirror."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import Final

from gitkruise.errors import Finding, SourceFailed, UsageProblem
from gitkruise.git.plumbing import process
from gitkruise.git.plumbing.errors import no_repository
from gitkruise.git.plumbing.process import Launch, git_command
from gitkruise.git.plumbing.refs import parse_url
from gitkruise.printable import shown
from gitkruise.wire.primitives.log_line import log_line

GIT_MIN: Final = (2, 36)  # cat-file --batch-command
SETUP_S: Final = 60.0


def ensure_mirror(launch: Launch, git_dir: Path) -> None:
    """A bare repository at `git_dir`; one that git cannot open is put aside, not repaired."""
    if git_dir.exists():
        command = git_command(git_dir, ["rev-parse", "--git-dir"])
        if process.collect(launch(command), timeout_s=SETUP_S, output_max=1 << 16).status == 0:
            return
        aside = git_dir.with_name(git_dir.name + ".damaged")
        import logging  # noqa: PLC0415  slow to import, and seldom needed

        log = logging.getLogger(__name__)
        log.warning(log_line("mirror-damaged", mirror=git_dir, kept_as=aside))
        shutil.rmtree(aside, ignore_errors=True)
        git_dir.replace(aside)
    make_mirror(launch, git_dir)


def make_mirror(launch: Launch, git_dir: Path, algorithm: str = "sha1") -> None:
    """An empty bare repository."""
    git_dir.parent.mkdir(parents=True, exist_ok=True)
    words = ["init", "--quiet", "--bare", "--template=", f"--object-format={algorithm}"]
    command = git_command(None, [*words, "--end-of-options", str(git_dir)])
    result = process.collect(launch(command), timeout_s=SETUP_S, output_max=1 << 16)
    if result.status != 0:
        message = f"cannot make a mirror in {git_dir}: {shown(result.errors.strip())}"
        raise SourceFailed(Finding(code="GK3002", message=message))


def mirrors_read_with(secret: str, folder: Path) -> Path:
    """The folder of mirrors that are read with a Secret (`namespace/name`, or ""): what one reads
    is not shared with another."""
    return folder / hashlib.sha256(secret.encode()).hexdigest()[:12] if secret else folder


@functools.cache  # a process for each repository would ask the same program
def check_git_version(launch: Launch) -> None:
    """Raises UsageProblem GK3003 when the installed git is too old for us."""
    command = git_command(None, ["version"])
    result = process.collect(launch(command), timeout_s=SETUP_S, output_max=1 << 16)
    found = re.search(rb"git version (\d+)\.(\d+)", result.output)
    if found is None:
        raise no_git(result.errors.strip() or "it prints no version")
    if (int(found[1]), int(found[2])) < GIT_MIN:
        wanted = ".".join(map(str, GIT_MIN))
        message = f"git {found[1].decode()}.{found[2].decode()} is too old; {wanted} is needed"
        raise UsageProblem(Finding(code="GK3003", message=message))


def local_git_dir(path: Path, url: str) -> Path:
    """The folder with the objects of the repository at `path`: bare, or the .git of a checkout.

    git.Repo would ask the caller's GIT_* variables, which may name another repository.
    """
    for candidate in (path / ".git", path):
        if is_git_dir(candidate):
            return candidate.resolve()  # most are so, and a program of git would say the same
        command = git_command(candidate.absolute(), ["rev-parse", "--absolute-git-dir"])
        if candidate.exists():
            result = process.collect(process.launch(command), timeout_s=SETUP_S, output_max=1 << 16)
            if result.status == 0:
                return Path(result.output.decode("utf-8", "surrogateescape").rstrip("\n"))
    raise no_repository(url, "not a repository" if path.exists() else "no such folder")


def is_git_dir(folder: Path) -> bool:
    """Return whether a folder is a bare repository, or the .git of a checkout that is no linked
    one. False where it may not be read."""
    return all(os.path.exists(folder / part) for part in ("HEAD", "objects", "refs"))  # noqa: PTH110  Path raises


def local_folder(named: str) -> Path:
    """The folder that a user named. Raises SourceFailed GK3103 for none and for a remote one."""
    folder = Path(named.removeprefix("file://"))
    if folder.exists():
        return folder
    if parse_url(named).path is None:
        raise not_here(named)
    raise no_repository(named, "no such folder")


def not_here(url: str) -> SourceFailed:
    """GK3103: a command was to read a remote repository, of which it keeps no mirror."""
    notes = (
        ("why", "commands read a repository of this machine; the controller follows remote ones"),
        ("unchanged", "nothing was read or written"),
        ("next", f"git clone {url}, then name the clone's folder"),
    )
    message = f"{url} is a remote repository, and this command needs a clone of it"
    return SourceFailed(Finding(code="GK3103", message=message, notes=notes))


def no_git(why: str) -> UsageProblem:
    notes = (("why", shown(why)), ("next", "install git, for instance: apt-get install git"))
    return UsageProblem(Finding(code="GK3003", message="git cannot be run", notes=notes))
