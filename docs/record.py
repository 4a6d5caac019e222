# ruff: noqa: INP001  a script, not a package
"""Records the output of `gitkruise demo` in docs/demo.md, and an excerpt of it in README.md."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
README: Final = ROOT / "README.md"
PAGE: Final = ROOT / "docs" / "demo.md"
BEGIN, END = "<!-- demo -->\n```text\n", "```\n<!-- /demo -->"
CHAPTERS: Final = (2, 4, 5)  # of the excerpt: a canary, a bad image, the rollback

_SHAPES: Final = (
    (re.compile(r"/\S*gitkruise-demo-\w+"), "FOLDER"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"\b[0-9a-f]{7}\b"), "COMMIT"),
    (re.compile(r"\b\d\d:\d\d\b"), "TIME"),
    (re.compile(r" in [0-9.]+ s$"), " in N s"),
    (re.compile(r"\bcart-[a-z0-9]{5}\b"), "cart-POD"),
)


def play(speed: str) -> str:
    """The output of the whole demo without a terminal, and without its secret."""
    words = [sys.executable, "-m", "gitkruise", "demo", "--exit", "--speed", speed]
    done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603  our own words
    return re.sub(r"#token=\S+", "#token=TOKEN", done.stdout)


def shortened(text: str) -> Iterator[str]:
    """The transcript as the page shows it: the first and the last of consecutive lines about pods
    in progress, and each state of rest on the status branch once."""
    lines = text.rstrip().splitlines()
    rested: set[str] = set()
    for number, line in enumerate(lines):
        near = [lines[i] if 0 <= i < len(lines) else "" for i in (number - 1, number + 1)]
        if _moving(line) and all(_moving(other) for other in near):
            continue
        if re.match(r"  \w+/\w+: ", line):
            entry = re.sub(r" \(\+\d+ units\)$", "", line)
            if _moving(line) or entry in rested:
                continue
            rested.add(entry)
        yield line.rstrip()


def excerpt(text: str) -> str:
    """The chapters of a transcript that README.md shows."""
    parts = text.split("\n\n")
    kept = [
        part
        for number in CHAPTERS
        for part in parts
        if re.match(rf" \d\d:\d\d  commit {number} ", part)
    ]
    return "\n\n".join(part.strip("\n") for part in kept) + "\n"


def _moving(line: str) -> bool:
    return "◐ Rolling" in line or bool(re.search(r": (rolling|waiting)\b", line))


def shape(text: str) -> list[str]:
    """The lines that do not vary between runs: no ids, times, ports, names, pods in progress."""
    lines = []
    for line in text.rstrip().splitlines():
        if _moving(line) or re.match(r"  shop/\w+: | {9}\w", line):
            continue
        lines.append(_normal(line).rstrip())
    return sorted(lines)  # CloneSets that become ready in one instant have no order


def _normal(line: str) -> str:
    for pattern, word in _SHAPES:
        line = pattern.sub(word, line)
    return line


def recorded(page: Path = PAGE) -> str:
    """The transcript in a page."""
    return page.read_text().partition(BEGIN)[2].partition(END)[0]


def _write(page: Path, text: str) -> None:
    before, _, rest = page.read_text().partition(BEGIN)
    assert rest, f"{page.name} has no {BEGIN!r}"
    page.write_text(before + BEGIN + text + END + rest.partition(END)[2])


def main() -> None:
    text = "\n".join(shortened(play("1"))) + "\n"
    _write(PAGE, text)
    _write(README, excerpt(text))


if __name__ == "__main__":
    main()
