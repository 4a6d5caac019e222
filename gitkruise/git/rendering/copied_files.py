"""The files of commits or of an archive that a renderer is given, and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gitkruise.git.parsing.documents import LIMITS, Parsed, parse_file
from gitkruise.git.plumbing.trees import FILE, TreeEntry, entry_problem
from gitkruise.git.rendering.program import BYTES_MAX, FILES_MAX, refused
from gitkruise.git.repository.repository import Repository
from gitkruise.printable import shown


class CopiedFiles:
    """Files of one commit by path, and of others below a folder each; links and submodules are
    refused, number and size bounded."""

    def __init__(self, repository: Repository, commit: str) -> None:
        self.entries: dict[str, TreeEntry] = {}
        self._trees = {"": (repository, commit)}
        self._sizes = 0
        self._held: dict[str, bytes] = {}  # content that is not in the repository, by id

    def mount(self, root: str, repository: Repository, commit: str) -> None:
        """Make a commit of another repository known as the folder `root`."""
        self._trees[root] = repository, commit

    def find(self, path: str) -> TreeEntry | None:
        """Return the entry at a path, taken or not; None where there is none."""
        root = self._root(path)
        repository, commit = self._trees[root]
        found = repository.find(commit, _inside(root, path))
        return replace(found, path=path) if found is not None and root else found

    def take_folder(self, folder: str) -> None:
        """Take every file in or below a folder, except in hidden folders. Raises InvalidManifests
        GK3406 and for a link or a submodule."""
        root = self._root(folder)
        repository, commit = self._trees[root]
        entries = repository.list_tree(commit, _inside(root, folder), enter=_not_hidden)
        if root:
            entries = [replace(entry, path=f"{root}/{entry.path}") for entry in entries]
        self._take(entries, folder)

    def take_file(self, path: str) -> bool:
        """Take one file; False where the commit has none there. Raises as `take_folder` does."""
        entry = self.find(path)
        if entry is None or entry.is_tree:
            return False
        self._take([entry], path)
        return True

    def _root(self, path: str) -> str:
        """Return the folder of the commit that a path belongs to."""
        return next(
            (root for root in self._trees if root and f"{path}/".startswith(f"{root}/")), ""
        )

    def take_archive(self, folder: str, files: Mapping[str, bytes]) -> None:
        """Take the files of an archive as those of a folder that no commit has."""
        for name, content in files.items():
            entry = TreeEntry(f"{folder}/{name}", FILE, hashlib.sha256(content).hexdigest())
            self._held[entry.id] = content
            self.entries[entry.path] = entry

    def _take(self, entries: Iterable[TreeEntry], where: str) -> None:
        new = [entry for entry in entries if entry.path not in self.entries]
        for entry in new:
            problem = entry_problem(entry)
            if problem is not None:
                file, following = shown(entry.path), "commit plain files in its place"
                raise refused(problem[0], f"{file}: {problem[1]}", file, following=following)
        sizes = self._repository(where).sizes([entry.id for entry in new])
        self._sizes += sum(sizes[entry.id] for entry in new)
        if len(self.entries) + len(new) > FILES_MAX or self._sizes > BYTES_MAX:
            raise refused(
                "GK3406", f"{FILES_MAX:,} files or {BYTES_MAX >> 20} MiB to render", where
            )
        self.entries.update((entry.path, entry) for entry in new)

    def read(self, path: str) -> bytes:
        """Return the content of a file that was taken."""
        return self._content(self.entries[path])

    def _content(self, entry: TreeEntry) -> bytes:
        held = self._held.get(entry.id)
        return self._repository(entry.path).read_blob(entry.id) if held is None else held

    def _size(self, entry: TreeEntry) -> int:
        held = self._held.get(entry.id)
        if held is not None:
            return len(held)
        return self._repository(entry.path).sizes([entry.id])[entry.id]

    def _repository(self, path: str) -> Repository:
        return self._trees[self._root(path)][0]

    def parse(self, path: str) -> Parsed:
        """Return the documents of a file that was taken. Raises InvalidManifests GK9005."""
        entry = self.entries[path]
        if self._size(entry) > LIMITS.file_bytes:
            raise refused("GK9005", f"{shown(path)} is too large", shown(path))
        return parse_file(self._content(entry), path)

    def digest(self, also: Sequence[str]) -> str:
        """Name the content together with other texts: equal digest, equal result."""
        lines = sorted(f"{entry.path}\0{entry.id}\n" for entry in self.entries.values())
        text = "\n".join(also) + "\0" + "".join(lines)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def write(self, root: Path, instead: Mapping[str, bytes]) -> None:
        """Write the files below `root`, some with other content."""
        for entry in self.entries.values():
            target = root / entry.path
            target.parent.mkdir(parents=True, exist_ok=True)
            content = instead.get(entry.path)
            target.write_bytes(self._content(entry) if content is None else content)


def _inside(root: str, path: str) -> str:
    return path[len(root) :].lstrip("/") if root else path


def _not_hidden(folder: str) -> bool:
    return not folder.rpartition("/")[2].startswith(".")
