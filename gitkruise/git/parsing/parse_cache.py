"""Parsed files and rendered kustomizations by the id of their content, bounded."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from gitkruise.git.parsing.documents import Parsed, parse_file, restored
from gitkruise.git.parsing.parse_cache_db import ParsedEntry, ParsedStore
from gitkruise.model.gitops.document import Document
from gitkruise.wire.primitives.paths import get

FILES_MAX: Final = 10_000
_RENDERED_MAX: Final = 256


class ParseCache:
    """Parsed files by blob id and kind of file, the least recently used dropped first.

    With a `store` they outlive the process: files without any finding, and without a Secret.
    """

    def __init__(self, files_max: int = FILES_MAX, store: ParsedStore | None = None) -> None:
        self._store = store
        self._kept: OrderedDict[tuple[str, bool], Parsed] = OrderedDict()
        self._files_max = files_max
        self._saves_later = False
        self._rendered: OrderedDict[str, Parsed] = OrderedDict()
        self.parsed = 0  # how many files were really parsed

    def missing(self, files: Iterable[tuple[str, str]]) -> list[str]:
        """Of files, each a blob and its name, the blobs that `parse` would have to read.

        The store's results for the others are fetched in one query; `parse` is asked for them next.
        """
        keys = [(blob, file.lower().endswith(".json")) for blob, file in files]
        fresh = [key for key in dict.fromkeys(keys) if key not in self._kept]
        stored = self._store.fetch(fresh) if self._store and fresh else frozenset()
        return list(dict.fromkeys(blob for blob, json in fresh if (blob, json) not in stored))

    def parse(self, blob: str, file: str, read: Callable[[], bytes]) -> Parsed:
        """The documents of a blob under the name `file`; `read` is called only when it is new."""
        key = (blob, file.lower().endswith(".json"))
        found = self._kept.pop(key, None)
        if found is None:
            found = self._stored(key, file, read) or self._parse(key, file, read)
        self._kept[key] = found
        while len(self._kept) > self._files_max:
            self._kept.popitem(last=False)
        return _under_name(found, file)

    def _stored(self, key: tuple[str, bool], file: str, read: Callable[[], bytes]) -> Parsed | None:
        entries = self._store.get(key[0], json=key[1]) if self._store else None
        return None if entries is None else restored(entries, file, read)

    def _parse(self, key: tuple[str, bool], file: str, read: Callable[[], bytes]) -> Parsed:
        found = parse_file(read(), file)
        self.parsed += 1
        if self._store and not found.findings and not any(map(_is_secret, found.documents)):
            entries = [ParsedEntry(d.obj, d.index, d.line) for d in found.documents]
            self._store.put(key[0], entries, json=key[1])
        return found

    def save(self) -> None:
        """Write what was parsed to disk, if it is to be kept there."""
        if self._store and not self._saves_later:
            self._store.save()

    @contextlib.contextmanager
    def one_save(self) -> Iterator[None]:
        """Write what is parsed within it in one transaction, at the end."""
        self._saves_later = True
        try:
            yield
        finally:
            self._saves_later = False
            self.save()

    def rendered(self, tree: str) -> Parsed | None:
        """Return kustomize's output for the content named `tree`, if it was rendered before."""
        return self._rendered.get(tree)

    def keep_rendered(self, tree: str, parsed: Parsed) -> None:
        self._rendered[tree] = parsed
        while len(self._rendered) > _RENDERED_MAX:
            self._rendered.popitem(last=False)


def _is_secret(document: Document) -> bool:
    """Return whether the object is, or lists, a Secret."""
    obj = document.obj
    items = get(obj, "items")
    listed = items if isinstance(items, list) else ()
    return any(str(get(o, "kind")).startswith("Secret") for o in (obj, *listed))


def _under_name(parsed: Parsed, file: str) -> Parsed:
    known = next((d.file for d in parsed.documents), None) or next(
        (p.file for f in parsed.findings for p in f.places), file
    )
    if known == file:
        return parsed
    documents = tuple(dataclasses.replace(d, file=file) for d in parsed.documents)
    findings = tuple(
        dataclasses.replace(
            f,
            message=f.message.replace(known, file),
            places=tuple(dataclasses.replace(p, file=file) for p in f.places),
        )
        for f in parsed.findings
    )
    return Parsed(documents, findings)
