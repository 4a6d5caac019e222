"""Random histories in which somebody changes live objects beside git, as with kubectl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.observer.histories import UNITS, Player
from tests.observer.truth import OWNER, Named, Seen, look
from tests.worlds import SPACE

EVENTS: Final = ("commit",) * 3 + ("meddle",) * 4 + ("asleep", "restart", "quick", "deaf")
RESOURCES: Final = {
    "CloneSet": ResourceRef("apps.kruise.io", "v1beta1", "clonesets"),
    "ConfigMap": ResourceRef("", "v1", "configmaps"),
    "Pod": ResourceRef("", "v1", "pods"),
}
MARKS: Final = {"labels": {"gitkruise.io/unit": None}, "annotations": {OWNER: None}}
# What somebody does to an object of a kind: a merge patch, or a deletion.
EDITS: Final[dict[str, tuple[tuple[str, dict[str, Any] | None], ...]]] = {
    "ConfigMap": (
        ("edited", {"data": {"x": "edited"}}),
        ("value removed", {"data": None}),
        ("marks removed", {"metadata": MARKS}),
        ("annotated", {"metadata": {"annotations": {"note": "by hand"}}}),
        ("deleted", None),
    ),
    "CloneSet": (
        ("scaled", {"spec": {"replicas": 7}}),
        ("paused", {"spec": {"updateStrategy": {"paused": True}}}),
        ("marks removed", {"metadata": MARKS}),
        ("commit removed", {"metadata": {"annotations": {"gitkruise.io/commit": None}}}),
        ("deleted", None),
    ),
    "Pod": (("deleted", None), ("labelled", {"metadata": {"labels": {"note": "by-hand"}}})),
}


RELEASES: Final = {"deleted", "marks removed"}
UNKNOWN_LATER: Final = {"marks removed", "commit removed"}  # to a new start


class MeddledPlayer(Player):
    """Plays one history of commits and of changes beside git, which are put right."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.asleep = False  # somebody acts before the next start

    async def _script(self, steps: int) -> None:
        self.left = [self.random.choice(EVENTS) for _ in range(steps)]
        await self._plays()

    def _while_down(self) -> None:
        if self.asleep:
            self._act("while down, ")
        self.asleep = False

    async def _rest(self) -> Seen:
        seen = await super()._rest()
        if not self.lies and all(u.state in {"Done", "Held"} for u in self.expected.values()):
            code, out, err = self.program.say("drift", "-o", "json")
            if code != 0 or json.loads(out)["items"]:
                self.lies.append(f"drift: exit {code} at rest: {out}{err}")
        return seen

    def _kept_by_others(self, name: str, undecided: frozenset[str]) -> frozenset[Named]:
        """What lost its mark is of the unit whose newest commit is known, if there is one."""
        (other,) = (unit for unit in UNITS if unit != name)
        if (name in undecided) == (other in undecided):
            return super()._kept_by_others(name, undecided)
        theirs, mine = self.good[other].keys(), self.good[name].keys()
        claimed = mine if name in undecided else mine & theirs  # its newest commit may not want it
        return frozenset(
            found
            for found in claimed
            if self.owners.get(found, other if found in theirs else name) == other
        )

    # Events -------------------------------------------------------------------------------------

    async def _asleep(self) -> None:
        self.asleep = True
        self.left.insert(0, "restart")

    async def _meddle(self) -> None:
        """Change something live; the history of rollouts has no step of it."""
        before = self._steps()
        gone = self._act("")
        await self._rest()
        after = self._steps()
        for name in before.keys() - gone:
            if not self.lies and after.get(name) != before[name]:
                self.lies.append(f"history: {name} has {after.get(name)}, and had {before[name]}")

    def _steps(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for step in json.loads(self.program.say("history", "-o", "json").out)["items"]:
            found.setdefault(step["name"], []).append(step["commit"])
        return found

    def _released(self, name: Named) -> bool:
        """Note the unit that takes an object which lost its mark, where two units want it."""
        rejected = [unit for unit in UNITS if self.expected[f"shop/{unit}"].newest is None]
        wanting = [unit for unit in UNITS if name in self.good[unit] and unit not in rejected]
        if len(rejected) == 1 and wanting:
            self.owners[name] = wanting[0]
        return len(rejected) == 1 and bool(wanting)

    def _act(self, when: str) -> frozenset[str]:
        """Change an object or a pod of one; return the names of CloneSets that begin again."""
        seen = look(self.program.objects)
        pods = [Named("Pod", name) for name, owner, _ in seen.pods.values() if owner]
        name = self.random.choice([*sorted(seen.objects), *sorted(pods)[:1]])
        word, body = self.random.choice(EDITS[name.kind])
        if when and word in UNKNOWN_LATER:
            return self._act(when)
        taken = word in RELEASES and self._released(name)
        self.events.append(f"{when}{name} {word}")
        stage = self.program.stage
        request = ApiRequest(
            verb="delete" if body is None else "patch",
            resource=RESOURCES[name.kind],
            namespace=SPACE,
            name=name.name,
            body=body,
            content_type="" if body is None else "application/merge-patch+json",
            params={} if body is None else {"fieldManager": "kubectl-patch"},
        )
        stage.world.handle(request, stage.clock.now())
        stage.cluster.publish()
        begins = name.kind == "CloneSet" and (taken or body is None)
        return frozenset({name.name} if begins else ())
