"""Errors of helm as findings, at the lines of the chart that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gitkruise.errors import Finding, SourcePlace
from gitkruise.git.helm.chart import ChartFiles
from gitkruise.git.helm.output import chart_path
from gitkruise.model.gitops.document import Position, place_at
from gitkruise.printable import shown

_POSITION: Final = re.compile(r"((?:[\w.-]+/)+[\w.-]+):(\d+)(?::(\d+))?")
_NAMED: Final = re.compile(r"(?:YAML parse error on|error on) ((?:[\w.-]+/)+[\w.-]+)")
_MISSING: Final = re.compile(r"missing in charts/ directory: (.+)")
_NOISE: Final = re.compile(
    r"^(?:Error: |Use --debug .*|\S+\.go:\d+: .*|level=\w+ .*|WARNING: .*)", re.MULTILINE
)
_UNREAD: Final = re.compile(r"failed to parse (.+?): ")
_WORDS_MAX: Final = 600
# Errors that quote the template and no value.
_HARMLESS: Final = (
    "nil pointer evaluating", "no template ", "parse error at", "function ", "YAML parse error on",
    "chart requires kubeVersion", "wrong number of args", "validation: chart",
    "library charts are not installable",
)  # fmt: skip


def failure(output: str, chart: ChartFiles, *, secret: bool) -> Finding:
    """Return the finding for an error of helm. With `secret` values its words are only shown if
    they cannot quote one."""
    words = "\n".join(filter(None, map(str.strip, _NOISE.sub("", output).splitlines())))
    missing = _MISSING.search(words)
    if missing is not None:
        return _dependencies(missing[1], chart)
    unread = _UNREAD.match(words)
    if unread is not None:
        return _values(unread[1], chart)
    places = tuple(_places(words, chart)) or (SourcePlace(file=chart.chart_file),)
    subject = shown(chart.folder or ".")
    if secret and not any(text in words for text in _HARMLESS):
        return Finding(
            code="GK3408",
            message=f"helm cannot render {subject}",
            places=places,
            notes=(
                ("why", "its words are not shown: they may quote a secret value"),
                ("next", f"see what it says: {chart.try_it}"),
            ),
        )
    first, *more = words.splitlines() or ["it says nothing"]
    summary = shown(first, _WORDS_MAX) + "".join(f"; {shown(line, 200)}" for line in more[:5])
    return Finding(
        code="GK3408",
        message=f"helm cannot render {subject}: {summary}",
        places=places,
        notes=(("next", f"correct it, and try: {chart.try_it}"),),
    )


def _values(name: str, chart: ChartFiles) -> Finding:
    """Return the finding for values that are no YAML, or no mapping: a file or a cluster's object.
    The words of helm are left out, because they may quote them."""
    file = name if name in chart.values_files else chart.chart_file
    return Finding(
        code="GK3408",
        message=f"helm cannot read the values of {shown(name)}: they are not a mapping in YAML",
        places=(SourcePlace(file=file),),
        notes=(("next", f"correct the values of {shown(name)}"),),
    )


def _places(words: str, chart: ChartFiles) -> Iterator[SourcePlace]:
    """Yield the lines that an error names, the innermost first."""
    found: dict[tuple[str, int], SourcePlace] = {}
    for match in _POSITION.finditer(words):
        path = chart_path(match[1], chart.copied.entries, chart.folder)
        if path is not None:
            line, column = int(match[2]), int(match[3] or -1) + 1
            found[path, line] = _place(chart, path, Position(line, column, 1))
    yield from reversed(found.values())
    named = _NAMED.search(words)
    if named is not None and not found:
        path = chart_path(named[1], chart.copied.entries, chart.folder)
        if path is not None:
            yield SourcePlace(file=path)


def _place(chart: ChartFiles, path: str, position: Position) -> SourcePlace:
    lines = chart.copied.read(path).decode("utf-8", "replace").splitlines()
    return place_at(path, lines, position, label="here")


def _dependencies(names: str, chart: ChartFiles) -> Finding:
    wanted = [name.strip() for name in names.split(",")]
    document = chart.description()
    listed = document.obj.get("dependencies")
    places = tuple(
        document.place(("dependencies", number), label="not in charts/")
        for number, one in enumerate(listed if isinstance(listed, list) else ())
        if isinstance(one, dict) and one.get("name") in wanted
    )
    folder = shown(chart.folder or ".")
    if chart.fetched is not None:
        why, following = "it was published without them", "name another version of the chart"
    else:
        why = "they are not downloaded: what is rendered is what the commit has"
        following = f"helm dependency build {folder}, and commit the folder {folder}/charts"
    return Finding(
        code="GK3409",
        message=f"{folder} lacks charts that it depends on: {shown(', '.join(wanted), 400)}",
        places=places or (document.place(),),
        notes=(
            ("why", why),
            ("next", following),
        ),
    )
