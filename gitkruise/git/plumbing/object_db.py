"""Git objects by id: read through one lasting `cat-file`, written as loose files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import Popen
from typing import Final, NamedTuple, TypeVar

from gitkruise.errors import Finding, HistoryMissing, SourceFailed
from gitkruise.git.plumbing.process import end
from gitkruise.git.plumbing.trees import TreeEntry, parse_tree
from gitkruise.printable import shown

_BATCH: Final = 64  # requests in the pipe together; their text stays far below its capacity
_ENTRIES_KEPT: Final = 131_072  # of all trees that are kept; some 30 MB
_COMMITS_KEPT: Final = 1_024
_COMMIT_MAX: Final = 1 << 16  # bytes of a commit that is kept
_WIDE: Final = 16  # entries of a tree whose names are worth an index
_INDEXES_KEPT: Final = 64
_PEEL_MAX: Final = 10


_T = TypeVar("_T")


class Info(NamedTuple):
    id: str
    kind: str  # commit, tree, blob, tag
    size: int


class ObjectReader:
    """Answers about objects from `git cat-file --batch-command`; safe to share between threads."""

    def __init__(self, start: Callable[[], Popen[bytes]]) -> None:
        self._start = start
        self._process: Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._trees: OrderedDict[str, tuple[TreeEntry, ...]] = OrderedDict()
        self._entries = 0  # of the trees that are kept, and one for each tree
        self._indexes: OrderedDict[str, dict[str, TreeEntry]] = OrderedDict()
        self._commits: OrderedDict[str, bytes] = OrderedDict()
        self._ahead: dict[str, bytes] = {}

    def close(self) -> None:
        """Close for good: a thread whose caller has given up must not start git again."""
        with self._lock:
            self._closed = True
            self._end()

    def start_anew(self) -> None:
        """Forget everything: the repository under us is about to be another one."""
        with self._lock:
            self._end()
            self._trees.clear()
            self._entries = 0
            self._indexes.clear()
            self._commits.clear()
            self._ahead = {}

    def info(self, names: Sequence[str]) -> list[Info | None]:
        """Id, kind and size of each name (an id or a full ref); None for what is not there."""
        found: list[Info | None] = []
        for at in range(0, len(names), _BATCH):
            batch = names[at : at + _BATCH]
            answers = self._ask([f"info {name}" for name in batch])
            found.extend(info for info, _ in answers)
        return found

    def contents(self, name: str, kind: str) -> bytes:
        """The bytes of one object. Raises SourceFailed GK3104 if it is missing or another kind."""
        kept = self._commits.get(name) if kind == "commit" else None
        if kept is not None:
            return kept
        ahead = self._ahead.pop(name, None) if kind == "blob" else None
        if ahead is not None:
            return ahead
        ((info, data),) = self._ask([f"contents {name}"])
        if info is None or info.kind != kind:
            raise damaged(name, kind)
        if kind == "commit" and info.id == name and info.size <= _COMMIT_MAX:
            self._keep(self._commits, name, data, _COMMITS_KEPT)
        return data

    def read_ahead(self, blobs: Sequence[str]) -> None:
        """Read blobs that will be asked for next, many in one exchange; only the last of these
        calls is remembered, and each blob is given once."""
        ahead: dict[str, bytes] = {}
        for at in range(0, len(blobs), _BATCH):
            batch = blobs[at : at + _BATCH]
            answers = self._ask([f"contents {name}" for name in batch])
            pairs = zip(batch, answers, strict=True)
            ahead |= {name: data for name, (info, data) in pairs if info and info.kind == "blob"}
        self._ahead = ahead

    def load_trees(self, trees: Sequence[str]) -> None:
        """Read trees, many in one exchange; `tree` reports missing ones."""
        wanted = [name for name in dict.fromkeys(trees) if name not in self._trees]
        for at in range(0, len(wanted), _BATCH):
            batch = wanted[at : at + _BATCH]
            answers = self._ask([f"contents {name}" for name in batch])
            for name, (info, data) in zip(batch, answers, strict=True):
                if info is not None and info.kind == "tree":
                    self._keep_tree(name, data)

    def tree(self, tree: str) -> tuple[TreeEntry, ...]:
        """Entries of one tree; what was read once is kept, for an id never changes its content."""
        kept = self._trees.get(tree)
        if kept is not None:
            return kept
        return self._keep_tree(tree, self.contents(tree, "tree"))

    def child(self, tree: str, name: str) -> TreeEntry | None:
        """The first entry of a tree with this name."""
        entries = self.tree(tree)
        if len(entries) < _WIDE:
            return next((entry for entry in entries if entry.path == name), None)
        index = self._indexes.get(tree)
        if index is None:
            index = {entry.path: entry for entry in reversed(entries)}
            self._keep(self._indexes, tree, index, _INDEXES_KEPT)
        return index.get(name)

    def _keep_tree(self, name: str, data: bytes) -> tuple[TreeEntry, ...]:
        entries = tuple(parse_tree(data, id_bytes=len(name) // 2))
        with self._lock:
            if name not in self._trees:
                self._trees[name] = entries
                self._entries += len(entries) + 1
            while self._entries > _ENTRIES_KEPT:
                oldest, gone = self._trees.popitem(last=False)
                self._entries -= len(gone) + 1
                self._indexes.pop(oldest, None)
        return entries

    def _keep(self, kept: OrderedDict[str, _T], name: str, value: _T, limit: int) -> None:
        with self._lock:
            kept[name] = value
            while len(kept) > limit:
                kept.popitem(last=False)

    def peel(self, name: str) -> str | None:
        """The commit a name leads to through at most ten tags; None when there is none."""
        for _ in range(_PEEL_MAX):
            (info,) = self.info([name])
            if info is None or info.kind == "commit":
                return info.id if info else None
            if info.kind != "tag":
                return None
            name = self.contents(info.id, "tag").split(b"\n", 1)[0].partition(b" ")[2].decode()
        return None

    def _ask(self, requests: list[str]) -> list[tuple[Info | None, bytes]]:
        if any("\n" in request for request in requests):
            raise ValueError("a line break would be a second request to git")
        with self._lock:
            if self._closed:
                raise SourceFailed(Finding(code="GK3104", message="the repository is closed"))
            for attempt in (1, 2):
                try:
                    return self._exchange(requests)
                except (BrokenPipeError, EOFError):
                    self._end()  # it died, for instance of a damaged pack: once more from new
                    if attempt == 2:
                        break
        raise damaged(requests[0].partition(" ")[2], "object")

    def _exchange(self, requests: list[str]) -> list[tuple[Info | None, bytes]]:
        process = self._process = self._process or self._start()
        assert process.stdin
        process.stdin.write("".join(f"{r}\n" for r in requests).encode("utf-8"))
        process.stdin.flush()
        return [self._answer(process, request) for request in requests]

    def _answer(self, process: Popen[bytes], request: str) -> tuple[Info | None, bytes]:
        assert process.stdout
        line = process.stdout.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        words = line.decode("utf-8", "replace").split()
        if len(words) != 3 or not words[2].isdigit():
            return None, b""
        info = Info(words[0], words[1], int(words[2]))
        if request.startswith("info "):
            return info, b""
        data = process.stdout.read(info.size + 1)
        if len(data) != info.size + 1:
            raise EOFError
        return info, data[:-1]

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(BrokenPipeError):
            if process.stdin:
                process.stdin.close()
        end(process)
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()


def damaged(name: str, kind: str) -> SourceFailed:
    message = f"the repository lacks {kind} {shown(name, 80)}, or it is damaged"
    return HistoryMissing(
        Finding(code="GK3104", message=message, notes=(("next", "run git fsck in the repository"),))
    )


def object_id(kind: str, data: bytes, *, algorithm: str) -> str:
    """The id git gives these bytes; algorithm is sha1 or sha256."""
    return hashlib.new(algorithm, b"%s %d\0%s" % (kind.encode(), len(data), data)).hexdigest()


def write_loose(objects: Path, kind: str, data: bytes, *, algorithm: str) -> str:
    """Store one object durably; its id. An object that is there already is left alone."""
    name = object_id(kind, data, algorithm=algorithm)
    folder = f"{objects}/{name[:2]}"  # thousands of objects may come together: no Path for each
    path = f"{folder}/{name[2:]}"
    if os.path.exists(path):  # noqa: PTH110  as above
        return name
    packed = zlib.compress(b"%s %d\0%s" % (kind.encode(), len(data), data), 1)
    temporary = f"{folder}{os.sep}tmp_obj_{secrets.token_hex(8)}"
    try:
        descriptor = _exclusive(temporary)
    except FileNotFoundError:
        Path(folder).mkdir(exist_ok=True)
        descriptor = _exclusive(temporary)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123  a descriptor, not a path
            file.write(packed)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)  # noqa: PTH105  as above
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return name


def _exclusive(path: str) -> int:
    """Open a new file for us to write; its mode is read-only."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
