"""Keys made for a test, and commits and tags signed with them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.conftest import need
from tests.git.repos import ENV, Origin


def ssh_key(folder: Path, name: str, passphrase: str = "", *form: str) -> str:
    """A new key pair `name` and `name.pub`, in the `form` of these options; the public line."""
    present = bool(shutil.which("ssh-keygen"))
    need("ssh-keygen", present=present, how="apt-get install openssh-client")
    words = ["ssh-keygen", "-q", *(form or ("-t", "ed25519")), "-N", passphrase, "-C", name]
    subprocess.run([*words, "-f", str(folder / name)], check=True)
    return (folder / f"{name}.pub").read_text().strip()


class Gpg:
    """A keyring of its own."""

    def __init__(self, home: Path) -> None:
        home.mkdir(mode=0o700)
        self.home = home
        self.configure()

    def configure(self, *lines: str) -> None:
        text = "\n".join(["batch", "no-tty", "pinentry-mode loopback", *lines])
        (self.home / "gpg.conf").write_text(text + "\n")

    def run(self, *words: str) -> str:
        env = {"PATH": os.defpath, "GNUPGHOME": str(self.home), "LC_ALL": "C"}
        done = subprocess.run(["gpg", *words], env=env, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def make(self, name: str, expires: str = "never", at: str = "20240101T000000") -> str:
        """A new key without passphrase; its public half, armoured."""
        words = ["--faked-system-time", at, "--passphrase", "", "--quick-generate-key"]
        self.run(*words, f"{name}@example.com", "ed25519", "sign", expires)
        return self.run("--armor", "--export", f"{name}@example.com")

    def make_for_files(self, name: str) -> str:
        """A new key that files can be encrypted for; its private half, armoured."""
        words = ["--passphrase", "", "--quick-generate-key", f"{name}@example.com"]
        self.run(*words, "rsa2048", "sign,encrypt", "never")
        return self.run("--armor", "--export-secret-keys", f"{name}@example.com")

    def close(self) -> None:
        env = {"PATH": os.defpath, "GNUPGHOME": str(self.home)}
        subprocess.run(["gpgconf", "--kill", "all"], env=env, capture_output=True, check=False)


def sign(
    origin: Origin, *words: str, ssh: Path | None = None, gpg: Gpg | None = None,
    who: str = "", date: str = "1790000000 +0000",
) -> None:  # fmt: skip
    """Run a git command in the checkout that signs with one key."""
    options = ["-c", "gpg.format=ssh", "-c", f"user.signingkey={ssh}"]
    env = {**ENV, "GIT_COMMITTER_DATE": date}
    if gpg is not None:
        options = ["-c", f"user.signingkey={who}@example.com", "-c", "gpg.format=openpgp"]
        env["GNUPGHOME"] = str(gpg.home)
    done = subprocess.run(
        ["git", *options, *words], cwd=origin.work, env=env, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
