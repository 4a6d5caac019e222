"""Pull requests of one repository: the plan while they are open, the outcome after the merge."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final

import msgspec

from gitkruise.errors import ApiError, Reported
from gitkruise.gitops.telling.box import Post
from gitkruise.gitops.telling.foretelling import Foreteller
from gitkruise.gitops.telling.forge import Forge
from gitkruise.gitops.telling.outlet import Outlet
from gitkruise.kube.clock import Clock, wait_for
from gitkruise.kube.limits import pause_s
from gitkruise.model.config import PullRequests
from gitkruise.model.record import UnitRecord
from gitkruise.model.telling import CommentLetter, Outcome, Pull, PullStory
from gitkruise.planner.telling.comment import brief, section
from gitkruise.planner.telling.outcomes import check, follow
from gitkruise.planner.telling.statuses import context_of

log = logging.getLogger(__name__)
LOOK_S: Final = 30.0  # between two looks without a hook
PAUSE_MAX_S: Final = 300.0
MERGED_MAX: Final = 200  # stories whose outcome is still followed; older ones end as they are
_STORY: Final = "pull/"


class Pulls:
    """Follows the pull requests into the branches that `foretellers` plan for."""

    def __init__(
        self,
        forge: Forge,
        outlet: Outlet,
        told: tuple[str, PullRequests],
        foretellers: Mapping[str, Foreteller],
        clock: Clock,
    ) -> None:
        self.problem = ""  # why the newest pull requests are not known
        self._forge, self._outlet, self._clock = forge, outlet, clock
        self._cluster, self._rules = told
        self._foretellers = foretellers
        self._stories: dict[int, PullStory] | None = None
        self._latest: dict[str, UnitRecord] = {}
        self._news: dict[str, UnitRecord] = {}  # of `_latest`, not looked at yet
        self._look, self._wake = True, asyncio.Event()
        self._failures = 0

    def look_now(self) -> None:
        """Somebody said that a pull request changed."""
        self._look = True
        self._wake.set()

    def offer(self, record: UnitRecord) -> None:
        """Take the newest record of a unit. Never waits."""
        self._latest[record.unit] = self._news[record.unit] = record
        self._wake.set()

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            pause = LOOK_S
            try:
                if self._look:
                    self._look = False
                    await self.look()
                await self.follow()
                self._failures, self.problem = 0, ""
            except (ApiError, Reported, sqlite3.Error) as error:
                pause = self._failed(error)
            await self._rest(pause)

    def _failed(self, error: Exception) -> float:
        self._failures += 1
        self.problem, self._look = str(error), True
        if self._failures & (self._failures - 1) == 0:
            log.warning("%s: pull requests: %s", self._outlet.channel, error)
        pause = pause_s(self._failures, first_s=1.0, cap_s=PAUSE_MAX_S, seed=self._outlet.channel)
        told = error.details.retry_after_s if isinstance(error, ApiError) else 0
        return max(pause, float(told))

    async def _rest(self, seconds: float) -> None:
        """While something fails, news do not shorten the pause."""
        if self._failures:
            await self._clock.sleep(seconds)
            return
        if not await wait_for(self._wake, self._clock, timedelta(seconds=seconds)):
            self._look = True
        self._wake.clear()

    # Looking --------------------------------------------------------------------------------

    async def look(self) -> None:
        """Ask the forge what is open; plan what is new, and see how the others ended.

        One that fails does not keep the others waiting; its error is raised when all had a turn.
        """
        stories = await self._known()
        pulls = [p for p in await self._forge.open_pulls() if p.base in self._foretellers]
        failed: list[ApiError | Reported] = []
        for pull in pulls:
            try:
                await self._see(pull, stories.get(pull.number))
            except (ApiError, Reported) as error:
                failed.append(error)
        now_open = {pull.number for pull in pulls}
        for story in [s for s in stories.values() if s.state == "open"]:
            if story.number not in now_open:
                try:
                    await self._ended(story)
                except (ApiError, Reported) as error:
                    failed.append(error)
        if failed:
            raise failed[0]

    async def _see(self, pull: Pull, before: PullStory | None) -> None:
        if before is not None and (before.state, before.head) == ("open", pull.head):
            if not before.newer:
                return
        elif before is not None and (before.plan or before.failed):
            await self._tell(msgspec.structs.replace(before, newer=pull.head))
        foreteller = self._foretellers[pull.base]
        found = await foreteller.foretell(pull, self._forge.ref_of(pull.number))
        posts = []
        if self._rules.check:
            context = context_of(self._rules.check, self._cluster, "")
            letter = check(found.story, context, found.summary)
            posts.append(Post(f"check/{pull.head}", letter, self._clock.now()))
        await self._tell(found.story, *posts)

    async def _ended(self, story: PullStory) -> None:
        pull = await self._forge.pull(story.number)
        if pull.state == "open":
            return  # it asks for another branch now
        commits: tuple[str, ...] = ()
        if pull.state == "merged":
            foreteller = self._foretellers.get(story.branch)
            if foreteller is None:
                return
            commits = await asyncio.to_thread(foreteller.brought, story, pull.merged_as)
        ended = msgspec.structs.replace(
            story, state=pull.state, newer="", merged_as=pull.merged_as, commits=commits
        )
        await self._tell(ended)
        if ended.state == "merged":
            await self._add(ended, self._latest.values())

    # Telling --------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Add what new records say about merged pull requests."""
        news, self._news = self._news, {}
        try:
            for story in list((await self._known()).values()) if news else ():
                if story.state == "merged":
                    await self._add(story, news.values())
        except BaseException:
            self._news = {**news, **self._news}
            raise

    async def _add(self, story: PullStory, records: Iterable[UnitRecord]) -> None:
        outcomes = follow(story, records)
        if _gist(outcomes) != _gist(story.outcomes):
            await self._tell(msgspec.structs.replace(story, outcomes=outcomes))

    async def _known(self) -> dict[int, PullStory]:
        if self._stories is None:
            found = await asyncio.to_thread(self._outlet.notes, _STORY)
            decode = msgspec.json.Decoder(PullStory).decode
            self._stories = {int(number): decode(body) for number, body in found.items()}
        return self._stories

    async def _tell(self, story: PullStory, *posts: Post) -> None:
        """Keep a story, and the letters that tell it."""
        stories = await self._known()
        notes: dict[str, bytes | None] = {f"{_STORY}{story.number}": msgspec.json.encode(story)}
        merged = sorted(n for n, s in stories.items() if s.state == "merged")
        ended = merged[:-MERGED_MAX] + [n for n, s in stories.items() if s.state == "closed"]
        notes |= {f"{_STORY}{n}": None for n in ended if n != story.number}
        letters = [*posts]
        if self._rules.comment == "plan":
            letter = CommentLetter(
                story.number, self._cluster, section(story, self._cluster),
                brief(story, self._cluster), needed=story.touches,
            )  # fmt: skip
            letters.append(Post(f"comment/{story.number}", letter, self._clock.now()))
        await asyncio.to_thread(self._outlet.put, letters, notes)
        for number in ended:
            stories.pop(number, None)
        stories[story.number] = story
        self._outlet.posted()


def _gist(outcomes: Sequence[Outcome]) -> list[tuple[str, str, str, bool]]:
    """What of outcomes is worth an edit: who got where, not how many pods are on their way."""
    return [
        (o.unit, o.state, "" if o.state in {"Rolling", "Waiting"} else o.text, o.final)
        for o in outcomes
    ]
