"""Text from outside stays text: no outlet passes a control character, forges a line or a column."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gitkruise.cli.console.findings import findings_text, github_annotations
from gitkruise.cli.console.jsonpath_output import fill
from gitkruise.cli.console.log_format import LineFormatter
from gitkruise.cli.console.style import Style, cell_width, clip, encoded, shorten
from gitkruise.cli.console.tables import columns, fit_table
from gitkruise.errors import Finding, SourcePlace
from gitkruise.gitops.status.parser import read_yaml
from gitkruise.gitops.status.rollout_annotation import rollout_text
from gitkruise.gitops.status.serializer import (
    commit_body,
    commit_subject,
    commit_trailers,
    record_files,
    shared_files,
)
from gitkruise.kube.client.events import Correlator, Subject
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.notifications import Outcome, PullRequestReport
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.planning.plan import Event
from gitkruise.planner.notify.comment import section
from gitkruise.planner.notify.commit_statuses import deployment, statuses
from gitkruise.planner.notify.message_formats import (
    discord_obj,
    event_obj,
    filled,
    slack_obj,
    teams_obj,
)
from gitkruise.planner.notify.messages import Notice
from gitkruise.printable import UNPRINTABLE
from gitkruise.wire.primitives.names import ObjectKey
from tests.cli.calls import Caller
from tests.cli.shop import CHECKOUT, START, Checkout, cloneset, unit_record

EVIL = (
    "\x1b]52;c;aGk=\x07", "\x1b[2J\x1b[H", "\rSummary nothing changes", "\n0 objects change\n",
    "a\tb\tc", "\u202etxt.exe", "\u2066x\u2069", "\x9b31m", "\x85line", "\u2028line", "\x08\x08",
    "\x1b[31mred\x1b[0m", "\ufdd0" + "\ufdd1" * 16 + "31m", "\u200b",
)  # fmt: skip
HOSTILE = st.lists(st.sampled_from(EVIL) | st.text(max_size=5), min_size=1, max_size=4).map(
    lambda parts: "x" + "".join(parts) + "x"
)
LOOKS = [Style(colour, unicode, 400) for colour in (False, True) for unicode in (False, True)]


def finding(text: str) -> Finding:
    place = SourcePlace(file=text, line=2, column=3, label=text, snippet=((1, text), (2, text)))
    notes = (("why", text), ("next", text))
    return Finding(code="GK1101", message=text, places=(place,), notes=notes, object=text)


def record(text: str) -> UnitRecord:
    """The record of a unit in which everything that others write is `text`."""
    base = unit_record(findings=(finding(text),))
    made = GitCommit(id="a" * 40, subject=text, author=text, time=START)
    key = ObjectKey("rbac.authorization.k8s.io", "ClusterRole", "", text)
    return replace(
        base,
        message=text,
        attempted=made, applied=made, causal=made,
        objects=(
            *(replace(o, message=text) for o in base.objects),
            replace(base.objects[0], key=key, message=text),
        ),
        rollouts=tuple(replace(r, message=text, failing=((text, text),)) for r in base.rollouts),
        steps=tuple(
            (key, tuple(replace(s, commit=made, change=text, message=text) for s in steps))
            for key, steps in base.steps
        ),
    )  # fmt: skip


def bare(text: str) -> str:
    """Control characters of a text besides our own line ends, tabs of tables and colours."""
    for code in ("0", "1", "2", "31", "32", "33", "34", "36", "1;31", "1;33"):
        text = text.replace(f"\x1b[{code}m", "")
    return text.replace("\n", "")


def printed(lines: Sequence[str], style: Style) -> str:
    return "\n".join(style.line(line) for line in lines)


@pytest.mark.parametrize("style", LOOKS)
@given(text=HOSTILE)
@example(text="x" + EVIL[-2] + "x")
def test_a_terminal_gets_our_lines_and_colours_alone(text: str, style: Style) -> None:
    plain = printed(findings_text([finding("x")], style).split("\n"), style)
    output = printed(findings_text([finding(text)], replace(style, width=4000)).split("\n"), style)
    assert output.count("\n") == plain.count("\n")
    assert UNPRINTABLE.search(bare(output)) is None
    rows = fit_table(columns("A", "B"), [[style.paint(text, "red"), "end"], ["y", "end"]])
    assert len({encoded(line).rstrip()[-3:] for line in rows[1:]}) == 1
    assert len({cell_width(line) for line in rows[1:]}) == 1
    assert UNPRINTABLE.search(bare(printed(rows, style))) is None
    for line in (text, clip(text, 7), shorten(text, 7)):
        assert UNPRINTABLE.search(style.line(line)) is None
    assert "\x1b" not in style.line(text), "only paint brings colours"


@pytest.mark.slow
@given(text=HOSTILE)
def test_the_status_branch_has_one_line_and_one_cell_for_each_text(text: str) -> None:
    good, bad = record("x"), record(text)
    tree = record_files(bad) | shared_files([bad])
    for (path, data), plain in zip(
        tree.items(), (record_files(good) | shared_files([good])).values(), strict=True
    ):
        written, tabs = data.decode(), path.endswith(".tsv")
        assert written.count("\n") == plain.decode().count("\n")
        assert (
            UNPRINTABLE.search(written.replace("\n", "").replace("\t", "" if tabs else "\t"))
            is None
        )
        if tabs:
            assert {line.count("\t") for line in written.splitlines()} <= {3, 4, 6}
        elif path.endswith("status.yaml"):
            assert read_yaml(data)["message"] == text
    message = [commit_subject([bad]), commit_body([bad]), *map(str, commit_trailers([bad]))]
    assert commit_body([bad]).count("\n") == commit_body([good]).count("\n")
    assert UNPRINTABLE.search("".join(message).replace("\n", "")) is None


@given(text=HOSTILE)
def test_logs_annotations_templates_and_events_are_one_line(text: str) -> None:
    line = logging.LogRecord("n", logging.WARNING, "f", 1, "unit %s: %s", (text, text), None)
    assert UNPRINTABLE.search(LineFormatter().format(line)) is None
    assert UNPRINTABLE.search(github_annotations([finding(text)])) is None
    assert UNPRINTABLE.search(fill("{.a}", {"a": text})) is None
    event = Event(type="Normal", reason="Tested", message=text)
    series = Correlator().take(Subject(key=CHECKOUT, version="v1", uid="u"), event, "c", START)
    assert series is not None
    assert UNPRINTABLE.search(series.message) is None


def sent_of(text: str) -> list[str]:
    """All that forges and chats get of a unit in which everything that others write is `text`."""
    bad = replace(record(text), state=State.STUCK)
    (status,) = statuses({"a": bad}, "{unit}", text, aggregate_above=5, alone=True)
    ended = Outcome(text, "Stuck", text)
    report = PullRequestReport(
        number=1, state="merged", head="a" * 40, branch=text, outcomes=(ended,)
    )
    notice = Notice(record=bad, severity="error", resolves=False, at=START)
    message, document = slack_obj(notice), event_obj(notice)
    (embed,), (card,) = discord_obj(notice)["embeds"], teams_obj(notice)["attachments"]
    own = json.loads(filled('["${title}", "${text}", "${unit}", "${cluster}"]', notice))
    return [
        *own,
        embed["title"],
        embed["description"],
        *(block["inlines"][0]["text"] for block in card["content"]["body"]),
        status.description,
        deployment(status, "main").description,
        rollout_text(bad.rollouts[0], text),
        section(report, text),
        message["text"],
        message["attachments"][0]["blocks"][0]["text"]["text"],
        *document["commit"].values(),
        *(found["message"] for found in document["findings"]),
        document["message"],
    ]


@given(text=HOSTILE)
def test_forges_and_chats_get_one_line_for_each_text(text: str) -> None:
    """Commit statuses, deployments, comments and messages, and the annotation of a rollout."""
    for plain, hostile in zip(sent_of("x"), sent_of(text), strict=True):
        assert hostile.count("\n") == plain.count("\n")
        ours = re.sub("(?<=[@#!])\u200b", "", hostile.replace("\n", ""))  # keeps mentions apart
        assert UNPRINTABLE.search(ours) is None


@given(text=HOSTILE)
def test_a_traceback_forges_no_record(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal") as caught:
        int(text)
    caught.value.add_note(text)
    exc_info = (caught.type, caught.value, caught.tb)
    line = logging.LogRecord("n", logging.ERROR, "f", 1, "failed", (), exc_info)
    output = LineFormatter().format(line)
    assert UNPRINTABLE.search(output.replace("\n", "")) is None
    assert all(one.startswith("  ") for one in output.split("\n")[1:])


def test_a_traceback_in_the_log_quotes_no_text_of_an_exception() -> None:
    value = "s3cret"
    with pytest.raises(ExceptionGroup) as caught:
        raise ExceptionGroup(value, [KeyError(value), ValueError(value)])
    exc_info = (caught.type, caught.value, caught.tb)
    output = LineFormatter().format(
        logging.LogRecord("n", logging.ERROR, "f", 1, "no", (), exc_info)
    )
    assert output.count("Traceback") == 3
    assert {"builtins.KeyError", "builtins.ValueError"} <= {x.strip() for x in output.split("\n")}
    assert value not in output


COMMANDS = (
    ["history", "checkout"], ["history", "checkout", "-o", "json"],
    ["plan", "HEAD~2..HEAD~1"], ["plan", "HEAD~2..HEAD~1", "-o", "json"],
    ["plan", "HEAD~2..HEAD~1", "-o", "markdown"], ["plan", "HEAD~2..HEAD~1", "-o", "html"],
    ["plan"], ["plan", "-o", "json"], ["status"], ["validate", "."],
    ["validate", ".", "-o", "github"], ["validate", ".", "-o", "json"],
    ["validate", ".", "-o", "sarif"], ["doctor", "git"],
)  # fmt: skip
WORKING = 6  # of them end with 0


@pytest.mark.slow
@pytest.mark.parametrize("text", EVIL)
def test_no_command_passes_text_through(gk: Caller, tmp_path: Path, text: str) -> None:
    name = "".join(c for c in text if c not in "/\0")
    lines = []
    for number, word in enumerate(("xx", f"x{name}x")):
        shop = Checkout(tmp_path / str(number))
        shop.commit("first", {"apps/a.yaml": cloneset()})
        shop.commit(f"{word} is the subject", {f"apps/{word}.yaml": cloneset(name="b")})
        shop.commit(f"{word} again", {f"apps/{word}.yaml": cloneset(name="b") + "\n: ]"})
        shop.record("default", record(word))
        ended = [gk(*words, cwd=shop.folder, COLUMNS="4000") for words in COMMANDS]
        for words, one in zip(COMMANDS, ended, strict=True):
            assert UNPRINTABLE.search((one.out + one.err).replace("\n", "")) is None, words
            if "json" in words and one.out:
                json.loads(one.out)
        lines.append([(one.code, one.out.count("\n"), one.err.count("\n")) for one in ended])
        assert [one.code for one in ended[:WORKING]] == [0] * WORKING
    assert lines[0] == lines[1]
