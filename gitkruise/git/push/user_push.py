"""Putting one commit on a branch as its user would: with their name, keys and credentials."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gitkruise.errors import BranchNotReady, Finding, RefMissing, SourceFailed
from gitkruise.git.plumbing.errors import (
    RefMoved,
    no_repository,
    push_refused,
    ref_missing,
    refusal,
    remote_failure,
)
from gitkruise.git.plumbing.process import Result
from gitkruise.git.plumbing.refs import full_ref, hide_password
from gitkruise.git.plumbing.safe_config import LIST, inert, settings
from gitkruise.git.push.worktree import WorkTree, dirty_tree
from gitkruise.printable import shown

_TIME_S: Final = 120.0
# Variables that would lead git to another repository than the one that was named.
_ELSEWHERE: Final = frozenset(
    {
        "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX",
    }
)  # fmt: skip
_SAFE: Final = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "push.followTags=false",
                "submodule.recurse=false", "protocol.ext.allow=never")  # fmt: skip
_REMOTE: Final = re.compile(r"remote\.(?P<name>[^/].*)\.[^.]+")  # a setting of it
_FETCH: Final = ("fetch", "--upload-pack=git-upload-pack", "--quiet", "--no-tags",
                 "--no-auto-maintenance")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """State of a branch. A commit goes on top of `tip`, and to `remote` if there is one.

    `unready` keeps the checkout from following a commit: it has changes, or is elsewhere.
    """

    name: str
    tip: str
    remote: str = ""  # "" where the repository itself is what is followed
    checked_out: bool = False
    unready: SourceFailed | None = None

    @property
    def ref(self) -> str:
        return full_ref(self.name)

    @property
    def shown(self) -> str:
        """`origin/main`, or `main` alone."""
        return f"{self.remote}/{self.name}" if self.remote else self.name


class Publisher:
    """A repository, bare or a checkout, as its user works with it. Raises SourceFailed (GK3xxx).

    Runs the user's own git: their identity, signing key, ssh and credential helpers are in its
    configuration and in `variables`. Hooks do not run.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self._environment = {k: v for k, v in variables.items() if k not in _ELSEWHERE}
        self._environment |= {"LC_ALL": "C", "LANGUAGE": ""}
        listed = self._launch(["-C", str(folder), *LIST])
        text = listed.output.decode("utf-8", "surrogateescape")
        self._environment |= inert(text, self._environment)
        self._settings = {key: value for _, key, value in settings(text)}  # the last value counts
        words = ["--is-bare-repository", "--absolute-git-dir", "--show-toplevel"]
        result = self._launch(["-C", str(folder), "rev-parse", *words])
        is_bare, *paths = result.output.decode("utf-8", "surrogateescape").split("\n")[:-1] or [""]
        if not paths:
            raise no_repository(str(folder.absolute()))
        self.git_dir, *tops = map(Path, paths)
        self.tree = WorkTree(tops[0], self.git_dir) if tops else None
        if not tops and is_bare != "true":
            self.tree = WorkTree.holding(folder)  # it says what is wrong with a folder in .git

    @property
    def folder(self) -> Path:
        """Folder of the repository: its top, or the bare one itself."""
        return self.tree.top if self.tree else self.git_dir

    # -- state of a branch -------------------------------------------------------------------

    def current(self) -> str:
        """The branch HEAD names; "" when it names none."""
        return self._output(["symbolic-ref", "--quiet", "--short", "HEAD"])

    def branch(self, name: str) -> Branch:
        """Return the branch's state for everybody: its remote is asked.

        It is unready (GK3203, GK3208) when it is checked out here with changes, or elsewhere than
        there.
        """
        ref = full_ref(name)
        here = self._output(["rev-parse", "--verify", "--quiet", "--end-of-options", ref])
        checked_out = self.tree is not None and self.current() == name
        remote = self._remote(name)
        tip = self._fetched(remote, name) if remote else here
        if not tip:
            message = f"there is no branch {shown(name)} in {remote or self.folder}"
            push = (
                f"git push {remote} {shlex.quote(shown(name))}"
                if here
                else "name a branch that is there"
            )
            notes = (("unchanged", "nothing was pushed"), ("next", push))
            raise RefMissing(Finding(code="GK3201", message=message, notes=notes))
        unready = self._unready(name, remote, here, tip) if checked_out else None
        return Branch(name=name, tip=tip, remote=remote, checked_out=checked_out, unready=unready)

    def ready_branch(self, name: str) -> Branch:
        """`branch`. Raises GK3203 and GK3208 when it is unready."""
        branch = self.branch(name)
        if branch.unready is not None:
            raise branch.unready
        return branch

    def _unready(self, name: str, remote: str, here: str, tip: str) -> SourceFailed | None:
        assert self.tree is not None
        dirty = self.tree.dirty()
        if dirty:
            return dirty_tree(
                dirty,
                unchanged="nothing was committed or pushed",
                next_="commit or git stash them, then again",
            )
        return self._apart(name, remote, here, tip) if here != tip else None

    def _remote(self, name: str) -> str:
        """The remote the branch belongs to: its own, else origin, else the only one."""
        known = self.remotes()
        own = self._settings.get(f"branch.{name}.remote", "")
        if own in known or "origin" in known:
            return own if own in known else "origin"
        return known[0] if len(known) == 1 else ""

    def _fetched(self, remote: str, name: str) -> str:
        kept = f"refs/remotes/{remote}/{name}"
        spec = f"+{full_ref(name)}:{kept}"
        result = self._git([*_fetch(), remote, spec])
        if result.status:
            if "couldn't find remote ref" in result.errors:
                return ""
            raise _remote_failed(remote, result)
        return self._output(["rev-parse", "--verify", "--quiet", kept])

    def _apart(self, name: str, remote: str, here: str, there: str) -> SourceFailed:
        behind, ahead = self._count(here, there), self._count(there, here)
        parts = [f"{n} {word}" for n, word in ((ahead, "ahead"), (behind, "behind")) if n]
        next_ = f"git pull --{'rebase' if ahead else 'ff-only'}" if behind else "git push"
        message = f"branch {name} is not where {remote}/{name} is: {' and '.join(parts)}"
        notes = (
            ("here", here),
            (remote, there),
            ("unchanged", "nothing was committed or pushed"),
            ("next", next_),
        )
        return BranchNotReady(Finding(code="GK3208", message=message, notes=notes))

    def _count(self, old: str, new: str) -> int:
        return int(self._output(["rev-list", "--count", f"{old}..{new}"]) or 0)

    def remotes(self) -> list[str]:
        """The remotes a checkout has; a bare repository is what others read, and has none."""
        found = map(_REMOTE.fullmatch, self._settings if self.tree else ())
        return sorted({match["name"] for match in found if match})

    def address(self, branch: Branch) -> str:
        """URL at which others reach the repository of the branch, as it is configured here."""
        if not branch.remote:
            return str(self.folder)
        return self._settings.get(f"remote.{branch.remote}.url", "")

    def fetch_status(self, limit_s: float = _TIME_S) -> None:
        """Bring the status branches of every remote here, whatever its name; one that a remote has
        no more goes here, too. Raises GK31xx.

        A remote that does not answer matters if it has written here before, or no other has.
        """
        failures: dict[str, SourceFailed] = {}
        for remote in self.remotes():
            spec = f"+refs/heads/gitkruise/status/*:refs/remotes/{remote}/gitkruise/status/*"
            result = self._git([*_fetch("--prune"), remote, spec], limit_s=limit_s)
            if result.status:
                failures[remote] = _remote_failed(remote, result, limit_s)
        if not failures:
            return
        listed = self._output(["for-each-ref", "--format=%(refname)", "refs/remotes/"]).split()
        split = [name.partition("/gitkruise/status/") for name in listed]
        written = {remote for remote, found, _ in split if found}
        for remote, failure in failures.items():
            if not written or f"refs/remotes/{remote}" in written:
                raise failure

    def head_of(self, refs: Sequence[str]) -> str:
        """Fetch the first of some refs that the remote has, and return its commit.

        No ref of this repository changes. One without a remote is read itself. Raises GK3201,
        GK31xx.
        """
        remote = self._remote("")
        where = self._settings.get(f"remote.{remote}.url", "") if remote else str(self.folder)
        found = self.heads(remote or where, refs)
        ref = next((ref for ref in refs if ref in found), "")
        if not ref:
            raise ref_missing(where, " or ".join(refs), [])
        if remote:
            only = _fetch("--no-write-fetch-head", "--refmap=")
            fetched = self._git([*only, remote, ref])
            if fetched.status:
                raise _remote_failed(remote, fetched)
        return found[ref]

    def heads(self, where: str, refs: Sequence[str], limit_s: float = _TIME_S) -> dict[str, str]:
        """Return the commits of refs (of all without any) at a remote or an address, by ref.

        Raises SourceFailed GK31xx.
        """
        listed = ["ls-remote", "--upload-pack=git-upload-pack", "--quiet", "--end-of-options"]
        result = self._git([*listed, where, *refs], limit_s=limit_s)
        if result.status:
            raise _remote_failed(hide_password(where), result, limit_s)
        lines = map(str.split, result.output.decode("utf-8", "replace").splitlines())
        return {name: commit for commit, name in lines}

    def bring(self, commits: Iterable[str]) -> None:
        """Fetch commits that are not here, such as a newer one that a record names.

        No ref of this repository changes. One that no remote gives stays away; so do all where
        this clone is shallow: the whole history of an old one would come.
        """
        if self._output(["rev-parse", "--is-shallow-repository"]) == "true":
            return
        ids = "".join(f"{commit}\n" for commit in sorted({*commits}))
        seen = self._git(["cat-file", "--batch-check=%(objectname)"], ids.encode()).output.decode()
        missing = [line.split()[0] for line in seen.splitlines() if line.endswith(" missing")]
        for remote in self.remotes() if missing else ():
            self._git([*_fetch("--no-write-fetch-head", "--refmap="), remote, *missing])

    def identity(self) -> str:
        """Author of commits made here, as `Name <address>`; "" when git does not know."""
        identity = self._output(["var", "GIT_COMMITTER_IDENT"])
        return identity.rpartition("> ")[0] + ">" if "> " in identity else ""

    # -- one commit -------------------------------------------------------------------------------

    def commit(self, tree: str, parent: str, message: str) -> str:
        """A commit by the user, signed where they sign theirs; no branch has it yet."""
        signs = self._output(["config", "--type=bool", "--get", "commit.gpgSign"]) == "true"
        words = ["commit-tree", *(["-S"] if signs else []), "-p", parent, "-F", "-", tree]
        result = self._git(words, message.encode())
        if result.status:
            lines = [line for line in result.errors.splitlines() if line.strip()]
            why = shown(lines[-1].removeprefix("fatal: ")) if lines else str(result.status)
            if "empty ident" in result.errors or "tell me who you are" in result.errors:
                why = "it does not know who you are"
            notes = (
                ("unchanged", "no branch was touched"),
                ("next", 'git config user.name "…" and user.email "…"; check commit.gpgSign'),
            )
            message = f"git cannot make a commit: {why}"
            raise SourceFailed(Finding(code="GK3210", message=message, notes=notes))
        return result.output.decode().strip()

    def beside(self, branch: Branch, name: str) -> str:
        """The tip of another branch of the repository that `branch` is in; "" when there is none.

        Its commits are here then. Raises GK31xx.
        """
        if branch.remote:
            return self._fetched(branch.remote, name)
        words = ["rev-parse", "--verify", "--quiet", "--end-of-options", full_ref(name)]
        return self._output(words)

    def publish(self, branch: Branch, commit: str, *, onto: str = "", over: str = "") -> None:
        """Put the commit on the branch where others see it, then here; or on another one, `onto`.

        `onto` is at `over`, or new without that. Never forced. Raises SourceFailed GK3209 when
        another push was faster, GK3106 when refused.
        """
        name = onto or branch.name
        ref, old = full_ref(name), over if onto else branch.tip
        try:
            if branch.remote:
                self._push(branch.remote, ref, commit, new=not old)
            else:
                self._move(ref, commit, old or "0" * len(commit))
        except RefMoved:
            raise _overtaken(name, new=not old) from None
        if branch.checked_out and not onto:
            self._catch_up(branch, commit)

    def _push(self, remote: str, ref: str, commit: str, *, new: bool) -> None:
        lease = [f"--force-with-lease={ref}:"] if new else []
        words = [
            "push",
            "--receive-pack=git-receive-pack",
            "--porcelain",
            "--no-verify",
            *lease,
            "--end-of-options",
            remote,
        ]
        result = self._git([*words, f"{commit}:{ref}"])
        if result.status:
            raise refusal(remote, result) or _remote_failed(remote, result)

    def _move(self, ref: str, commit: str, old: str) -> None:
        result = self._git(["update-ref", "--end-of-options", ref, commit, old])
        if result.status:
            raise push_refused(str(self.folder), result.errors, result)

    def _catch_up(self, branch: Branch, commit: str) -> None:
        """The checkout moves along; it was clean and at the old tip a moment ago."""
        self._git(["update-index", "-q", "--refresh"])  # a copied checkout has other file times
        self._checked(["read-tree", "-m", "-u", branch.tip, commit])
        if branch.remote:
            self._checked(["update-ref", "--end-of-options", branch.ref, commit, branch.tip])

    # -- running git ------------------------------------------------------------------------------

    def _output(self, words: Sequence[str]) -> str:
        """Return git's output; "" when it fails."""
        result = self._git(words)
        return "" if result.status else result.output.decode("utf-8", "replace").strip()

    def _checked(self, words: Sequence[str]) -> None:
        result = self._git(words)
        if result.status:
            message = (
                f"the commit is created, but the checkout cannot follow: {result.errors.strip()}"
            )
            notes = (("next", "git status, then git pull or git checkout"),)
            raise SourceFailed(Finding(code="GK3103", message=shown(message), notes=notes))

    def _git(self, words: Sequence[str], data: bytes = b"", *, limit_s: float = _TIME_S) -> Result:
        where = ["-C", str(self.tree.top)] if self.tree else [f"--git-dir={self.git_dir}"]
        return self._launch([*where, *words], data, limit_s)

    def _launch(self, words: Sequence[str], data: bytes = b"", limit_s: float = _TIME_S) -> Result:
        options = [word for line in _SAFE for word in ("-c", line)]
        try:
            done = subprocess.run(  # noqa: S603  the user's own git with our words, no shell
                ["git", *options, *words],  # noqa: S607  theirs, wherever it is on their path
                env=self._environment, input=data, check=False, capture_output=True,
                timeout=limit_s,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Result(-1, b"", "", stopped="time")
        return Result(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))


def _overtaken(name: str, *, new: bool) -> SourceFailed:
    message = f"another push changed {shown(name)} in the meantime"
    next_ = "git pull, review the changes, and repeat the command"
    if new:
        message, next_ = f"there is a branch {shown(name)} already", "choose another with --branch"
    notes = (("unchanged", "nothing was pushed"), ("next", next_))
    return SourceFailed(Finding(code="GK3209", message=message, notes=notes))


def _fetch(*options: str) -> list[str]:
    """Return the words of a fetch with more options, up to its remote."""
    return [*_FETCH, *options, "--end-of-options"]


def _remote_failed(remote: str, result: Result, limit_s: float = _TIME_S) -> SourceFailed:
    """Return the error of a remote that git reads with the settings and credentials of a user."""
    (finding,) = remote_failure(remote, result, tries=1, timeout_s=limit_s).findings
    notes = (
        *(note for note in finding.notes if note[0] == "git said"),
        ("unchanged", "nothing was pushed"),
        ("next", f"git ls-remote {remote}; repeat the command when that succeeds"),
    )
    return SourceFailed(replace(finding, notes=notes))
