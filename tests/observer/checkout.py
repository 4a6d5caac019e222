"""The working copy of a history, and pushes from it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.git.repos import Origin, run_git

# Where git would start a program of its own after each commit, to find nothing to do.
_QUIET: Final = ("-c", "maintenance.auto=false", "-c", "gc.auto=0")


class Checkout:
    """A checkout whose commits start one program each, and whose pushes start none.

    `git switch`, `merge`, `push` and what they start would be twenty programs a commit. They leave
    the same refs and objects behind as here.
    """

    def __init__(self, origin: Origin) -> None:
        self._work, self._git, self._bare = origin.work, origin.work / ".git", origin.bare

    def begin(self, files: Mapping[str, str | bytes | None]) -> None:
        """Commit the first files, and push them to main."""
        for name in files:
            (self._work / name).parent.mkdir(exist_ok=True)
            (self._work / name).touch()
        run_git(self._work, "add", "--all")
        self.commit(files, "first")
        self.push("main", self.tip("main"))

    def tip(self, branch: str) -> str:
        """Return the commit of a branch."""
        return (self._git / "refs/heads" / branch).read_text().strip()

    def move(self, branch: str, commit: str) -> None:
        """Check out a branch at the commit whose files are here already."""
        (self._git / "refs/heads" / branch).write_text(f"{commit}\n")
        (self._git / "HEAD").write_text(f"ref: refs/heads/{branch}\n")

    def commit(self, files: Mapping[str, str | bytes | None], message: str, *options: str) -> None:
        """Commit contents of known files to the branch that is checked out."""
        for name, content in files.items():
            assert content is not None
            data = content.encode() if isinstance(content, str) else content
            (self._work / name).write_bytes(data)
        words = ("commit", "--quiet", "--all", "--allow-empty", "-m", message)
        run_git(self._work, *_QUIET, *words, *options)

    def push(self, branch: str, commit: str) -> None:
        """Put a commit on a branch of the origin, wherever that is now."""
        for own in (self._git / "objects").glob("??/*"):
            other = self._bare / "objects" / own.parent.name / own.name
            if not other.exists():
                other.parent.mkdir(exist_ok=True)
                other.hardlink_to(own)
        for ref in self._refs(branch):
            ref.parent.mkdir(parents=True, exist_ok=True)
            ref.write_text(f"{commit}\n")

    def withdraw(self, branch: str) -> None:
        """Delete a branch of the origin."""
        for ref in self._refs(branch):
            ref.unlink()

    def _refs(self, branch: str) -> tuple[Path, Path]:
        return (self._bare / "refs/heads" / branch, self._git / "refs/remotes/origin" / branch)
