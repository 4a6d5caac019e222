"""Ignore files and a source's own `ignore`, by git's rules for .gitignore."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from gitkruise.errors import Finding, InvalidManifests, SourcePlace
from gitkruise.git.manifests.wildmatch import Matcher, lines_of, patterns_of
from gitkruise.git.plumbing.trees import FILE, TreeEntry
from gitkruise.printable import shown

IGNORE_FILES: Final = (".gitkruiseignore", ".sourceignore")
BYTES_MAX: Final = 32 << 10  # of all ignore files that count in one folder
LINES_MAX: Final = 1_000  # of them
LINE_MAX: Final = 1_024  # bytes
_Layer: TypeAlias = "tuple[str, Matcher]"  # a folder and the patterns written there
_OWN: Final = "ignore of the GitSource"


class Files(Protocol):
    """Ignore files by path: a Repository, or a folder."""

    def find(self, commit: str, path: str) -> TreeEntry | None:
        """The entry at a path of a commit."""
        ...

    def sizes(self, blobs: Sequence[str]) -> Mapping[str, int]:
        """The sizes of files by id."""
        ...

    def read_blob(self, blob: str) -> bytes:
        """The content of a file."""
        ...


class FolderFiles:
    """The files of a folder that is no commit; their ids are paths."""

    def __init__(self, top: Path) -> None:
        self._top = top

    def find(self, _commit: str, path: str) -> TreeEntry | None:
        """The regular file at a path, or None."""
        file = self._top / path
        found = file.is_file() and not file.is_symlink()
        return TreeEntry(path, FILE, path) if found else None

    def sizes(self, blobs: Sequence[str]) -> Mapping[str, int]:
        """The sizes of files by path."""
        return {blob: (self._top / blob).stat().st_size for blob in blobs}

    def read_blob(self, blob: str) -> bytes:
        """The content of a file."""
        return (self._top / blob).read_bytes()


class Ignored:
    """Judges paths of one commit; folders end in a slash.

    Ignore files count in their own folder and below, a deeper one over one further up, the last
    matching line of each; `lines`, which start at the repository's root, have the last word.
    """

    def __init__(self, repository: Files, commit: str, path: str, lines: Sequence[str]) -> None:
        self._repository, self._commit, self._path = repository, commit, path
        self._lines = tuple(lines)
        own = [line.encode("utf-8", "surrogatepass") for line in lines]
        self._own = _matcher(own, _OWN) if any(own) else None
        self._by_folder: dict[str, tuple[_Layer, ...]] = {}
        self._totals: dict[str, tuple[int, int]] = {}  # bytes and lines that count in a folder
        self._left_out: dict[str, bool] = {}  # folders

    def __contains__(self, path: str) -> bool:
        """Return whether a path, or a folder it is in, is left out.

        Raises InvalidManifests GK9007 for ignore files beyond a limit.
        """
        folder = path.endswith("/")
        bare = path.rstrip("/")
        return self._folder_out(bare) if folder else self._out(bare, folder=False)

    def _folder_out(self, folder: str) -> bool:
        if folder not in self._left_out:
            self._left_out[folder] = bool(folder) and self._out(folder, folder=True)
        return self._left_out[folder]

    def _out(self, path: str, *, folder: bool) -> bool:
        parent = path.rpartition("/")[0]
        if parent and self._folder_out(parent):
            return True
        verdict = self._own.verdict(path, folder=folder) if self._own else None
        for base, layer in self._rules(parent):
            if verdict is not None:
                break
            inside = path[len(base) + 1 :] if base else path
            verdict = layer.verdict(inside, folder=folder)
        return bool(verdict)

    def files(self) -> list[str]:
        """Ignore files outside the path that was given, which decide what counts inside."""
        if not self._path:
            return []
        return [file for folder in _above(self._path) for file, _ in self._found(folder)]

    def digest(self, tree: str) -> str:
        """A name for the content `tree` under rules from outside of it: the same where none are."""
        above = _above(self._path) if self._path else ()
        outside = [blob for folder in above for _, blob in self._found(folder)]
        if not outside and not self._lines:
            return tree
        text = "\n".join([tree, *outside, *self._lines])
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()

    def _rules(self, folder: str) -> tuple[_Layer, ...]:
        """Return what counts in a folder, the nearest first: most have nothing of their own."""
        if folder in self._by_folder:
            return self._by_folder[folder]
        rules: tuple[_Layer, ...] = ()
        above = ""
        for one in reversed([*_above(f"{folder}/.")]):
            if one not in self._by_folder:
                self._totals[one] = self._totals.get(above, (0, 0))
                own = self._layer(one)
                self._by_folder[one] = ((one, own), *rules) if own is not None else rules
            rules, above = self._by_folder[one], one
        return rules

    def _layer(self, folder: str) -> Matcher | None:
        found = list(self._found(folder))
        sizes = self._repository.sizes([blob for _, blob in found]) if found else {}
        lines: list[bytes] = []
        for file, blob in found:
            size, count = self._totals[folder]
            if size + sizes[blob] > BYTES_MAX:
                raise _beyond(f"{BYTES_MAX >> 10} KiB of ignore files for one folder", file)
            read = [line for line in lines_of(self._repository.read_blob(blob)) if line]
            self._totals[folder] = size + sizes[blob], count + len(read)
            if count + len(read) > LINES_MAX:
                raise _beyond(f"{LINES_MAX:,} lines of ignore files for one folder", file)
            lines += read
        return _matcher(lines, found[-1][0]) if lines else None

    def _found(self, folder: str) -> Iterator[tuple[str, str]]:
        for name in IGNORE_FILES:
            below = f"{folder}/{name}" if folder else name
            entry = self._repository.find(self._commit, below)
            if entry is not None and entry.is_file:
                yield below, entry.id


def _matcher(lines: Sequence[bytes], file: str) -> Matcher:
    if len(lines) > LINES_MAX:
        raise _beyond(f"{LINES_MAX:,} lines", file)
    if any(len(line) > LINE_MAX for line in lines):
        raise _beyond(f"{LINE_MAX:,} bytes a line", file)
    return Matcher(patterns_of(lines))


def _beyond(limit: str, file: str) -> InvalidManifests:
    """A set of patterns that is not applied: what it leaves out would depend on luck."""
    return InvalidManifests(
        Finding(
            code="GK9007",
            message=f"{shown(file)}: the ignore patterns are beyond a limit: {limit}",
            places=(SourcePlace(file=shown(file)),),
            notes=(("next", "use fewer, shorter patterns; a folder's own file keeps them apart"),),
        )
    )


def _above(path: str) -> Iterator[str]:
    """Folders that hold `path`, the nearest first, "" (the root) last."""
    folder = path.rstrip("/").rpartition("/")[0]
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]
    yield ""
