"""Recommended commands carry the flags of the command that recommends them."""

from __future__ import annotations

import pytest

from gitkruise.cli.context.cluster import ClusterChoice
from gitkruise.cli.context.next_commands import carrying

FLAGS = "--sandbox --cluster prod"


@pytest.mark.parametrize(
    ("text", "carried"),
    [
        ("gitkruise promote cloneset/web -n shop", "{} {flags}"),
        ("next: \x1b[1mgitkruise why sidecarset/s\x1b[0m", "next: \x1b[1m{0} {flags}\x1b[0m"),
        (
            "gitkruise why cloneset/web -n shop; --force commits it",
            "{} {flags}; --force commits it",
        ),
        (
            "gitkruise promote cloneset/a.b --updated 30%: that many",
            "{} {flags} --updated 30%: that many",
        ),
        (
            "gitkruise plan --from 1 --to 2   plans to go back",
            "{} {flags} --from 1 --to 2   plans to go back",
        ),
        (
            "gitkruise drift, without a name, compares all",
            "{} {flags}, without a name, compares all",
        ),
        ("gitkruise get rollouts -A lists them", "{} {flags} lists them"),
        ("gitkruise get events -n shop", "{} {flags}"),
        ("gitkruise status, or wait longer", "{} {flags}, or wait longer"),
        ("gitkruise status --all-clusters, or", "gitkruise status --all-clusters, or"),
        ("gitkruise doctor", "{} {flags}"),
        ("next: gitkruise doctor cluster: does it run?", "next: {} {flags}: does it run?"),
        (
            "gitkruise doctor rbac --print-fix   prints what is missing",
            "{} {flags} --print-fix   prints what is missing",
        ),
        (
            "gitkruise doctor cluster --context c   looks",
            "gitkruise doctor cluster --context c   looks",
        ),
        ("gitkruise doctor git", "gitkruise doctor git"),
        ("gitkruise rollback brings them back", "gitkruise rollback brings them back"),
        ("gitkruise validate a.yaml", "gitkruise validate a.yaml"),
    ],
    ids=str,
)
def test_flags_follow_the_object(text: str, carried: str) -> None:
    start = carried.partition("{")[0]
    end = carried.rpartition("{flags}")[2] if "{flags}" in carried else ""
    command = text[len(start) : len(text) - len(end)] if "{flags}" in carried else text
    assert carrying(text, FLAGS) == carried.format(command, flags=FLAGS)
    assert carrying(text, "") == text


@pytest.mark.parametrize(("lease", "named"), [("gitkruise-sync", ""), ("other", " --lease other")])
def test_an_accepted_rewrite_is_for_the_controller_that_asks(lease: str, named: str) -> None:
    text = "accept it once: gitkruise sync --accept-rewrite 4f2c9e1"
    assert carrying(text, FLAGS, lease=lease) == f"{text} {FLAGS}{named}"
    assert carrying(text, "", lease=lease) == f"{text}{named}"


def test_flags_are_quoted_as_they_are_typed() -> None:
    choice = ClusterChoice(kubeconfig="/a b/config", context="c", name="prod")
    assert choice.flags == "--kubeconfig '/a b/config' --context c --cluster prod"
    assert ClusterChoice().flags == ""
