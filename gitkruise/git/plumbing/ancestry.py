"""Ancestry of commits. A history that is cut short is deepened before it misleads."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from gitkruise.errors import Finding, HistoryCut, SourceFailed
from gitkruise.git.plumbing import tree_walk
from gitkruise.git.plumbing.commits import TOUCHED, parents_of, parse_commit, parse_touched, tree_of
from gitkruise.git.plumbing.object_db import ObjectReader, damaged
from gitkruise.git.plumbing.process import Result
from gitkruise.git.plumbing.refs import is_object_id
from gitkruise.git.plumbing.trees import clean_path
from gitkruise.model.gitops.document import GitCommit
from gitkruise.printable import shown

FIRST: Final = 100  # commits of a branch that come with its first fetch
FURTHER: Final = (1_000, 0)  # how many more are brought when an answer needs them; 0 for all
UNSHALLOW: Final = "bring the rest of the history: git fetch --unshallow"
_ENDS_MAX: Final = 8  # more cuts than this are not reasoned about
_ATTEMPTS: Final = 20
_LINE_MAX: Final = 32  # commits that are read one by one
_T = TypeVar("_T")


class _CutOff(Exception):
    """The commits here do not decide the question; a deeper history may."""


class Lineage:
    """Answers about the history of one repository. Blocking. Raises SourceFailed GK3104, GK3108.

    Git takes a commit whose parents were left out for a first commit, and answers accordingly.
    Here an answer counts only where commits that are not here cannot change it; otherwise `deepen`
    brings more, and where that is impossible (None), the question has no answer (GK3108).
    """

    def __init__(
        self,
        git_dir: Path,
        run: Callable[[Sequence[str]], Result],
        reader: ObjectReader,
        deepen: Callable[[int], None] | None,
        parse: Callable[[str, bytes], GitCommit] = parse_commit,
    ) -> None:
        self._file, self._run, self._reader = git_dir / "shallow", run, reader
        self._deepen, self._parse = deepen, parse

    def contents(self, commit: str) -> bytes:
        """A commit as it is stored."""
        try:
            return self._reader.contents(commit, "commit")
        except SourceFailed:
            if self._deepen is None and self.is_cut:
                raise _left_out(commit) from None
            if self._deepen is None or not self.has(commit):
                raise
        return self._reader.contents(commit, "commit")

    @property
    def is_cut(self) -> bool:
        """Return whether commits have parents that are not here."""
        return bool(self._ends())

    def commit(self, commit: str) -> GitCommit:
        """Read a commit; its texts are cut and escaped for showing."""
        return self._parse(commit, self.contents(commit))

    def message(self, commit: str) -> str:
        """A commit's whole message, as written."""
        return self.contents(commit).partition(b"\n\n")[2].decode("utf-8", "replace")

    def has(self, commit: str) -> bool:
        """Return whether a commit is here, or comes with the history of what is."""

        def ask(ends: frozenset[str]) -> bool:
            (info,) = self._reader.info([commit])
            if info is None and ends and self._deepen:
                raise _CutOff
            return info is not None and info.kind == "commit"

        return self._sure(ask, missing=False)

    def is_ancestor(self, ancestor: str, descendant: str) -> bool:
        """Return whether `descendant` has `ancestor` in its history (a commit has itself)."""
        near = self._near(ancestor, descendant)
        if near is not None:
            return near

        def ask(ends: frozenset[str]) -> bool:
            words = ["merge-base", "--is-ancestor", "--end-of-options", ancestor, descendant]
            status = self._run(words).status
            if status not in {0, 1}:
                raise _lacking(ends, f"{ancestor} or {descendant}")
            if status == 1 and ends & self._reach([descendant], ends):
                raise _CutOff
            return status == 0

        return self._sure(ask)

    def merge_base(self, one: str, other: str) -> str:
        """The best commit both have in their history; "" when they share none."""

        def ask(ends: frozenset[str]) -> str:
            result = self._run(["merge-base", "--end-of-options", one, other])
            if result.status not in {0, 1}:
                raise _lacking(ends, f"{one} or {other}")
            best = result.output.decode().strip()
            if ends & self._reach([one, other, *([f"^{best}"] if best else [])], ends):
                raise _CutOff
            return best

        return self._sure(ask)

    def commits_between(
        self, old: str, new: str, *, paths: Sequence[str] = (), limit: int = 1_000
    ) -> list[GitCommit]:
        """Commits in `new` and not in `old` ("" for all) that touch `paths`, newest first."""
        limits = [path for path in map(clean_path, paths) if path]
        few = self._in_line(old, new, limits) if old else None
        if few is not None:
            return [self.commit(commit) for commit in few[:limit]]

        def ask(ends: frozenset[str]) -> list[str]:
            words = ["rev-list", "--topo-order", f"--max-count={limit}", "--end-of-options", new]
            result = self._run([*words, *_without(old), "--", *limits])
            if result.status != 0:
                raise _lacking(ends, f"{old} or {new}")
            found = result.output.decode().split()
            self._decided(old, new, found, limit, ends)
            return found

        return [self.commit(line) for line in self._sure(ask)]

    def files_touched(
        self, old: str, new: str, *, limit: int, removed: str = ""
    ) -> list[tuple[str, list[str]]]:
        """Commits in `new` and not in `old` ("" for all), newest first, each with its files.

        `removed` (a glob, in which `**` is any folders) leaves the files that a commit removed.
        """
        globs = ["--no-literal-pathspecs"] if removed else []
        only = ["--diff-filter=D"] if removed else []
        paths = [f":(glob){removed}"] if removed else []

        def ask(ends: frozenset[str]) -> list[tuple[str, list[str]]]:
            words = [*globs, *TOUCHED, *only, f"--max-count={limit}", "--end-of-options", new]
            result = self._run([*words, *_without(old), "--", *paths])
            if result.status != 0:
                raise _lacking(ends, f"{old} or {new}")
            found = parse_touched(result.output)
            self._decided(old, new, [commit for commit, _ in found], limit, ends)
            return found

        return self._sure(ask)

    def _in_line(self, old: str, new: str, paths: Sequence[str]) -> list[str] | None:
        """`commits_between` where few commits follow `old`, each with one parent; else None.

        Most pushes are so, and need no git of their own: a worker forks all its memory for one
        (5 ms a unit). A cut does not matter, for a commit itself names its parents.
        """
        line: list[tuple[str, str]] = []  # commits and their trees, newest first
        commit = new
        if not (is_object_id(old) and is_object_id(new)):
            return None
        try:
            while len(line) <= _LINE_MAX:
                data = self._reader.contents(commit, "commit")
                line.append((commit, tree_of(data)))
                if commit == old:
                    return [
                        one
                        for (one, tree), (_, before) in itertools.pairwise(line)
                        if self._touches(tree, before, paths)
                    ]
                parents = parents_of(data)
                if len(parents) != 1:
                    break
                (commit,) = parents
        except SourceFailed:
            pass  # something is not here: git knows what that means
        return None

    def _near(self, ancestor: str, descendant: str) -> bool | None:
        """`is_ancestor` where few commits decide it; None where they do not.

        Like `_in_line` it saves a process. All of a history is here when each parent is.
        """
        if not (is_object_id(ancestor) and is_object_id(descendant)):
            return None
        seen: set[str] = set()
        ahead = deque([descendant])
        try:
            self._reader.contents(ancestor, "commit")
            while ahead and len(seen) <= _LINE_MAX:
                commit = ahead.popleft()
                if commit == ancestor:
                    return True
                if commit not in seen:
                    seen.add(commit)
                    ahead += parents_of(self._reader.contents(commit, "commit"))
        except SourceFailed:
            return None  # something is not here: git knows what that means
        return None if ahead else False

    def _touches(self, tree: str, before: str, paths: Sequence[str]) -> bool:
        """Return whether a commit touches `paths`: without any, each one does."""
        if not paths:
            return True
        if tree == before:
            return False
        pairs = (
            (tree_walk.find(self._reader, tree, path), tree_walk.find(self._reader, before, path))
            for path in paths
        )
        return any(one != other for one, other in pairs)

    # -- what cuts decide ---------------------------------------------------------------------

    def _sure(self, ask: Callable[[frozenset[str]], _T], *, missing: _T | None = None) -> _T:
        """Return the answer of `ask` once the commits at which the history is cut do not matter.

        `ask` gets those commits; `missing` when all that can be brought does not decide it.
        """
        steps = iter(FURTHER)
        for _ in range(_ATTEMPTS):
            ends = self._ends()
            try:
                answer = ask(ends)
            except _CutOff:
                if ends != self._ends():
                    continue  # another thread brought more meanwhile
                further = next(steps, None)
                if self._deepen is None or further is None:
                    break
                self._deepen(further)
                continue
            if ends == self._ends():
                return answer
        if missing is not None:
            return missing
        raise _short(local=self._deepen is None)

    def _ends(self) -> frozenset[str]:
        """Commits whose parents are not here."""
        try:
            return frozenset(self._file.read_text("ascii").split())
        except FileNotFoundError:
            return frozenset()

    def _decided(
        self, old: str, new: str, found: Sequence[str], limit: int, ends: frozenset[str]
    ) -> None:
        """Raise _CutOff unless `found` is what the whole history would give.

        A commit of `found` above every cut has no missing commit as a descendant: nothing that is
        not here can come before it, or make it part of `old`.
        """
        if not ends or (self._deepen is None and not old):
            return  # a clone that its owner made shallow begins where it begins
        if old:
            above = self._listed(["rev-list", "--end-of-options", new, f"^{old}"])
            below = self._reach([old], ends)
        else:
            above, below = list(found), self._reach([new], ends)
            if below and len(found) < limit:
                raise _CutOff
            if limit == 1:  # git went from commit to commit, and met it first
                below = frozenset()
        if not ends.isdisjoint(above) or len(below) > _ENDS_MAX:
            raise _CutOff
        for end in below:
            words = ["rev-list", "--ancestry-path", "--end-of-options", new, f"^{end}"]
            if not set(above) <= set(self._listed(words)):
                raise _CutOff

    def _reach(self, words: Sequence[str], ends: frozenset[str]) -> frozenset[str]:
        """Those of `ends` that a range of commits holds."""
        return ends & set(self._listed(["rev-list", "--end-of-options", *words])) if ends else ends

    def _listed(self, words: Sequence[str]) -> list[str]:
        result = self._run(words)
        if result.status != 0:
            raise damaged(words[-1], "commit")
        return result.output.decode().split()


def _without(old: str) -> list[str]:
    return [f"^{old}"] if old else []


def _lacking(ends: frozenset[str], what: str) -> Exception:
    return _CutOff() if ends else damaged(what, "commit")


def _left_out(commit: str) -> SourceFailed:
    return HistoryCut(
        Finding(
            code="GK3108",
            message=f"this clone is shallow, and leaves out commit {shown(commit, 80)}",
            notes=(("next", UNSHALLOW),),
        )
    )


def _short(*, local: bool) -> SourceFailed:
    next_step = (
        UNSHALLOW
        if local
        else "let the repository that is followed have its whole history: git fetch --unshallow"
    )
    return HistoryCut(
        Finding(
            code="GK3108",
            message="the history is cut short, and what is left of it does not tell how commits "
            "follow each other",
            notes=(
                ("why", "a shallow clone ends at commits whose parents it does not have"),
                ("unchanged", "what runs stays as it is"),
                ("next", next_step),
            ),
        )
    )
