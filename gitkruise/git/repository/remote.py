"""The far end of a repository: its refs listed, commits and files brought here, refs pushed."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from gitkruise.git.plumbing import process
from gitkruise.git.plumbing.errors import (
    NOT_PUSHED,
    NOT_SEEN,
    no_git_server,
    refusal,
    remote_failure,
)
from gitkruise.git.plumbing.process import (
    GitCredentials,
    Launch,
    Result,
    git_command,
    private_environment,
)
from gitkruise.git.plumbing.refs import Remote, hide_password, is_object_id, is_ref
from gitkruise.git.repository.packing import Packing
from gitkruise.git.repository.ref_listing import ListedRef, RefListing

TAGS: Final = "refs/tags/*"
HEAD: Final = "HEAD"
_REFS_MAX: Final = 10_000
_OBJECTS_AT_ONCE: Final = 20_000
_SYMREF: Final = re.compile(r"ref: (\S+)\tHEAD")
# Files stay at the server until a unit asks for them: all of them at first, and later, when little
# is new, those that are too large for a manifest. What a server does not know is tried no more.
_FILTERS: Final = ("blob:limit=64k", "blob:none", "")
_WHOLE: Final = "--depth=2147483647"  # as --unshallow, and no error where nothing is cut
_UNKNOWN_FILTER: Final = re.compile(r"filter '[^']*' not supported")
ErrorOf: TypeAlias = Callable[[Result], Exception | None]  # knows a failure better, if not None
_FETCH: Final = (
    "fetch", "--quiet", "--no-tags", "--no-auto-gc", "--no-write-fetch-head",
    "--no-recurse-submodules",
)  # fmt: skip


class RefState(NamedTuple):
    """The target of a ref (a commit, or an annotated tag), and the commit that leads to."""

    id: str
    commit: str


@dataclass(frozen=True, slots=True)
class RemoteRefs:
    """State of refs by full name; and the full name HEAD has, "" if that was not asked."""

    refs: Mapping[str, RefState]
    head: str = ""


class Keyring:
    """Credentials that may be others the next time git is started: they rotate while in use."""

    def __init__(self, now: GitCredentials) -> None:
        self.now = now


def keyring_of(given: GitCredentials | Keyring | None) -> Keyring:
    return given if isinstance(given, Keyring) else Keyring(given or GitCredentials())


class _Gone(Exception):
    """A ref is not at the remote any more."""


class _NoFilter(Exception):
    """The server does not leave out files by this measure."""


def _gone(result: Result) -> Exception | None:
    return _Gone() if "couldn't find remote ref" in result.errors else None


def _or(judge: ErrorOf, kept_back: str) -> ErrorOf:
    """`judge`, unless it is the filter that the server does not take."""

    def judged(result: Result) -> Exception | None:
        refused = kept_back and _UNKNOWN_FILTER.search(result.errors)
        return _NoFilter() if refused else judge(result)

    return judged


class RemoteEnd:
    """One remote as git speaks to it, one conversation at a time. Raises SourceFailed GK31xx."""

    def __init__(
        self, remote: Remote, git_dir: Path, launch: Launch, keyring: Keyring,
        timeout_s: float,
    ) -> None:  # fmt: skip
        self.url = hide_password(remote.url)
        self._remote, self._git_dir, self._launch = remote, git_dir, launch
        self._keyring, self._timeout_s = keyring, timeout_s
        self._failures = 0  # in a row
        self._filters = [*_FILTERS]
        self._met = False  # whether commits came from there already
        self._packing = Packing(git_dir, launch)
        self._listing = RefListing(remote)
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connection to the server."""
        with self._lock:
            self._listing.close()

    def ls_refs(self, names: Collection[str]) -> RemoteRefs:
        """List the named refs. Names are full refs, TAGS and HEAD."""
        return self.listed(names) or self._by_git(names)

    def listed(self, names: Collection[str]) -> RemoteRefs | None:
        """`ls_refs` without a start of git; None where that does not do. Git meets a server first,
        and is alone with one that failed: it says why."""
        if not self._met or self._failures:
            return None
        with self._lock:
            listed = self._listing.ask([_prefix(name) for name in names], self._keyring.now)
        return None if listed is None else _announced(listed, names)

    def _by_git(self, names: Collection[str]) -> RemoteRefs:
        words = ["ls-remote", "--quiet", "--symref", *_narrowed(names)]
        patterns = [pattern for name in sorted(names) for pattern in _patterns(name)]
        words += ["--end-of-options", self._remote.url, *patterns]
        result = self.talk(words)
        if not result.output and self._remote.protocol in {"http", "https"}:
            self._expect_git(words)
        return _announced(_printed(result.output.decode("utf-8", "replace")), names)

    def _expect_git(self, words: Sequence[str]) -> None:
        """Raise SourceFailed GK3103 for a server that does not answer as git does: git takes a page
        of one line, such as one to sign in, for a repository without refs."""
        if "packet:" not in self.talk(words, environment={"GIT_TRACE_PACKET": "1"}).errors:
            raise no_git_server(self.url)

    def fetch(self, refs: Mapping[str, str], *, latest: int = 0) -> None:
        """Bring the history of refs (or commit ids), kept here under the names they map to.

        Commits and folders come, files do not where the server can leave them out. With `latest`
        only so many commits of each come.
        """
        depth = [f"--depth={latest}"] if latest else []
        self._bring([*_FETCH, *depth, *_kept_as(refs)], judge=lambda _: None)

    def deepen(self, kept: Collection[str], further: int) -> None:
        """Bring `further` commits (0: all) where the history of kept refs is cut short.

        `kept` are names without refs/, or commits/ and an id; what is gone by now stays cut.
        """
        ids = [name.removeprefix("commits/") for name in kept if name.startswith("commits/")]
        names = {f"refs/{name}" for name in kept} - {f"refs/commits/{name}" for name in ids}
        asked = {TAGS if name.startswith("refs/tags/") else name for name in names}
        there = names & self.ls_refs(asked).refs.keys() if asked else set()
        words = [*_FETCH, f"--deepen={further}" if further else _WHOLE, "--stdin", "source"]
        data = "".join(f"{name}\n" for name in sorted({*ids, *there}))
        if data:
            self._bring(words, judge=lambda _: None, data=data.encode())

    def fetch_known(self, refs: Mapping[str, str]) -> bool:
        """`fetch` of refs that may be gone by now; whether there are any, and all of them there."""
        if not refs:
            return False
        try:
            self._bring([*_FETCH, *_kept_as(refs)], judge=_gone)
        except _Gone:
            return False
        return True

    def fetch_objects(self, ids: Iterable[str]) -> None:
        """Bring objects by id, such as the files of a commit."""
        wanted = list(ids)
        words = ["-c", "fetch.negotiationAlgorithm=noop", *_FETCH, "--stdin", "source"]
        for at in range(0, len(wanted), _OBJECTS_AT_ONCE):
            data = "".join(f"{name}\n" for name in wanted[at : at + _OBJECTS_AT_ONCE])
            self.talk(words, settings=self._partial(self._kept_back(met=False)), data=data.encode())
        self._pack()

    def push(self, new: str, ref: str) -> None:
        """Move `ref` to `new` as a fast-forward. Raises RefMoved, or SourceFailed GK3106."""
        words = ["push", "--porcelain", "--no-verify", "--no-signed", "--end-of-options"]
        words += [self._remote.url, f"{new}:{ref}"]
        self.talk(words, judge=partial(refusal, self.url), unchanged=NOT_PUSHED)
        self._pack()

    def _bring(self, words: Sequence[str], *, judge: ErrorOf, data: bytes = b"") -> None:
        """Run a fetch of commits without the files that may stay at the server."""
        for _ in _FILTERS:
            kept_back = self._kept_back(met=self._met and not data)
            settings, judged = self._partial(kept_back), _or(judge, kept_back)
            try:
                self.talk(words, settings=settings, judge=judged, data=data)
            except _NoFilter:
                self._filters.remove(kept_back)
                continue
            self._met = True
            self._pack()
            return

    def _pack(self) -> None:
        with self._lock:
            self._packing.pack(self._partial(_FILTERS[0]))

    def _kept_back(self, *, met: bool) -> str:
        """The filter for a fetch; `met` when little can be new."""
        return self._filters[0] if met or len(self._filters) == 1 else self._filters[-2]

    def _partial(self, kept_back: str) -> tuple[str, ...]:
        """Settings for a remote that keeps files back; git may meet objects that are not here."""
        where = (f"remote.source.url={self._remote.url}", "remote.source.promisor=true")
        return (*where, f"remote.source.partialCloneFilter={kept_back}") if kept_back else where

    def talk(
        self,
        words: Sequence[str],
        *,
        judge: ErrorOf = lambda _: None,
        settings: Sequence[str] = (),
        data: bytes = b"",
        unchanged: str = NOT_SEEN,
        environment: Mapping[str, str] = {},
    ) -> Result:
        """Run a command that speaks to the remote; `judge` may know a failure better."""
        options = [word for line in settings for word in ("-c", line)]
        # A server writes a file as its difference from one that it believes to be here.
        lazy = {"GIT_NO_LAZY_FETCH": "0"} if settings else {}
        with self._lock, private_environment(self._keyring.now) as env:
            command = git_command(
                self._git_dir,
                [*options, *words],
                protocols=[self._remote.protocol],
                environment={**env, **lazy, **environment},
                limited=True,
            )
            result = process.collect(
                self._launch(command),
                data,
                timeout_s=self._timeout_s,
                output_max=process.OUTPUT_MAX,
            )
            if result.status == 0 and not result.stopped:
                self._failures = 0
                return result
            known = judge(result)
            if known is not None:
                raise known
            self._failures += 1
            raise remote_failure(
                self.url, result, tries=self._failures, timeout_s=self._timeout_s,
                unchanged=unchanged,
            )  # fmt: skip


def _kept_as(refs: Mapping[str, str]) -> list[str]:
    kept = [f"+{name}:{here}" for name, here in sorted(refs.items())]
    return ["--end-of-options", "source", *kept]


def _narrowed(names: Collection[str]) -> list[str]:
    """Options that let a server send branches or tags alone, where all names are such."""
    kinds = {"--heads": "refs/heads/", "--tags": "refs/tags/"}
    needed = [o for o, start in kinds.items() if any(name.startswith(start) for name in names)]
    known = all(name.startswith(tuple(kinds.values())) for name in names)
    return needed if known else []


def _patterns(name: str) -> list[str]:
    return [name, name + "^{}"] if name.startswith("refs/") and name != TAGS else [name]


def _prefix(name: str) -> str:
    return name.removesuffix("*") if name == TAGS else name


def _printed(text: str) -> Iterator[ListedRef]:
    """Read the lines that `git ls-remote --symref` prints: each tag before what it leads to."""
    lines = text.splitlines()[:_REFS_MAX]
    found = _SYMREF.fullmatch(lines[0]) if lines else None
    ids = {name: value for value, _, name in (line.partition("\t") for line in lines)}
    for name, value in ids.items():
        target = found[1] if found and name == HEAD else ""
        yield ListedRef(name, value, ids.get(name + "^{}", ""), target)


def _announced(listed: Iterable[ListedRef], names: Collection[str]) -> RemoteRefs:
    """Exactly the refs asked for. (A server matches the beginning of names, git their end.)"""
    proper = {ref.name: ref for ref in listed if is_object_id(ref.id)}
    refs = {
        name: RefState(ref.id, ref.peeled if is_object_id(ref.peeled) else ref.id)
        for name, ref in itertools.islice(proper.items(), _REFS_MAX)
        if name in names or (TAGS in names and name.startswith("refs/tags/") and is_ref(name))
    }
    own = refs.pop(HEAD, None)
    head = proper[HEAD].target if own else ""
    if own is None or not is_ref(head):
        return RemoteRefs(refs)
    return RemoteRefs({**refs, head: own}, head)
