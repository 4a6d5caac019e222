"""Walks over trees by id: only what differs, or is asked for, is read."""

from __future__ import annotations

from collections.abc import Callable

from gitkruise.git.plumbing.object_db import ObjectReader
from gitkruise.git.plumbing.trees import (
    DEPTH_MAX,
    ENTRIES_MAX,
    TREE,
    TreeEntry,
    beyond,
    entry_problem,
    forged,
)


def find(reader: ObjectReader, root: str, path: str) -> TreeEntry | None:
    """The entry at `path` below the tree `root`; None when there is none."""
    entry = TreeEntry("", TREE, root)
    for part in filter(None, path.split("/")):
        if not entry.is_tree:
            return None
        found = reader.child(entry.id, part)
        if found is None:
            return None
        entry = TreeEntry(_below(entry.path, part), found.mode, found.id)
    return entry


def leaves(reader: ObjectReader, root: TreeEntry, enter: Callable[[str], bool]) -> list[TreeEntry]:
    """Everything but folders below `root`, and folders no tree may have, sorted by path.

    Raises InvalidManifests GK9020, and GK3014 for a name that is a path.
    """
    found: list[TreeEntry] = []
    seen, depth, level = 0, 0, [root]
    while level:
        if depth > DEPTH_MAX:
            raise beyond(f"depth > {DEPTH_MAX} folders")
        reader.load_trees([folder.id for folder in level])
        inner: list[TreeEntry] = []
        for folder in level:
            children = reader.tree(folder.id)
            seen += len(children)
            if seen > ENTRIES_MAX:
                raise beyond(f"more than {ENTRIES_MAX:,} entries")
            for child in children:
                if "/" in child.path:
                    raise forged(_below(folder.path, child.path))
                whole = TreeEntry(_below(folder.path, child.path), child.mode, child.id)
                if not child.is_tree or entry_problem(whole):
                    found.append(whole)
                elif enter(whole.path):
                    inner.append(whole)
        level, depth = inner, depth + 1
    return sorted(found, key=lambda entry: entry.path)


def changed(
    reader: ObjectReader, start: str, before: TreeEntry | None, after: TreeEntry | None
) -> list[str]:
    """Paths of files that differ between two entries at `start`, sorted."""
    found: list[str] = []
    pairs = [(start, before, after)]
    while pairs:
        name, left, right = pairs.pop()
        if left == right or (left and right and (left.id, left.mode) == (right.id, right.mode)):
            continue
        if any(entry is not None and not entry.is_tree for entry in (left, right)):
            found.append(name)
        ours, theirs = _children(reader, left), _children(reader, right)
        pairs += [
            (_below(name, n), ours.get(n), theirs.get(n)) for n in ours.keys() | theirs.keys()
        ]
        if len(pairs) + len(found) > ENTRIES_MAX:
            raise beyond(f"more than {ENTRIES_MAX:,} changes")
    return sorted(found)


def _below(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _children(reader: ObjectReader, entry: TreeEntry | None) -> dict[str, TreeEntry]:
    if entry is None or not entry.is_tree:
        return {}
    return {child.path: child for child in reader.tree(entry.id)}
