"""Every YAML, manifest and git row of the catalogue of bad input is tried, or says why not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent
ROWS: Final = {"Y": 40, "M": 38, "G": 34}
NAMED: Final = re.compile(r"B-[YMG]\d\d")
# Rows without a test under their name, and what stands in for it.
ELSEWHERE: Final = {
    "B-M22": "durations of our own documents: tests/gitops/test_config.py, GK7005",
    "B-M26": "SidecarSets are applied, and judged by the cluster's webhook",
    "B-M28": "an optional policy; there is no setting for it",
    "B-M29": "rights are the cluster's: it lets nobody give what he does not have",
    "B-M30": "no source is marked as our own; what it may write is a matter of rights",
    "B-M33": "likewise",
    "B-M34": "tests/gitops/test_trouble.py: a refusal is held, told and tried again",
    "B-M35": "tests/gitops/test_bad_commits.py: selector moved; others by the cluster's dry run",
    "B-M38": "tests/gitops/test_trouble.py: a refusal is not repeated until time has passed",
    "B-G05": "addresses of repositories come from whoever runs gitkruise, never from a repository",
    "B-G26": "tests/git/test_signatures.py",
    "B-G27": "tests/git/test_signatures.py",
}


def test_every_row_is_tried_or_says_why_not() -> None:
    rows = {f"B-{family}{n:02}" for family, count in ROWS.items() for n in range(1, count + 1)}
    here = Path(__file__).name
    texts = (path.read_text() for path in TESTS.rglob("*.py") if path.name != here)
    tried = {row for text in texts for row in NAMED.findall(text)}
    assert rows - tried - ELSEWHERE.keys() == set()
    assert tried <= rows, "a row the catalogue does not have"
