"""Channel of the outbox for one Sink, and the delivery of its items to a forge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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


async def deliver(forge: ForgeRepository, item: OutboxItem) -> None:
    """Send one item to a forge; idempotent. Raises ApiError."""
    match item:
        case CommitStatusItem():
            await forge.set_status(item)
        case DeploymentItem():
            await forge.set_deployment(item)
        case CommentItem():
            await _comment(forge, item)
        case MessageItem():
            raise AssertionError("messages go to chats")


async def _comment(forge: ForgeRepository, item: CommentItem) -> None:
    """Set our section of our comment; create the comment if it is needed and missing.

    Two clusters may have created one each at the same time: each keeps to the one with its section.
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
    elif item.needed:
        written = compose("", item.cluster, item.section, item.brief)
        await forge.add_comment(item.number, written)
