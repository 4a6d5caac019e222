"""The commands of a page of the documentation, one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tests.e2e.program import ROOT

PAGES: Final = (
    "README.md",
    "CONTRIBUTING.md",
    "examples-repo/README.md",
    *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/**/*.md")),
)
_BLOCK: Final = re.compile(
    r"^```(sh|shell|bash|console)\b[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
_COMMENT: Final = re.compile(r"\s+# .*$")


def commands(page: str) -> Iterator[str]:
    """The commands of all blocks, in order, without comments and without what they print."""
    for kind, block in _BLOCK.findall((ROOT / page).read_text()):
        lines = re.sub(r"\\\n\s*", "", block).splitlines()
        if kind == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        yield from (command for line in lines if (command := _COMMENT.sub("", line).strip()))
