"""Trees and paths inside a repository: parsing, checking, building."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gitkruise.errors import Finding, InvalidManifests
from gitkruise.printable import shown

ENTRIES_MAX: Final = 100_000
DEPTH_MAX: Final = 64
PATH_MAX: Final = 1_024  # bytes

TREE: Final = 0o040000
FILE: Final = 0o100644
SYMLINK: Final = 0o120000
SUBMODULE: Final = 0o160000
_REGULAR: Final = frozenset({0o100644, 0o100755, 0o100664})


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One entry. In a listing `path` starts at the repository's root."""

    path: str
    mode: int  # git's, e.g. 0o100644
    id: str

    @property
    def is_tree(self) -> bool:
        return self.mode == TREE

    @property
    def is_file(self) -> bool:
        return self.mode in _REGULAR


def parse_tree(data: bytes, *, id_bytes: int) -> Iterator[TreeEntry]:
    """Entries of a raw tree object. A name that is not UTF-8 keeps its bytes as surrogates."""
    position = 0
    while position < len(data):
        space = data.index(b" ", position)
        end = data.index(b"\0", space)
        name = data[space + 1 : end].decode("utf-8", "surrogateescape")
        mode = int(data[position:space], 8)
        position = end + 1 + id_bytes
        yield TreeEntry(name, mode, data[end + 1 : position].hex())


def format_tree(entries: Iterable[TreeEntry]) -> bytes:
    """The raw tree object of `entries`, in git's order: a tree as if it ended in '/'."""

    def rank(entry: TreeEntry) -> bytes:
        return name_bytes(entry.path) + (b"/" if entry.is_tree else b"")

    return b"".join(
        b"%o %s\0%s" % (e.mode, name_bytes(e.path), bytes.fromhex(e.id))
        for e in sorted(entries, key=rank)
    )


def name_bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


@lru_cache(maxsize=8_192)  # units ask for the same paths at every commit
def clean_path(path: str) -> str:
    """A path below the repository's root, without '.' and slashes at its ends ("" is the root).

    Raises InvalidManifests GK3010 for what could lead anywhere else.
    """
    why = _path_problem(path)
    if why:
        message = f"the path {shown(path)!r} cannot be used: {why}"
        raise InvalidManifests(Finding(code="GK3010", message=message))
    return "/".join(part for part in path.split("/") if part not in {"", "."})


def _path_problem(path: str) -> str:
    checks = (
        (path.startswith("/"), "it is absolute; paths start at the repository's root"),
        (".." in path.split("/"), "it leaves the repository with '..'"),
        ("\\" in path, "it has a backslash; git paths use '/'"),
        (any(unicodedata.category(c) in {"Cc", "Cs"} for c in path), "it has control characters"),
        (path != path.strip(), "it starts or ends with a blank"),
        (len(name_bytes(path)) > PATH_MAX, f"it is longer than {PATH_MAX} bytes"),
    )
    return next((why for broken, why in checks if broken), "")


def entry_problem(entry: TreeEntry) -> tuple[str, str] | None:
    """(code, text) of what is wrong with an entry by its name or kind; None when it may be read."""
    name = entry.path.rpartition("/")[2]
    checks = (
        (not name.isascii() and _is_torn(name), "GK3015", "its name is not UTF-8"),
        (_is_dot_git(name) or name in {"", ".", ".."}, "GK3014", "no tree may have this name"),
        (len(name_bytes(entry.path)) > PATH_MAX, "GK3014", f"its path is over {PATH_MAX} bytes"),
        (entry.mode == SYMLINK, "GK3011", "a symbolic link; commit the file itself"),
        (entry.mode == SUBMODULE, "GK3012", "a submodule, which is not followed; commit the files"),
        (not (entry.is_tree or entry.is_file), "GK3014", f"its mode {entry.mode:o} is unknown"),
    )
    return next(((code, why) for broken, code, why in checks if broken), None)


def _is_dot_git(name: str) -> bool:
    """`.git` as any file system might fold it."""
    if not name.isascii():
        name = "".join(c for c in name if unicodedata.category(c) != "Cf")
    return name.rstrip(" .").casefold() in {".git", "git~1"}


def _is_torn(name: str) -> bool:
    return any(0xDC80 <= ord(char) <= 0xDCFF for char in name)


def forged(path: str) -> InvalidManifests:
    """A tree whose entry names a path: no git writes one."""
    message = f"{shown(path)}: a tree has an entry with '/' in its name"
    return InvalidManifests(Finding(code="GK3014", message=message))


def beyond(limit: str) -> InvalidManifests:
    """A listing that was stopped."""
    return InvalidManifests(
        Finding(
            code="GK9020",
            message=f"the tree is beyond a limit: {limit}",
            notes=(("next", "name a smaller path, or list what to skip in .gitkruiseignore"),),
        )
    )
