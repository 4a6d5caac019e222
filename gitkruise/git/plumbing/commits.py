"""Commit objects: read for showing, and built from values."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from gitkruise.model.gitops.document import GitCommit
from gitkruise.printable import shown

_SIGNED_BY: Final = re.compile(r"(?P<name>.*?) ?<(?P<email>[^<>]*)> (?P<time>-?\d{1,12}) [-+]\d+")
_TRAILER: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*): (.*)")
_SQUASHED: Final = re.compile(r".* \(#\d+\)")  # a subject, with the number of a pull request
_ACTIVE: Final = re.compile(r"[@#!<>`\[\]|*~]|://|\bwww\.")
_RULE: Final = "---------"  # by GitHub, before the authors
ARTIFACT: Final = "Artifact"  # trailer of a commit that was imported: the artifact's name
ACTION, OBJECT = "Gitkruise-Action", "Gitkruise-Object"  # trailers of an action's commit
# Actions that may change no manifest: the trailers alone say what they are.
NOTED_ACTIONS: Final = frozenset({"hold", "resume"})
SUBJECT_MAX: Final = 200
# The input of `parse_touched`; of a merge, the files that no parent has.
TOUCHED: Final = (
    "-c", "log.showRoot=true", "log", "-z", "--topo-order", "--no-renames", "-c", "--name-only",
    "--format=%x00%H",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAuthor:
    """Author of our commits; `sign` adds a signature to a raw commit."""

    name: str
    email: str
    sign: Callable[[bytes], bytes] | None = None


def parse_commit(commit: str, data: bytes) -> GitCommit:
    """Parse a raw commit; its texts are cut and escaped."""
    head, _, body = data.partition(b"\n\n")
    lines = head.decode("utf-8", "replace").split("\n")
    author = _SIGNED_BY.fullmatch(_header(lines, "author"))
    committer = _SIGNED_BY.fullmatch(_header(lines, "committer"))
    message = body.decode("utf-8", "replace").strip()
    return GitCommit(
        id=commit,
        parents=tuple(line[7:] for line in lines if line.startswith("parent ")),
        author=shown(author["name"], 100) if author else "",
        time=_instant(int(committer["time"])) if committer else None,
        subject=shown(message.split("\n\n", 1)[0].replace("\n", " "), SUBJECT_MAX),
    )


def parse_imported(commit: str, data: bytes) -> GitCommit:
    """Parse a raw commit that was imported from an artifact, which its message names."""
    message = data.partition(b"\n\n")[2].decode("utf-8", "replace")
    artifact = dict(parse_trailers(message)).get(ARTIFACT, "")
    return replace(parse_commit(commit, data), artifact=shown(artifact, SUBJECT_MAX))


def _header(lines: Sequence[str], name: str) -> str:
    return next((line[len(name) + 1 :] for line in lines if line.startswith(name + " ")), "")


def _instant(seconds: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def tree_of(data: bytes) -> str:
    """The tree a raw commit names."""
    return data.split(b"\n", 1)[0].partition(b" ")[2].decode()


def parents_of(data: bytes) -> list[str]:
    """The parents of a raw commit, as git takes them: lines right after the tree."""
    lines = itertools.islice(data.split(b"\n"), 1, None)
    words = (line.split(b" ") for line in lines)
    found = itertools.takewhile(lambda word: word[0] == b"parent" and len(word) == 2, words)
    return [word[1].decode("ascii", "replace") for word in found]


def format_commit(
    tree: str, parents: Sequence[str], identity: CommitAuthor, now: datetime, message: str
) -> bytes:
    """A raw commit object; the time zone is UTC."""
    who = f"{_plain(identity.name)} <{_plain(identity.email)}> {int(now.timestamp())} +0000"
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    lines += [f"author {who}", f"committer {who}", "", message.strip("\n") + "\n"]
    data = "\n".join(lines).encode("utf-8")
    return identity.sign(data) if identity.sign is not None else data


def _plain(text: str) -> str:
    return re.sub(r"[<>\x00-\x1f]", "", text).strip()


def format_message(subject: str, body: str, trailers: Sequence[tuple[str, str]]) -> str:
    """One subject line, a body, and trailers that no text in them can break out of."""
    parts = [shown(" ".join(subject.split()), SUBJECT_MAX)]
    if body.strip():
        parts.append(body.strip("\n").replace("\0", ""))
    if trailers:
        parts.append("\n".join(f"{name}: {' '.join(value.split())}" for name, value in trailers))
    return "\n\n".join(parts)


def parse_trailers(message: str) -> tuple[tuple[str, str], ...]:
    """The trailers of a message: its last paragraph, when every line of it is one."""
    paragraphs = message.strip().split("\n\n")
    if len(paragraphs) < 2:
        return ()
    found = [_TRAILER.fullmatch(line) for line in paragraphs[-1].split("\n")]
    return tuple((m[1], m[2]) for m in found if m) if all(found) else ()


def squashed_trailers(message: str) -> list[dict[str, str]]:
    """Return the trailers of each commit that a message is made of, newest first.

    A squash of GitHub or Gitea has `(#12)` after its subject, and its commits as items of a list;
    where there are several authors, they follow in a paragraph of their own. Any other message is
    that of one commit.
    """
    subject, *paragraphs = message.replace("\r\n", "\n").strip().split("\n\n")
    items: list[list[str]] = [[]]
    for paragraph in paragraphs:
        if paragraph.startswith("* ") and _SQUASHED.fullmatch(subject):
            items.append([])  # the paragraph is the subject of the next one
        else:
            items[-1].append(paragraph)
    return [_last_trailers(item) for item in reversed(items)]


def closing_trailers(message: str) -> str:
    """Return the trailers of a commit as the end of its pull request's description, which many
    forges take for a squash; "" where a forge would read a mention or markup in them."""
    lines = [f"{name}: {value}" for name, value in parse_trailers(message)]
    return "" if _ACTIVE.search("".join(lines)) else "\n".join(lines)


def _last_trailers(paragraphs: Sequence[str]) -> dict[str, str]:
    """Return the trailers of the last paragraphs, as far as these are nothing else."""
    found: dict[str, str] = {}
    for paragraph in reversed(paragraphs):
        matches = [_TRAILER.fullmatch(line) for line in paragraph.split("\n")]
        if not (all(matches) or paragraph == _RULE):
            break
        found = {m[1]: m[2] for m in matches if m} | found
    return found


def parse_touched(output: bytes) -> list[tuple[str, list[str]]]:
    """Commits and their files, as git prints them with the words TOUCHED.

    An id follows an empty word, which no file name is; a line feed begins the list of files.
    """
    found: list[tuple[str, list[str]]] = []
    before = None
    for word in output.split(b"\0"):
        if before == b"" and word:
            found.append((word.decode(), []))
        elif word and found:
            first = not found[-1][1]
            name = word.removeprefix(b"\n") if first else word
            found[-1][1].append(name.decode("utf-8", "surrogateescape"))
        before = word
    return found
