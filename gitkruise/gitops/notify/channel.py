"""Channel of the outbox for one Sink, and the delivery of its items to a forge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from gitkruise.gitops.forges.provider import ForgeRepository
from gitkruise.gitops.notify.outbox import NotificationOutbox, OutboxEntry
from gitkruise.model.gitops.notifications import (
    CommentItem,
    CommitStatusItem,
    DeploymentItem,
    MessageItem,
    OutboxItem,
)
from gitkruise.planner.notify.comment import compose, is_ours, sections

AGAIN: Final = timedelta(seconds=5)  # longer than another process takes to read and edit a comment


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel of the outbox; `posted` wakes its sender. Blocking but for that.

    `yields` returns whether another process reports.
    """

    outbox: NotificationOutbox
    name: str
    posted: Callable[[], None]
    yields: Callable[[], bool] = lambda: False

    def put(
        self, entries: Sequence[OutboxEntry], notes: Mapping[str, bytes | None] | None = None
    ) -> None:
        """Add items and set notes in one transaction."""
        self.outbox.put(self.name, entries, notes)

    def notes(self, prefix: str) -> dict[str, bytes]:
        """Return the notes whose keys start with `prefix`, by the rest of the key."""
        return self.outbox.notes(self.name, prefix)


async def deliver(forge: ForgeRepository, item: OutboxItem) -> timedelta | None:
    """Send one item to a forge; idempotent. Return after how long to send it again, if at all.

    Raises ApiError.
    """
    match item:
        case CommitStatusItem():
            await forge.set_status(item)
        case DeploymentItem():
            await forge.set_deployment(item)
        case CommentItem():
            return await _comment(forge, item)
        case MessageItem():
            raise AssertionError("messages go to chats")
    return None


async def _comment(forge: ForgeRepository, item: CommentItem) -> timedelta | None:
    """Set our section of our comment; create the comment if it is needed and missing.

    Two clusters may have created one each at the same time: each keeps to the one with its section.
    Forges edit without a condition: a comment with sections of others is looked at again.
    """
    me = await forge.me()
    first: tuple[int, str] | None = None
    async for comment in forge.comments(item.number):
        if comment.author == me and is_ours(comment.body):
            first = first or (comment.id, comment.body)
            if item.cluster in sections(comment.body):
                first = (comment.id, comment.body)
                break
    if first is not None:
        number, body = first
        written = compose(body, item.cluster, item.section, item.brief)
        if written.strip() != body.strip():
            await forge.edit_comment(item.number, number, written)
            return AGAIN if len(sections(written)) > 1 else None
    elif item.needed:
        written = compose("", item.cluster, item.section, item.brief)
        await forge.add_comment(item.number, written)
    return None
