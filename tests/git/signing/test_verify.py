"""A commit or tag is good when a trusted key signed it, and nothing else is good."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gitkruise.errors import UsageProblem
from gitkruise.git.repository.repository import Repository
from gitkruise.git.signing.verify import Signers, verify
from tests.conftest import need
from tests.git.keys import Gpg, sign, ssh_key
from tests.git.repos import make_origin, run_git

NOW = datetime(2026, 11, 21, tzinfo=UTC)
LONG_AGO = "1700000000 +0000"


class Yard:
    """A repository with one of each: signed well, by a stranger, not at all, changed, …"""

    def __init__(self, folder: Path) -> None:
        self.origin = make_origin(folder)
        self.keys = {name: ssh_key(folder, name) for name in ("bo", "mallory")}
        self.gpg = Gpg(folder / "gnupg")
        self.rings = {name: self.gpg.make(name) for name in ("gina", "eve")}
        self.rings["old"] = self.gpg.make("old", expires="20240201T000000")
        self.folder = folder
        self.ids = {"plain": self.origin.commit({"a": "1"})}
        for name in self.keys:
            self.ids[name] = self.commit(ssh=folder / name)
        self.ids["back-dated"] = self.commit(ssh=folder / "bo", date=LONG_AGO)
        for name in ("gina", "eve"):
            self.ids[name] = self.commit(gpg=self.gpg, who=name)
        self.gpg.configure("faked-system-time 20240115T000000")
        self.ids["old"] = self.commit(gpg=self.gpg, who="old")
        self.gpg.configure()
        self.repository = Repository.open(str(self.origin.bare))
        for name in ("bo", "gina"):
            self.ids[f"changed {name}"] = self.changed(self.ids[name])
        words = ("tag", "-s", "-m", "x")
        sign(self.origin, *words, "bo-tag", ssh=folder / "bo")
        sign(self.origin, *words, "gina-tag", gpg=self.gpg, who="gina")
        run_git(self.origin.work, "tag", "-a", "-m", "x", "plain-tag")
        run_git(self.origin.work, "push", "--quiet", "origin", "--tags")

    def commit(self, **how: object) -> str:
        words = ("commit", "--quiet", "--allow-empty", "-S", "-m", "signed")
        sign(self.origin, *words, **how)  # type: ignore[arg-type]  # passed on as given
        run_git(self.origin.work, "push", "--quiet", "origin", "HEAD:refs/heads/main")
        return run_git(self.origin.work, "rev-parse", "HEAD")

    def changed(self, commit: str) -> str:
        data = self.repository.raw(commit, "commit")
        return self.repository.write_object("commit", data.replace(b"Dana K", b"Dana L"))

    def signers(self, **data: str) -> Signers:
        return Signers.from_secret({k.replace("__", "."): v for k, v in data.items()}, "shop/keys")


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    need("gpg", present=bool(shutil.which("gpg")), how="apt-get install gnupg")
    made = Yard(tmp_path_factory.mktemp("yard"))
    yield made
    made.repository.close()
    made.gpg.close()


def _bo(yard: Yard) -> Signers:
    return yard.signers(bo__sshpub=yard.keys["bo"])


def _gina(yard: Yard) -> Signers:
    return yard.signers(gina__asc=yard.rings["gina"])


def _old(yard: Yard) -> Signers:
    return yard.signers(old__asc=yard.rings["old"])


def _both(yard: Yard) -> Signers:
    return yard.signers(bo__sshpub=yard.keys["bo"], gina__asc=yard.rings["gina"])


def _listed(options: str) -> Callable[[Yard], Signers]:
    def make(yard: Yard) -> Signers:
        return yard.signers(
            allowed_signers=f"# who\n\nbo@example.com {options} {yard.keys['bo']}\n"
        )

    return make


def _revoked(yard: Yard) -> Signers:
    return yard.signers(bo__sshpub=yard.keys["bo"], revoked_keys=yard.keys["bo"] + "\n")


ROWS: list[tuple[str, Callable[[Yard], Signers], str, str]] = [
    # row, keys that are trusted, commit, code ("" for good)
    ("a trusted SSH key", _bo, "bo", ""),
    ("an allowed signer", _listed('namespaces="git"'), "bo", ""),
    ("both kinds are trusted: SSH", _both, "bo", ""),
    ("both kinds are trusted: OpenPGP", _both, "gina", ""),
    ("a trusted OpenPGP key", _gina, "gina", ""),
    ("an SSH key not listed", _bo, "mallory", "GK3301"),
    ("an OpenPGP key not listed", _gina, "eve", "GK3301"),
    ("SSH where only OpenPGP is trusted", _gina, "bo", "GK3301"),
    ("OpenPGP where only SSH is trusted", _bo, "gina", "GK3301"),
    ("a key listed for other things", _listed('namespaces="file"'), "bo", "GK3301"),
    ("not signed", _both, "plain", "GK3302"),
    ("changed after an SSH signature", _bo, "changed bo", "GK3303"),
    ("changed after an OpenPGP signature", _gina, "changed gina", "GK3303"),
    ("a key that had run out", _listed('valid-before="20260101"'), "bo", "GK3304"),
    ("a key that ran out since", _listed('valid-before="20261001"'), "bo", "GK3304"),
    ("dated back before it ran out", _listed('valid-before="20240101"'), "back-dated", "GK3304"),
    ("a key not yet in force", _listed('valid-after="20270101"'), "bo", "GK3304"),
    ("an OpenPGP key that ran out since", _old, "old", "GK3304"),
    ("a revoked key", _revoked, "bo", "GK3304"),
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_verdict_on_a_commit(
    yard: Yard, row: tuple[str, Callable[[Yard], Signers], str, str]
) -> None:
    _, signers, name, code = row
    flaw = verify(yard.repository, "commit", yard.ids[name], signers(yard), NOW)
    assert (flaw.code if flaw else "") == code


@pytest.mark.parametrize(
    ("name", "signers", "code"),
    [
        ("bo-tag", _bo, ""),
        ("gina-tag", _gina, ""),
        ("bo-tag", _gina, "GK3301"),
        ("gina-tag", _bo, "GK3301"),
        ("plain-tag", _both, "GK3302"),
    ],
)
def test_verdict_on_a_tag(
    yard: Yard, name: str, signers: Callable[[Yard], Signers], code: str
) -> None:
    tag = yard.repository.tag_object(f"refs/tags/{name}")
    flaw = verify(yard.repository, "tag", tag, signers(yard), NOW)
    assert (flaw.code if flaw else "") == code


def test_the_key_is_named_as_its_owner_sees_it(yard: Yard) -> None:
    flaw = verify(yard.repository, "commit", yard.ids["mallory"], _bo(yard), NOW)
    assert flaw is not None
    assert flaw.key.startswith("ssh-ed25519 SHA256:")
    assert not _bo(yard).has(flaw.key.split()[1])
    assert yard.signers(m__sshpub=yard.keys["mallory"]).has(flaw.key.split()[1])


def test_two_signatures_are_one_too_many(yard: Yard) -> None:
    data = yard.repository.raw(yard.ids["bo"], "commit")
    begin, end = data.index(b"gpgsig "), data.index(b"\n\n")
    twice = data[:end] + b"\n" + data[begin:end] + data[end:]
    commit = yard.repository.write_object("commit", twice)
    flaw = verify(yard.repository, "commit", commit, _bo(yard), NOW)
    assert flaw is not None
    assert flaw.code in {"GK3303", "GK3305"}


def test_a_certificate_is_not_checked(yard: Yard) -> None:
    data = yard.repository.raw(yard.ids["plain"], "commit")
    head, _, body = data.partition(b"\n\n")
    header = b"\ngpgsig -----BEGIN SIGNED MESSAGE-----\n abc\n -----END SIGNED MESSAGE-----"
    commit = yard.repository.write_object("commit", head + header + b"\n\n" + body)
    flaw = verify(yard.repository, "commit", commit, _both(yard), NOW)
    assert flaw is not None
    assert flaw.code == "GK3305"


@pytest.mark.parametrize(
    "data", [{}, {"known_hosts": "x"}, {"bo.sshpub": "hello"}, {"allowed_signers": "bo key"}]
)
def test_a_secret_without_keys_is_refused(data: dict[str, str]) -> None:
    with pytest.raises(UsageProblem) as caught:
        Signers.from_secret(data, "shop/keys")
    assert caught.value.findings[0].code == "GK7024"


def test_nothing_of_the_users_own_keys_counts(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GNUPGHOME", str(yard.gpg.home))
    flaw = verify(yard.repository, "commit", yard.ids["eve"], _gina(yard), NOW)
    assert flaw is not None
    assert flaw.code == "GK3301"
