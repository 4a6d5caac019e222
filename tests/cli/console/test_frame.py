"""Every command explains itself alike, and a mistyped word gets a hint."""

from __future__ import annotations

import click
import pytest

from gitkruise.cli.console.environment import BOUNDLESS
from gitkruise.cli.console.style import cell_width
from gitkruise.cli.root import COMMANDS, cli
from tests.cli.calls import Caller

OURS = ["validate", "plan", "status", "get", "history", "run", "version", "completion",
        "sandbox up", "sandbox down", "sandbox status", "sandbox kubeconfig"]  # fmt: skip


@pytest.mark.parametrize("command", OURS)
def test_help_has_a_sentence_examples_options_and_exit_codes_in_this_order(
    gk: Caller, command: str
) -> None:
    ended = gk(*command.split(), "--help", COLUMNS="80")
    assert ended.code == 0
    positions = [ended.out.index(word) for word in ("Usage:", "Example", "Options:", "Exit codes:")]
    assert positions == sorted(positions)
    sentence = ended.out.split("\n\n")[1].strip()
    assert sentence.endswith(".")
    assert all(cell_width(line) <= 80 for line in ended.out.splitlines())


def test_help_of_all_names_every_command(gk: Caller) -> None:
    out = gk("--help").out
    assert all(name in out for name in COMMANDS)


def test_table_of_commands_leads_to_commands() -> None:
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        assert command.help
        assert command.name == name


ROWS = [
    ("statsu", 'Did you mean "status"?'),
    ("plna", 'Did you mean "plan"?'),
    ("lnit", 'Did you mean "lint"?'),
    ("get rolout", 'Did you mean "rollout"?'),
    ("get podz", 'Did you mean "pod"?'),
    ("plan --offlin", "Did you mean --offline?"),
    ("history --sandbox", "--cluster NAME says of which cluster; that of the sandbox is sandbox."),
    ("wait --context prod", "--cluster NAME says of which cluster."),
]


@pytest.mark.parametrize(("line", "hint"), ROWS, ids=[r[0] for r in ROWS])
def test_a_mistyped_word_gets_a_hint(gk: Caller, line: str, hint: str) -> None:
    ended = gk(*line.split())
    assert (ended.code, ended.out) == (2, "")
    assert hint in ended.err.replace("'", "")


def test_aliases_are_commands(gk: Caller) -> None:
    assert "Validate files" in gk("lint", "--help").out
    assert "what a commit would do" in gk("diff", "--help").out


@pytest.mark.parametrize("timeout", ["300", "5 m", "5x", ""])
def test_durations_want_a_unit(gk: Caller, timeout: str) -> None:
    ended = gk("get", "rollout", "x", "-w", "--exit-when-done", "--timeout", timeout)
    assert ended.code == 2
    assert "did you mean 300s?" in ended.err or "not a duration" in ended.err


def test_width_of_a_pipe_is_no_limit() -> None:
    assert BOUNDLESS >= 10_000


@pytest.mark.parametrize("names", [(), ("plan",), ("sandbox", "up")], ids=" ".join)
def test_help_on_a_command_is_its_help(gk: Caller, names: tuple[str, ...]) -> None:
    asked, wanted = gk("help", *names), gk(*names, "--help")
    assert (asked.code, asked.out, asked.err) == (0, wanted.out, wanted.err)


def test_help_on_no_command_is_a_usage_error(gk: Caller) -> None:
    ended = gk("help", "plna")
    assert (ended.code, ended.out) == (2, "")
    assert 'Did you mean "plan"?' in ended.err
