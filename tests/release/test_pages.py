"""Man pages and completions: one page for each command, clean for man, and the command's words."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import CliRunner

from gitkruise.cli.root import COMMANDS, cli
from release.pages import completions, escaped, man_pages, shared_files
from tests.conftest import need

PAGES: Final = man_pages("1.2.3", 1_700_000_000)
MACROS: Final = {".TH", ".SH", ".PP", ".TP", ".B", ".BR", ".nf", ".fi", ".br"}


def paths(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for child in COMMANDS if command is cli else command.commands:
            found = command.get_command(context, child)
            assert found
            yield from paths(found, f"{name}-{child}")


COMMAND_PATHS: Final = dict(paths(cli, "gitkruise"))


def test_every_command_has_a_page_and_every_page_a_command() -> None:
    assert set(PAGES) == {f"{name}.1" for name in (*COMMAND_PATHS, "kubectl-gitkruise")}
    assert "gitkruise-sandbox-up.1" in PAGES


@pytest.mark.parametrize("name", COMMAND_PATHS)
def test_a_page_has_every_option_and_nothing_but_macros_of_man(name: str) -> None:
    page, command = PAGES[f"{name}.1"], COMMAND_PATHS[name]
    assert {line.split()[0] for line in page.splitlines() if line.startswith(".")} <= MACROS
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            (*_, longest) = sorted(parameter.opts, key=len)
            assert escaped(longest) in page
    heads = re.findall(r"^\.SH (.+)$", page, re.MULTILINE)
    assert heads[:3] == ["NAME", "SYNOPSIS", "DESCRIPTION"]
    assert heads[-1] == "SEE ALSO"
    assert '"2023-11-14" "gitkruise 1.2.3"' in page


@pytest.mark.parametrize("name", COMMAND_PATHS)
def test_the_pages_that_a_page_refers_to_exist(name: str) -> None:
    named = re.findall(r"^\.BR (\S+) \(1\)", PAGES[f"{name}.1"], re.MULTILINE)
    assert named
    assert {f"{other}.1" for other in (one.replace(r"\-", "-") for one in named)} <= set(PAGES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--from v1", r"\-\-from v1"),
        (".hidden\n'quoted'\nplain", "\\&.hidden\n\\&'quoted'\nplain"),
        (r"a\b", r"a\eb"),
        ("`gitkruise plan`", r"\(gagitkruise plan\(ga"),
    ],
)
def test_text_means_nothing_to_roff(text: str, expected: str) -> None:
    assert escaped(text) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [("mandoc", "-T", "lint", "-W", "warning"), ("groff", "-Kutf8", "-man", "-ww", "-Tutf8", "-z")],
    ids=lambda words: str(words[0]),
)
def test_the_pages_are_clean(words: tuple[str, ...], tmp_path: Path) -> None:
    need(words[0], present=bool(shutil.which(words[0])), how=f"apt-get install {words[0]}")
    files = []
    for name, text in PAGES.items():
        (tmp_path / name).write_text(text)
        files.append(str(tmp_path / name))
    done = subprocess.run((*words, *files), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_is_the_one_that_the_command_prints(shell: str) -> None:
    assert completions()[shell] == CliRunner().invoke(cli, ["completion", shell]).stdout


def test_zsh_finds_its_completion_by_the_first_line() -> None:
    assert completions()["zsh"].splitlines()[0] == "#compdef gitkruise"


def test_the_shared_files_are_the_pages_and_the_completions() -> None:
    files = shared_files("1.2.3", 0)
    assert len(files) == len(PAGES) + 3
    assert "man/man1/gitkruise-plan.1" in files
    assert "bash-completion/completions/gitkruise" in files
