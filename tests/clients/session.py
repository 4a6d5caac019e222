"""Plays session.yaml with one kubectl against one cluster, and tells it comparably.

A row is a command, or a command with:
- `exit`: the exit code it must have (0);
- `needs: controllers`: only where controllers and nodes are, `needs: kruise`: where OpenKruise's
  kinds are;
- `differs`: why a bare API server does something else; looked at on the embedded cluster alone;
- `shows: nothing` (the exit code alone is told; `why`) or `shows: the end` (the last line);
- `sorted: true`: lines come in any order;
- `described`: why a real server describes fields in other words; only the rest is compared;
- `worded`: what other releases of kubectl say differently; their exit code alone is compared;
- `since`: the first release that can do it here;
- `settles`: asked again until this text comes;
- `during`, `lines`, `until`: a watch; once its first line is here the commands of `during` run, and
  it is ended after so many lines (that match `until`).
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

FOLDER: Final = Path(__file__).parent / "kubectl"
WITHIN_S: Final = 90.0
LOOKS: Final = 40

# What differs from run to run, from machine to machine and between releases of kubectl.
PLAIN: Final[Sequence[tuple[str, str]]] = (
    (r"\x1b\[[\d;]*m", ""),
    (r"https://127\.0\.0\.1:\d+", "SERVER"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UID"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
    (r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "TOKEN"),
    (r"\b10\.\d+\.\d+\.\d+\b", "IP"),
    (r"\S*/(LIVE|MERGED)-\d+/", r"\1/"),
    (r"\t\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}", " TIME"),
    (r"(resourceVersion\W+|Resource Version: +)\d+", r"\1VERSION"),
    (r"\bweb-[0-9a-f]{6,10}(-[a-z0-9]{5})?\b", "web-NAME"),
    (r"(pod-template-hash=)\w+", r"\1HASH"),
    (r'("\S+" deleted) from \S+ namespace$', r"\1"),
    (r"^  creationTimestamp: null$", ""),
    (r"(?<![\w.=])(\d+m)?\d+s\b|(?<![\w.=])[2-9]m\b", "AGE"),
    (r" {2,}", "  "),
    (r"[ \t]+$", ""),
)


# Lines below a heading of `explain` that are no texts; below other headings there are none.
NO_TEXTS: Final[Mapping[str, str]] = {"DESCRIPTION:": r"(?!)", "FIELDS:": r"\t<|^  enum:"}


@dataclass(frozen=True, slots=True)
class Row:
    """One command of the session; `place` tells apart what is said twice."""

    place: int
    words: str
    exit: int = 0
    needs: str = ""
    differs: str = ""
    shows: str = ""
    why: str = ""
    sorted: bool = False
    described: str = ""
    settles: str = ""
    worded: str = ""
    since: float = 0
    during: tuple[str, ...] = ()
    lines: int = 0
    until: str = ""


def rows() -> list[Row]:
    """The session, in order."""
    found = yaml.safe_load((FOLDER / "session.yaml").read_text())
    return [_row(place, raw) for place, raw in enumerate(found)]


def _row(place: int, raw: str | Mapping[str, Mapping[str, Any]]) -> Row:
    if isinstance(raw, str):
        return Row(place, raw)
    ((words, more),) = raw.items()
    return Row(place, words, **{**more, "during": tuple(more.get("during", ()))})


def outline(explained: str) -> list[str]:
    """What `explain` printed, without the words of the server about its fields."""
    kept, section = [], ""
    for line in explained.splitlines():
        if line and not line.startswith(" "):
            section = line
        if line == section or re.search(NO_TEXTS.get(section, ""), line):
            kept.append(line)
    return kept


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A command and what came of it: `text` is comparable, `exit` the code."""

    row: Row
    exit: int
    text: str

    @property
    def report(self) -> str:
        """The command, its output (stderr after `!`), and its exit code where that is not 0."""
        ended = f"exit {self.exit}\n" if self.exit else ""
        return f"kubectl {self.row.words}\n{self.text}{ended}"


@dataclass
class Session:
    """One kubectl with a kubeconfig and a folder of its own."""

    program: str
    kubeconfig: Path
    folder: Path
    env: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        shutil.copytree(FOLDER / "files", self.folder / "files")
        self.env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.folder),
            "KUBECONFIG": str(self.kubeconfig),
            "KUBE_EDITOR": str(self.folder / "files" / "editor.sh"),
            "LC_ALL": "C.UTF-8",
        }

    def play(self, chosen: Sequence[Row]) -> list[CommandResult]:
        return [self.say(row) for row in chosen]

    def say(self, row: Row) -> CommandResult:
        if row.during:
            return CommandResult(row, 0, _plain(self._watched(row), row))
        done = self.run(row.words)
        for _ in range(LOOKS):
            if row.settles in done.stdout + done.stderr:
                break
            time.sleep(0.25)  # a real server publishes schemas when it comes to it
            done = self.run(row.words)
        output = done.stdout + "".join(f"! {line}\n" for line in done.stderr.splitlines())
        return CommandResult(row, done.returncode, _plain(output, row))

    def run(self, words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, *shlex.split(words)],
            cwd=self.folder / "files",
            env=self.env,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )

    def _watched(self, row: Row) -> str:
        words = [self.program, *shlex.split(row.words)]
        seen: list[str] = []
        with subprocess.Popen(
            words, cwd=self.folder / "files", env=self.env, stdout=subprocess.PIPE, text=True
        ) as watch:
            assert watch.stdout is not None
            for line in watch.stdout:
                if not re.search(row.until, line):
                    continue
                seen.append(line)
                if len(seen) == 1:
                    for words_meanwhile in row.during:
                        assert self.run(words_meanwhile).returncode == 0, words_meanwhile
                if len(seen) == row.lines:
                    break
            watch.terminate()
        return "".join(seen)


def _plain(text: str, row: Row) -> str:
    """Without what differs from run to run."""
    if row.shows == "nothing":
        return ""
    lines = text.splitlines()
    if row.shows == "the end":
        lines = lines[-1:]
    for pattern, name in PLAIN:
        lines = [re.sub(pattern, name, line) for line in lines]
    lines = [line for line in lines if line]
    return "".join(f"{line}\n" for line in (sorted(lines) if row.sorted else lines))


def kubeconfig(path: Path, server: str, token: str, authority: str) -> Path:
    """A kubeconfig at `path` that names nothing of what kind of cluster it is."""
    cluster = {"server": server, "certificate-authority-data": authority}
    named = {
        "clusters": [{"name": "session", "cluster": cluster}],
        "users": [{"name": "session", "user": {"token": token}}],
        "contexts": [{"name": "session", "context": {"cluster": "session", "user": "session"}}],
    }
    head = {"apiVersion": "v1", "kind": "Config", "current-context": "session"}
    path.write_text(yaml.safe_dump({**head, **named}))
    return path
