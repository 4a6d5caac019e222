"""A git repository, read in place or through a bare mirror."""

from __future__ import annotations

import functools
import hashlib
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from gitkruise.errors import Finding, InvalidManifests, PathMissing, RefMissing, SourceFailed
from gitkruise.git.plumbing import process, tree_walk
from gitkruise.git.plumbing.ancestry import FIRST, UNSHALLOW, Lineage
from gitkruise.git.plumbing.commits import parse_commit, parse_imported, tree_of
from gitkruise.git.plumbing.errors import (
    RefMoved,
    no_known_hosts,
    no_repository,
    push_refused,
    ref_missing,
)
from gitkruise.git.plumbing.object_db import ObjectReader, damaged, write_loose
from gitkruise.git.plumbing.process import GitCredentials, Result, git_command
from gitkruise.git.plumbing.refs import (
    PROTOCOLS,
    Remote,
    full_ref,
    hide_password,
    is_object_id,
    is_ref,
    parse_url,
)
from gitkruise.git.plumbing.trees import TreeEntry, clean_path
from gitkruise.git.repository.launcher import launcher
from gitkruise.git.repository.mirror import (
    check_git_version,
    ensure_mirror,
    local_git_dir,
    make_mirror,
    not_here,
)
from gitkruise.git.repository.remote import (
    HEAD,
    TAGS,
    Keyring,
    RefState,
    RemoteEnd,
    RemoteRefs,
    keyring_of,
)
from gitkruise.printable import shown

__all__ = ["GitCredentials", "RefMoved", "Repository"]

_LOCAL_S: Final = 60.0
_AT_ONCE: Final = 32  # files of one exchange with git
IMPORTED: Final = "oci"  # protocol of a repository that another program fills


class Repository:
    """One repository. Blocking, safe to share between threads. Raises SourceFailed (GK3xxx).

    A repository of this machine is read in place; any other has a bare mirror that `fetch` fills.
    """

    def __init__(
        self,
        remote: Remote,
        git_dir: Path,
        *,
        credentials: Keyring,
        timeout_s: float,
        far: RemoteEnd | None = None,
    ) -> None:
        """`far`: another process asks the remote for what is not in `git_dir`."""
        self.url = hide_password(remote.url)
        self.git_dir = git_dir
        self.local = remote.path is not None
        self._launch = launcher(remote)
        if far is None and not self.local:
            far = RemoteEnd(remote, git_dir, self._launch, credentials, timeout_s)
        self._far = far
        self._reader = ObjectReader(
            functools.partial(self._launch, git_command(git_dir, ["cat-file", "--batch-command"]))
        )
        self.read_ahead = self._reader.read_ahead  # has files ready that `read_blob` is asked for
        deepen = None if far is None else self.deepen
        self.is_imported = remote.protocol == IMPORTED
        parse = parse_imported if self.is_imported else parse_commit
        lineage = self._lineage = Lineage(git_dir, self._run, self._reader, deepen, parse)
        self.commit, self.message, self.has = lineage.commit, lineage.message, lineage.has
        self.is_ancestor, self.merge_base = lineage.is_ancestor, lineage.merge_base
        self.commits_between, self.files_touched = lineage.commits_between, lineage.files_touched

    @classmethod
    def open(
        cls,
        url: str,
        *,
        mirrors: Path | None = None,
        credentials: GitCredentials | Keyring | None = None,
        protocols: Collection[str] = PROTOCOLS,
        timeout_s: float = 60.0,
    ) -> Repository:
        """The repository at `url`. No network yet.

        Without a directory for `mirrors` only one of this machine: SourceFailed GK3103 for others.
        """
        remote = parse_url(url, protocols=protocols)
        launch = launcher(remote)
        check_git_version(launch)
        secrets = keyring_of(credentials)
        if remote.path is not None:
            git_dir = local_git_dir(remote.path, url)
        elif mirrors is None:
            raise not_here(url)
        else:
            if remote.protocol == "ssh" and not secrets.now.known_hosts:
                raise no_known_hosts(hide_password(url))
            git_dir = _mirror_of(mirrors, url)
            ensure_mirror(launch, git_dir)
        return cls(remote, git_dir, credentials=secrets, timeout_s=timeout_s)

    @classmethod
    def imported(cls, url: str, mirrors: Path) -> Repository:
        """The bare repository for what is imported from `url`, which git does not speak to."""
        git_dir = _mirror_of(mirrors, url)
        remote = Remote(url=url, protocol=IMPORTED, path=git_dir)
        launch = launcher(remote)
        check_git_version(launch)
        ensure_mirror(launch, git_dir)
        return cls(remote, git_dir, credentials=keyring_of(None), timeout_s=_LOCAL_S)

    def close(self) -> None:
        self._reader.close()
        if self._far is not None:
            self._far.close()

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- refs ---------------------------------------------------------------------------------

    def ls_refs(self, names: Collection[str]) -> RemoteRefs:
        """State of refs now; asks the remote once. Names are full refs, TAGS and HEAD.

        A ref that is not there, or leads to no commit, is not in the answer. Raises SourceFailed
        GK3103 for a repository of this machine that was deleted.
        """
        if self._far is not None:
            return self._far.ls_refs(names)
        if not self.git_dir.exists():
            raise no_repository(self.url, "the folder is gone")
        head = self._own_head() if HEAD in names else ""
        asked = [name for name in names if name not in {HEAD, TAGS}]
        asked += [head] if head else []
        asked += self.refs("refs/tags") if TAGS in names else []
        states = {name: self._state(name) for name in asked}
        return RemoteRefs({name: state for name, state in states.items() if state}, head)

    def _state(self, name: str) -> RefState | None:
        (info,) = self._reader.info([name])
        if info is None:
            return None
        commit = info.id if info.kind == "commit" else self._reader.peel(info.id)
        return RefState(info.id, commit) if commit else None

    def follow(self, names: Collection[str]) -> RemoteRefs | None:
        """`ls_refs` of branches that are known here, and what they hold now brought here in the
        same conversation; None where there are other names, or a branch is gone."""
        if self._far is None or not all(name.startswith("refs/heads/") for name in names):
            return None
        here = self._states(names)
        if not here.keys() >= set(names):
            return None
        announced = self._far.listed(names)
        if announced is not None and announced.refs == here:
            return announced
        if not self._far.fetch_known({name: _kept(name) for name in here}):
            return None
        return RemoteRefs(self._states(names))

    def _states(self, names: Collection[str]) -> dict[str, RefState]:
        """State that refs had when they were brought here."""
        return {name: state for name in names if (state := self._state(_kept(name)))}

    def fetch_refs(self, wanted: Mapping[str, RefState]) -> dict[str, str]:
        """Make announced refs present here, by one fetch; the commit each has now.

        That is what git verified; it may be newer than what was announced a moment ago.
        """
        if self._far is None:
            return {name: state.commit for name, state in wanted.items()}
        self._match_algorithm(wanted.values())
        missing = {
            name: _kept(name) for name, state in wanted.items() if not self._here(name, state)
        }
        if missing:
            self._far.fetch(missing, latest=FIRST if self._unrelated(missing) else 0)
        found = {name: self._reader.peel(_kept(name)) for name in missing}
        for name, commit in found.items():
            if commit is None:
                raise damaged(wanted[name].commit, "commit")
        return {name: found.get(name) or state.commit for name, state in wanted.items()}

    def _unrelated(self, names: Iterable[str]) -> bool:
        """Return whether refs that are not here yet say little of each other: branches, new tags.

        Of those the latest commits are brought; the rest of their history when it is asked for.
        """
        new = [name for name in names if self._state(_kept(name)) is None]
        tags = any(name.startswith("refs/tags/") for name in new) and not self.tags()
        starts = ("refs/heads/", "refs/tags/") if tags else ("refs/heads/",)
        return len(new) > 0 and all(name.startswith(starts) for name in names)

    def deepen(self, further: int) -> None:
        """Bring so many more commits of everything that is followed; 0 for all."""
        assert self._far is not None
        kept = [name.removeprefix("refs/gitkruise/") for name in self.refs("refs/gitkruise")]
        self._far.deepen(kept, further)

    def _here(self, name: str, state: RefState) -> bool:
        """Return whether a commit is here; an annotated tag must be here itself, too."""
        (info,) = self._reader.info([state.id if state.id == state.commit else _kept(name)])
        return info is not None and info.id == state.id

    def bring_commit(self, commit: str) -> bool:
        """Ask the server for a commit by its id; whether it is here now."""
        if self._far is not None and not self.here(commit):
            self._far.fetch({commit: f"refs/gitkruise/commits/{commit}"})
        return self.here(commit)

    def here(self, commit: str) -> bool:
        """Return whether a commit is here now, without its history; `has` would fetch that."""
        return self._reader.peel(commit) == commit

    def tip(self, ref: str) -> str:
        """Commit id a branch or full ref has now; asks the remote. Raises GK3201."""
        return self._tip(ref)[1].commit

    def _tip(self, ref: str) -> tuple[str, RefState]:
        name = full_ref(ref)
        found = self.ls_refs([name]).refs.get(name)
        if found is None:
            raise ref_missing(self.url, ref, self._local_refs() if self.local else [])
        return name, found

    def fetch(self, ref: str) -> str:
        """tip(), with the commit and all it needs present here."""
        name, state = self._tip(ref)
        return self.fetch_refs({name: state})[name]

    def default_branch(self) -> str:
        """The full ref the repository's HEAD names."""
        name = self.ls_refs([HEAD]).head if self._far else self._own_head()
        if not name:
            raise ref_missing(self.url, HEAD, [])
        return name

    def head(self) -> str:
        """The commit that the repository's HEAD names, by a branch or by itself. Raises GK3201."""
        if self._far:
            return self.resolve(self.default_branch())
        return self.named(HEAD)

    def _own_head(self) -> str:
        result = self._run(["symbolic-ref", "--quiet", HEAD])
        name = result.output.decode("utf-8", "replace").strip()
        return name if is_ref(name) else ""

    def tag_object(self, ref: str) -> str:
        """Id of the annotated tag a full ref of a tag holds here; "" where it is none."""
        (info,) = self._reader.info([ref if self.local else _kept(ref)])
        return info.id if info is not None and info.kind == "tag" else ""

    def tags(self) -> list[str]:
        """Full names of the tags known here."""
        if self.local:
            return self.refs("refs/tags")
        kept = self.refs("refs/gitkruise/tags")
        return ["refs/" + name.removeprefix("refs/gitkruise/") for name in kept]

    def raw(self, name: str, kind: str) -> bytes:
        """The bytes of a commit or an annotated tag, as signed."""
        if kind == "commit":
            return self._lineage.contents(name)
        return self._reader.contents(name, kind)

    def resolve(self, ref: str) -> str:
        """Commit id of a branch, tag, full ref or commit id that is known here (no network)."""
        if is_object_id(ref):
            names = [ref]
        elif not is_ref(ref if ref.startswith("refs/") else f"refs/heads/{ref}"):
            raise ref_missing(self.url, ref, [])
        elif ref.startswith("refs/"):
            names = [ref] if self.local else [_kept(ref), ref]
        else:
            names = [f"refs/heads/{ref}", f"refs/gitkruise/heads/{ref}", f"refs/tags/{ref}"]
        for name in names:
            found = self._reader.peel(name)
            if found is not None:
                return found
        if is_object_id(ref) and self.has(ref):
            return ref
        found = self._abbreviated(ref)
        if found is None:
            raise ref_missing(self.url, ref, self._local_refs())
        return found

    def named(self, revision: str) -> str:
        """The commit a user means by `HEAD~2`, `main@{upstream}` or any other name git knows.

        HEAD of a new bare repository often names a branch that it has not: its only branch counts
        then. Raises SourceFailed GK3201.
        """
        found = None if "\n" in revision else self._reader.peel(f"{revision}^{{commit}}")
        bare = self.git_dir.name != ".git"
        if found is None and bare and revision == HEAD:
            found = self._only_branch()
        if found is None:
            place = self.git_dir if bare else self.git_dir.parent
            message = f'there is no commit "{revision}" in {place}'
            next_ = "git log --oneline --all   lists what is there; git fetch gets more"
            if revision == HEAD:
                next_ = "commit to the branch that HEAD names, push to it, or name another commit"
            elif self._lineage.is_cut:
                next_ = UNSHALLOW
            raise RefMissing(Finding(code="GK3201", message=message, notes=(("next", next_),)))
        return found

    def _only_branch(self) -> str | None:
        ours = "refs/heads/gitkruise/"
        branches = [name for name in self.refs("refs/heads/") if not name.startswith(ours)]
        return self.resolve(branches[0]) if len(branches) == 1 else None

    def _abbreviated(self, ref: str) -> str | None:
        if not re.fullmatch(r"[0-9a-f]{7,63}", ref):
            return None
        return self._reader.peel(f"{ref}^{{commit}}")

    def push_ref(self, ref: str, new: str, *, old: str | None) -> None:
        """Move the full ref from `old` (None: it must not exist) to `new`, never forced.

        Raises RefMoved when it is elsewhere. A remote takes it only as a fast-forward of `old`.
        """
        full_ref(ref)
        if not is_object_id(new):
            raise ValueError(f"{new!r} is no object id")
        if self.local:
            before = old or "0" * len(new)
            result = self._run(["update-ref", "--end-of-options", ref, new, before])
            if result.status != 0:
                raise push_refused(self.url, result.errors, result)
            return
        assert self._far is not None
        self._far.push(new, ref)

    def _local_refs(self) -> list[str]:
        return [name.removeprefix("refs/heads/") for name in self.refs("refs/heads")]

    def refs(self, *patterns: str) -> list[str]:
        """Full names of the refs known here that match a pattern (as for-each-ref), sorted."""
        if not all(pattern.startswith("refs/") for pattern in patterns):
            raise ValueError(f"{patterns!r}: an option or a short name")
        words = ["for-each-ref", "--count=10000", "--format=%(refname)", *patterns]
        return self._run(words).output.decode("utf-8", "replace").split("\n")[:-1]

    # -- content ------------------------------------------------------------------------------

    def find(self, commit: str, path: str = "") -> TreeEntry | None:
        """The entry at `path` ("" is the commit's tree); None when there is none."""
        root = tree_of(self._lineage.contents(commit))
        return tree_walk.find(self._reader, root, clean_path(path))

    def tree_id(self, commit: str, path: str = "") -> str:
        """Id of the tree or file at `path`. Equal id, equal content. Raises GK3202."""
        return self._existing(commit, path).id

    def list_tree(
        self, commit: str, path: str = "", *, enter: Callable[[str], bool] = lambda _: True
    ) -> list[TreeEntry]:
        """Everything but folders below `path`, sorted. `enter` says which folders to look into."""
        root = self._existing(commit, path)
        return tree_walk.leaves(self._reader, root, enter) if root.is_tree else [root]

    def changed_paths(self, old: str, new: str, path: str = "") -> list[str]:
        """Files below `path` that differ between two commits, sorted."""
        before, after = self.find(old, path), self.find(new, path)
        return tree_walk.changed(self._reader, clean_path(path), before, after)

    def sizes(self, blobs: Sequence[str]) -> dict[str, int]:
        """Size in bytes of each blob, known without reading it."""
        infos = self._reader.info(list(blobs))
        missing = [blob for blob, info in zip(blobs, infos, strict=True) if info is None]
        if missing and self._far is not None:
            self._far.fetch_objects(missing)
            infos = self._reader.info(list(blobs))
        for blob, info in zip(blobs, infos, strict=True):
            if info is None:
                raise damaged(blob, "blob")
        return {info.id: info.size for info in infos if info is not None}

    def fetch_files(self, commit: str, paths: Iterable[str]) -> None:
        """Fetch every manifest below `paths` together, before many units read theirs one by one.

        A path that is missing, or cannot be listed, is skipped: its reader reports the error.
        """
        if self.local:
            return
        wanted: set[str] = set()
        for path in sorted(set(paths)):
            try:
                if self.find(commit, path) is not None:
                    entries = self.list_tree(commit, path)
                    wanted |= {e.id for e in entries if e.is_file and _is_manifest(e.path)}
            except InvalidManifests:
                continue
        self.sizes(sorted(wanted))

    def read_blob(self, blob: str) -> bytes:
        """A file's bytes. Ask `sizes` first where the size is not known to be small."""
        try:
            return self._reader.contents(blob, "blob")
        except SourceFailed:
            if self._far is None:
                raise
            self.sizes([blob])  # it may have stayed at the server
            return self._reader.contents(blob, "blob")

    def read_blobs(self, blobs: Sequence[str]) -> Iterator[bytes]:
        """Yield the bytes of many small files in order; one by one each would wait for git."""
        for at in range(0, len(blobs), _AT_ONCE):
            some = blobs[at : at + _AT_ONCE]
            self.read_ahead(some)
            yield from map(self.read_blob, some)

    def read_tree(self, tree: str) -> tuple[TreeEntry, ...]:
        return self._reader.tree(tree)

    def write_object(self, kind: str, data: bytes) -> str:
        """Store a blob, tree or commit in this repository or its mirror; its id."""
        return write_loose(self._objects, kind, data, algorithm=self._algorithm)

    def _existing(self, commit: str, path: str) -> TreeEntry:
        found = self.find(commit, path)
        if found is None:
            message = f"there is no {shown(path)} at {commit[:7]}"
            notes = (
                ("unchanged", "nothing is deleted because a path is missing"),
                ("next", "put the folder back, or change the path that is followed"),
            )
            raise PathMissing(Finding(code="GK3202", message=message, notes=notes))
        return found

    # -- running git --------------------------------------------------------------------------

    @functools.cached_property
    def _objects(self) -> Path:
        result = self._run(["rev-parse", "--git-path", "objects"])
        path = Path(result.output.decode().strip())
        return path if path.is_absolute() else self.git_dir / "objects"

    @functools.cached_property
    def _algorithm(self) -> str:
        return self._run(["rev-parse", "--show-object-format"]).output.decode().strip() or "sha1"

    def _match_algorithm(self, states: Iterable[RefState]) -> None:
        """Recreate an empty mirror in the object format that the server announces."""
        if any(len(s.id) != (64 if self._algorithm == "sha256" else 40) for s in states):
            self._start_mirror_anew("sha1" if self._algorithm == "sha256" else "sha256")

    def _start_mirror_anew(self, algorithm: str) -> None:
        self._reader.start_anew()
        shutil.rmtree(self.git_dir)
        make_mirror(self._launch, self.git_dir, algorithm)
        self.__dict__.pop("_algorithm", None)

    def _run(self, words: Sequence[str]) -> Result:
        command = git_command(self.git_dir, words)
        child = self._launch(command)
        return process.collect(child, timeout_s=_LOCAL_S, output_max=process.OUTPUT_MAX)


def _mirror_of(mirrors: Path, url: str) -> Path:
    return mirrors / hashlib.sha256(url.encode()).hexdigest()[:20]


def _kept(name: str) -> str:
    """The ref of a mirror for a ref of its remote."""
    return "refs/gitkruise/" + name.removeprefix("refs/")


def _is_manifest(path: str) -> bool:
    return path.lower().endswith((".yaml", ".yml", ".json"))
