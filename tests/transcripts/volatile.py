"""What differs from run to run, in one place: such a value becomes a name of its role."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

# Field → what stands in its place. Equal uids and versions get equal names, so that "the object
# is the same" and "nothing was written" are compared, and their values are not.
NUMBERED: Final = {"uid": "uid", "resourceVersion": "version"}
HIDDEN: Final = {
    "creationTimestamp": "<time>",
    "deletionTimestamp": "<time>",
    "time": "<time>",
    "lastTransitionTime": "<time>",
    "lastUpdateTime": "<time>",
    "lastPhaseTransitionTime": "<time>",
    "lastProbeTime": "<time>",
    "continue": "<continue>",
    "clusterIP": "<ip>",
    "clusterIPs": "<ip>",
    "token": "<token>",
    "endpoints.kubernetes.io/last-change-trigger-time": "<time>",
    "expirationTimestamp": "<time>",
}
UNTOLD: Final = "the server rejected our request due to an error in our request"
COLUMN_TEXT: Final = frozenset({"description"})  # of a Table's columns: prose that nobody shows
LISTS: Final = re.compile(r"(List|Table)$")
AGE: Final = re.compile(r"^(\d+[smh]|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)$")
# Ordered by the second in which a manager wrote last, and conflicts like them. Causes come twice
# where the server checks metadata twice; nobody can tell what that is good for.
UNORDERED: Final = frozenset({"managedFields", "causes"})
# Filled by controllers that go through maps of Go.
SHUFFLED: Final = frozenset({"endpoints", "subsets", "ports", "rows"})
VERSION: Final = re.compile(
    r"(?<=ResourceVersion in the precondition \()\d+|(?<=in record \()\d+(?=\))"
)
CURRENT: Final = re.compile(r"(?<=current: )\d+")
# A refused patch shows the object in the order in which the server's JSON library left it, or the
# patch as a map of Go.
WHOLE: Final = re.compile(
    r'((?<=patch: Invalid value: )|(?<=^Invalid value: ))("\{.*\}"|"map\[.*\]")'
)
# The real server stops at the first undeclared field, and goes through maps as Go does: at random.
UNTYPED: Final = re.compile(r"(failed to create typed patch object \([^)]*\)): .*", re.DOTALL)
# Properties of a custom resource are checked in Go's random order of map keys, too.
PROBLEMS: Final = re.compile(r'(?<=example\.com ")([^"]*" is invalid: \[)(.*)\]$', re.DOTALL)
# A refused change of a pod shows the difference of two Go values.
GO_DIFF: Final = re.compile(r"(?<=was previously negative\))\n.*?(?=\]?\Z)", re.DOTALL)
GENERATED: Final = re.compile(r"\b(gen-(?:[a-z]-)?)[a-z0-9]{5}\b")
UID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


class Names:
    """The stand-ins of one chapter, given out in the order in which values are first seen."""

    def __init__(self, namespace: str, *, shuffled: bool = False) -> None:
        """`shuffled`: lists of SHUFFLED are compared without their order, too."""
        self._unordered = UNORDERED | (SHUFFLED if shuffled else frozenset())
        self._given: dict[tuple[str, str], str] = {}
        self._namespace = namespace
        self.passing = False  # a dry run: what it makes is gone again

    def of(self, role: str, value: str) -> str:
        known = self._given
        if self.passing and role == "uid" and (role, value) not in known:
            return "<passing uid>"
        if (role, value) not in known:
            count = sum(1 for r, _ in known if r == role)
            known[role, value] = f"<{role} {count + 1}>"
        return known[role, value]

    def plain(self, value: Any, field: str = "") -> Any:
        """`value` without anything that differs from run to run."""
        if isinstance(value, Mapping):
            hidden = COLUMN_TEXT if field == "columnDefinitions" else frozenset()
            items = _comparable(value).items()
            return {self._key(k): self.plain(item, k) for k, item in items if k not in hidden}
        if field in HIDDEN and value not in (None, "", "None", ["None"]):
            return HIDDEN[field]
        if isinstance(value, list):
            plain = [self.plain(item, field) for item in value]
            return _in_order(plain) if field in self._unordered else plain
        if not isinstance(value, str) or value.startswith("<"):
            return value
        if field == "cells":
            value = AGE.sub("<age>", value)
        if field in NUMBERED and value:
            return self.of(NUMBERED[field], value)
        return self.text(value)

    def _key(self, key: str) -> str:
        """A field, or what an element of a list is known by in managedFields."""
        return UID.sub(lambda found: self.of("uid", found[0]), key) if key[:3] == "k:{" else key

    def text(self, value: str) -> str:
        """A message or a name: with the chapter's namespace, uids and made-up names hidden."""
        value = UNTYPED.sub(r"\1: <why>", value.replace(self._namespace, "<ns>"))
        value = PROBLEMS.sub(lambda found: found[1] + _sorted(found[2]) + "]", value)
        value = GO_DIFF.sub("", value)
        value = CURRENT.sub("<any>", WHOLE.sub("<object>", value))
        value = VERSION.sub(lambda found: self.of("version", found[0]), value)
        value = UID.sub(lambda found: self.of("uid", found[0]), value)
        return GENERATED.sub(r"\1<made up>", value)


def _comparable(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A list without its version, which tells of the whole server's writes; a refusal without
    details where the real server gives none and the embedded one says which operation failed."""
    if value.get("message") == UNTOLD or value.get("details") == {}:
        return {key: item for key, item in value.items() if key != "details"}
    if LISTS.search(str(value.get("kind", ""))) and value.get("metadata"):
        return {**value, "metadata": {**value["metadata"], "resourceVersion": "<any>"}}
    return value


def _in_order(items: list[Any]) -> list[Any]:
    """The items in an order that tells nothing, each once."""
    listed = sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
    return [item for i, item in enumerate(listed) if i == 0 or item != listed[i - 1]]


def _sorted(problems: str) -> str:
    return ", ".join(sorted(problems.split(", ")))
