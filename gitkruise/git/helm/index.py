"""The index of a repository of charts: versions of one chart, read event by event.

Indexes grow to tens of megabytes, of which one chart's versions are a small part. They are written
by strangers, so `versions_of` runs this module as a program of its own, within limits.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml
from yaml._yaml import CParser  # the C event stream alone, as in git.parsing

NEAR: Final = 5  # names that are close to a missing one
_ENTRIES: Final = "entries"
_FIELDS: Final = frozenset({"version", "digest", "urls"})
_DEPTH: Final = 16


class _Events:
    """The events of a document. Raises ValueError for anything that is no index."""

    def __init__(self, data: bytes) -> None:
        self._parser = CParser(data)

    def next(self) -> yaml.Event:
        event = self._parser.get_event()
        if event is None or isinstance(event, yaml.StreamEndEvent):
            raise ValueError("it ends early")
        return event

    def value(self, event: yaml.Event, depth: int = _DEPTH) -> Any:
        """Return the value that begins with `event`: text, lists and mappings."""
        if depth == 0:
            raise ValueError("it is nested too deeply")
        if isinstance(event, yaml.ScalarEvent):
            return event.value
        if isinstance(event, yaml.SequenceStartEvent):
            return [self.value(one, depth - 1) for one in self.items()]
        if isinstance(event, yaml.MappingStartEvent):
            found = {}
            for key in self.names():
                first = self.next()
                if key in _FIELDS:
                    found[key] = self.value(first, depth - 1)
                else:
                    self.skip(first)
            return found
        return None  # an alias: no field that is read has one

    def items(self) -> Iterator[yaml.Event]:
        """Yield the first event of each item of a list that has begun."""
        while not isinstance(event := self.next(), yaml.SequenceEndEvent):
            yield event

    def names(self) -> Iterator[str]:
        """Yield each key of a mapping that has begun; the caller takes the value."""
        while not isinstance(event := self.next(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise ValueError("a key is not text")  # noqa: TRY004  of what a stranger wrote
            yield event.value

    def skip(self, event: yaml.Event) -> None:
        """Leave the value that begins with `event` out."""
        open_ = isinstance(event, yaml.CollectionStartEvent)
        depth = int(open_)
        while depth:
            event = self.next()
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)


def entries_of(data: bytes, chart: str) -> tuple[list[Any], list[str]]:
    """Return the entries of a chart, and names close to it where there is no such chart.

    Raises ValueError and YAMLError for what is no index.
    """
    events = _Events(data)
    first = events.next()
    while isinstance(first, yaml.StreamStartEvent | yaml.DocumentStartEvent):
        first = events.next()
    if not isinstance(first, yaml.MappingStartEvent):
        raise ValueError("it is not a mapping")  # noqa: TRY004  as above
    names: list[str] = []
    found: list[Any] | None = None
    listed = False
    for key in events.names():
        first = events.next()
        if key != _ENTRIES or not isinstance(first, yaml.MappingStartEvent):
            events.skip(first)
            continue
        listed = True
        for name in events.names():
            names.append(name)
            first = events.next()
            if name != chart:
                events.skip(first)
            elif isinstance(first, yaml.SequenceStartEvent):
                found = events.value(first)
    if not listed:
        raise ValueError("it has no entries")
    if found is not None:
        return found, []
    return [], difflib.get_close_matches(chart, names, NEAR, 0.5)


def main() -> None:
    """Print the entries of the chart named by the second argument in the index that the first one
    names, and close names, as JSON."""
    path, chart = sys.argv[1:]
    try:
        found = entries_of(Path(path).read_bytes(), chart)
    except (ValueError, yaml.YAMLError) as error:
        sys.exit(" ".join(str(error).split()))
    sys.stdout.write(json.dumps(found))
