"""`helm template`, run on a private copy of a chart, without network."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gitkruise.errors import Finding, InvalidManifests, RendererMissing, Severity, SourcePlace
from gitkruise.git.helm import messages
from gitkruise.git.helm.chart import ChartFiles
from gitkruise.git.helm.output import Output, plain_definitions, values_in
from gitkruise.git.helm.release import Release
from gitkruise.git.parsing.documents import Parsed, parse_file
from gitkruise.git.parsing.parse_cache import ParseCache
from gitkruise.git.plumbing import process
from gitkruise.git.rendering.program import BYTES_MAX, MEMORY_MIB, RENDER_S, run
from gitkruise.git.repository.repository import Repository
from gitkruise.model.gitops.document import Document
from gitkruise.printable import shown
from gitkruise.wire.primitives.secret_names import keeps_secret

UNDERSTOOD: Final = ((3, 8), (4, 0))  # the oldest of each major version
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")
_VERSION_S: Final = 20.0
_FOLDERS: Final = (
    "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "HELM_PLUGINS",
    "HELM_REPOSITORY_CACHE",
)  # fmt: skip
_AT_ONCE: Final = 100  # API versions in one word: the system bounds a word's length
_SKIPPED: Final = re.compile(r'skipping unknown hook(?:: "([^"\n]*)"|s" hookTypes="?([^"\n]*))')
_TRACEABLE: Final = 6  # characters: shorter secret texts appear elsewhere by chance


class ChartRenderer:
    """Renders charts of one repository."""

    def __init__(
        self, repository: Repository, cache: ParseCache, *, search: str = process.SEARCH_PATH
    ) -> None:
        self._repository, self._cache, self._search = repository, cache, search

    def content(self, commit: str, folder: str, release: Release) -> tuple[str, tuple[str, ...]]:
        """Return the digest of all files and the release, and the paths that are read.

        Values of a cluster are not in it. Raises InvalidManifests.
        """
        chart = ChartFiles(self._repository, commit, folder, release)
        return chart.digest(release), chart.inputs

    def render(self, commit: str, folder: str, release: Release) -> Parsed:
        """Return the objects of the chart, each at its template.

        Equal content is rendered once. Raises InvalidManifests (GK34xx) for what the repository
        does wrong, RendererMissing GK3401 without a helm that is understood.
        """
        chart = ChartFiles(self._repository, commit, folder, release)
        values = [[one.origin, one.text] for one in release.inputs.values]
        key = hashlib.sha256(f"{chart.digest(release)}{json.dumps(values)}".encode()).hexdigest()
        known = self._cache.rendered(key)
        if known is None:
            known = self._render(chart, release)
            self._cache.keep_rendered(key, known)
        return known

    def _render(self, chart: ChartFiles, release: Release) -> Parsed:
        chart.check_name()
        program, major = find(self._search)
        import tempfile  # noqa: PLC0415  slow to import, and seldom needed

        with tempfile.TemporaryDirectory(prefix="gitkruise-render-") as name:
            home = Path(name)
            chart.copied.write(home / "tree", plain_definitions(chart))
            empty = {folder: str(home / "empty") for folder in _FOLDERS}
            # Of the hooks that it leaves out, version 4 speaks only when debugging.
            talking = ["--debug"] if major == 4 else []
            words = [program, "template", *talking, *_words(chart, release, home)]
            result = run(
                words, home, chart.folder, environment=empty,
                timeout_s=RENDER_S, memory_mib=MEMORY_MIB, output_max=BYTES_MAX,
            )  # fmt: skip
        skipped = [one or other for one, other in _SKIPPED.findall(result.errors)]
        if result.status != 0:
            errors = _cleaned(result.errors, chart, release, home)
            raise InvalidManifests(
                messages.failure(errors, chart, secret=_is_secret(chart, release))
            )
        output = Output(chart, release.skip_tests)
        output.read(result.output)
        output.findings += (_left_out(word, chart) for word in dict.fromkeys(skipped))
        output.findings += _outside_secrets(output.documents, release)
        output.findings += _assumptions(chart, release)
        return Parsed(tuple(output.documents), tuple(output.findings))


def _words(chart: ChartFiles, release: Release, home: Path) -> Iterator[str]:
    """Yield the arguments of helm; writes the files of values, whose own names may be anything."""
    yield from ("--namespace", release.namespace)
    yield from ("--kube-version", release.inputs.kube_version)
    if release.include_crds:
        yield "--include-crds"
    served = release.api_versions
    for start in range(0, len(served), _AT_ONCE):
        yield from ("--api-versions", ",".join(served[start : start + _AT_ONCE]))
    given = [chart.copied.read(path) for path in chart.values_files]
    given += [one.text.encode("utf-8", "surrogatepass") for one in release.inputs.values]
    given += [json.dumps(release.values).encode()] if release.values else []
    for number, text in enumerate(given):
        (home / _values_name(number)).write_bytes(text)
        yield from ("--values", str(home / _values_name(number)))
    yield from ("--", release.name, str(home / "tree" / chart.folder))


def _values_name(number: int) -> str:
    return f"values-{number}.yaml"


def _cleaned(errors: str, chart: ChartFiles, release: Release, home: Path) -> str:
    """Return the words of helm with the names that values have for users."""
    names = [*chart.values_files, *(one.origin for one in release.inputs.values)]
    output = errors.replace(f"{home}/tree/", "")
    for number, name in enumerate([*names, "render.helm.values"]):
        output = output.replace(str(home / _values_name(number)), name)
    return output


def find(search: str) -> tuple[str, int]:
    """Return the path of helm, and its major version. Raises RendererMissing GK3401 without one
    that is understood."""
    program = shutil.which("helm", path=search)
    if program is None:
        raise _missing("a chart needs helm, which is not installed")
    version = version_of(program, Path(program).stat().st_mtime_ns)
    found = _VERSION.search(version)
    number = (int(found[1]), int(found[2])) if found else (0, 0)
    if not any(number[0] == oldest[0] and number >= oldest for oldest in UNDERSTOOD):
        raise _missing(f"{program} is not a helm that is understood: {shown(version or 'none')}")
    return program, number[0]


@functools.lru_cache(maxsize=8)
def version_of(program: str, changed: int) -> str:
    """Return what helm says about its version; "" where it says nothing.

    `changed` is the time of the program's last change: another program is asked again.
    """
    words = [program, "version", "--template", "{{ .Version }}"]
    env = {"PATH": "/nonexistent", "HOME": "/nonexistent", "KUBECONFIG": "/dev/null"}
    try:
        run = subprocess.run(  # noqa: S603  a full path and our own words
            words, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=_VERSION_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stdout.decode("utf-8", "replace").strip()


def _missing(message: str) -> RendererMissing:
    oldest = " or ".join(f"{major}.{minor}" for major, minor in UNDERSTOOD)
    notes = (
        ("why", f"charts are rendered by helm {oldest}, or a later version of these"),
        ("unchanged", "the unit's objects stay as they are; the commit is tried again"),
        ("next", "install helm in a folder of PATH, or commit the rendered manifests"),
    )
    return RendererMissing(Finding(code="GK3401", message=message, notes=notes))


def _left_out(word: str, chart: ChartFiles) -> Finding:
    return Finding(
        code="GK3410",
        message=f"helm leaves out objects with the hook {shown(word)}",
        places=(SourcePlace(file=chart.chart_file),),
        notes=(("next", "move definitions of kinds to the folder crds of the chart"),),
    )


# Secrets ----------------------------------------------------------------------------------------


def _is_secret(chart: ChartFiles, release: Release) -> bool:
    """Return whether an error of helm may quote a secret value."""
    return (
        any(one.secret for one in release.inputs.values)
        or keeps_secret(release.values)
        or any(keeps_secret(document.obj) for document in chart.values_documents())
    )


def _outside_secrets(documents: list[Document], release: Release) -> Iterator[Finding]:
    """Yield GK1403 for each object, not a Secret, with a text of a Secret's values."""
    for given in release.inputs.values:
        if not given.secret:
            continue
        parsed = parse_file(given.text.encode("utf-8", "surrogatepass"), "values")
        texts = {
            text
            for document in parsed.documents
            for text in values_in(document.obj)
            if len(text) >= _TRACEABLE
        }
        for document in documents:
            if isinstance(document.obj, dict) and document.obj.get("kind") != "Secret":
                values = "\n".join(values_in(document.obj))
                if any(text in values for text in texts):
                    yield _exposed(document, given.origin)


def _exposed(document: Document, origin: str) -> Finding:
    kind = shown(str(document.obj.get("kind")))
    return Finding(
        code="GK1403",
        message=f"a value of {origin} goes into a {kind}",
        places=(SourcePlace(file=document.file, line=document.line),),
        notes=(
            ("why", "what is not in a Secret is shown in plans, records and to every reader"),
            ("next", "use it in a Secret, or move it to a ConfigMap if it is none"),
        ),
    )


def _assumptions(chart: ChartFiles, release: Release) -> Iterator[Finding]:
    """Yield warnings about facts of a cluster that was not asked."""
    inputs = release.inputs
    place = SourcePlace(file=chart.chart_file)
    if inputs.unread:
        yield Finding(
            code="GK3412",
            message=f"rendered without the values of {', '.join(inputs.unread)}",
            places=(place,),
            notes=(("why", inputs.why),),
            severity=Severity.WARNING,
        )
    if inputs.assumed and chart.mentions(b"Capabilities", b"kubeVersion"):
        yield Finding(
            code="GK3412",
            message=f"rendered for Kubernetes {inputs.kube_version}, which is assumed",
            places=(place,),
            notes=(
                ("why", "the chart depends on the cluster's version, and none was asked"),
                ("next", "set render.helm.kubeVersion"),
            ),
            severity=Severity.WARNING,
        )
