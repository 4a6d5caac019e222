"""Secrets encrypted for a key of OpenPGP are opened by gpg with the keys given, and no others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from gitkruise.git.manifests.decryption import Opener
from gitkruise.git.manifests.reader import Manifests, read_desired
from gitkruise.git.manifests.sops import PrivateKeys, Sops
from gitkruise.git.repository.repository import Repository
from tests.conftest import need
from tests.git.keys import Gpg
from tests.git.repos import Origin
from tests.git.sops import CANARY, program, real, real_folder

pytestmark = pytest.mark.slow

PLAIN: Final = f"""apiVersion: v1
kind: Secret
metadata: {{name: database}}
stringData: {{password: {CANARY}}}
"""
# Opens as sops 3 does: the data key is what gpg says, and the file is sealed with that.
_PROGRAM: Final = """#!{python} -I
import os, re, subprocess, sys
text = open("/dev/stdin").read()
sealed = re.search(r"-----BEGIN PGP MESSAGE-----.*?-----END PGP MESSAGE-----", text, re.S)[0]
message = re.sub(r"^ +", "", sealed, flags=re.M)
gpg = os.environ.get("SOPS_GPG_EXEC", "/nonexistent/gpg")
done = subprocess.run([gpg, "--no-tty", "-d"], input=message.encode(), capture_output=True)
if done.returncode:
    sys.exit("Failed to get the data key required to decrypt the SOPS file.")
sys.stdout.write(text[: text.index("sops:")].replace("ENC[AES256_GCM,x]", done.stdout.decode()))
"""


@pytest.fixture
def gpg(tmp_path: Path) -> Iterator[Gpg]:
    need("gpg", present=bool(shutil.which("gpg")), how="apt-get install gnupg")
    ring = Gpg(tmp_path / "gnupg")
    yield ring
    ring.close()


@pytest.fixture(params=["sops", "stand-in"])
def search(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "stand-in":
        return program(tmp_path / "bin", _PROGRAM.format(python=sys.executable))
    return real_folder()


def encrypted(gpg: Gpg, search: str, who: str, folder: Path) -> str:
    """PLAIN, encrypted for a key of the ring."""
    listed = gpg.run("--with-colons", "--fingerprint", f"{who}@example.com")
    fingerprint = next(x.split(":")[9] for x in listed.splitlines() if x.startswith("fpr"))
    if search != str(Path(real() or "/-").parent):
        (folder / "key.txt").write_text(CANARY)
        words = ["--armor", "--trust-model", "always", "--recipient", fingerprint, "--encrypt"]
        gpg.run(*words, "--output", str(folder / "key.asc"), str(folder / "key.txt"))
        message = (folder / "key.asc").read_text().replace("\n", "\n            ")
        metadata = f"pgp:\n        - fp: {fingerprint}\n          enc: |-\n            {message}"
        sealed = PLAIN.replace(CANARY, "'ENC[AES256_GCM,x]'")
        return f"{sealed}sops:\n    {metadata}\n    mac: ENC[AES256_GCM,x]\n"
    plain = folder / "plain.yaml"
    plain.write_text(PLAIN)
    env = {"PATH": os.defpath, "GNUPGHOME": str(gpg.home)}
    words = [real(), "--encrypt", "--pgp", fingerprint, "--encrypted-regex", "^stringData$"]
    done = subprocess.run([*words, str(plain)], env=env, capture_output=True, check=True)
    return done.stdout.decode()


def opened(repository: Repository, commit: str, search: str, **entries: str) -> Manifests:
    keys = PrivateKeys.from_secret({name.replace("_", "."): v for name, v in entries.items()})
    return Opener(repository, Sops(keys, search=search)).opened(read_desired(repository, commit))


def test_the_key_that_fits_opens_it(
    origin: Origin, repository: Repository, gpg: Gpg, search: str, tmp_path: Path
) -> None:
    key, other = gpg.make_for_files("main"), gpg.make_for_files("other")
    text = encrypted(gpg, search, "main", tmp_path)
    assert CANARY not in text
    commit = origin.commit({"a.yaml": text, "b.yaml": text.replace("database", "other")})
    manifests = opened(repository, commit, search, a_asc=other, b_asc=key)
    found = manifests.documents[0].obj
    assert (found["stringData"], found.get("sops")) == ({"password": CANARY}, None)
    manifests = opened(repository, commit, search, a_asc=other)
    message = manifests.findings[0].message
    assert (manifests.findings[0].code, "no given key opens it" in message) == ("GK1503", True)
    manifests = opened(repository, commit, search, a_asc="no key")
    assert "gpg does not take the keys" in manifests.findings[0].message
    assert CANARY not in repr(manifests.findings)
