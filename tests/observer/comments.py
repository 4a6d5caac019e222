"""The laws of comments on pull requests: what they promised happened, and how it ended is so.

Imports nothing of gitkruise.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from tests.observer.plans import Plan
from tests.observer.statements import Expected
from tests.observer.truth import Named

_HEAD: Final = re.compile(r"(?m)^### gitkruise plan for `(\w{7})` → `main` on `test` · (.*)$")
_ENDED: Final = re.compile(r"(?m)^### gitkruise: `(\w{7})` → `main` on `test` · (.*)$")
_ROW: Final = re.compile(r"(?m)^\| ([+~−]) \| `(\w+) shop/([\w.-]+)[^|]* \| [^|]* \| ([^|]*) \|")
_PODS: Final = re.compile(r"(\d+) (in place|recreated|replaced|added|removed|gone)")
_OUTCOME: Final = re.compile(r"(?m)^- (\S+) \*\*(shop/\w+)\*\* ")
_MARKS: Final = {
    "✓": "Done",
    "⏸": "Held",
    "◐": "Rolling",
    "…": "Waiting",
    "✗": "Stuck",
    "!": "Rejected",
}
_WORST: Final = ("Rejected", "Stuck", "Rolling", "Waiting", "Held", "Done")
_SIGNS: Final = {"+": "created", "~": "changed", "−": "deleted"}
_WORDS: Final = {"in place": "inPlace", "replaced": "rolled"}
_COUNTS: Final = ("inPlace", "recreated", "rolled", "added", "removed", "gone")
REFUSED, CURRENT = "✗ no plan", "✅ current"
REJECTED: Final = "✗ rejected by "
CLOSED: Final = "closed without a merge, nothing changes"


def read_comment(text: str) -> tuple[str, str, Plan]:
    """Return (head, heading, plan) of a comment on an open pull request; "" says: no change."""
    if not text:
        return "", "", Plan(refused=False, pods=dict.fromkeys(_COUNTS, 0))
    found = _HEAD.search(text)
    if found is None:
        return "", "", Plan(refused=True, text=text)
    by_word: dict[str, set[Named]] = {"created": set(), "changed": set(), "deleted": set()}
    pods: Counter[str] = Counter(dict.fromkeys(_COUNTS, 0))
    for sign, kind, name, moved in _ROW.findall(text):
        by_word[_SIGNS[sign]].add(Named(kind, name))
        for count, word in _PODS.findall(moved):
            pods[_WORDS.get(word, word)] += int(count)
    plan = Plan(
        refused=found[2] == REFUSED or found[2].startswith(REJECTED),
        created=frozenset(by_word["created"]),
        changed=frozenset(by_word["changed"]),
        deleted=frozenset(by_word["deleted"]),
        pods=pods,
        text=text,
    )
    return found[1], found[2], plan


def outcome_lies(
    text: str, merged: str, units: Mapping[str, Expected], moved: frozenset[str]
) -> Iterator[str]:
    """Compare the end of a merged pull request with what became of its units.

    `moved` are the units that its merge changes.
    """
    found = _ENDED.search(text)
    if found is None or found[1] != merged[:7]:
        yield f"comment: {merged[:7]} was merged, and its heading is {text[:200]!r}"
        return
    outcomes = {name: _MARKS.get(mark, mark) for mark, name in _OUTCOME.findall(text)}
    for name in moved - outcomes.keys():
        yield f"comment: {name} is left out, and the merge changes it"
    for name, state in outcomes.items():
        if state != units[name].state:
            yield f"comment: {name} is {state}, not {units[name].state}"
    states = {units[name].state for name in outcomes}
    worst = next((state for state in _WORST if state in states), "cluster")
    if not found[2].endswith(worst):
        yield f"comment: the heading is {found[2]!r}, and its units are {sorted(states)}"
