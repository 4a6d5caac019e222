"""Random histories of units that wait, and of sources whose history is rewritten.

Units wait for approval of a commit, or of a deletion with volumes; for a window; for the end of a
suspension.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final

import yaml

from tests.gitops.programs import SOURCE, unit
from tests.observer.histories import (
    BRANCH,
    CONFIG,
    RECORDED,
    SINK,
    UNITS,
    Player,
    rewritten,
)
from tests.observer.plans import Plan, object_lies, read_plan
from tests.observer.truth import Named, Obj, Seen, look

GATED: Final = "one"  # the unit that waits; the other one goes on
WINDOW: Final = 'windows: [{{kind: allow, schedule: "0 */2 * * *", duration: 10m}}]'
MORE: Final = {
    "approval": ", approval: always",
    "window": f", {WINDOW}",
    "suspension": ", suspend: true",
    "rewrite": "",
    "volumes": "",
}
EVENTS: Final = ("commit",) * 4 + ("open",) * 3 + ("restart", "deaf", "late")
_OUTAGE_S: Final = (20, 200)
_CLAIM: Final = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
_ASKS: Final = {"approval", "volumes"}  # gates that a person opens once
WEB: Final = Named("CloneSet", "web")
_OPEN, _PERIOD = timedelta(minutes=10), timedelta(hours=2)  # of the window
_APPROVAL: Final = re.compile(r"Gitkruise-Approve: [0-9a-f]{12}")
_NAME: Final = "metadata: {{name: src, namespace: shop"


def config(more: str) -> str:
    """Return a configuration whose first unit has more fields."""
    return SOURCE + SINK + unit(GATED, RECORDED + more) + unit("two", RECORDED)


class GatedPlayer(Player):
    """Plays one history of a unit behind a gate, which is closed again after each opening."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.gate = sorted(MORE)[seed % len(MORE)]
        self.config = CONFIG if self.gate == "suspension" else config(MORE[self.gate])
        super().__init__(folder, seed // len(MORE))
        self.good = {GATED: {}, "two": {}}
        self.is_open = self.gate not in _ASKS
        self.only_deletions_wait = self.gate == "volumes"
        if self.gate == "volumes":
            self.copy.web["volumeClaimTemplates"] = [_CLAIM]
            self.copies = [self.copy.duplicate()]
        self.refused = False  # the source refuses what its ref names
        self.planned: tuple[Plan, Seen, Mapping[Named, Obj], bool] = (
            Plan(refused=True),
            Seen(objects={}, pods={}),
            {},
            True,
        )

    async def _script(self, steps: int) -> None:
        self.left = [] if self.gate in _ASKS else ["close"]
        self.left += [self.random.choice(EVENTS) for _ in range(steps)]
        await self._until(is_open=True)
        await self._plays()

    # The gate -----------------------------------------------------------------------------------

    def _waiting(
        self, newest: Mapping[str, Mapping[Named, Obj] | None], seen: Seen
    ) -> frozenset[str]:
        if self.gate == "volumes":
            return self._keeping_volumes(newest, seen)
        asked = newest[GATED]
        news = asked is not None and asked != self.good[GATED]
        return frozenset({GATED}) if news and not self.is_open else frozenset()

    def _keeping_volumes(
        self, newest: Mapping[str, Mapping[Named, Obj] | None], seen: Seen
    ) -> frozenset[str]:
        """Return the unit that waits before it deletes the CloneSet, whose claims stay as long."""
        wanted = [objects is None or WEB in objects for objects in newest.values()]
        claims = len(self.program.objects("", "PersistentVolumeClaim"))
        pods = seen.of[WEB.name].total if WEB in seen.objects else 0
        if claims < pods or (claims and WEB not in seen.objects):
            self.lies.append(f"{claims} claims of {pods} pods")
        waits = WEB in seen.objects and not any(wanted)
        return frozenset({seen.owner(WEB).rpartition("/")[2]} if waits else ())

    def _wanted(self) -> dict[str, Mapping[Named, Obj] | None]:
        found = super()._wanted()
        return dict.fromkeys(found, None) if self.refused else found

    async def _close(self) -> None:
        """Close the gate; what is live stays."""
        self.is_open = False
        if self.gate == "suspension":
            self._configure(config(MORE[self.gate]))
        elif self.gate == "rewrite":
            self._rewrite()
            await self._rest()
        else:
            await self._until(is_open=False)
            await self._rest()

    async def _open(self) -> None:
        """Open the gate; what waits is applied as a plan says it."""
        self.events.append("open")
        plan = read_plan(self.program.say("plan", "--context", "test", "-o", "json"))
        refused = self._refused(self.git.parent("refs/heads/main"), "refs/heads/main")
        self.planned = plan, look(self.program.objects), self._all(), refused
        self.is_open = True
        self.left.insert(0, "opened")
        if self.gate == "suspension":
            self._configure(CONFIG)
        elif self.gate == "rewrite":
            self._accept()
        elif self.gate in _ASKS:
            self._approve()
            await self._rest()
        else:
            await self._until(is_open=True)
            await self._rest()

    async def _opened(self) -> None:
        plan, before, asked, refused = self.planned
        if plan.refused != refused:
            self.lies.append(f"plan refused is {plan.refused}, rejected is {refused}: {plan.text}")
        if plan.made:
            after = look(self.program.objects)
            changed = rewritten(asked, self._all())
            late = frozenset(after.objects.keys() - self._all().keys())
            self.lies += object_lies(plan, before, after, rewritten=changed, late=late)
        self.is_open = False
        if self.gate not in _ASKS:
            self.left.insert(0, "close")

    def _configure(self, text: str) -> None:
        """Write the configuration, and start with it."""
        self.program.configure(text)
        self.left.insert(0, "restart")

    def _into(self) -> timedelta:
        """Return the time since the window opened last."""
        now = self.program.stage.clock.now()
        return timedelta(hours=now.hour, minutes=now.minute, seconds=now.second) % _PERIOD

    async def _until(self, *, is_open: bool) -> None:
        """Sleep until the window has just opened, or closed."""
        pause = (_PERIOD if is_open else _OPEN) - self._into()
        if pause > timedelta():
            await self.program.stage.rest(pause.total_seconds() + 5)

    def _approve(self) -> None:
        """Approve what the unit says it waits for, as its record tells how."""
        newest = self._record()
        records = [yaml.safe_load(newest[f"units/shop/{name}/status.yaml"]) for name in UNITS]
        asked = [record["waits"] for record in records if record.get("waits")]
        found = _APPROVAL.search(", ".join(asked))
        if found:
            self.checkout.commit({}, "agreed", "--trailer", found[0])
            self.checkout.push("main", self.checkout.tip("main"))

    def _rewrite(self) -> None:
        """Force another history on the ref: it lacks the newest commit."""
        self.checkout.commit({}, f"rewritten {self.random.random()}", "--amend")
        for branch in ("main", BRANCH):
            self.checkout.push(branch, self.checkout.tip("main"))
        self.refused = True

    def _accept(self) -> None:
        """Accept the history. Its first commit deletes nothing: it may not be the last word."""
        newest = self.checkout.tip("main")
        wanted = {found for objects in super()._wanted().values() for found in objects or ()}
        self.spared = frozenset(look(self.program.objects).objects.keys() - wanted)
        accepted = f'{_NAME}, annotations: {{{{"gitkruise.io/accept-rewrite": "{newest}"}}}}'
        self._configure(CONFIG.replace(_NAME, accepted, 1))
        self.refused = False

    async def _late(self) -> None:
        """Nobody can read the repository for a while after a commit came in."""
        bare = self.program.origin.bare
        away = bare.with_name("away.git")
        self._write(self._edited(self.edits))
        self._merge()
        self.spared = frozenset()
        bare.rename(away)
        try:
            await self.program.stage.rest(self.random.choice(_OUTAGE_S))
        finally:
            away.rename(bare)
        await self.program.stage.rest(300)  # sources try again after growing pauses
        await self._rest()

    # Events -------------------------------------------------------------------------------------

    async def _commit(self) -> None:
        """Push a commit: the open unit takes it, the other one says that it waits."""
        assert self.gate != "window" or self._into() > _OPEN
        self._write(self._edited(self.edits))
        self._merge()
        self.spared = frozenset()
        if not self.refused:
            self._too_early()
        await self._rest()
