"""The folders of a repository that become units, and the text of a gitkruise.yaml for them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from gitkruise.errors import InvalidManifests
from gitkruise.git.kustomize.render import Renderer
from gitkruise.git.manifests.ignore import Ignored
from gitkruise.git.manifests.reader import PLAIN, Manifests, read_desired
from gitkruise.git.parsing.parse_cache import ParseCache
from gitkruise.git.plumbing.trees import clean_path
from gitkruise.git.repository.repository import Repository
from gitkruise.model.gitops.config import UNIT_KIND
from gitkruise.wire.primitives.names import KUSTOMIZATION_NAMES, key_of

TOP: Final = "."
CHART: Final = "Chart.yaml"
_NAME_MAX: Final = 63  # of a DNS label
_PLAIN_TEXT: Final = re.compile(r"[A-Za-z][\w./-]*")
_OTHER_TYPES: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


@dataclass(frozen=True, slots=True)
class UnitFolder:
    """A folder of the repository; `objects` is None where kustomize renders it."""

    path: str
    objects: int | None


@dataclass(frozen=True, slots=True)
class RepositoryLayout:
    """Units by path.

    `alternatives` are kustomizations that share a base, of which a cluster gets one. `left_out`
    are folders of manifests next to kustomizations, `charts` those of Helm charts; `declared` are
    the files with a Unit.
    """

    units: tuple[UnitFolder, ...]
    alternatives: tuple[tuple[str, ...], ...] = ()
    left_out: tuple[str, ...] = ()
    charts: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()


def layout_of(repository: Repository, commit: str) -> RepositoryLayout:
    """Return units for the manifests of a commit.

    A kustomization that no other one uses is a unit. Other manifests are one for each folder of
    the top level, or for the repository if its top folder has manifests; folders that also contain
    a kustomization or a chart are divided further.
    """
    return _Folders(repository, commit).layout()


def chosen_units(repository: Repository, commit: str, paths: Iterable[str]) -> RepositoryLayout:
    """Return units for these folders. Raises SourceFailed GK3202 for one that does not exist."""
    folders = _Folders(repository, commit)
    return RepositoryLayout(
        tuple(folders.unit(path) for path in dict.fromkeys(map(clean_path, paths)))
    )


@dataclass(slots=True)
class _Folders:
    """Folders of a commit; "" is the top."""

    repository: Repository
    commit: str
    cache: ParseCache = field(default_factory=ParseCache)
    files: dict[str, list[str]] = field(default_factory=dict)  # names by folder
    known: dict[str, Manifests] = field(default_factory=dict)  # what was read, by folder

    def __post_init__(self) -> None:
        ignored = Ignored(self.repository, self.commit, "", ())
        for entry in self.repository.list_tree(self.commit):
            parts = PurePosixPath(entry.path).parts
            hidden = any(part.startswith(".") for part in parts)
            if entry.is_file and not hidden and entry.path not in ignored:
                self.files.setdefault("/".join(parts[:-1]), []).append(parts[-1])

    def layout(self) -> RepositoryLayout:
        kustomized = self._kustomized()
        used = {folder for own, all_ in kustomized.items() for folder in all_ if folder != own}
        roots = {own: kustomized[own] for own in sorted(kustomized.keys() - used)}
        charts = sorted(folder for folder, names in self.files.items() if CHART in names)
        rendered = frozenset({*kustomized, *used, *charts})
        plain = dict(self._plain("", rendered))
        found = [unit for path, whole in plain.items() if whole and (unit := self._read(path))]
        groups = _sharing(roots)
        alone = (UnitFolder(group[0] or TOP, None) for group in groups if len(group) == 1)
        return RepositoryLayout(
            units=tuple(sorted([*found, *alone], key=lambda unit: unit.path)),
            alternatives=tuple(group for group in groups if len(group) > 1),
            left_out=tuple(
                path or TOP
                for path, whole in plain.items()
                if not whole and self._objects(path, own=True)
            ),
            charts=tuple(charts),
            declared=self._declared(),
        )

    def unit(self, path: str) -> UnitFolder:
        """Return a folder as a unit. Raises SourceFailed GK3202."""
        self.repository.tree_id(self.commit, path)
        rendered = any(name in KUSTOMIZATION_NAMES for name in self.files.get(path, ()))
        return UnitFolder(path or TOP, None if rendered else self._objects(path))

    def _kustomized(self) -> dict[str, frozenset[str]]:
        """Folders with a kustomization, and all that each is made of."""
        renderer, found = Renderer(self.repository, self.cache), {}
        for folder, names in self.files.items():
            if any(name in KUSTOMIZATION_NAMES for name in names):
                try:
                    made_of = renderer.content(self.commit, folder)[1]
                except InvalidManifests:  # a plan of the unit says what is wrong with it
                    made_of = (folder,)
                found[folder] = frozenset(made_of)
        return found

    def _plain(self, folder: str, rendered: frozenset[str]) -> Iterator[tuple[str, bool]]:
        """Yield the uppermost folders with nothing in them that is rendered, and False with those
        whose own files no unit can have without the rest."""
        if folder in rendered:
            return
        begin = f"{folder}/" if folder else ""
        whole = not any(path.startswith(begin) for path in rendered)
        if whole and (folder or self._objects("", own=True)):
            yield folder, True
            return
        yield folder, False
        inside = (path[len(begin) :] for path in self.files if path.startswith(begin))
        for name in sorted({rest.partition("/")[0] for rest in inside} - {""}):
            yield from self._plain(begin + name, rendered)

    def _read(self, path: str) -> UnitFolder | None:
        objects = self._objects(path)
        return UnitFolder(path or TOP, objects) if objects else None

    def _objects(self, path: str, *, own: bool = False) -> int:
        """Count the objects of a folder; its `own` without those of the folders in it."""
        documents = self._manifests(path).documents
        if not own:
            return len(documents)
        return sum(str(PurePosixPath(d.file).parent) == (path or TOP) for d in documents)

    def _declared(self) -> tuple[str, ...]:
        read = self._manifests("")
        found = (
            d for d in (*read.config, *read.documents) if key_of(d.obj).group_kind == UNIT_KIND
        )
        return tuple(sorted({document.file for document in found}))

    def _manifests(self, path: str) -> Manifests:
        if path not in self.known:
            read = read_desired(
                self.repository, self.commit, path, rendering=PLAIN, cache=self.cache
            )
            self.known[path] = read
        return self.known[path]


def _sharing(roots: Mapping[str, frozenset[str]]) -> list[tuple[str, ...]]:
    """Group kustomizations that have a folder in common."""
    groups: list[tuple[set[str], set[str]]] = []
    for root, made_of in roots.items():
        names, folders = {root}, set(made_of)
        for other in [group for group in groups if group[1] & folders]:
            groups.remove(other)
            names |= other[0]
            folders |= other[1]
        groups.append((names, folders))
    return [tuple(sorted(names)) for names, _ in groups]


def config_text(name: str, branch: str, paths: Sequence[str]) -> str:
    """Return gitkruise.yaml for units of the repository `name`; each commented line can be used.

    Names are made unique, and are DNS labels.
    """
    label = dns_label(name)
    source = _scalar(label)
    documents = [_HEAD + _SOURCE.format(source=source, branch=_scalar(branch))]
    documents.append(_SINK.format(source=source))
    taken: set[str] = set()
    for number, path in enumerate(paths):
        own = unique(label if path == TOP else dns_label(path), taken)
        text = _UNIT.format(name=_scalar(own), source=source, path=_scalar(path))
        documents.append(text + (_CHOICES if number == 0 else ""))
    return "---\n".join(documents)


def dns_label(text: str) -> str:
    """Return a name for an object: lower-case letters, digits and dashes of a text."""
    label = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return label[:_NAME_MAX].strip("-") or "repository"


def unique(label: str, taken: set[str]) -> str:
    """Return a label that is not taken, with a number if need be, and take it."""
    found, number = label, 1
    while found in taken:
        number += 1
        end = f"-{number}"
        found = label[: _NAME_MAX - len(end)] + end
    taken.add(found)
    return found


def _scalar(text: str) -> str:
    """Return a text as YAML, in quotes where it would be something else without them."""
    plain = _PLAIN_TEXT.fullmatch(text) or text == TOP
    return text if plain and text.lower() not in _OTHER_TYPES else json.dumps(text)


_HEAD: Final = """\
# What gitkruise follows, and where it writes the outcome. `gitkruise explain unit.spec` lists every
# field; what is commented out below is a choice.
"""
_SOURCE: Final = """\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata:
  name: {source}
spec:
  url: . # this repository; a cluster needs an address that it reaches: https:// or ssh://
  ref:
    branch: {branch}
  # interval: 5s # between two looks at the branch
  # verify: # apply signed commits only
  #   mode: head
  #   secretRef:
  #     name: trusted-keys
"""
_SINK: Final = """\
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata:
  name: outcome
spec:
  git:
    sourceRef:
      name: {source}
    branch: gitkruise/status/{{cluster}} # `gitkruise history` and `gitkruise why` read it
"""
_UNIT: Final = """\
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata:
  name: {name}
spec:
  sourceRef:
    name: {source}
  path: {path}
  sinkRef:
    name: outcome
"""
_CHOICES: Final = """\
  # target:
  #   namespace: shop # of objects that name none
  #   createNamespace: true
  # approval: risky # recreated pods and deletions wait for a person
  # serviceAccountName: deployer # whose rights gitkruise uses for the objects
  # windows: # when new commits are applied
  #   - kind: allow
  #     schedule: 0 9 * * 1-5
  #     duration: 8h
  #     timeZone: Europe/Berlin
"""
