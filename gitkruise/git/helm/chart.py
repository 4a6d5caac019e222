"""The files of a chart: those of a commit's folder or of an archive, and files with values."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from gitkruise.errors import Finding, InvalidManifests, SourceFailed, SourcePlace
from gitkruise.git.helm.archive import ANOTHER_VERSION, files_of
from gitkruise.git.helm.release import FetchedChart, Release
from gitkruise.git.rendering.copied_files import CopiedFiles
from gitkruise.git.rendering.program import refused
from gitkruise.git.repository.repository import Repository
from gitkruise.model.gitops.document import Document
from gitkruise.printable import shown

CHART_FILE: Final = "Chart.yaml"
_SCHEMA: Final = "values.schema.json"
_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_META_SCHEMA: Final = ("http://json-schema.org/", "https://json-schema.org/")
_DEPTH: Final = 200  # of a schema


class ChartFiles:
    """Files of the chart in a folder of a commit, or of one that was fetched, and of a release's
    values, all of one commit."""

    def __init__(self, repository: Repository, commit: str, folder: str, release: Release) -> None:
        """Collect the files. Raises InvalidManifests for what is missing, a link or too much
        (GK3011, GK3404, GK3406), and for a schema that refers to other documents (GK3402); for an
        archive as `archive.files_of`."""
        self.copied = CopiedFiles(repository, commit)
        self.fetched = release.inputs.chart
        if self.fetched is None:
            self.folder = folder
            self.copied.take_folder(folder)
        else:
            self.folder = self.fetched.folder
            self.copied.take_archive(self.folder, files_of(self.fetched, _cached(self.fetched)))
        if self.chart_file not in self.copied.entries:
            message = f"there is no {CHART_FILE} in {shown(folder or '.')}"
            raise refused("GK3404", message, folder)
        for path in self.copied.entries:
            if posixpath.basename(path) == _SCHEMA:
                self._check_schema(path)
        self.values_files = tuple(self._values_file(path) for path in release.values_files)

    @property
    def chart_file(self) -> str:
        """Path of the chart's description."""
        return posixpath.join(self.folder, CHART_FILE)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Folders and files of the repository that the outcome depends on."""
        folders = (self.folder,) if self.fetched is None else ()
        return (*folders, *dict.fromkeys(self.values_files))

    @property
    def try_it(self) -> str:
        """Return the command of helm that a user tries the chart with."""
        if self.fetched is not None:
            return self.fetched.try_it
        values = "".join(f" --values {shown(path)}" for path in self.values_files)
        return f"helm template {shown(self.folder or '.')}{values}"

    def digest(self, release: Release) -> str:
        """Name the files and the release, as far as `Release.digest` does."""
        return self.copied.digest([self.folder, *self.values_files, release.digest()])

    def description(self) -> Document:
        """Return Chart.yaml. Raises InvalidManifests."""
        return self._one(self.chart_file)

    def check_name(self) -> None:
        """Raise InvalidManifests GK3415 for a fetched chart that is another than its repository
        says: records name what runs."""
        if self.fetched is None:
            return
        description = self.description().obj
        name, version = str(description.get("name")), str(description.get("version"))
        plain = version.removeprefix("v"), self.fetched.version.removeprefix("v")
        if name != self.fetched.name or plain[0] != plain[1]:
            message = f"the archive of {self.fetched} has chart {shown(name)} {shown(version)}"
            raise InvalidManifests(
                Finding(
                    code="GK3415",
                    message=message,
                    places=(SourcePlace(file=self.chart_file),),
                    notes=(("next", ANOTHER_VERSION),),
                )
            )

    def values_documents(self) -> Iterator[Document]:
        """Yield the values of the chart and of the files, as far as they can be read."""
        own = posixpath.join(self.folder, "values.yaml")
        for path in (own, *self.values_files):
            if path in self.copied.entries:
                yield from self.copied.parse(path).documents

    def mentions(self, *words: bytes) -> bool:
        """Return whether a file has one of the words, or is an archive, whose files are unread."""
        return any(
            path.endswith(".tgz") or any(word in self.copied.read(path) for word in words)
            for path in self.copied.entries
        )

    def _one(self, path: str) -> Document:
        if (found := self.copied.parse(path).one_object()) is not None:
            return found
        raise refused("GK3408", f"{shown(path)} is not one object", path)

    def _values_file(self, path: str) -> str:
        where = posixpath.normpath(path)
        if where.startswith(("/", "../")) or where in {"..", "."}:
            raise refused("GK3404", f"{shown(path)} is outside the repository", self.folder)
        if where in self.copied.entries or self.copied.take_file(where):
            return where
        notes = (("next", "correct render.helm.valuesFiles: paths begin at the repository's root"),)
        place = SourcePlace(file=self.folder or ".")
        message = f"the file of values {shown(path)} is not in the repository"
        raise InvalidManifests(
            Finding(code="GK3404", message=message, places=(place,), notes=notes)
        )

    def _check_schema(self, path: str) -> None:
        """Refuse a schema that names another document: helm would read it, wherever it is."""
        try:
            schema = json.loads(self.copied.read(path))
            named = next(_elsewhere(schema, _DEPTH), None)
        except (ValueError, RecursionError) as error:
            raise refused("GK3408", f"{shown(path)} is not JSON", path) from error
        if named is not None:
            message = f"{shown(path)} refers to another document: {shown(named)}"
            raise refused("GK3402", message, path)


def _cached(chart: FetchedChart) -> bytes:
    """Return the archive. Raises SourceFailed GK3416 where the cache lost it meanwhile."""
    try:
        return Path(chart.archive).read_bytes()
    except OSError as error:
        raise SourceFailed(
            Finding(
                code="GK3416",
                message=f"the cached archive of {chart} cannot be read: {error.strerror or error}",
                notes=(("unchanged", "what runs stays as it is; it is fetched again"),),
            )
        ) from error


def _elsewhere(schema: Any, depth: int) -> Iterator[str]:
    """Yield what a schema refers to outside itself. Raises ValueError for one that is too deep."""
    if depth == 0:
        raise ValueError("too deep")
    inside = schema if isinstance(schema, list) else []
    if isinstance(schema, Mapping):
        inside = [*schema.values()]
        for name, value in schema.items():
            if name in _REFERENCES and isinstance(value, str) and not value.startswith("#"):
                yield value
            if name == "$schema" and not str(value).startswith(_META_SCHEMA):
                yield str(value)
    for one in inside:
        yield from _elsewhere(one, depth - 1)
