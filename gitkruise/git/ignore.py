"""What ignore files and a source's own `ignore` leave out, by git's rules for .gitignore."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from gitkruise.git.repo import Repository

if TYPE_CHECKING:
    import pathspec

IGNORE_FILES: Final = (".gitkruiseignore", ".sourceignore")
_FILE_MAX: Final = 1 << 20
_Rules: TypeAlias = "tuple[tuple[str, pathspec.GitIgnoreSpec], ...]"  # by folder


class Ignored:
    """Judges paths of one commit; folders end in a slash.

    Ignore files count in their own folder and below, a deeper one over one further up, the last
    matching line of each; `lines`, which start at the repository's root, have the last word.
    """

    def __init__(
        self, repository: Repository, commit: str, path: str, lines: Sequence[str]
    ) -> None:
        self._repository, self._commit, self._path = repository, commit, path
        self._lines = tuple(lines)
        self._own = _compiled(self._lines)
        self._by_folder: dict[str, _Rules] = {}

    def __contains__(self, path: str) -> bool:
        verdict = self._own.check_file(path).include if self._own else None
        for folder, layer in self._rules(path.rstrip("/").rpartition("/")[0]):
            if verdict is not None:
                break
            inside = path[len(folder) + 1 :] if folder else path
            verdict = layer.check_file(inside).include
        return bool(verdict)

    def files(self) -> list[str]:
        """Ignore files outside the path that was given, which tell what counts inside."""
        if not self._path:
            return []
        return [file for folder in _above(self._path) for file, _ in self._found(folder)]

    def digest(self, tree: str) -> str:
        """A name for the content `tree` under rules from outside of it: the same where none are."""
        above = _above(self._path) if self._path else ()
        outside = [blob for folder in above for _, blob in self._found(folder)]
        if not outside and not self._lines:
            return tree
        told = "\n".join([tree, *outside, *self._lines])
        return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()

    def _rules(self, folder: str) -> _Rules:
        """What counts in a folder, the nearest first: most have nothing of their own."""
        if folder in self._by_folder:
            return self._by_folder[folder]
        rules: _Rules = ()
        for one in reversed([*_above(f"{folder}/.")]):
            if one not in self._by_folder:
                own = self._layer(one)
                self._by_folder[one] = ((one, own), *rules) if own is not None else rules
            rules = self._by_folder[one]
        return rules

    def _layer(self, folder: str) -> pathspec.GitIgnoreSpec | None:
        blobs = [blob for _, blob in self._found(folder)]
        sizes = self._repository.sizes(blobs) if blobs else {}
        texts = [
            self._repository.read_blob(b).decode("utf-8", "replace")
            for b in blobs
            if sizes[b] <= _FILE_MAX
        ]
        return _compiled([x for text in texts for x in text.splitlines()])

    def _found(self, folder: str) -> Iterator[tuple[str, str]]:
        for name in IGNORE_FILES:
            below = f"{folder}/{name}" if folder else name
            entry = self._repository.find(self._commit, below)
            if entry is not None and entry.is_file:
                yield below, entry.id


def _compiled(lines: Sequence[str]) -> pathspec.GitIgnoreSpec | None:
    if not lines:
        return None
    import pathspec  # noqa: PLC0415  slow to import, and seldom needed

    return pathspec.GitIgnoreSpec.from_lines(lines)


def _above(path: str) -> Iterator[str]:
    """Folders that hold `path`, the nearest first, "" (the root) last."""
    folder = path.rstrip("/").rpartition("/")[0]
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]
    yield ""
