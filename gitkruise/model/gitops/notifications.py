"""Messages outside git: commit statuses, comments on pull requests, notices, deployments."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

StatusState: TypeAlias = Literal["pending", "success", "failure", "error"]
DeploymentState: TypeAlias = Literal["in_progress", "success", "failure", "error", "inactive"]
PullState: TypeAlias = Literal["open", "merged", "closed"]


class CommitStatusItem(msgspec.Struct, frozen=True, tag="status"):
    """One status: the newest for its commit and context is the one that counts."""

    commit: str
    context: str
    state: StatusState
    description: str  # 140 characters at most, what GitHub takes
    overtaken: bool = False  # it is the last one: a newer commit took over


class DeploymentItem(msgspec.Struct, frozen=True, tag="deployment"):
    """State of a commit in an environment. `ref` is its branch, "" without one.

    `state` is inactive once a newer commit took over.
    """

    commit: str
    environment: str
    ref: str
    state: DeploymentState
    description: str


class CommentItem(msgspec.Struct, frozen=True, tag="comment"):
    """This cluster's section of the one comment on a pull request.

    `section` is Markdown, `brief` its first line, which stays where others left no room.
    `needed`: it is worth a comment where there is none yet.
    """

    number: int
    cluster: str
    section: str
    brief: str = ""
    needed: bool = True


class MessageItem(msgspec.Struct, frozen=True, tag="notice"):
    """A finished message for a chat or a web hook: `body` is JSON."""

    id: str
    body: str


OutboxItem: TypeAlias = CommitStatusItem | DeploymentItem | CommentItem | MessageItem


class LastStatus(msgspec.Struct, frozen=True):
    """The last status that was queued for a commit and context, and how many there were."""

    state: str
    description: str
    at: datetime
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """A pull (or merge) request as its forge reports it. `head` and `merged_as` are commits.

    `foreign`: its branch is in another repository than the one it is to be merged into.
    `url` is where people look at it.
    """

    number: int
    state: PullState
    head: str
    base: str  # the branch's short name
    title: str = ""
    merged_as: str = ""
    foreign: bool = False
    branch: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment on a pull request; `author` is the login."""

    id: int
    author: str
    body: str


class Outcome(msgspec.Struct, frozen=True):
    """State of one unit at the merge commit of a pull request."""

    unit: str
    state: str
    text: str
    final: bool = False


class PullRequestReport(msgspec.Struct, frozen=True, kw_only=True):
    """This cluster's part of the comment on one pull request.

    `plan` is Markdown for `head` on top of `base`; `newer` is the head that made it outdated.
    `settings` is the digest of the units that it was made for, and `seen` has those of them that it
    changes, as they were then. `checked` is the status that the head got, and `names`
    are those of the section and of that status. `into` is the branch that it asks for now, or was
    merged into, where no unit follows that one. `commits` are those a merge brought, for finding
    its outcomes, and `units` those that take it. `unsaid` are the commands whose trailers the
    message of the merge lacks.
    """

    number: int
    state: PullState
    head: str
    branch: str
    base: str = ""
    plan: str = ""
    touches: bool = False
    newer: str = ""
    settings: str = ""
    seen: dict[str, str] = {}
    checked: str = ""
    names: str = ""
    into: str = ""
    failed: str = ""  # why there is no plan, or none of some units
    rejecting: tuple[str, ...] = ()  # units that would reject it, where others would not
    crashed: bool = False  # planning failed unexpectedly, and is tried again
    merged_as: str = ""
    commits: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
