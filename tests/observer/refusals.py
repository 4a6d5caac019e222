"""Random histories whose commits the cluster refuses, and may take some time later; also with
changes of live objects by hand."""

from __future__ import annotations

from pathlib import Path
from random import Random  # noqa: TID251  histories are drawn from the seed of a test
from typing import Final

from gitkruise.errors import ApiError, Forbidden
from gitkruise.wire.primitives.requests import ApiRequest
from tests.gitops.stage import config_map, documents
from tests.observer.histories import BROKEN, EDITS, UNITS, Copy, Edit, Player, first_copy
from tests.observer.meddling import MeddledPlayer
from tests.observer.plans import Plan, object_lies
from tests.observer.truth import FORBIDDEN, Named, Seen, named

EVENTS: Final = ("commit",) * 6 + ("restart",) * 2 + ("quick", "deaf", "revert", "seize", "allow")
BY_HAND: Final = ("commit",) * 4 + ("meddle",) * 4 + (
    "asleep", "restart", "quick", "deaf", "revert", "seize", "allow",
)  # fmt: skip
_LOST: Final = config_map("lost-HOME", x="1")
_FIXED: Final = {**config_map("fixed-HOME", x="1"), "immutable": True}
_WHOLE: Final = documents(_FIXED)
# Second files that the cluster refuses: in the dry run, unless its schemas say so before.
REFUSED: Final = {
    "namespace": documents(
        _FIXED, {**_LOST, "metadata": {**_LOST["metadata"], "namespace": "nowhere"}}
    ),
    "immutable": documents({**_FIXED, "data": {"x": "2"}}),
    "kind": documents(_FIXED, {**_LOST, "apiVersion": "example.com/v1", "kind": "Widget"}),
    "forbidden": documents(_FIXED, config_map(f"{FORBIDDEN}HOME", x="1")),
}
AGAIN_S: Final = 600.0  # within it, refused commits are tried again


def _moved_into_broken(made: Copy, random: Random) -> str:
    """One commit gives an object to a unit, and breaks that unit."""
    found = made.movable()
    if not found:
        return ""
    home, name = random.choice(found)
    other = UNITS[1 - UNITS.index(home)]
    made.objects[other][name] = made.objects[home].pop(name)
    made.broken[other] = random.choice(sorted(REFUSED))
    return f"{name} moved from {home} to {other}, broken: {made.broken[other]}"


def _refuse(request: ApiRequest) -> ApiError | None:
    forbidden = request.verb == "patch" and request.name.startswith(FORBIDDEN)
    return Forbidden(f'configmaps "{request.name}" is forbidden') if forbidden else None


class RefusedPlayer(Player):
    """Plays one history of commits that the cluster refuses, alone and with moves."""

    edits: tuple[Edit, ...] = (*EDITS, _moved_into_broken, _moved_into_broken)

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.before: Seen | None = None  # at rest
        self.program.stage.wire.refuse = _refuse

    def _first_copy(self) -> Copy:
        made = first_copy(self.random)
        made.ways, made.whole = {**BROKEN, **REFUSED}, _WHOLE
        return made

    async def _script(self, steps: int) -> None:
        self.left = [self.random.choice(EVENTS) for _ in range(steps)]
        await self._plays()

    async def _allow(self) -> None:
        """The cluster takes what it refused; no commit says so."""
        self.events.append("allow")
        self.program.stage.wire.refuse = lambda _: None
        self.git.forbids = False
        await self.program.stage.rest(AGAIN_S)
        await self._rest()

    async def _rest(self) -> Seen:
        seen = await super()._rest()
        undecided = any(unit.newest is None for unit in self.expected.values())
        if self.before is not None and undecided:
            self.lies += self._lost(self.before, seen)
        self.before = seen
        return seen

    def _lost(self, before: Seen, seen: Seen) -> list[str]:
        """An object that git names is not deleted while a unit rejects what git says."""
        newest = self.git.files(self.git.commit("refs/heads/main"))
        asked = named(newest[f"{name}/app.yaml"] for name in UNITS)
        return [
            f"{name} was deleted, and git names it"
            for name in sorted(asked & before.objects.keys())
            if name not in seen.objects
            or seen.objects[name]["metadata"]["uid"] != before.objects[name]["metadata"]["uid"]
        ]

    def _compare(
        self,
        plan: Plan,
        before: Seen,
        after: Seen,
        rewritten: frozenset[Named],
        *,
        refused: bool,
    ) -> None:
        """A plan that asks no server does not know what a cluster refuses: it may name more."""
        if not any(self.copy.broken[name] in REFUSED for name in UNITS):
            super()._compare(plan, before, after, rewritten, refused=refused)
        elif plan.made:
            found = object_lies(plan, before, after, rewritten=rewritten, late=frozenset())
            self.lies += [lie for lie in found if lie.endswith("did not say so")]


class MeddledRefusalsPlayer(RefusedPlayer, MeddledPlayer):
    """Plays one history of commits that the cluster refuses, and of changes by hand."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.by_hand = False  # something live was changed since the last look

    async def _script(self, steps: int) -> None:
        self.left = [self.random.choice(BY_HAND) for _ in range(steps)]
        await self._plays()

    async def _rest(self) -> Seen:
        seen = await super()._rest()
        self.by_hand = False
        return seen

    def _act(self, when: str) -> frozenset[str]:
        """Change something that the cluster lets change: some objects are immutable."""
        self.by_hand = True
        try:
            return super()._act(when)
        except ApiError:
            self.events.pop()
            return self._act(when)

    def _lost(self, before: Seen, seen: Seen) -> list[str]:
        """What somebody deleted or released is no loss by gitkruise."""
        return [] if self.by_hand else super()._lost(before, seen)
