"""Verification: a commit may be read if it is signed as the source's `verify` requires."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from gitkruise.errors import Finding
from gitkruise.git.repository.repository import Repository
from gitkruise.git.signing.verify import UNCHECKED, UNSIGNED, Flaw, Signers, verify
from gitkruise.gitops.source.ancestry import newest_of
from gitkruise.kube.system.private_files import read_state, write_private
from gitkruise.model.gitops.config import Verify
from gitkruise.printable import shown
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
_TAG: Final = "refs/tags/"
_PASSED: Final = ".passed"  # ending of the file of commits that passed
_REMEMBERED: Final = 10_000
_TRIED: Final = 50
_WAYS: Final = frozenset({"firstParent", "range"})
_TAGS: Final = frozenset({"tag", "tagAndHead"})
_WAY_MAX: Final = 1_000  # commits between two looks
_TAG_NAME: Final = re.compile(rb"^tag (.*)$", re.MULTILINE)


class Trusted(Protocol):
    """Returns why a commit may not be read; None when it may. `ref` points to it, if known."""

    def __call__(self, commit: str, ref: str = "") -> Finding | None: ...


def anything(commit: str, ref: str = "") -> Finding | None:
    """Accept every commit: the source has no `verify`."""
    return None


def seen_file(folder: Path, source: str) -> Path:
    """Return the file of the commits that a source has seen. No other source has it as its own, or
    as its list of those that passed: a name of Kubernetes has no underscore."""
    name = source.replace("/", ".")
    return folder / (f"{name}_" if name.endswith(_PASSED) else name)


class FirstSeen:
    """The time each commit was first seen, kept in a file with one line `id seconds` each."""

    def __init__(self, path: Path | None, now: Callable[[], datetime]) -> None:
        self._path, self._now = path, now
        self._times: dict[str, int] = {}
        data = read_state(path) if path is not None else None
        if data is not None:
            words = (line.split() for line in data.decode("ascii", "replace").splitlines())
            self._times = {w[0]: int(w[1]) for w in words if len(w) == 2 and w[1].isdigit()}

    def beside(self, ending: str) -> FirstSeen:
        """Return another list, in a file of its own next to this one."""
        path = self._path.with_name(self._path.name + ending) if self._path else None
        return FirstSeen(path, self._now)

    def time(self, name: str) -> datetime:
        """Return when `name` was first seen, which may be now."""
        if name not in self._times:
            self._times[name] = int(self._now().timestamp())
            self._keep()
        return datetime.fromtimestamp(self._times[name], UTC)

    def newest(self, count: int) -> list[str]:
        """Return the objects seen last, newest first."""
        return list(reversed(self._times))[:count]

    def _keep(self) -> None:
        self._times = dict(list(self._times.items())[-_REMEMBERED:])
        if self._path is None:
            return
        text = "".join(f"{name} {at}\n" for name, at in self._times.items())
        try:
            write_private(self._path, text.encode("ascii"))
        except OSError as error:  # a full disk costs this memory and nothing more
            log.warning(log_line("first-sight-not-stored", error=error))


class Trust:
    """Verifies commits of one source. Blocking, safe to share between threads."""

    def __init__(
        self, repository: Repository, rules: Verify, signers: Signers, seen: FirstSeen
    ) -> None:
        self._repository, self._mode, self._signers = repository, rules.mode, signers
        self._seen, self._passed = seen, seen.beside(_PASSED)
        self._verdicts: dict[str, Flaw | None] = {}
        self._trusted: dict[str, None] = {}  # commits that passed in this process, oldest first
        self._live: frozenset[str] | None = None  # commits of live objects at the start
        self._lock = threading.Lock()

    @property
    def asks_for_live(self) -> bool:
        """Return whether the mode verifies from the live commit on, and the live commits are
        unknown."""
        return self._mode in _WAYS and self._live is None

    def start(self, live: frozenset[str]) -> None:
        """Set the commits of live objects: an earlier process verified them, with or without its
        state directory."""
        with self._lock:
            self._live = live

    def renew(self, signers: Signers) -> None:
        """Replace the trusted keys; commits that passed before stay accepted."""
        with self._lock:
            if signers != self._signers:
                self._signers = signers
                self._verdicts.clear()

    def check(self, commit: str, ref: str = "") -> Finding | None:
        """Return why `commit` may not be read; None when it may. `ref` points to it, if known.

        Without a ref a commit may also be read if it is in the history of one that passed in this
        process, or that an earlier process saw and that passes now.
        """
        with self._lock:
            if commit in self._trusted:
                return None
            finding = self._judge(commit, ref)
            if finding is not None and not ref and self._in_trusted_history(commit):
                finding = None
            if finding is None:
                self._trusted[commit] = None
                if ref and self._mode in _WAYS:
                    self._passed.time(commit)
            return finding

    def _judge(self, commit: str, ref: str) -> Finding | None:
        finding = self._head(commit) if self._mode != "tag" else None
        if finding is None and self._mode in _WAYS:
            finding = self._way(commit)
        return finding or (self._tag(commit, ref) if self._mode in _TAGS else None)

    def _way(self, commit: str) -> Finding | None:
        """Return the first flaw of the commits between the last good one and `commit`.

        Without a good or live ancestor in this repository, `commit` is the first and is verified
        alone.
        """
        good = self._last_good(commit)
        if not good:
            return None
        for count, between in enumerate(self._between(good, commit), 1):
            if count > _WAY_MAX:
                flaw = Flaw(UNCHECKED, f"is more than {_WAY_MAX} commits from the last good one")
                return self._finding(f"commit {commit[:7]}", flaw, commit)
            bad = self._verdict("commit", between, between)
            if bad is not None:
                what = f"commit {between[:7]}, which {commit[:7]} brings,"
                return self._finding(what, bad, between)
        return None

    def _between(self, good: str, commit: str) -> Iterator[str]:
        if self._mode == "range":
            found = self._repository.commits_between(good, commit, limit=_WAY_MAX + 1)
            yield from (each.id for each in found)
            return
        while commit and not self._repository.is_ancestor(commit, good):
            yield commit
            commit = next(iter(self._repository.commit(commit).parents), "")

    def _last_good(self, commit: str) -> str:
        """Return the newest ancestor of `commit` that passed, now or in an earlier process; "" for
        none. A commit that was merely seen proves nothing."""
        for earlier in [*reversed(self._trusted), *self._passed.newest(_TRIED)]:
            here = earlier != commit and self._repository.has(earlier)
            if here and self._repository.is_ancestor(earlier, commit):
                return earlier
        return newest_of(self._repository, self._behind(commit), "")

    def _behind(self, commit: str) -> list[str]:
        """Return the commits of live objects that are `commit` or ancestors of it."""
        return [
            live
            for live in sorted(self._live or ())
            if self._repository.has(live) and self._repository.is_ancestor(live, commit)
        ]

    def _in_trusted_history(self, commit: str) -> bool:
        for later in [*reversed(self._trusted), *self._seen.newest(_TRIED)]:
            if later == commit or not self._repository.has(later):
                continue
            leads = self._repository.is_ancestor(commit, later)
            if leads and (later in self._trusted or self._judge(later, "") is None):
                return True
        return False

    def _verdict(self, kind: str, name: str, commit: str) -> Flaw | None:
        if name not in self._verdicts:
            at = self._seen.time(commit)
            self._verdicts[name] = verify(self._repository, kind, name, self._signers, at)
        return self._verdicts[name]

    def _head(self, commit: str) -> Finding | None:
        flaw = self._verdict("commit", commit, commit)
        return self._finding(f"commit {commit[:7]}", flaw, commit) if flaw else None

    def _tag(self, commit: str, ref: str) -> Finding | None:
        """Verify the tag that points to the commit; without `ref`, one good tag suffices."""
        names = [ref] if ref else self._repository.tags()
        known = [name for name in names if name.startswith(_TAG) and self._leads(name, commit)]
        findings = [self._one_tag(name, commit) for name in known]
        if None in findings:
            return None
        missing = Flaw(UNSIGNED, "has no tag that is signed")
        return findings[0] if findings else self._finding(f"commit {commit[:7]}", missing, commit)

    def _leads(self, name: str, commit: str) -> bool:
        return self._repository.resolve(name) == commit

    def _one_tag(self, ref: str, commit: str) -> Finding | None:
        tag, short = self._repository.tag_object(ref), ref.removeprefix(_TAG)
        what = f"tag {shown(short, 80)} of commit {commit[:7]}"
        if not tag:
            return self._finding(what, Flaw(UNSIGNED, "is not signed"), commit)
        named = _TAG_NAME.search(self._repository.raw(tag, "tag").partition(b"\n\n")[0])
        if named is None or named[1].decode("utf-8", "replace") != short:
            # A good tag under another name would let an old release pass for a new one.
            text = "holds a tag that was created under another name"
            return self._finding(what, Flaw(UNCHECKED, text), commit)
        flaw = self._verdict("tag", tag, commit)
        return self._finding(what, flaw, commit) if flaw else None

    def _finding(self, what: str, flaw: Flaw, commit: str) -> Finding:
        signers = self._signers
        by = self._repository.commit(commit).author
        notes = [("key", flaw.key)] if flaw.key else []
        notes += [
            ("trusted keys", f"{signers.count}, from Secret {signers.where}"),
            ("author", f"{by}, as the commit says itself"),
            ("next", _NEXT[flaw.code].format(secret=signers.where)),
        ]
        return Finding(code=flaw.code, message=f"{what} {flaw.text}", notes=tuple(notes))


_NEXT: Final = {
    "GK3301": "if this key is right, add it to the Secret {secret}, which is read again",
    "GK3302": "sign it: git commit --amend --no-edit -S, or git tag -s, and push again",
    "GK3303": "find out who changed it; sign it again if that was right",
    "GK3304": "sign it with a valid key, and push again",
    "GK3305": "sign it with SSH or OpenPGP, and push again",
}
