"""Servers with a private authority, and servers that want to know who calls."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitkruise.errors import SourceFailed
from gitkruise.git.plumbing.errors import remote_failure
from gitkruise.git.plumbing.process import GitCredentials, Result
from gitkruise.git.repository.repository import Repository
from tests.git.repos import Origin, processes_of, serve
from tests.git.tls import Pair, context, issue

BASIC = "Basic " + base64.b64encode(b"dana:canary-pass").decode()


@dataclass(frozen=True)
class Office:
    """An authority, and what it signed."""

    ca: Pair
    server: Pair
    client: Pair
    elsewhere: Pair  # a server certificate for another address
    stranger: Pair  # signed by an unknown authority


@pytest.fixture(scope="module")
def office() -> Office:
    ca = issue("authority")
    return Office(
        ca=ca,
        server=issue("server", ca),
        client=issue("client", ca),
        elsewhere=issue("elsewhere", ca, "127.0.0.2"),
        stranger=issue("stranger"),
    )


def fetch(base: str, folder: Path, **secret: str) -> str:
    """The tip of main, fetched with a secret of these keys."""
    data = {name.replace("_", "."): value for name, value in secret.items()}
    opened = Repository.open(
        f"{base}/origin.git", mirrors=folder / "mirrors", timeout_s=20,
        credentials=GitCredentials.from_secret(data),
    )  # fmt: skip
    with opened as repository:
        found = repository.fetch("main")
        assert repository.read_blob(repository.tree_id(found, "a")) == b"1"
        assert not any("canary" in line for line in processes_of("git"))
        return found


def test_a_private_authority_is_trusted_where_the_secret_names_it(
    origin: Origin, tmp_path: Path, office: Office
) -> None:
    commit = origin.commit({"a": "1"})
    with serve(tmp_path, BASIC, tls=context(tmp_path, office.server)) as base:
        assert base.startswith("https://")
        assert (
            fetch(
                base, tmp_path, ca_crt=office.ca.certificate, username="dana",
                password="canary-pass",
            )
            == commit
        )  # fmt: skip


def test_a_token_goes_over_tls(origin: Origin, tmp_path: Path, office: Office) -> None:
    commit = origin.commit({"a": "1"})
    with serve(tmp_path, "Bearer canary", tls=context(tmp_path, office.server)) as base:
        found = fetch(base, tmp_path, ca_crt=office.ca.certificate, bearerToken="canary")
        assert found == commit


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_end_of_the_line_is_no_part_of_a_token(
    origin: Origin, tmp_path: Path, office: Office, end: str
) -> None:
    commit = origin.commit({"a": "1"})
    with serve(tmp_path, "Bearer canary", tls=context(tmp_path, office.server)) as base:
        authority = office.ca.certificate
        assert fetch(base, tmp_path, ca_crt=authority, bearerToken=f"canary{end}") == commit


@pytest.mark.parametrize("token", ['a"\n[trace2]\n\teventTarget = {file}\n#', "a\\", 'a"b'])
def test_a_token_sets_nothing_in_the_configuration_of_git(
    origin: Origin, tmp_path: Path, office: Office, token: str
) -> None:
    origin.commit({"a": "1"})
    file = tmp_path / "written"
    secret = token.format(file=file)
    with (
        serve(tmp_path, "Bearer canary", tls=context(tmp_path, office.server)) as base,
        pytest.raises(SourceFailed) as caught,
    ):
        fetch(base, tmp_path, ca_crt=office.ca.certificate, bearerToken=secret)
    assert caught.value.findings[0].code == "GK3102"
    assert not file.exists()


def test_an_unreadable_certificate_of_ours_is_named_as_the_cause(
    origin: Origin, tmp_path: Path, office: Office
) -> None:
    origin.commit({"a": "1"})
    with (
        serve(tmp_path, tls=context(tmp_path, office.server)) as base,
        pytest.raises(SourceFailed) as caught,
    ):
        fetch(base, tmp_path, ca_crt=office.ca.certificate, tls_crt="x", tls_key="y")
    assert caught.value.findings[0].code == "GK3022"


@pytest.mark.parametrize(
    "text",
    [
        "error reading X.509 key or certificate file: Base64 unexpected header error.",
        "error reading X.509 key file: The requested data were not available.",
        "could not load PEM client certificate from tls.crt, OpenSSL error, (no key found?)",
        "unable to set private key file: 'tls.key' type PEM",
    ],
    ids=["GnuTLS", "GnuTLS, curl 8", "OpenSSL, certificate", "OpenSSL, key"],
)
def test_each_library_of_curl_has_words_for_a_file_it_cannot_read(text: str) -> None:
    errors = f"fatal: unable to access 'https://git.example.com/a.git/': {text}\n"
    result = Result(status=128, output=b"", errors=errors)
    failure = remote_failure("https://git.example.com/a.git", result, tries=1, timeout_s=20)
    assert failure.findings[0].code == "GK3022"


@pytest.mark.slow
def test_a_client_shows_its_certificate(origin: Origin, tmp_path: Path, office: Office) -> None:
    commit = origin.commit({"a": "1"})
    tls = context(tmp_path, office.server, clients=office.ca.certificate)
    with serve(tmp_path, tls=tls) as base:
        pair = {"tls_crt": office.client.certificate, "tls_key": office.client.key}
        assert fetch(base, tmp_path, ca_crt=office.ca.certificate, **pair) == commit
        strange = {"tls_crt": office.stranger.certificate, "tls_key": office.stranger.key}
        for wrong in ({}, strange):
            with pytest.raises(SourceFailed) as caught:
                fetch(base, tmp_path, ca_crt=office.ca.certificate, **wrong)
            assert caught.value.findings[0].code in {
                "GK3022",
                "GK3101",
            }  # as the TLS library has it


@pytest.mark.parametrize("which", ["unknown authority", "other name", "other authority"])
def test_a_server_that_cannot_prove_itself_is_not_spoken_to(
    origin: Origin, tmp_path: Path, office: Office, which: str
) -> None:
    origin.commit({"a": "1"})
    pair = office.elsewhere if which == "other name" else office.server
    ca = {"unknown authority": "", "other authority": office.stranger.certificate}
    asked: list[str] = []
    with (
        serve(tmp_path, BASIC, tls=context(tmp_path, pair), asked=asked) as base,
        pytest.raises(SourceFailed) as caught,
    ):
        fetch(
            base, tmp_path, username="dana", password="canary-pass",
            ca_crt=ca.get(which, office.ca.certificate),
        )  # fmt: skip
    (finding,) = caught.value.findings
    assert finding.code == "GK3021"
    assert ("ca.crt" in dict(finding.notes)["next"]) == (which != "other name")
    assert asked == []  # no word of the credentials left this machine
    assert "canary" not in str(caught.value)


def test_credentials_are_not_sent_on_to_another_host(origin: Origin, tmp_path: Path) -> None:
    origin.commit({"a": "1"})
    with (
        serve(tmp_path, BASIC) as base,
        Repository.open(
            f"{base}/origin.git", mirrors=tmp_path / "m", protocols={"http"},
            credentials=GitCredentials(username="dana", password="wrong"),
        ) as repository,
        pytest.raises(SourceFailed) as caught,
    ):  # fmt: skip
        repository.tip("main")
    assert caught.value.findings[0].code == "GK3102"
