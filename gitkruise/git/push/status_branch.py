"""Commits on an orphan, linear branch without a working tree, and notes on commits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from gitkruise.errors import Finding, SourceFailed
from gitkruise.git.plumbing.commits import (
    CommitAuthor,
    format_commit,
    format_message,
)
from gitkruise.git.plumbing.refs import check_status_branch, full_ref
from gitkruise.git.plumbing.trees import FILE, TREE, TreeEntry, clean_path, format_tree
from gitkruise.git.repository.repository import RefMoved, Repository
from gitkruise.printable import shown
from gitkruise.wire.primitives.backoff import backoff

__all__ = ["CommitAuthor", "Notes", "StatusBranch", "Update"]

RETRY_FIRST_S: Final = 0.2
RETRY_CAP_S: Final = 10.0
ATTEMPTS_MAX: Final = 10
_FLAT_NOTES_MAX: Final = 256  # as git does, many notes are spread over folders


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Files to set and to delete on the branch (by path), and the commit's message.

    `merged` makes files out of those that the branch has, which it reads by path. It is called
    again when another push was faster: what that one wrote is not lost.
    """

    files: Mapping[str, bytes]
    merged: Callable[[Callable[[str], bytes | None]], Mapping[str, bytes]] | None = None
    delete: Collection[str] = ()
    subject: str
    body: str = ""
    trailers: Sequence[tuple[str, str]] = ()


class _Line:
    """A ref that only grows: compare-and-swap pushes of commits on top of its tip."""

    def __init__(
        self, repository: Repository, ref: str, *, identity: CommitAuthor,
        sleep: Callable[[float], bool | None], attempts_max: int,
    ) -> None:  # fmt: skip
        self.ref = ref
        self._repository, self._identity = repository, identity
        self._sleep, self._attempts_max = sleep, attempts_max
        self._tip: str | None = None
        self._known = False  # whether _tip is what we saw or made last
        self._mine: str | None = None  # what we wrote, or saw when it had moved
        self._moved = False

    def moved(self) -> bool:
        """Return whether others moved or deleted the ref since we wrote it or this was called."""
        before = self._mine
        if before is None:
            return False
        self._mine = self.tip()
        moved, self._moved = self._moved or self._mine != before, False
        return moved

    def tip(self) -> str | None:
        """The newest commit now, fetched; None while the ref does not exist."""
        there = self._repository.ls_refs([self.ref]).refs
        self._tip = self._repository.fetch_refs(there).get(self.ref)
        self._known = True
        return self._tip

    def append(
        self, change: Callable[[str | None, str | None], str], message: str, now: datetime
    ) -> str | None:
        """Commit the tree that `change(old commit, old tree)` makes; None when it is the same tree.

        When another push was faster the change is made again on top of it, after 0.2 s doubling to
        10 s. Raises SourceFailed GK3501 when the attempts run out, or `sleep` returns True.
        """
        for attempt in range(1, self._attempts_max + 1):
            old = self._tip if self._known else self.tip()
            before = self._repository.tree_id(old) if old else None
            tree = change(old, before)
            self._moved = self._moved or self._mine not in {None, old}
            if tree == before:
                self._mine = old
                return None
            parents = [old] if old else []
            data = format_commit(tree, parents, self._identity, now, message)
            commit = self._repository.write_object("commit", data)
            try:
                self._repository.push_ref(self.ref, commit, old=old)
            except RefMoved:
                self._known = False
                rest_s = backoff(attempt, first=RETRY_FIRST_S, cap=RETRY_CAP_S)
                if attempt == self._attempts_max or self._sleep(rest_s):
                    break
                continue
            except SourceFailed:
                self._known = False
                raise
            self._tip = self._mine = commit
            return commit
        raise SourceFailed(
            Finding(
                code="GK3501",
                message=f"{self.ref} moved under each of {attempt} attempts to push",
                notes=(
                    ("unchanged", "what others wrote there; our news is kept for the next time"),
                    ("next", "let nothing else write this ref"),
                ),
            )
        )


class StatusBranch:
    """The branch one gitkruise writes the outcome to. Foreign files on it are kept as they are.

    `sleep` waits between attempts, and returns True to end them. Refuses (UsageProblem GK7201) the
    branch that is read from.
    """

    def __init__(
        self, repository: Repository, branch: str, *, source_branch: str, identity: CommitAuthor,
        sleep: Callable[[float], bool | None], attempts_max: int = ATTEMPTS_MAX,
    ) -> None:  # fmt: skip
        self.ref = check_status_branch(branch, source_branch)
        self._repository = repository
        self._line = _Line(
            repository, self.ref, identity=identity, sleep=sleep, attempts_max=attempts_max
        )

    def publish(self, update: Update, now: datetime) -> str | None:
        """Push one commit with the update; its id, or None when nothing would change."""
        message = format_message(update.subject, update.body, update.trailers)
        if update.merged is not None:
            self._line.tip()  # a push that has to be made again costs more

        def change(commit: str | None, tree: str | None) -> str:
            merged = update.merged(partial(self._blob, commit)) if update.merged else {}
            files = {clean_path(path): data for path, data in {**update.files, **merged}.items()}
            return edit_tree(
                self._repository, tree, files, [clean_path(path) for path in update.delete]
            )

        return self._line.append(change, message, now)

    def moved(self) -> bool:
        """Return whether others moved or deleted the branch since the last `publish` or call."""
        return self._line.moved()

    def fetched(self) -> tuple[Repository, str]:
        """Fetch the branch; return its repository and its newest commit. Raises SourceFailed, among
        them RefMissing where nothing was written yet."""
        return self._repository, self._repository.fetch(self.ref)

    def read(self, path: str) -> bytes | None:
        """A file of the newest commit; None when it is not there."""
        return self._blob(self._line.tip(), path)

    def _blob(self, commit: str | None, path: str) -> bytes | None:
        entry = self._repository.find(commit, path) if commit else None
        return self._repository.read_blob(entry.id) if entry and entry.is_file else None

    def files(self, path: str = "") -> dict[str, bytes]:
        """Every file of the newest commit below `path`."""
        return {e.path: self._repository.read_blob(e.id) for e in self._entries(path)}

    def paths(self, path: str = "") -> list[str]:
        """The paths of `files`, without reading any of them."""
        return [entry.path for entry in self._entries(path)]

    def _entries(self, path: str) -> list[TreeEntry]:
        tip = self._line.tip()
        if tip is None or self._repository.find(tip, path) is None:
            return []
        return [e for e in self._repository.list_tree(tip, path) if e.is_file]


class Notes:
    """Notes on commits under one ref, as `git log --notes` shows them."""

    def __init__(
        self, repository: Repository, ref: str, *, identity: CommitAuthor,
        sleep: Callable[[float], bool | None], attempts_max: int = ATTEMPTS_MAX,
    ) -> None:  # fmt: skip
        self.ref = full_ref(ref)
        if not self.ref.startswith("refs/notes/"):
            message = f"{shown(ref)!r} is not a ref for notes: it must begin with refs/notes/"
            raise SourceFailed(Finding(code="GK3201", message=message))
        self._repository = repository
        self._line = _Line(
            repository, self.ref, identity=identity, sleep=sleep, attempts_max=attempts_max
        )

    def put(
        self, notes: Mapping[str, str], now: datetime,
        merge: Callable[[str | None, str], str] = lambda _, text: text,
    ) -> str | None:  # fmt: skip
        """Set the note of each commit id; the notes commit's id, or None if all were so already.

        `merge(earlier note, text)` is the note; it is called again when another push was faster.
        """

        def change(tip: str | None, tree: str | None) -> str:
            texts = {commit: merge(self._note(tip, commit), text) for commit, text in notes.items()}
            files = {
                self._path(tree, commit): text.rstrip("\n").encode("utf-8") + b"\n"
                for commit, text in texts.items()
            }
            return edit_tree(self._repository, tree, files, [])

        return self._line.append(change, "Notes added by gitkruise", now)

    def read(self, commit: str) -> str | None:
        """The note of a commit, or None."""
        return self._note(self._line.tip(), commit)

    def _note(self, tip: str | None, commit: str) -> str | None:
        if tip is None:
            return None
        for path in _note_paths(commit):
            entry = self._repository.find(tip, path)
            if entry is not None and entry.is_file:
                return self._repository.read_blob(entry.id).decode("utf-8", "replace")
        return None

    def _path(self, tree: str | None, commit: str) -> str:
        """Path of the commit's note, present or future: git finds it flat and in folders alike."""
        flat, one, two = _note_paths(commit)
        if tree is None:
            return flat
        names = {entry.path: entry for entry in self._repository.read_tree(tree)}
        if flat in names:
            return flat
        folder = names.get(commit[:2])
        if folder is None or not folder.is_tree:
            return flat if len(names) < _FLAT_NOTES_MAX else one
        inner = {entry.path: entry for entry in self._repository.read_tree(folder.id)}
        nested = inner.get(commit[2:4])
        return two if nested is not None and nested.is_tree else one


def _note_paths(commit: str) -> tuple[str, str, str]:
    return commit, f"{commit[:2]}/{commit[2:]}", f"{commit[:2]}/{commit[2:4]}/{commit[4:]}"


def edit_tree(
    repository: Repository, tree: str | None, files: Mapping[str, bytes], delete: Sequence[str]
) -> str:
    """Id of `tree` with `files` set and `delete` gone; every other entry as it was, to the byte.

    Raises SourceFailed GK3502 where a file's place is taken by something that is not a file.
    """
    blobs: dict[str, str | None] = dict.fromkeys(delete)
    blobs |= {path: repository.write_object("blob", data) for path, data in files.items()}
    if "" in blobs:
        raise ValueError("a file needs a path")
    changes = {tuple(path.split("/")): blob for path, blob in blobs.items()}
    return _edit(repository, tree, changes, "") or repository.write_object("tree", b"")


def _edit(
    repository: Repository, tree: str | None, changes: Mapping[tuple[str, ...], str | None],
    folder: str,
) -> str | None:  # fmt: skip
    """The changed tree's id; None when it became empty. As deep as our own paths are."""
    entries = {e.path: e for e in repository.read_tree(tree)} if tree else {}
    inner: dict[str, dict[tuple[str, ...], str | None]] = {}
    for parts, blob in changes.items():
        if len(parts) > 1:
            inner.setdefault(parts[0], {})[parts[1:]] = blob
            continue
        here = entries.get(parts[0])
        if here is not None and not here.is_file:
            raise _in_the_way(f"{folder}{parts[0]}", "a file")
        if blob is None:
            entries.pop(parts[0], None)
        else:
            entries[parts[0]] = TreeEntry(parts[0], FILE, blob)
    for name, below in inner.items():
        here = entries.get(name)
        if here is not None and not here.is_tree:
            raise _in_the_way(f"{folder}{name}", "a folder")
        changed = _edit(repository, here.id if here else None, below, f"{folder}{name}/")
        entries.pop(name, None)
        if changed is not None:
            entries[name] = TreeEntry(name, TREE, changed)
    return repository.write_object("tree", format_tree(entries.values())) if entries else None


def _in_the_way(path: str, wanted: str) -> SourceFailed:
    message = f"{shown(path)} on the status branch is not {wanted}, and it is not ours to remove"
    return SourceFailed(
        Finding(code="GK3502", message=message, notes=(("next", f"remove {shown(path)} there"),))
    )
