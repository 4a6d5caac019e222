"""A source's history with faults, played on a stage; a witness judges every delete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gitkruise.errors import ApiError, Forbidden, Unavailable
from gitkruise.planner.sync.annotations import COMMIT, annotation
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import ApiRequest
from tests.git.repos import Faults, run_git
from tests.gitops.stage import Stage, config_map, documents
from tests.worlds import SPACE

Wanted = Mapping[str, str]  # ConfigMaps by name, with the value each holds
HEAD: Final = "refs/heads/main"
FEW: Final = 3  # deletions that need no approval in so small a unit
STRANGER: Final = config_map("stranger", v="theirs")


@dataclass
class Past:
    """What is true of the source and what gitkruise may know of it."""

    commits: dict[str, Wanted | None] = field(default_factory=dict)  # None: cannot be taken
    tip: str = ""
    away: bool = False  # the branch cannot be seen
    torn: str = ""  # a commit whose manifest was cut off,
    half: Path | None = None  # where it is,
    whole: bytes = b""  # and what it held
    taken: str = ""  # the newest commit that was seen and could be taken
    causal: str = ""  # the first that asked for the same, which is what records tell of
    refused: bool = False  # what was seen last could not
    faults: Faults = field(default_factory=Faults)  # of a server in between,
    here: set[str] = field(default_factory=set)  # and what came through before
    jumped: bool = False  # what was taken last is of another history than what was before,
    vague: bool = False  # or nobody remembers what that was

    @property
    def wanted(self) -> Wanted:
        return self.commits.get(self.taken) or {}

    @property
    def whole_word(self) -> bool:
        """Whether git says by its newest commit, plainly, what it wants."""
        return self.readable and self.tip == self.taken and not self.refused

    @property
    def readable(self) -> bool:
        broken = self.faults.silent or (self.faults.cutting and self.tip not in self.here)
        return bool(self.tip) and not self.away and self.torn != self.tip and not broken


class Player:
    """Plays steps on a stage and keeps the books."""

    def __init__(self, stage: Stage, *, rewriting: bool) -> None:
        self.stage, self.past = stage, Past()
        if rewriting:
            stage.allow_force_push = True
            stage.start_over()
        self.broken: list[str] = []
        self.kept = False  # nothing can be deleted
        self.cut_at = 0  # writes until the cluster falls silent; 0: it does not
        stage.wire.refuse = self._look
        stage.meddle(STRANGER, manager="somebody")

    # The witness ----------------------------------------------------------------------------

    def _look(self, request: ApiRequest) -> ApiError | None:
        wet = request.verb in {"patch", "delete"} and "dryRun" not in request.params
        if request.verb == "delete":
            self._judge(request)
            if self.kept:
                return Forbidden("not now")
        if wet and request.params.get("fieldManager") != "gitkruise-status" and self.cut_at:
            self.cut_at -= 1
            if not self.cut_at:
                self.cut_at = 1
                return Unavailable("gone away")
        return None

    def _judge(self, request: ApiRequest) -> None:
        past, name = self.past, request.name
        found = self.stage.get("ConfigMap", name)
        ours = {obj["metadata"]["name"] for obj in self.ours()}
        if not past.whole_word:
            self.broken.append(f"{name} is deleted by what is not git's last word")
        elif not past.wanted:
            self.broken.append(f"{name} is deleted by a commit without anything")
        elif name in past.wanted:
            self.broken.append(f"{name} is deleted and wanted")
        elif past.jumped and not past.vague:
            self.broken.append(f"{name} is deleted by a commit of another history")
        elif len(ours - past.wanted.keys()) > FEW:
            self.broken.append(f"{name} is one of too many that are deleted")
        if name not in ours:
            self.broken.append(f"{name} is not ours to delete")
        if found and request.body["preconditions"].get("uid") != found["metadata"]["uid"]:
            self.broken.append(f"{name} is deleted whoever it is")

    def ours(self) -> list[Obj]:
        label = self.stage.unit.label
        found = self.stage.world.objects(ObjectKey("", "ConfigMap", SPACE, "").group_kind, SPACE)
        return [
            o for o in found if o["metadata"].get("labels", {}).get("gitkruise.io/unit") == label
        ]

    # The source -----------------------------------------------------------------------------

    def commit(self, wanted: Wanted | None) -> None:
        """A commit that asks for `wanted`; None: one that nobody can read."""
        number = len(self.past.commits)
        objects = [config_map(name, v=value) for name, value in sorted((wanted or {}).items())]
        text = documents(*objects) if wanted is not None else "{broken"
        self._push({"app.yaml": f"# {number}\n{text}"}, wanted)

    def _push(self, files: Mapping[str, str | None], wanted: Wanted | None) -> None:
        """A push that the source takes, though what was torn in it before stays torn."""
        past = self.past
        cut = past.half.read_bytes() if past.half else b""
        if past.half:  # git may want the object to unpack what comes
            past.half.write_bytes(past.whole)
        self._pushed(self.stage.origin.commit(files), wanted)
        if past.half:
            past.half.write_bytes(cut)

    def _pushed(self, commit: str, wanted: Wanted | None) -> None:
        self.past.commits[commit], self.past.tip = wanted, commit
        if self.past.away:
            self.lose()

    async def play(self, what: str, *more: Any) -> bool:
        """One step; whether gitkruise is started anew after it."""
        if what == "half":
            await self.half(*more)
            return True
        getattr(self, what)(*more)
        await self.look()
        return what == "restart"

    def bad(self) -> None:
        """A commit that nobody can read."""
        self.commit(None)

    def silence(self) -> None:
        """The server cannot be reached."""
        self.past.faults.silent = True

    def cut(self) -> None:
        """What the server sends breaks off in the middle."""
        self.past.faults.cutting = True

    async def half(self, wanted: Wanted, then: str) -> None:
        """A commit that is cut short, for the cluster falls silent after the first write, and
        what comes of the source before anybody looks again."""
        self.commit(wanted)
        self.cut_at = 2
        await self.look()
        await self.stage.rest(3)
        getattr(self, then)()

    def torn(self, wanted: Wanted) -> None:
        """A commit that arrives cut off in the middle."""
        self.commit(wanted)
        self.tear()

    def keep(self) -> None:
        """The cluster refuses to delete anything until all is mended."""
        self.kept = True

    def restart(self) -> None:
        """Nothing but what the one who plays does."""

    def meddle(self) -> None:
        """Somebody changes the first of our objects by hand."""
        for obj in self.ours()[:1]:
            self.stage.meddle(config_map(obj["metadata"]["name"], v="by hand"))

    def remove(self) -> None:
        """A commit without any file."""
        if not (self.stage.origin.work / "app.yaml").exists():
            return
        self._push({"app.yaml": None, "README.md": "moved"}, {})

    def rewrite(self, wanted: Wanted) -> None:
        """Another commit in the place of the newest one."""
        if len(self.past.commits) < 2 or self.past.away:
            return
        before = list(self.past.commits)[-2:][0]
        run_git(self.stage.origin.work, "reset", "--hard", "-q", before)
        run_git(self.stage.origin.bare, "update-ref", HEAD, before)
        self.commit(wanted)

    def lose(self) -> None:
        """The branch is gone."""
        if not self.past.tip:
            return
        run_git(self.stage.origin.bare, "update-ref", "-d", HEAD)
        self.past.away = True

    def tear(self) -> None:
        """Cut the newest commit's manifest off in the middle, as a bad transfer would."""
        if not self.past.commits.get(self.past.tip) or self.past.torn:
            return
        blob = run_git(self.stage.origin.bare, "rev-parse", f"{self.past.tip}:app.yaml")
        path = self.stage.origin.bare / "objects" / blob[:2] / blob[2:]
        self.past.torn, self.past.half, self.past.whole = self.past.tip, path, path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(self.past.whole[: len(self.past.whole) // 2])

    def mend(self) -> None:
        """Everything that was wrong with the source is right again."""
        past, self.kept = self.past, False
        past.faults.silent = past.faults.cutting = False
        if past.half is not None:
            past.half.write_bytes(past.whole)
            past.torn, past.half = "", None
        if past.away:
            run_git(self.stage.origin.bare, "update-ref", HEAD, past.tip)
            past.away = False

    def started_over(self) -> None:
        """A commit that no object carries is not remembered (one that asks for nothing new, or for
        deletions alone, which may wait for an approval), nor how the last one came."""
        carried = {annotation(obj, COMMIT) for obj in self.ours()}
        known = [commit for commit in self.past.commits if commit in carried]
        self.past.taken = known[-1] if known else self.past.causal
        self.past.vague = True

    async def look(self) -> None:
        """gitkruise looks at the source; the books follow what it may make of it."""
        past = self.past
        past.here |= {past.tip} if past.readable else set()
        if past.readable and past.tip != past.taken:
            wanted = past.commits[past.tip]
            past.refused = not wanted or not self._follows(past.taken)
            if not past.refused:
                past.jumped, past.vague = not self._leads(past.taken), not past.taken
                same = past.wanted == wanted
                past.taken, past.causal = past.tip, past.causal if same else past.tip
        elif past.readable:
            past.refused = False
        await self.stage.follower.check()

    def _follows(self, old: str) -> bool:
        return self.stage.allow_force_push or self._leads(old)

    def _leads(self, old: str) -> bool:
        if not old:
            return True
        line = run_git(self.stage.origin.bare, "rev-list", self.past.tip).split()
        return old in line

    # What must be ---------------------------------------------------------------------------

    def check(self, where: Any) -> None:
        """After a rest with nothing wrong with the cluster."""
        assert not self.broken, (self.broken, where)
        live = {o["metadata"]["name"]: o["data"]["v"] for o in self.ours()}
        wanted = self.past.wanted
        missing = {name: v for name, v in wanted.items() if live.get(name) != v}
        assert not missing, (where, missing, live)
        left = live.keys() - wanted.keys()
        rewritten = self.past.jumped or self.past.vague
        sure = not (self.stage.allow_force_push and rewritten)
        if self.past.whole_word and wanted and not self.kept and sure:
            assert not left or len(left) > FEW, (where, left)
        assert self.stage.get("ConfigMap", "stranger")["data"] == {"v": "theirs"}
