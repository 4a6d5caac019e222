"""Diffs of edited files for people: secrets are hidden, as in the plan of the same edit."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from gitkruise.git.parsing.documents import parse_file
from gitkruise.git.repository.repository import Repository
from gitkruise.planner.report.redaction import hidden_texts
from gitkruise.redaction import scrubbed
from gitkruise.wire.primitives.secret_names import shows_secret

_SECRET: Final = re.compile(rb"kind[\"']?\s*:\s*[\"']?Secret")
_COVER: Final = "•••"
_TRACEABLE: Final = 6  # characters: shorter texts appear elsewhere by chance
_WORD: Final = re.compile(r"[^\s\"'{},:]+")
_HEADER: Final = 2  # lines of a diff that name the file


def edit_diff(
    repository: Repository, commit: str, files: Mapping[str, bytes], *, context: int = 3
) -> Iterator[str]:
    """Return a unified diff without the secrets of workloads, and without context lines in a file
    that contains Secrets."""
    for file, data in files.items():
        entry = repository.find(commit, file)
        assert entry is not None
        old = repository.read_blob(entry.id)
        lines = 0 if _SECRET.search(old) else context
        before, after = (each.decode("utf-8", "replace").splitlines() for each in (old, data))
        names = (f"a/{file}", f"b/{file}")
        cover = _Cover(old, data)
        for at, line in enumerate(
            difflib.unified_diff(before, after, *names, lineterm="", n=lines)
        ):
            plain = at < _HEADER or line.startswith("@@")
            yield line if plain else line[0] + cover.over(line[1:])


class _Cover:
    """Covers what is a secret in versions of one file, by the name of its field or by its form."""

    def __init__(self, *versions: bytes) -> None:
        texts: set[str] = set()
        for data in versions:
            for document in parse_file(data, "").documents:
                texts |= {
                    part for text in hidden_texts(document.obj) for part in _parts(text, data)
                }
        spelled = {form for text in texts if text for form in _spellings(text)}
        self._long = sorted((text for text in spelled if len(text) >= _TRACEABLE), key=len)
        self._short = {text for text in spelled if len(text) < _TRACEABLE}

    def over(self, line: str) -> str:
        """Return a line of the file without secrets."""
        for text in reversed(self._long):  # one may be a part of another
            line = line.replace(text, _COVER)
        return scrubbed(_WORD.sub(self._word, line) if shows_secret(line) else line)

    def _word(self, found: re.Match[str]) -> str:
        return _COVER if found[0] in self._short else found[0]


def _parts(text: str, data: bytes) -> list[str]:
    """A text as lines of the file have it: whole, line by line, or by word where it is folded."""
    file = data.decode("utf-8", "replace")
    if any(form in file for form in _spellings(text)) and "\n" not in text:
        return [text]
    lines = [line.strip() for line in text.splitlines()]
    return [part for line in lines for part in ([line] if line in file else line.split())]


def _spellings(text: str) -> set[str]:
    """A text in plain style and in either quotes."""
    return {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1],
            text.replace("'", "''")}  # fmt: skip
