"""gitkruise dashboard: where it listens, its token, and the rows that its pages show."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gitkruise.cli.commands.inspect.dashboard import dashboard_token
from gitkruise.cli.console.environment import Environment
from tests.cli.calls import Caller


@pytest.mark.parametrize("listen", ["0.0.0.0:8800", ":8800", "[::]:8800", "192.0.2.1:8800"])
def test_other_machines_are_not_served(gk: Caller, listen: str) -> None:
    ended = gk("dashboard", "--listen", listen)
    assert ended.code == 2
    assert "error[GK7054]: --listen" in ended.err
    assert "ssh -L 8800:127.0.0.1:8800 HOST" in ended.err


def test_a_user_has_one_token_which_others_cannot_read(tmp_path: Path) -> None:
    environment = Environment(
        variables={"GITKRUISE_STATE": str(tmp_path)}, stdout_tty=False, stderr_tty=False,
        unicode=True, colour=False, width=80,
    )  # fmt: skip
    token = dashboard_token(environment)
    assert len(token) >= 43
    assert dashboard_token(environment) == token
    mode = (tmp_path / "dashboard" / "token").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600
