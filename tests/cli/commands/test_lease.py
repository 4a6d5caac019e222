"""The lease of a controller: a name that also names its state directory."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from gitkruise.cli.commands.cluster.run import run
from gitkruise.cli.console.command import lease_name
from gitkruise.cli.console.environment import read_environment
from gitkruise.kube.system.lease_terms import SYNC_LEASE

PARAMETER = click.Option(["--lease"])


@pytest.mark.parametrize("name", ["gitkruise-sync", "staging", "a", "team-1"])
def test_a_name_is_taken_as_it_is(name: str) -> None:
    assert lease_name(click.Context(run), PARAMETER, name) == name


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "-a", "a-", "a.b", "a\n", "x" * 201])
def test_a_name_that_is_no_folder_is_refused(name: str) -> None:
    with pytest.raises(click.BadParameter):
        lease_name(click.Context(run), PARAMETER, name)


def test_controllers_of_two_names_share_no_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITKRUISE_STATE", str(tmp_path))
    environment = read_environment()
    assert environment.controller_dir(SYNC_LEASE) == tmp_path
    assert environment.controller_dir("staging") == tmp_path / "controllers" / "staging"
