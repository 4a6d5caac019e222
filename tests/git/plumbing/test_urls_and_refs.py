"""URLs and refs are judged by our own rules before git sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitkruise.errors import SourceFailed, UsageProblem
from gitkruise.git.plumbing.process import GitCredentials, git_command, private_environment
from gitkruise.git.plumbing.refs import check_status_branch, full_ref, hide_password, parse_url
from gitkruise.printable import shown

BAD_URLS = [
    ("B-G01", "ext::sh -c 'touch x'"), ("B-G01", "fd::3"), ("B-G01", "git://h/x"),
    ("B-G01", "ftp://h/x"), ("B-G01", "http://h/x"), ("B-G01", "HTTP://h/x"),
    ("B-G02", "--upload-pack=touch x"), ("B-G02", "-oProxyCommand=x"), ("B-G02", "ssh://-oX/x"),
    ("B-G02", "user@-host:x"), ("B-G02", "ssh://-u@h/x"), ("B-G02", "u@h:-x"),
    ("B-G03", "https://u:p@h/x"), ("B-G03", "https://token@h/x"), ("B-G03", "https://h/x\ny"),
    ("B-G03", "https://h/\0"), ("B-G03", "https://h/%0ax"), ("B-G03", "https://exаmple.com/x"),
    ("B-G03", "ssh://h:0/x"), ("B-G03", "https:///host"), ("B-G03", "host:path"),
    ("B-G03", "https://h/" + "a" * 5_000), ("B-G03", ""), ("B-G03", "https://h"),
    ("B-G03", "https://h/x?upload=1"), ("B-G03", "ssh://h:99999/x"), ("B-G03", "u@h:22"),
    ("B-G03", "https://h..x/y"), ("B-G03", "https://h/-x"),
]  # fmt: skip


@pytest.mark.parametrize("url", [row[1] for row in BAD_URLS], ids=lambda url: url[:30])
def test_a_bad_url_is_refused(url: str) -> None:
    with pytest.raises(SourceFailed) as caught:
        parse_url(url)
    (finding,) = caught.value.findings
    assert finding.code == "GK3001"
    assert ":p@" not in str(finding.notes)
    assert "\n" not in str(dict(finding.notes)["url"])


@pytest.mark.parametrize(
    ("url", "protocol"),
    [("https://git.example.com/shop/deploy.git", "https"), ("https://h:8443/x", "https"),
     ("ssh://git@h:2222/x/y.git", "ssh"), ("git@git.example.com:shop/deploy.git", "ssh"),
     ("https://[::1]:8443/x", "https"), ("file:///srv/git/x.git", "file"), ("/srv/x", "file"),
     ("./x", "file"), ("x/y", "file")],
)  # fmt: skip
def test_a_good_url_is_taken(url: str, protocol: str) -> None:
    assert parse_url(url).protocol == protocol


def test_local_paths_and_http_are_the_callers_choice() -> None:
    assert parse_url("http://127.0.0.1/x", protocols={"http"}).protocol == "http"
    for url in ("/srv/x", "file:///srv/x"):
        with pytest.raises(SourceFailed):
            parse_url(url, protocols={"https", "ssh"})


@pytest.mark.parametrize(
    "ref",
    ["-x", "--output=/x", "a..b", "@{-1}", "refs/heads/../../x", "HEAD", "a" * 40, "refs/heads/-x",
     "x.lock", "a//b", "/a", "a/", "a b", "a~1", "a^", "a:b", "a\\b", "a\nb", "", "@", ".a", "a/.b",
     "refs/heads/", "refs/x", "a\u202eb", "x" * 600],
)  # fmt: skip
def test_a_bad_ref_is_refused(ref: str) -> None:
    """B-G06"""
    with pytest.raises(SourceFailed) as caught:
        full_ref(ref)
    assert caught.value.findings[0].code == "GK3201"


@pytest.mark.parametrize(
    ("name", "ref"),
    [("main", "refs/heads/main"), ("feature/x-1", "refs/heads/feature/x-1"),
     ("refs/tags/v1.0", "refs/tags/v1.0"), ("refs/notes/gitkruise/a", "refs/notes/gitkruise/a")],
)  # fmt: skip
def test_a_name_becomes_a_full_ref(name: str, ref: str) -> None:
    assert full_ref(name) == ref


@pytest.mark.parametrize("branch", ["main", "refs/heads/main"])
def test_the_status_branch_is_not_the_source(branch: str) -> None:
    """B-G34"""
    with pytest.raises(UsageProblem) as caught:
        check_status_branch(branch, "main")
    assert caught.value.findings[0].code == "GK7201"


def test_untrusted_text_is_escaped_and_cut() -> None:
    assert shown("a\x1b[31m\u202eb\n") == "a\\u001b[31m\\u202eb\\u000a"
    assert len(shown("x" * 1_000)) == 200
    assert hide_password("https://u:p@h/x") == "https://***@h/x"


def test_a_token_in_the_query_of_a_url_is_not_shown() -> None:
    with pytest.raises(SourceFailed) as caught:
        parse_url("https://git.example.com/x.git?access_token=canary")
    assert "canary" not in repr(caught.value.findings)


def test_the_whole_command_is_ours() -> None:
    """B-G15, B-G32"""
    command = git_command(Path("/m"), ["fetch", "--end-of-options", "-x"], protocols=["https"])
    assert command[:2] == ["env", "-i"]
    assert command[-3:] == ["fetch", "--end-of-options", "-x"]
    environment = dict(word.split("=", 1) for word in command[2 : command.index("git")])
    assert environment["GIT_ALLOW_PROTOCOL"] == "https"
    assert environment["GIT_CONFIG_GLOBAL"] == "/dev/null"
    settings = [command[n + 1] for n, word in enumerate(command) if word == "-c"]
    for setting in ("core.hooksPath=/dev/null", "protocol.allow=never", "credential.helper=",
                    "http.followRedirects=false", "protocol.https.allow=always"):  # fmt: skip
        assert setting in settings


def test_secrets_reach_git_in_private_files_that_go_away() -> None:
    secret = {"password": "canary-1", "bearerToken": "canary-2", "identity": "canary-3",
              "known_hosts": "h ssh-ed25519 x", "ca.crt": "PEM"}  # fmt: skip
    credentials = GitCredentials.from_secret(secret)
    assert "canary" not in repr(credentials)
    with private_environment(credentials) as environment:
        folder = Path(environment["HOME"])
        command = git_command(None, ["ls-remote"], environment=environment, protocols=["ssh"])
        assert "canary" not in " ".join(command)
        assert "StrictHostKeyChecking=yes" in environment["GIT_SSH_COMMAND"]
        files = [path for path in folder.iterdir() if path.name != "askpass"]
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert not folder.exists()
