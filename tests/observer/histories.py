"""Random histories of a repository and its cluster, played against the assembled program."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random  # noqa: TID251  histories are drawn from the seed of a test
from typing import Any, Final

from tests.gitops.programs import SOURCE, unit
from tests.gitops.stage import config_map, documents
from tests.observer.checkout import Checkout
from tests.observer.plans import Plan, object_lies, pod_lies, read_plan
from tests.observer.program import Program
from tests.observer.statements import OUTLETS, Expected, live_lies, record_lies, text_lies
from tests.observer.truth import Git, Named, Obj, Seen, look
from tests.worlds import cloneset

SINK: Final = """---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {{name: git, namespace: shop}}
spec: {{git: {{sourceRef: {{name: src}}}}}}
"""
RECORDED: Final = ", sinkRef: {{name: git}}"
CONFIG: Final = SOURCE + SINK + unit("one", RECORDED) + unit("two", RECORDED)
UNITS: Final = ("one", "two")
STATUS, BRANCH = "gitkruise/status/test", "change"
TEXTS: Final = 3  # the tables are read at every third look
REST_S: Final = 45.0
POLICIES: Final = ("InPlaceIfPossible", "InPlaceIfPossible", "ReCreate")
# Files that no API server takes.
BROKEN: Final = {"yaml": "kind: [\n", "replicas": documents(cloneset("broken", -1, "app:v1"))}

Objects = dict[Named, dict[str, Any]]


@dataclass
class Copy:
    """A user's working copy: objects by unit, and a broken file in a unit."""

    objects: dict[str, Objects] = field(default_factory=lambda: {name: {} for name in UNITS})
    broken: dict[str, str] = field(default_factory=lambda: dict.fromkeys(UNITS, ""))
    ways: Mapping[str, str] = field(default_factory=lambda: BROKEN)  # to break a unit
    whole: str = "# nothing\n"  # the file that is broken, as it is otherwise

    def files(self) -> dict[str, str | bytes | None]:
        """Return the files of the working copy."""
        found: dict[str, str | bytes | None] = {}
        for name in UNITS:
            found[f"{name}/app.yaml"] = documents(*self.objects[name].values())
            more = self.ways.get(self.broken[name], self.whole)
            found[f"{name}/more.yaml"] = more.replace("HOME", name)
        return found

    def duplicate(self) -> Copy:
        """Return a copy of this copy, which no later edit changes."""
        objects = {
            home: {name: json.loads(json.dumps(obj)) for name, obj in there.items()}
            for home, there in self.objects.items()
        }
        return replace(self, objects=objects, broken=dict(self.broken))

    def add(self, home: str, obj: Mapping[str, Any]) -> None:
        """Add an object to a unit."""
        self.objects[home][Named(obj["kind"], obj["metadata"]["name"])] = dict(obj)

    @property
    def web(self) -> dict[str, Any]:
        """The spec of the one workload, {} after it was removed."""
        every = (obj for objects in self.objects.values() for obj in objects.values())
        return next((obj["spec"] for obj in every if obj["metadata"]["name"] == "web"), {})

    def movable(self) -> list[tuple[str, Named]]:
        """Return (unit, name) of the objects that may leave a unit: it never becomes empty."""
        return [
            (home, name)
            for home, objects in self.objects.items()
            for name in objects
            if not name.name.startswith("base-")
        ]


def first_copy(random: Random) -> Copy:
    """Return a CloneSet and two ConfigMaps in two units."""
    made = Copy()
    policy = {"podUpdatePolicy": random.choice(POLICIES)}
    made.add("one", cloneset("web", random.randint(1, 4), "app:v1", **policy))
    made.add("one", config_map("base-one", x="1"))
    made.add("two", config_map("base-two", x="1"))
    return made


Edit = Callable[[Copy, Random], str]
Put = Callable[[dict[str, Any], Any], None]  # (spec of the workload, value)
# Edits of a working copy: each returns the change in words, "" when there is nothing to change.


def _image(made: Copy, random: Random) -> str:
    image = random.choice(["app:v1", "app:v2", "app:v3", "app:v4-bad"])
    if made.web:
        made.web["template"]["spec"]["containers"][0]["image"] = image
    return f"image {image}" if made.web else ""


def _partition(made: Copy, random: Random) -> str:
    partition = random.randint(0, 3)
    if made.web:
        made.web["updateStrategy"]["rollingUpdate"]["partition"] = partition
    return f"partition {partition}" if made.web else ""


def _replicas(made: Copy, random: Random) -> str:
    replicas = random.randint(0, 5)
    if made.web:
        made.web["replicas"] = replicas
    return f"replicas {replicas}" if made.web else ""


def _value(made: Copy, random: Random) -> str:
    objects = made.objects[random.choice(UNITS)]
    name = random.choice([n for n in objects if n.kind == "ConfigMap"])
    objects[name]["data"] = {"x": str(random.randint(2, 99))}
    return f"value of {name}"


def _new(made: Copy, random: Random) -> str:
    name, home = random.choice("abcd"), random.choice(UNITS)
    if any(Named("ConfigMap", name) in objects for objects in made.objects.values()):
        return ""
    made.add(home, config_map(name, x="1"))
    return f"new {name} in {home}"


def _removed(made: Copy, random: Random) -> str:
    found = made.movable()
    if not found:
        return ""
    home, name = random.choice(found)
    del made.objects[home][name]
    return f"{name} removed from {home}"


def _renamed(made: Copy, random: Random) -> str:
    found = [(home, name) for home, name in made.movable() if name.kind == "ConfigMap"]
    taken = {name.name for objects in made.objects.values() for name in objects}
    free = sorted(set("abcdef") - taken)
    if not found or not free:
        return ""
    home, name = random.choice(found)
    obj = made.objects[home].pop(name)
    made.add(home, {**obj, "metadata": {**obj["metadata"], "name": free[0]}})
    return f"{name} renamed to {free[0]}"


def _moved(made: Copy, random: Random) -> str:
    found = made.movable()
    if not found:
        return ""
    home, name = random.choice(found)
    other = UNITS[1 - UNITS.index(home)]
    made.objects[other][name] = made.objects[home].pop(name)
    return f"{name} moved from {home} to {other}"


def _broken(made: Copy, random: Random) -> str:
    home = random.choice(UNITS)
    made.broken[home] = random.choice(sorted(made.ways))
    return f"{home} broken: {made.broken[home]}"


def _moved_off_broken(made: Copy, random: Random) -> str:
    """One commit breaks a unit and gives an object of it to the other one."""
    change = _moved(made, random)
    if change:
        home = change.rpartition(" from ")[2].partition(" ")[0]
        made.broken[home] = random.choice(sorted(made.ways))
    return f"{change}, which is broken" if change else ""


def _mended(made: Copy, random: Random) -> str:
    del random
    made.broken = dict.fromkeys(UNITS, "")
    return "mended"


def drawn(word: str, values: Sequence[Any], put: Put) -> Edit:
    """Return the edit that puts one of `values` into the spec of the workload, if there is one."""

    def edit(made: Copy, random: Random) -> str:
        value = random.choice(values)
        if made.web:
            put(made.web, value)
        return f"{word} {value}" if made.web else ""

    return edit


WHOLE: Final = (
    _image, _image, _image, _partition, _partition, _replicas, _value, _new, _new, _removed,
    _renamed, _moved, _moved,
)  # fmt: skip
EDITS: Final = (*WHOLE, _broken, _moved_off_broken, _mended, _mended)
EVENTS: Final = ("commit",) * 5 + ("quick", "restart", "deaf", "revert", "seize")


class Player:
    """Plays one history and compares every statement with the observer's."""

    config = CONFIG
    whole: tuple[Edit, ...] = WHOLE
    edits: tuple[Edit, ...] = EDITS
    only_deletions_wait = False  # where a commit waits, all of it does

    def __init__(self, folder: Path, seed: int) -> None:
        self.random, self.inside = Random(seed), seed % 2 == 0
        self.program = self._program(folder)
        self.checkout = Checkout(self.program.origin)
        self.git = Git(self.program.origin.bare)
        self.copy = self._first_copy()
        self.copies = [self.copy.duplicate()]
        self.good: dict[str, Mapping[Named, Obj]] = {}
        self.spared: frozenset[Named] = frozenset()  # what stays until the next commit
        self.events: list[str] = []
        self.lies: list[str] = []
        self.looks = 0
        self.left: list[str] = []  # events to come
        self.owners: dict[Named, str] = {}  # the last unit of each object

    def play(self, steps: int) -> list[str]:
        """Play `steps` events after the first commit; return the lies, of the first place."""
        self.checkout.begin(self._first())
        try:
            self.program.play(lambda: self._script(steps), inside=self.inside)
        finally:
            self.program.stage.close()
            self.git.close()
        return self.lies

    def _program(self, folder: Path) -> Program:
        return Program(folder, self.config)

    def _first_copy(self) -> Copy:
        return first_copy(self.random)

    def _first(self) -> dict[str, str | bytes | None]:
        """Return the files of the first commit."""
        text = self.config.format(url=self.program.origin.bare)
        return {"gitkruise.yaml": text, **self.copy.files()}

    async def _script(self, steps: int) -> None:
        self.left = [self.random.choice(EVENTS) for _ in range(steps)]
        await self._plays()

    async def _plays(self) -> None:
        while True:
            async with self.program.up():
                await self._rest()
                while self.left and not self.lies and self.left[0] != "restart":
                    await getattr(self, f"_{self.left.pop(0)}")()
            if not self.left or self.lies:
                return
            self.events.append(self.left.pop(0))
            self._while_down()

    def _while_down(self) -> None:
        """Act between a crash and the next start."""

    # Events -------------------------------------------------------------------------------------

    async def _commit(self) -> None:
        await self._pushed(self._edited(self.edits))

    async def _revert(self) -> None:
        if len(self.copies) > 1:
            self.copies.pop()
            self.copy = self.copies.pop()
        await self._pushed("revert")

    async def _pushed(self, change: str) -> None:
        """Plan a commit, push it, and compare what happened with the plan."""
        before, asked = look(self.program.objects), self._all()
        self._write(change)
        plan = read_plan(
            self.program.say("plan", f"main..{BRANCH}", "--context", "test", "-o", "json")
        )
        refused = self._refused(self.git.commit("refs/heads/main"), f"refs/heads/{BRANCH}")
        self._merge()
        self._too_early()
        after = await self._rest()
        if not self.lies:
            self._compare(plan, before, after, rewritten(asked, self._all()), refused=refused)

    async def _seize(self) -> None:
        """A start finds an object in a unit while its owner is rejected."""
        await self._pushed(_moved_off_broken(self.copy, self.random) or self._edited(self.edits))
        self.left.insert(0, "restart")

    async def _quick(self) -> None:
        """Two commits in a row; the last one is whole."""
        self._write(f"quickly: {self._edited(self.whole)}")
        self._merge()
        await self.program.stage.rest(self.random.choice([0, 1, 3]))
        _mended(self.copy, self.random)
        self._write(f"quickly: {self._edited(self.whole)}")
        self._merge()
        await self._rest()

    async def _deaf(self) -> None:
        """The way to the API server breaks while a commit comes in."""
        self._write(f"deaf: {self._edited(self.whole)}")
        self._merge()
        await self.program.stage.rest(self.random.choice([0, 1, 2]))
        self.program.stage.wire.cut = True
        await self.program.stage.rest(self.random.choice([1, 20]))
        self.program.stage.wire.cut = False
        await self.program.stage.rest(120)  # informers try again after growing pauses
        await self._rest()

    def _edited(self, edits: tuple[Edit, ...]) -> str:
        while True:
            change: str = self.random.choice(edits)(self.copy, self.random)
            if change:
                return change

    def _write(self, change: str) -> None:
        self.events.append(change)
        self.copies.append(self.copy.duplicate())
        self.checkout.move(BRANCH, self.checkout.tip("main"))
        self.checkout.commit(self.copy.files(), change)
        self.checkout.push(BRANCH, self.checkout.tip(BRANCH))

    def _merge(self) -> None:
        commit = self.checkout.tip(BRANCH)
        self.checkout.move("main", commit)
        self.checkout.push("main", commit)

    # Looking ------------------------------------------------------------------------------------

    def _wanted(self) -> dict[str, Mapping[Named, Obj] | None]:
        newest = self.git.commit("refs/heads/main")
        return {name: self.git.wanted(newest, name) for name in UNITS}

    def _too_early(self) -> None:
        """No wait ends before the controller has read a commit that changes its unit."""
        for name, objects in self._wanted().items():
            if objects != self.expected[f"shop/{name}"].newest:
                code, out, err = self.program.say("wait", f"shop/{name}", "--timeout", "1ms")
                if code != 6:
                    self.lies.append(f"wait {name}: exit {code} before it was read: {out}{err}")

    async def _rest(self) -> Seen:
        """Let everything settle, and compare all that is said with what is so."""
        await self.program.stage.rest(REST_S)
        seen = look(self.program.objects)
        newest = self._wanted()
        waiting = self._waiting(newest, seen)
        self.good |= {
            name: objects
            for name, objects in newest.items()
            if objects is not None and (name not in waiting or self.only_deletions_wait)
        }
        undecided = waiting | {name for name, objects in newest.items() if objects is None}
        expected = {
            f"shop/{name}": Expected(
                f"shop/{name}",
                newest[name],
                self.good[name],
                seen,
                self._kept_by_others(name, undecided),
                waits=name in waiting,
            )
            for name in UNITS
        }
        self.lies += live_lies(expected, seen, self.spared)
        if not self.lies:
            self.lies += record_lies(expected, self._record())
            for outlet in self.random.sample(sorted(OUTLETS), 2):
                self.lies += OUTLETS[outlet](expected, self.program.say)
            self.looks += 1
            if self.looks % TEXTS == 0:
                self.lies += text_lies(expected, self.program.say)
        self.expected = expected
        self.owners |= {found: name for name in UNITS for found in expected[f"shop/{name}"].own}
        return seen

    def _waiting(
        self, newest: Mapping[str, Mapping[Named, Obj] | None], seen: Seen
    ) -> frozenset[str]:
        """Return the units whose newest commit waits for somebody, or for a time."""
        del newest, seen
        return frozenset()

    def _kept_by_others(self, name: str, undecided: frozenset[str]) -> frozenset[Named]:
        """Return objects that two units claim, one of them undecided, and that the other owns."""
        others = [other for other in UNITS if other != name and {name, other} & undecided]
        return frozenset(
            found
            for other in others
            for found in self.good[other].keys() & self.good[name].keys()
            if self.owners.get(found, other) == other
        )

    def _record(self) -> dict[str, str]:
        files = self.git.files(self.git.commit(f"refs/heads/{STATUS}"))
        return {name: content.decode() for name, content in files.items()}

    def _all(self) -> dict[Named, Obj]:
        """Return everything that the newest good commits want."""
        return {name: obj for objects in self.good.values() for name, obj in objects.items()}

    def _refused(self, old: str, new: str) -> bool:
        """Return whether a unit begins to reject a commit that follows `old`, or all reject it."""
        after = self.git.commit(new)
        nobody = all(self.git.wanted(after, name) is None for name in UNITS)
        return nobody or bool(self._rejecting(old, new))

    def _rejecting(self, old: str, new: str) -> list[str]:
        """Return the units that a commit breaks, or breaks in another way than `old` ("": none)."""
        after = self.git.commit(new)
        files = [self.git.files(commit) if commit else {} for commit in (old, after)]
        return [
            f"shop/{name}"
            for name in UNITS
            if self.git.wanted(after, name) is None
            and len({found.get(f"{name}/more.yaml") for found in files}) > 1
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
        """Compare a plan of the units that take a commit with what happened.

        `refused`: a unit begins to reject it, or all reject it.
        """
        if plan.refused != refused:
            self.lies.append(f"plan refused is {plan.refused}, rejected is {refused}: {plan.text}")
        if not plan.made:
            return
        late = frozenset(after.objects.keys() - self._all().keys())  # of a unit that is stuck
        self.lies += object_lies(plan, before, after, rewritten=rewritten, late=late)
        if all(unit.state in {"Done", "Held"} for unit in self.expected.values()):
            self.lies += pod_lies(plan, before, after)


def rewritten(old: Mapping[Named, Obj], new: Mapping[Named, Obj]) -> frozenset[Named]:
    """Return the objects whose manifests changed."""
    return frozenset(name for name in old.keys() & new.keys() if old[name] != new[name])
