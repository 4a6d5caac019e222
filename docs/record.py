# ruff: noqa: INP001  a script, not a package
"""Records what `gitkruise demo` prints, and puts it into README.md."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
README: Final = ROOT / "README.md"
BEGIN, END = "<!-- demo -->\n```text\n", "```\n<!-- /demo -->"

_SHAPES: Final = (
    (re.compile(r"/\S*gitkruise-demo-\w+"), "FOLDER"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"\b[0-9a-f]{7}\b"), "COMMIT"),
    (re.compile(r"\b\d\d:\d\d\b"), "TIME"),
    (re.compile(r" in [0-9.]+ s$"), " in N s"),
    (re.compile(r"\bcart-[a-z0-9]{5}\b"), "cart-POD"),
)


def play(speed: str) -> str:
    """What the whole demo prints off a terminal."""
    words = [sys.executable, "-m", "gitkruise", "demo", "--exit", "--speed", speed]
    done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603  our own words
    return done.stdout


def told(text: str) -> Iterator[str]:
    """The transcript as the README shows it: of lines about pods on their way only the first and
    the last, of the status branch where units came to rest, each rest once."""
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


def _moving(line: str) -> bool:
    return "◐ Rolling" in line or bool(re.search(r": (rolling|waiting)\b", line))


def shape(text: str) -> list[str]:
    """What does not differ from run to run: no ids, times, ports, names, nor pods on their way."""
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


def recorded() -> str:
    """The transcript in README.md."""
    return README.read_text().partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    text = "\n".join(told(play("1"))) + "\n"
    before, _, rest = README.read_text().partition(BEGIN)
    assert rest, f"README.md has no {BEGIN!r}"
    README.write_text(before + BEGIN + text + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
