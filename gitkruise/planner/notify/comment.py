"""The one comment on a pull request: a section for each cluster, never longer than forges take."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Final

from gitkruise.model.gitops.notifications import Outcome, PullRequestReport
from gitkruise.model.gitops.unit_state import LOOKS, State, worst
from gitkruise.planner.notify.commit_statuses import short
from gitkruise.printable import visible

BODY_MAX: Final = 60_000  # GitHub takes 65,536 characters
BRIEF_MAX: Final = 300
PLAN_MAX: Final = 48_000  # of one section; the rest is for its frame and for other clusters
NO_ROOM: Final = (
    "This comment has no room for the rest. "
    "`gitkruise plan INTO..BRANCH` shows the plan, `gitkruise status` the units."
)
_SIGN: Final = "<!-- gitkruise:"  # ours alone: nothing that is quoted may look like it
MARK: Final = f"{_SIGN}v1 -->"
_SECTION: Final = re.compile(
    r"<!-- gitkruise:begin ([\w.-]+) -->\n(.*?)\n<!-- gitkruise:end \1 -->", re.DOTALL
)
_PARTS: Final = re.compile(r"(?:\.(sink)-[\w-]+\.[\w.-]+?)?(?:\.shard-\d+-of-(\d+))?$")
_ACTIVE: Final = re.compile(r"([\\`*_\[\]<>|~&])")
_CALLING: Final = re.compile(r"([@#!])(?=\w)|(:)(?=//)|(www)(?=\.)", re.IGNORECASE)
_OUTCOMES_MAX: Final = 50


def plain(text: str, limit: int = 500) -> str:
    """Words of others as they are: no markup, no mention, no reference, no link."""
    return _CALLING.sub("\\g<0>\u200b", _ACTIVE.sub(r"\\\1", short(text, limit)))


def is_ours(body: str) -> bool:
    """Return whether a line of a comment is gitkruise's marker: users write above it, and quote
    it."""
    return MARK in body.splitlines()


def sections(body: str) -> dict[str, str]:
    """Each cluster's section of a comment. Browsers in which users edit it end lines by CRLF."""
    return {found[1]: found[2] for found in _SECTION.finditer(body.replace("\r\n", "\n"))}


def _above(body: str) -> str:
    """Return the lines of a comment above the marker."""
    lines = body.splitlines(keepends=True)
    return "".join(takewhile(lambda line: line.rstrip("\r\n") != MARK, lines))


def compose(existing: str, cluster: str, section: str, brief: str) -> str:
    """The comment with this cluster's section set; other clusters' stay as they are, and what a
    user wrote above them.

    `cluster` names the Sink and the shard, too, where there are several; sections of another number
    of shards go, and of one Sink or several, because no replica updates them. The section gives
    way to `brief` where the whole would be longer than BODY_MAX.
    """
    found, above = sections(existing).items(), _above(existing)
    others = {n: text for n, text in found if n != cluster and not _outdated(n, cluster)}
    cut = f"{short(brief, BRIEF_MAX)}\n\n{NO_ROOM}"
    for own in (section, cut):
        body = above + _joined({**others, cluster: own.replace(_SIGN, "<!-\u200b- gitkruise:")})
        if len(body) <= BODY_MAX:
            return body
    return _joined({cluster: cut})  # a full rewrite follows with the next update


def _outdated(name: str, own: str) -> bool:
    """Return whether a section is of the cluster of `own` with another number of shards, or
    without its Sink where each Sink has a section."""
    (cluster, *parts), (mine, *now) = _split(name), _split(own)
    return cluster == mine and parts != now


def _split(name: str) -> tuple[str, bool, str]:
    """Return (cluster, if it is of one Sink of several, number of shards or "") of a section."""
    found = _PARTS.search(name)
    return (name[: found.start()], bool(found[1]), found[2] or "") if found else (name, False, "")


def _joined(parts: dict[str, str]) -> str:
    blocks = [
        f"<!-- gitkruise:begin {name} -->\n{parts[name]}\n<!-- gitkruise:end {name} -->"
        for name in sorted(parts)
    ]
    return "\n\n".join([MARK, *blocks])


def brief(report: PullRequestReport, cluster: str) -> str:
    """The heading alone."""
    return _heading(report, cluster)


def section(report: PullRequestReport, cluster: str) -> str:
    """Everything one cluster has to say on a pull request, the newest first."""
    parts = [_heading(report, cluster)]
    if report.state == "merged":
        parts += [*_unsaid(report), *_outcomes(report)]
    plan = report.plan.partition("\n")[2].strip()  # its heading is ours to write
    body = "\n\n".join(filter(None, (report.failed, plan)))
    if body and (report.state != "open" or report.newer):
        head = f"The plan for <code>{report.head[:7]}</code>"
        parts.append(f"<details><summary>{head}</summary>\n\n{body}\n\n</details>")
    elif body:
        parts.append(body)
    return "\n\n".join(parts)


def _heading(report: PullRequestReport, cluster: str) -> str:
    where = f"→ `{_code(report.branch)}` on `{_code(cluster)}`"
    head = f"### gitkruise plan for `{report.head[:7]}` {where}"
    if report.state == "merged":
        commit = f"`{(report.merged_as or report.head)[:7]}`"
        if not report.outcomes:
            waits = "waiting for the cluster" if report.touches else "it changes no unit"
            return f"### gitkruise: {commit} {where} · merged, {waits}"
        states = [State(outcome.state) for outcome in report.outcomes]
        state = worst([*states, *(State.WAITING for _ in _missing(report))])
        return f"### gitkruise: {commit} {where} · {LOOKS[state].glyph} {state}"
    return f"{head} · {_currency(report)}"


def _currency(report: PullRequestReport) -> str:
    """Return what has become of the plan of a pull request that is not merged."""
    if report.into:
        into = f"`{_code(report.into)}`"
        went = f"was merged into {into}" if report.merged_as else f"asks for {into} now"
        return f"outdated: it {went}, which no unit follows"
    if report.state == "closed":
        return "closed without a merge, nothing changes"
    if report.newer:
        return f"⚠️ outdated: `{report.newer[:7]}` was pushed"
    if report.failed and not report.plan:
        return "✗ no plan"
    if report.rejecting:
        return f"✗ rejected by {plain(', '.join(report.rejecting))}"
    return "✅ current"


def _unsaid(report: PullRequestReport) -> Iterator[str]:
    """Yield what a squash with its title alone has lost."""
    for command in report.unsaid:
        yield (
            f"⚠️ The message of `{report.merged_as[:7]}` lacks the trailers of `{_code(command)}`, "
            "so it counts for no promotion. Next: repeat the command."
        )


def _code(text: str) -> str:
    return visible(text).replace("`", "'")


def _missing(report: PullRequestReport) -> list[Outcome]:
    """Return outcomes of units that have none: suspended ones, for example."""
    reported = {outcome.unit for outcome in report.outcomes}
    missing = [unit for unit in report.units if unit not in reported]
    return [Outcome(unit, State.WAITING, "has not taken it yet") for unit in missing]


def _outcomes(report: PullRequestReport) -> list[str]:
    if not report.outcomes:
        return []
    outcomes = [*report.outcomes, *_missing(report)]
    lines = [
        f"- {LOOKS[State(o.state)].glyph} **{plain(o.unit)}** {plain(o.text)}"
        for o in outcomes[:_OUTCOMES_MAX]
    ]
    more = len(outcomes) - _OUTCOMES_MAX
    return ["\n".join(lines + ([f"- and {more} more units"] if more > 0 else []))]
