"""The merge of two commits as a commit that no ref names: what a merge would make of a branch."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gitkruise.errors import Finding, SourceFailed
from gitkruise.git.plumbing import process
from gitkruise.git.plumbing.commits import CommitAuthor, format_commit
from gitkruise.git.plumbing.safe_config import LIST, inert
from gitkruise.printable import shown

if TYPE_CHECKING:
    from gitkruise.git.repository.repository import Repository
    from gitkruise.model.gitops.document import GitCommit

_TIME_S: Final = 60.0
_SHOWN: Final = 10
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class Unmergeable(SourceFailed):
    """GK3212: git cannot merge two commits without a person."""


def merged(repository: Repository, ours: str, theirs: str) -> str:
    """Return the commit that merging `theirs` into `ours` would make, the same one each time.

    It is `theirs` where that contains `ours`, and `ours` the other way round. Raises Unmergeable.
    """
    if repository.is_ancestor(ours, theirs):
        return theirs
    if repository.is_ancestor(theirs, ours):
        return ours
    into, other = repository.commit(ours), repository.commit(theirs)
    base = repository.merge_base(ours, theirs)
    if not base:
        raise _unmergeable(into, other, "they share no history")
    if not repository.local:
        _bring_files(repository, base, ours, theirs)
    tree = _tree(repository.git_dir, into, other)
    author = CommitAuthor(name="gitkruise plan", email="")
    now = max(commit.time or _EPOCH for commit in (into, other))
    message = f"{other.short} merged into {into.short}"
    return repository.write_object(
        "commit", format_commit(tree, [ours, theirs], author, now, message)
    )


def _bring_files(repository: Repository, base: str, ours: str, theirs: str) -> None:
    """Make the files present that git compares by line; a mirror lacks what no unit reads.

    Those are files that both sides changed and, because git finds renames by content, files that
    one side added or deleted.
    """
    changed = {side: set(repository.changed_paths(base, side)) for side in (ours, theirs)}
    both = changed[ours] & changed[theirs]
    wanted: set[str] = set()
    for side, paths in changed.items():
        for path in paths:
            pair = (repository.find(base, path), repository.find(side, path))
            if path in both or None in pair:
                wanted |= {entry.id for entry in pair if entry is not None and entry.is_file}
    repository.sizes(sorted(wanted))


def _tree(git_dir: Path, into: GitCommit, other: GitCommit) -> str:
    listed = _run(git_dir, [*LIST], {}).output.decode("utf-8", "surrogateescape")
    words = ["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z"]
    result = _run(git_dir, [*words, into.id, other.id], inert(listed, {}))
    tree, *conflicts = result.output.decode("utf-8", "surrogateescape").rstrip("\0").split("\0")
    if result.status == 0:
        return tree
    if result.status != 1 or not conflicts:  # also a git before 2.38, which has no such merge
        raise _unmergeable(into, other, result.errors.strip() or f"git ended with {result.status}")
    more = f", … and {len(conflicts) - _SHOWN} more" if len(conflicts) > _SHOWN else ""
    files = ", ".join(map(shown, conflicts[:_SHOWN])) + more
    raise _unmergeable(into, other, f"both changed the same lines of {files}")


def _run(git_dir: Path, words: list[str], environment: dict[str, str]) -> process.Result:
    command = process.git_command(git_dir, words, environment=environment, limited=True)
    return process.collect(
        process.launch(command), timeout_s=_TIME_S, output_max=process.OUTPUT_MAX
    )


def _unmergeable(into: GitCommit, other: GitCommit, why: str) -> Unmergeable:
    as_they_are = f"gitkruise plan --from {into.short} --to {other.short}"
    notes = (
        ("why", why),
        ("unchanged", "nothing was planned, and a plan applies nothing"),
        ("next", f"git rebase {into.short} on the branch, or without a merge: {as_they_are}"),
    )
    message = f"{other.short} cannot be merged into {into.short}"
    return Unmergeable(Finding(code="GK3212", message=message, notes=notes))
