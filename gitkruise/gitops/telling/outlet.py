"""Where one Sink's letters go in: a channel of the box, and the postman who empties it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass

from gitkruise.gitops.telling.box import LetterBox, Post
from gitkruise.gitops.telling.forge import Forge
from gitkruise.model.telling import (
    CommentLetter,
    DeploymentLetter,
    Letter,
    NoticeLetter,
    StatusLetter,
)
from gitkruise.planner.telling.comment import compose, is_ours


@dataclass(frozen=True, slots=True)
class Outlet:
    """`posted` lets the postman know. Blocking but for that."""

    box: LetterBox
    channel: str
    posted: Callable[[], None]

    def put(self, posts: Sequence[Post], notes: Mapping[str, bytes | None] | None = None) -> None:
        """Keep letters and notes in one transaction."""
        self.box.put(self.channel, posts, notes)

    def notes(self, prefix: str) -> dict[str, bytes]:
        """What was kept under keys that start with `prefix`, without it."""
        return self.box.notes(self.channel, prefix)


async def deliver(forge: Forge, letter: Letter) -> None:
    """Send one letter to a forge. Doing it twice is doing it once. Raises ApiError."""
    match letter:
        case StatusLetter():
            await forge.set_status(letter)
        case DeploymentLetter():
            await forge.set_deployment(letter)
        case CommentLetter():
            await _comment(forge, letter)
        case NoticeLetter():
            raise AssertionError("notices go to chats")


async def _comment(forge: Forge, letter: CommentLetter) -> None:
    """Set our section of our comment; the comment is made when there is none and one is needed."""
    me = await forge.me()
    found: AsyncIterator[tuple[int, str]] = (
        (comment.id, comment.body)
        async for comment in forge.comments(letter.number)
        if comment.author == me and is_ours(comment.body)
    )
    async for number, body in found:
        written = compose(body, letter.cluster, letter.section, letter.brief)
        if written.strip() != body.strip():
            await forge.edit_comment(letter.number, number, written)
        return
    if letter.needed:
        written = compose("", letter.cluster, letter.section, letter.brief)
        await forge.add_comment(letter.number, written)
