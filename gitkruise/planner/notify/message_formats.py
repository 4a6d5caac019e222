"""Messages in the formats of their services: Slack, Teams, Discord, our own, a user's template.

Commits and findings are the words of others: no format lets them link, mention or mark anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gitkruise.model.gitops.config import Notify
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.unit_state import LOOKS
from gitkruise.planner.notify.commit_statuses import describe, short
from gitkruise.planner.notify.messages import Notice
from gitkruise.printable import visible
from gitkruise.wire.primitives.names import OWN_API
from gitkruise.wire.primitives.times import format_time

_TEXT_MAX: Final = 2_000  # Slack takes 3,000 characters in one section, Discord 4,096
_TITLE_MAX: Final = 256  # of Discord
_FINDINGS: Final = 3
# By the state of a commit status: colours of Slack and Discord, and Teams' word for them.
_COLOURS: Final[Mapping[str, tuple[str, str]]] = {
    "success": ("2eb67d", "Good"), "pending": ("36c5f0", "Accent"),
    "failure": ("e01e5a", "Attention"), "error": ("e01e5a", "Attention"),
}  # fmt: skip
_PLACEHOLDER: Final = re.compile(r"\$\{([^{}]*)\}")
_MARKUP: Final = re.compile(r"([\\*_~`|>#\[\]()<:@-])")


def message_body(rule: Notify, notice: Notice) -> str:
    """Return the JSON that a service gets."""
    if rule.template:
        return filled(rule.template, notice)
    return json.dumps(_FORMATS[rule.type](notice), ensure_ascii=False)


def title_of(notice: Notice) -> str:
    """Return unit, cluster and state in one line."""
    record = notice.record
    return f"{LOOKS[record.state].glyph} {record.unit} on {record.cluster}: {record.state}"


def lines_of(notice: Notice) -> Iterator[str]:
    """Yield what happened, the first findings, and the commit."""
    record, commit = notice.record, notice.record.about
    yield visible(describe(record))
    for finding in record.findings[:_FINDINGS]:
        text = f"{finding.code}: {finding.message}"
        if text != record.message:  # it was said
            yield visible(short(text, 300))
    if commit is not None:
        yield f"{commit.short} {visible(commit.subject)} ({visible(commit.author)})"


def event_obj(notice: Notice) -> dict[str, Any]:
    """The message for a web hook: a versioned document."""
    record = notice.record
    return {
        "apiVersion": OWN_API,
        "kind": "Event",
        "id": notice.id,
        "time": format_time(notice.at),
        "type": "Warning" if notice.severity == "error" else "Normal",
        "severity": notice.severity,
        "resolves": notice.resolves,
        "cluster": record.cluster,
        "unit": record.unit,
        "state": str(record.state),
        "message": describe(record),
        "commit": _commit(record.about),
        "applied": _commit(record.applied),
        "pods": {"updated": record.updated, "total": record.total},
        "findings": [{"code": f.code, "message": short(f.message, 500)} for f in record.findings],
    }


def _commit(commit: GitCommit | None) -> dict[str, str] | None:
    if commit is None:
        return None
    return {
        "id": commit.id,
        "subject": visible(commit.subject),
        "author": visible(commit.author),
    }


def slack_obj(notice: Notice) -> dict[str, Any]:
    """The message for an incoming web hook of Slack, and of chats that take the same."""
    record = notice.record
    head = f"{LOOKS[record.state].glyph} *{_slack(record.unit)}* on {_slack(record.cluster)}"
    text = "\n".join((f"{head}: {record.state}", *map(_slack, lines_of(notice))))
    section = {"type": "section", "text": {"type": "mrkdwn", "text": text[:_TEXT_MAX]}}
    fallback = f"{record.unit} on {record.cluster}: {record.state} — {describe(record)}"
    colour, _ = _colours(notice)
    return {
        "text": _slack(fallback),
        "attachments": [{"color": f"#{colour}", "blocks": [section]}],
    }


def discord_obj(notice: Notice) -> dict[str, Any]:
    """The message for a web hook of Discord; it mentions no user."""
    text = "\n".join(_MARKUP.sub(r"\\\1", line) for line in lines_of(notice))
    colour, _ = _colours(notice)
    return {
        "embeds": [
            {
                "title": _MARKUP.sub(r"\\\1", title_of(notice))[:_TITLE_MAX],
                "description": text[:_TEXT_MAX],
                "color": int(colour, 16),
                "timestamp": format_time(notice.at),
            }
        ],
        "allowed_mentions": {"parse": []},
    }


def teams_obj(notice: Notice) -> dict[str, Any]:
    """The message for a workflow of Teams that posts a card: text runs, which have no markup."""
    _, colour = _colours(notice)
    text = "\n".join(lines_of(notice))[:_TEXT_MAX]
    runs = [
        {"type": "TextRun", "text": title_of(notice), "weight": "Bolder", "color": colour},
        *({"type": "TextRun", "text": line} for line in text.split("\n")),
    ]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [{"type": "RichTextBlock", "inlines": [run]} for run in runs],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


def _colours(notice: Notice) -> tuple[str, str]:
    return _COLOURS[LOOKS[notice.record.state].commit_status]


def _slack(text: str) -> str:
    """One line with Slack's three control characters as its documentation wants them written."""
    return visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_FORMATS: Final[Mapping[str, Callable[[Notice], dict[str, Any]]]] = {
    "slack": slack_obj, "teams": teams_obj, "discord": discord_obj, "webhook": event_obj,
}  # fmt: skip

# Templates -----------------------------------------------------------------------------------


def filled(template: str, notice: Notice) -> str:
    """Return a template with the values of a notice, each as the inside of a JSON string."""
    inner = {name: json.dumps(text)[1:-1] for name, text in _values(notice)}
    return _PLACEHOLDER.sub(lambda found: inner[found[1]], template)


def template_problem(template: str) -> str:
    """Return what is wrong with a template; "" for one that gives JSON for every notice."""
    unknown = sorted(set(_PLACEHOLDER.findall(template)) - PLACEHOLDERS)
    if unknown:
        return f"${{{unknown[0]}}} is no value of a message: {', '.join(sorted(PLACEHOLDERS))}"
    try:
        json.loads(_PLACEHOLDER.sub("a word", template))
    except ValueError as error:
        return f"it gives no JSON: {error}"
    return ""


def _values(notice: Notice) -> Iterator[tuple[str, str]]:
    record, commit = notice.record, notice.record.about
    yield "unit", record.unit
    yield "cluster", record.cluster
    yield "state", str(record.state)
    yield "severity", notice.severity
    yield "message", visible(describe(record))
    yield "title", title_of(notice)
    yield "text", "\n".join(lines_of(notice))
    yield "time", format_time(notice.at)
    yield "id", notice.id
    yield "commit", commit.id if commit else ""
    yield "subject", visible(commit.subject) if commit else ""
    yield "author", visible(commit.author) if commit else ""


PLACEHOLDERS: Final = frozenset({
    "unit", "cluster", "state", "severity", "message", "title", "text", "time", "id",
    "commit", "subject", "author",
})  # fmt: skip
