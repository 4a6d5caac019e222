"""The output of helm as documents, each at its template, with hooks as gitkruise runs them."""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gitkruise.errors import Finding, Severity, SourcePlace
from gitkruise.git.helm.chart import CHART_FILE, ChartFiles
from gitkruise.git.parsing.documents import RENDERED, Elsewhere, parse_file
from gitkruise.git.parsing.template_text import without_actions
from gitkruise.model.gitops.document import Document
from gitkruise.planner.sync.hooks import HOOK, LAST, POST, PRE
from gitkruise.printable import shown
from gitkruise.wire.primitives.paths import get, put

_SOURCE: Final = re.compile(rb"^---[ \t]*\r?\n# Source: ([^\r\n]+)\r?\n", re.MULTILINE)
_NOWHERE: Final = 1 << 30  # the number of no document of a file: no positions
_HELM_HOOK: Final = "helm.sh/hook"
_WEIGHT: Final = "helm.sh/hook-weight"
_TESTS: Final = frozenset({"test", "test-success", "test-failure"})
_INSTALL: Final = "crd-install"  # of Helm 2, which later versions leave out
_CRD_HOOK: Final = re.compile(
    rb"""^[ \t]*["']?helm\.sh/hook["']?:[ \t]*["']?crd-install["']?[ \t]*(\r?)$""", re.MULTILINE
)
# Each time the unit's objects change: what Helm calls an install, an upgrade or a rollback.
_PHASES: Final[Mapping[frozenset[str], str]] = {
    frozenset({"pre-install", "pre-upgrade"}): PRE,
    frozenset({"pre-install", "pre-upgrade", "pre-rollback"}): PRE,
    frozenset({"post-install", "post-upgrade"}): POST,
    frozenset({"post-install", "post-upgrade", "post-rollback"}): POST,
    frozenset({"pre-delete"}): LAST,
}


def chart_path(source: str, files: Collection[str], folder: str) -> str | None:
    """Return the file of the repository that helm calls `source`; None where there is no such.

    helm begins with the name of the chart, and names subcharts by their names, too; a subchart in
    an archive is its archive.
    """
    rest = source.partition("/")[2]
    path = posixpath.join(folder, rest)
    if path in files:
        return path
    at, parts = folder, rest.split("/")
    while len(parts) > 2 and parts[0] == "charts":
        packed = [f for f in files if f.startswith(posixpath.join(at, "charts", parts[1]))]
        archive = next((f for f in sorted(packed) if f.endswith(".tgz")), None)
        if archive is not None and posixpath.join(at, "charts", parts[1], CHART_FILE) not in files:
            return archive
        at, parts = posixpath.join(at, "charts", parts[1]), parts[2:]
    return None


def plain_definitions(chart: ChartFiles) -> dict[str, bytes]:
    """Return the templates that define kinds as hooks of Helm 2, without that mark: later versions
    of helm would leave the definitions out."""
    found = {}
    for path in chart.copied.entries:
        if "/templates/" in f"/{path}" and _INSTALL.encode() in (data := chart.copied.read(path)):
            found[path] = _CRD_HOOK.sub(rb"\g<1>", data)
    return found


@dataclass(slots=True)
class Output:
    """Documents of helm's output, and findings about them."""

    chart: ChartFiles
    skip_tests: bool
    documents: list[Document] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    _templates: dict[str, Sequence[Document]] = field(default_factory=dict)
    _texts: dict[str, bytes] = field(default_factory=dict)
    _seen: dict[tuple[str, str], int] = field(default_factory=dict)
    _hooks: dict[str, list[Document]] = field(default_factory=dict)

    def read(self, output: bytes) -> None:
        """Take all objects of the output."""
        starts = [*_SOURCE.finditer(output)]
        ends = [*(match.start() for match in starts[1:]), len(output)]
        for match, end in zip(starts, ends, strict=False):  # a chart may render to nothing
            self._segment(match[1].decode("utf-8", "replace"), output[match.end() : end])
        for phase, hooks in self._hooks.items():
            weights = {_notes(d).get(_WEIGHT, "0") for d in hooks}
            if len(weights) > 1:
                why = f"hooks of one phase ({phase}) run at the same time, and have weights here"
                self.findings += (_refused(d, why) for d in hooks)

    def _segment(self, source: str, text: bytes) -> None:
        path = chart_path(source, self.chart.copied.entries, self.chart.folder)
        file = path or self.chart.chart_file
        parsed = parse_file(text, file, RENDERED)
        place = SourcePlace(file=file)
        for finding in parsed.findings:
            if finding.is_error:  # its line is one of the output, which is no file
                message = f"{finding.message} (in what {shown(source)} renders to)"
                self.findings.append(dataclasses.replace(finding, message=message, places=(place,)))
        for document in parsed.documents if parsed.ok else ():
            if isinstance(document.obj, dict):
                self._take(self._placed(document, file))
            else:
                self.documents.append(document)

    def _take(self, document: Document) -> None:
        words = frozenset(
            word.strip() for word in str(_notes(document).get(_HELM_HOOK, "")).split(",")
        ) - {""}
        if not words or words == {_INSTALL}:  # in crds/ it means nothing
            self.documents.append(document)
        elif words <= _TESTS:
            if not self.skip_tests:
                self.findings.append(_test(document))
        else:
            self._hook(document, words)

    def _hook(self, document: Document, words: frozenset[str]) -> None:
        phase = _PHASES.get(words)
        if phase is None or document.obj.get("kind") != "Job":
            why = "gitkruise runs Jobs before or after every change, or before the unit is removed"
            self.findings.append(_refused(document, why))
            return
        notes = {**_notes(document), HOOK: phase}
        obj = put(document.obj, ("metadata", "annotations"), notes)
        mapped = dataclasses.replace(document, obj=obj)
        self._hooks.setdefault(phase, []).append(mapped)
        self.documents.append(mapped)

    # Positions ----------------------------------------------------------------------------------

    def _placed(self, document: Document, file: str) -> Document:
        """Return an object at the document of its template with the same kind and number."""
        kind = str(document.obj.get("kind"))
        number = self._seen[file, kind] = self._seen.get((file, kind), -1) + 1
        written = self._documents(file)
        same = [d for d in written if get(d.obj, "kind") == kind] or (
            written if len(written) == 1 else []
        )
        position = same[number if number < len(same) else 0] if same else None
        text = self._text(file)  # places are asked for when the repository is closed, too
        read = Elsewhere(file, lambda: text)
        return read.document(
            document.obj,
            index=position.index if position else _NOWHERE,
            line=position.line if position else 0,
            base=(),
            private=document.private or bool(position and position.private),
        )

    def _documents(self, file: str) -> Sequence[Document]:
        if file not in self._templates:
            text = without_actions(self._text(file).decode("utf-8", "replace"))
            parsed = parse_file(text.encode("utf-8", "replace"), file)
            self._templates[file] = [d for d in parsed.documents if isinstance(d.obj, dict)]
        return self._templates[file]

    def _text(self, file: str) -> bytes:
        if file not in self._texts:
            packed = file.endswith(".tgz")
            self._texts[file] = b"" if packed else self.chart.copied.read(file)
        return self._texts[file]


def _notes(document: Document) -> Mapping[str, Any]:
    found = get(document.obj, "metadata", "annotations")
    return found if isinstance(found, dict) else {}


def _named(document: Document) -> str:
    return f"{document.obj.get('kind')} {get(document.obj, 'metadata', 'name')}"


def _position(document: Document) -> SourcePlace:
    return document.place(("metadata", "annotations", _HELM_HOOK), label="here")


def _refused(document: Document, why: str) -> Finding:
    word = _notes(document).get(_HELM_HOOK)
    return Finding(
        code="GK3410",
        message=f"the hook {shown(str(word))} of {shown(_named(document))} is not run",
        places=(_position(document),),
        notes=(
            ("why", why),
            ("next", f"make it a Job with {_HELM_HOOK}: pre-install,pre-upgrade, or switch it off"),
        ),
    )


def _test(document: Document) -> Finding:
    return Finding(
        code="GK3411",
        message=f"the test {shown(_named(document))} is left out",
        places=(_position(document),),
        notes=(("next", "set render.helm.skipTests: true to leave it out silently"),),
        severity=Severity.WARNING,
    )


def values_in(value: Any) -> Iterator[str]:
    """Yield every text of values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from values_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from values_in(inner)
