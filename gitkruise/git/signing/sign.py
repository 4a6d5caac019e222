"""Signing commits of ours with a key from a Secret, by git's own programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from gitkruise.errors import Finding, SourceFailed
from gitkruise.git.manifests.gpg_home import agent, private_folder, run, write_private

Format: TypeAlias = Literal["ssh", "gpg"]
KEYS: Final[Mapping[Format, str]] = {"ssh": "identity", "gpg": "git.asc"}  # of a Secret
_BEGIN: Final[Mapping[Format, bytes]] = {
    "ssh": b"-----BEGIN SSH SIGNATURE-----", "gpg": b"-----BEGIN PGP SIGNATURE-----",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key; `passphrase` is of OpenPGP keys alone. It is in a file, for our eyes alone,
    only while it signs."""

    format: Format
    key: str = field(repr=False)
    passphrase: str = field(default="", repr=False)

    def sign(self, payload: bytes) -> bytes:
        """The armoured signature of `payload`. Blocking. Raises SourceFailed GK3307."""
        with private_folder() as folder:
            made = (_by_ssh if self.format == "ssh" else _by_gpg)(self, folder, payload)
        if not made.startswith(_BEGIN[self.format]):
            raise _failed("the program produced no signature")
        return made

    def signed(self, commit: bytes) -> bytes:
        """A raw commit with its signature in the header."""
        head, _, message = commit.partition(b"\n\n")
        longer = len(head.split(b"\n", 1)[0]) > len("tree ") + 40
        name = b"gpgsig-sha256 " if longer else b"gpgsig "
        lines = self.sign(commit).strip(b"\n").replace(b"\n", b"\n ")
        return head + b"\n" + name + lines + b"\n\n" + message


def _by_ssh(signer: Signer, folder: Path, payload: bytes) -> bytes:
    key = folder / "key"
    write_private(key, signer.key.strip() + "\n")
    words = ["ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", str(key)]
    return _run(words, folder, payload)


def _by_gpg(signer: Signer, folder: Path, payload: bytes) -> bytes:
    write_private(folder / "key.asc", signer.key)
    write_private(folder / "passphrase", signer.passphrase)
    gpg = [
        "gpg", "--batch", "--no-tty", "--quiet", "--pinentry-mode", "loopback",
        "--passphrase-file", str(folder / "passphrase"),
    ]  # fmt: skip
    with agent(folder):
        _run([*gpg, "--import", str(folder / "key.asc")], folder)
        return _run([*gpg, "--armor", "--detach-sign", "--output", "-"], folder, payload)


def _run(words: list[str], home: Path, data: bytes = b"") -> bytes:
    result = run(words, home, data)
    if result.status != 0:
        raise _failed(result.stopped or result.errors.strip().split("\n")[-1])
    return result.output


def _failed(why: str) -> SourceFailed:
    return SourceFailed(
        Finding(
            code="GK3307",
            message="our commits cannot be signed",
            notes=(
                ("why", why),
                ("unchanged", "nothing was pushed; the news are kept"),
                ("next", "give the Secret a private key that needs no person to unlock it"),
            ),
        )
    )
