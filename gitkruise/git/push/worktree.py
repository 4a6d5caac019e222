"""A checkout as its user knows it: names of commits, files that differ, all of it as a commit."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gitkruise.errors import BranchNotReady, Finding, SourceFailed
from gitkruise.git.plumbing.errors import RefMoved, no_repository
from gitkruise.git.plumbing.process import OUTPUT_MAX, collect, git_command, launch
from gitkruise.git.plumbing.safe_config import LIST, inert
from gitkruise.git.repository.repository import Repository
from gitkruise.printable import shown

_MANIFESTS: Final = (".yaml", ".yml", ".json")
_TIME_S: Final = 60.0
_DIRTY_SHOWN: Final = 10
_WHO: Final = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "working tree"), ("EMAIL", "working-tree@localhost"))
}


class WorkTree:
    """A checkout by its top folder and its repository."""

    def __init__(self, top: Path, git_dir: Path) -> None:
        self.top, self._git_dir = top, git_dir

    @classmethod
    def holding(cls, folder: Path) -> WorkTree:
        """The checkout that holds a folder. Raises SourceFailed GK3103 when there is none."""
        words = ["-C", str(folder), "rev-parse", "--show-toplevel", "--absolute-git-dir"]
        top, git_dir = _run(None, words).removesuffix("\n").split("\n")
        return cls(Path(top), Path(git_dir))

    @functools.cached_property
    def _inert(self) -> Mapping[str, str]:
        return inert(_run(self._git_dir, ["-C", str(self.top), *LIST]), {})

    def dirty(self) -> list[str]:
        """Paths that differ from HEAD, and manifests git does not know yet; renames by new name."""
        found = self._status("-uall")
        return [path for path, mark in found if mark != "??" or path.endswith(_MANIFESTS)]

    def changed(self) -> list[str]:
        """Paths that differ from HEAD, without files that git does not know."""
        return [path for path, _ in self._status("-uno")]

    def _status(self, untracked: str) -> list[tuple[str, str]]:
        """Return paths that differ from HEAD, in order, each with the mark of git."""
        text = self._git(["status", "--porcelain=v1", "-z", "--no-renames", untracked])
        return sorted((entry[3:], entry[:2]) for entry in filter(None, text.split("\0")))

    def head(self) -> tuple[str, str]:
        """(commit, branch) that are checked out: "" before the first commit, and for no branch."""
        lines = self._git(["status", "--porcelain=v2", "--branch", "-uno"]).splitlines()
        heads = (line.removeprefix("# branch.") for line in lines if line.startswith("# branch."))
        fields = dict(line.split(" ", 1) for line in heads)
        commit, branch = fields["oid"], fields["head"]
        return "" if commit == "(initial)" else commit, "" if branch == "(detached)" else branch

    def move(self, old: str, new: str) -> None:
        """Take the files and the index of an unchanged tree from one commit to another."""
        self._git(["read-tree", "-m", "-u", old, new])

    def snapshot(self) -> str:
        """A commit on top of HEAD, if there is one, with everything as it is now; no ref, index or
        file changes."""
        import tempfile  # noqa: PLC0415  slow to import, and seldom needed

        with tempfile.TemporaryDirectory(prefix="gitkruise-") as folder:
            index = Path(folder) / "index"
            own = self._git_dir / "index"
            if own.exists():
                shutil.copyfile(own, index)
            env = {"GIT_INDEX_FILE": str(index)}
            self._git(["add", "--all", "--", "."], env)
            tree = self._git(["write-tree"], env).strip()
        parent = ["-p", commit] if (commit := self.head()[0]) else []
        words = ["commit-tree", tree, *parent, "-m", "the working tree, not committed"]
        return self._git(words, _WHO).strip()

    def _git(self, words: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
        known = {**self._inert, **(environment or {})}
        return _run(self._git_dir, ["-C", str(self.top), *words], known)


def move_branch(repository: Repository, ref: str, new: str, *, old: str | None) -> None:
    """Push as `Repository.push_ref`. A branch that a local repository has checked out moves with
    its working tree, as git's `receive.denyCurrentBranch=updateInstead` does it.

    Raises RefMoved, and SourceFailed: GK3203 if files of the working tree differ from the branch.
    """
    tree = _checked_out(repository, ref) if old else None
    if tree is None or old is None or repository.resolve(ref) != old:
        repository.push_ref(ref, new, old=old)
        return
    if changed := tree.changed():
        raise dirty_tree(
            changed,
            unchanged=f"nothing was pushed to {shown(ref)}, which is checked out there",
            next_=f"commit or restore them in {shown(str(tree.top))}; or let gitkruise follow a "
            "bare repository",
        )
    tree.move(old, new)
    try:
        repository.push_ref(ref, new, old=old)
    except (RefMoved, SourceFailed):
        tree.move(new, old)
        raise


def _checked_out(repository: Repository, ref: str) -> WorkTree | None:
    """Return the working tree of a local repository that has `ref` checked out."""
    if not repository.local or repository.git_dir.name != ".git":
        return None
    tree = WorkTree.holding(repository.git_dir.parent)
    return tree if ref == f"refs/heads/{tree.head()[1]}" else None


def dirty_tree(paths: Sequence[str], *, unchanged: str, next_: str) -> SourceFailed:
    """GK3203: changes that are not committed are in the way."""
    more = f", … and {len(paths) - _DIRTY_SHOWN} more" if len(paths) > _DIRTY_SHOWN else ""
    return BranchNotReady(
        Finding(
            code="GK3203",
            message="the working tree has changes that are in no commit",
            notes=(
                ("changed", ", ".join(map(shown, paths[:_DIRTY_SHOWN])) + more),
                ("unchanged", unchanged),
                ("next", next_),
            ),
        )
    )


def addresses(git_dir: Path) -> tuple[str, ...]:
    """The addresses of a repository: its folder, and the URLs of its remotes.

    A second working tree has a folder of its own inside that of the repository, which names both.
    """
    settings = _run(git_dir, [*LIST]).split("\0")
    pairs = (text.partition("\n") for text in settings)
    urls = [url for key, _, url in pairs if key.startswith("remote.") and key.endswith(".url")]
    names = [git_dir / name for name in ("commondir", "gitdir")]  # files of a second working tree
    folders = [git_dir / name.read_text().strip() for name in names if name.is_file()]
    return (*map(str, folders or [git_dir]), *urls)


def _run(
    git_dir: Path | None, words: Sequence[str], environment: Mapping[str, str] | None = None
) -> str:
    env = dict(environment or {})
    if git_dir is not None and words[0] == "-C":
        env["GIT_WORK_TREE"] = words[1]
    command = git_command(git_dir, words, environment=env)
    result = collect(launch(command), timeout_s=_TIME_S, output_max=OUTPUT_MAX)
    if result.status and git_dir is None and "not a git repository" in result.errors:
        raise no_repository(str(Path(words[1]).absolute()))
    if result.status:
        message = f"git cannot read the working tree: {result.errors.strip() or result.status}"
        raise SourceFailed(Finding(code="GK3103", message=message))
    return result.output.decode("utf-8", "surrogateescape")
