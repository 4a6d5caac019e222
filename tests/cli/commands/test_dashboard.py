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
    assert "--tls-cert FILE --tls-key FILE" in ended.err
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


FLAGS: dict[str, tuple[tuple[str, ...], str]] = {
    "others without TLS": (("run", "--dashboard", "0.0.0.0:8443"), "error[GK7054]: --dashboard"),
    "a certificate without its key": (("dashboard", "--tls-cert", "a"), "go together"),
    "a key alone": (("run", "--dashboard", ":8443", "--tls-key", "a"), "go together"),
    "a certificate for nothing": (("run", "--tls-cert", "a"), "are for --dashboard"),
    "no port": (("sandbox", "up", "--dashboard", "70000"), "--dashboard"),
}


@pytest.mark.parametrize("row", FLAGS)
def test_flags_that_do_not_fit_are_refused(gk: Caller, row: str) -> None:
    words, message = FLAGS[row]
    ended = gk(*words)
    assert (ended.code, message in ended.err) == (2, True), ended.err


def test_a_certificate_that_is_missing_is_named(gk: Caller, cluster: Path, tmp_path: Path) -> None:
    files = ("--tls-cert", str(tmp_path / "tls.crt"), "--tls-key", str(tmp_path / "tls.key"))
    ended = gk("dashboard", "--kubeconfig", str(cluster), "--listen", "127.0.0.1:0", *files)
    assert ended.code == 2
    assert "error[GK7055]" in ended.err
