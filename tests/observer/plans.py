"""The law of plans: what a plan named is what happened, and nothing else happened.

Imports nothing of gitkruise.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from tests.observer.truth import Named, Obj, Seen

_PODS: Final = ("inPlace", "recreated", "rolled", "added", "removed", "gone", "uncounted")


class Plan(NamedTuple):
    """A plan as the command line prints it in JSON; `refused` when a unit begins to reject
    it, or all reject it."""

    refused: bool
    created: frozenset[Named] = frozenset()
    changed: frozenset[Named] = frozenset()
    deleted: frozenset[Named] = frozenset()
    pods: Mapping[str, int] = {}
    text: str = ""
    made: bool = True  # a unit takes it


def read_plan(output: tuple[int, str, str]) -> Plan:
    """Return the plan that a command line answered with."""
    code, out, err = output
    assert code in {0, 3}, f"plan: exit {code}: {err}"
    document = json.loads(out)
    if "changes" not in document:
        return Plan(refused=True, made=False, text=out)
    by_word: dict[str, set[Named]] = {"create": set(), "configure": set(), "prune": set()}
    for one in document["changes"]:
        if not one["stays"]:
            by_word[one["change"]].add(Named(one["kind"], one["name"]))
    return Plan(
        refused=code != 0,
        created=frozenset(by_word["create"]),
        changed=frozenset(by_word["configure"]),
        deleted=frozenset(by_word["prune"]),
        pods={name: document["totals"]["pods"][name] for name in _PODS},
        text=out,
    )


def object_lies(
    plan: Plan, before: Seen, after: Seen, *, rewritten: frozenset[Named], late: frozenset[Named]
) -> Iterator[str]:
    """Compare the objects that a plan named with those that were created, changed, deleted.

    `rewritten` are those whose manifests changed: a plan names them also where the API server had
    filled in the same value before. `late` are those whose deletion waits for a unit that is stuck.
    """
    old, new = before.objects, after.objects
    facts = {
        "created": frozenset(new.keys() - old.keys()),
        "deleted": frozenset(old.keys() - new.keys()),
        "changed": frozenset(n for n in old.keys() & new.keys() if _differs(old[n], new[n])),
    }
    for word, names in facts.items():
        stated: frozenset[Named] = getattr(plan, word)
        excused = {"changed": rewritten, "deleted": late}.get(word, frozenset())
        false = stated - names - excused
        if false:
            yield f"plan says {word} {sorted(false)}, and that did not happen"
        if names - stated:
            yield f"{sorted(names - stated)} {word}, and the plan did not say so"


def _differs(old: Obj, new: Obj) -> bool:
    parts = ("spec", "data")
    return bool(
        old["metadata"]["uid"] != new["metadata"]["uid"]
        or any(old.get(part) != new.get(part) for part in parts)
    )


def pod_lies(plan: Plan, before: Seen, after: Seen) -> Iterator[str]:
    """Compare the pods that a plan counted with what became of each pod, by its uid."""
    if plan.pods.get("uncounted"):
        yield "plan could not count pods"
        return
    old, new = before.pods, after.pods
    kept = old.keys() & new.keys()
    facts = Counter(
        kept_in_place=sum(old[uid][2] != new[uid][2] for uid in kept),
        begun=len(new.keys() - old.keys()),
        ended=len(old.keys() - new.keys()),
    )
    pods = plan.pods
    counted: dict[str, Any] = {
        "kept_in_place": pods["inPlace"],
        "begun": pods["recreated"] + pods["rolled"] + pods["added"],
        "ended": pods["recreated"] + pods["rolled"] + pods["removed"] + pods["gone"],
    }
    for word, count in counted.items():
        if facts[word] != count:
            yield f"plan counts {count} pods {word} ({dict(pods)}), there were {facts[word]}"
