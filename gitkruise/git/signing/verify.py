"""Signatures of commits and tags, by git's own check under keys of ours and no others."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from gitkruise.errors import Finding, UsageProblem
from gitkruise.git.plumbing import process
from gitkruise.git.plumbing.process import Result, git_command
from gitkruise.git.repository.repository import Repository
from gitkruise.printable import shown

UNTRUSTED: Final = "GK3301"
UNSIGNED: Final = "GK3302"
FORGED: Final = "GK3303"
OUTDATED: Final = "GK3304"
UNCHECKED: Final = "GK3305"

_TIME_S: Final = 30.0
_OUTPUT_MAX: Final = 1 << 20
_SSH: Final = b"-----BEGIN SSH SIGNATURE-----"
_PGP: Final = b"-----BEGIN PGP SIGNATURE-----"
_ANY: Final = re.compile(rb"^-----BEGIN [A-Z ]+-----", re.MULTILINE)
_HEADER: Final = re.compile(rb"^gpgsig(?:-sha256)? (.*\n(?: .*\n)*)", re.MULTILINE)
_GOOD: Final = re.compile(r'Good "git" signature for (\S+) with \S+ key SHA256:')
_PUBLIC: Final = re.compile(
    r"(?:ssh-ed25519|ecdsa-sha2-nistp\d+|ssh-rsa|sk-ssh-ed25519@openssh\.com|"
    r"sk-ecdsa-sha2-nistp256@openssh\.com) ([A-Za-z0-9+/]+=*)"
)
_STATUS: Final = re.compile(r"^\[GNUPG:\] (\S+) ?(.*)$", re.MULTILINE)
_CONFIG: Final = """[gpg]
\tprogram = {gpg}
[gpg "x509"]
\tprogram = /bin/false
[gpg "ssh"]
\tprogram = ssh-keygen
\tallowedSignersFile = {folder}/allowed_signers
\trevocationFile = {folder}/revoked_keys
"""


@dataclass(frozen=True, slots=True)
class Signers:
    """Keys that are trusted, from the Secret `where` (`namespace/name`).

    `ssh` are lines of an allowed-signers file; `revoked` are public keys of SSH.
    """

    where: str
    ssh: tuple[str, ...] = ()
    revoked: str = ""
    openpgp: tuple[str, ...] = ()

    @classmethod
    def from_secret(cls, data: Mapping[str, str], where: str) -> Signers:
        """From allowed_signers, *.sshpub, *.asc (as Flux names them) and revoked_keys.

        Raises UsageProblem GK7024 where there is no key, or one that cannot be read.
        """
        lines = [x.strip() for x in data.get("allowed_signers", "").splitlines()]
        lines = [line for line in lines if line and not line.startswith("#")]
        for name in sorted(name for name in data if name.endswith(".sshpub")):
            keys = filter(None, (line.strip() for line in data[name].splitlines()))
            who = re.sub(r"[^A-Za-z0-9@._+-]", "_", name.removesuffix(".sshpub")) or "signer"
            lines += [f'{who} namespaces="git" {key}' for key in keys]
        armoured = tuple(data[name] for name in sorted(data) if name.endswith(".asc"))
        signers = cls(where, tuple(lines), data.get("revoked_keys", ""), armoured)
        for line in lines:
            if _fingerprint(line) is None:
                raise _no_keys(where, f"this line has no public key: {shown(line, 80)}")
        if not lines and not armoured:
            raise _no_keys(where, "it has neither allowed_signers nor *.sshpub nor *.asc")
        return signers

    @property
    def count(self) -> int:
        return len(self.ssh) + len(self.openpgp)

    def has(self, fingerprint: str) -> bool:
        return any(_fingerprint(line) == fingerprint for line in self.ssh)


def _no_keys(where: str, why: str) -> UsageProblem:
    message = f"the Secret {where} contains no key that could be trusted"
    next_step = "give it the key allowed_signers, NAME.sshpub or NAME.asc"
    notes = (("why", why), ("next", next_step))
    return UsageProblem(Finding(code="GK7024", message=message, notes=notes))


def _fingerprint(line: str) -> str | None:
    found = _PUBLIC.search(line)
    if found is None:
        return None
    try:
        blob = base64.b64decode(found[1], validate=True)
    except binascii.Error:
        return None
    return _digest(blob)


def _digest(key: bytes) -> str:
    """A fingerprint as OpenSSH shows it."""
    return f"SHA256:{base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip('=')}"


@dataclass(frozen=True, slots=True)
class Flaw:
    """The reason why a signature is not good.

    `text` goes on from "commit 4f2c9e1 "; `key` may be unknown.
    """

    code: str
    text: str
    key: str = ""


def verify(
    repository: Repository, kind: str, name: str, signers: Signers, seen: datetime
) -> Flaw | None:
    """Return the flaw in the signature of a commit or tag; None when it is good.

    `seen` is when we saw the object first. A signature must be good then, not only at the time
    its author wrote into it: that one can be set back to before the key ran out.
    """
    found = _signature(repository.raw(name, kind), kind)
    if isinstance(found, Flaw):
        return found
    payload, signature = found
    with _keys(signers) as (folder, environment):
        if signature.startswith(_PGP):
            if not signers.openpgp:
                return Flaw(UNTRUSTED, "is signed by an OpenPGP key, and only SSH keys are trusted")
            problem = _import(signers, environment)
            return problem or _openpgp_flaw(_ask_git(repository, kind, name, environment))
        if not signature.startswith(_SSH):
            return Flaw(UNCHECKED, "is signed in a way that is not checked here")
        result = _ask_git(repository, kind, name, environment)
        good = _GOOD.search(result.errors)
        if result.status != 0 or good is None:
            return _ssh_flaw(result, signature, signers)
        (folder / "signature").write_bytes(signature)
        again = _verify_again(folder, good[1], payload, seen)
        return None if again else Flaw(OUTDATED, _RAN_OUT, _signing_key(signature)[1])


_RAN_OUT: Final = "is signed by a key that has run out or was revoked"


def _signature(data: bytes, kind: str) -> tuple[bytes, bytes] | Flaw:
    """Return the signed content, and the one signature over it."""
    if kind == "tag":
        begins = [found.start() for found in _ANY.finditer(data)]
        signatures = [data[begin:] for begin in begins]
        payload = data[: begins[0]] if begins else data
    else:
        head, blank, body = data.partition(b"\n\n")
        head += b"\n"
        signatures = [x.replace(b"\n ", b"\n") for x in _HEADER.findall(head)]
        payload = _HEADER.sub(b"", head).rstrip(b"\n") + blank + body
    if not signatures:
        return Flaw(UNSIGNED, "is not signed")
    if len(signatures) > 1:
        return Flaw(UNCHECKED, "has two signatures, and one is wanted")
    return payload, signatures[0]


@contextmanager
def _keys(signers: Signers) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder with the trusted keys and no others, and variables that lead git to it."""
    with tempfile.TemporaryDirectory(prefix="gitkruise-keys-") as name:
        folder = Path(name)
        gpg = "gpg" if signers.openpgp else "/bin/false"
        (folder / "allowed_signers").write_text("".join(f"{line}\n" for line in signers.ssh))
        (folder / "revoked_keys").write_text(signers.revoked)
        (folder / "config").write_text(_CONFIG.format(gpg=gpg, folder=folder))
        (folder / "gnupg").mkdir(mode=0o700)
        environment = {
            "HOME": name,
            "GNUPGHOME": str(folder / "gnupg"),
            "GIT_CONFIG_GLOBAL": str(folder / "config"),
        }
        yield folder, environment


def _ask_git(
    repository: Repository, kind: str, name: str, environment: Mapping[str, str]
) -> Result:
    words = [f"verify-{kind}", "--raw", "--end-of-options", name]
    return _run(git_command(repository.git_dir, words, environment=environment, limited=True))


def _ssh_flaw(result: Result, signature: bytes, signers: Signers) -> Flaw:
    fingerprint, key = _signing_key(signature)
    if result.stopped or "cannot run" in result.errors:
        return Flaw(UNCHECKED, "cannot be checked: ssh-keygen does not answer", key)
    if not signers.has(fingerprint) or "not permitted for use" in result.errors:
        return Flaw(UNTRUSTED, "is signed by a key that is not trusted", key)
    revoked = {_fingerprint(line) for line in signers.revoked.splitlines()}
    if "has expired" in result.errors or "not yet valid" in result.errors or fingerprint in revoked:
        return Flaw(OUTDATED, _RAN_OUT, key)
    return Flaw(FORGED, "has a signature that does not fit what it says", key)


def _signing_key(signature: bytes) -> tuple[str, str]:
    """Fingerprint of the key an SSH signature names (PROTOCOL.sshsig), and type with it."""
    lines = [x for x in signature.splitlines() if not x.startswith(b"-----")]
    try:
        blob = base64.b64decode(b"".join(lines), validate=True)
        key = _string(blob, len(b"SSHSIG") + 4)
        kind = _string(key, 0).decode("ascii")
    except (ValueError, struct.error):
        return "", ""
    fingerprint = _digest(key)
    return fingerprint, f"{shown(kind, 40)} {fingerprint}"


def _string(data: bytes, at: int) -> bytes:
    (length,) = struct.unpack_from(">I", data, at)
    return data[at + 4 : at + 4 + length]


def _verify_again(folder: Path, principal: str, payload: bytes, seen: datetime) -> bool:
    words = ["ssh-keygen", "-Y", "verify", "-n", "git", "-I", principal]
    words += ["-f", str(folder / "allowed_signers"), "-r", str(folder / "revoked_keys")]
    words += ["-s", str(folder / "signature")]
    words += ["-O", f"verify-time={seen.astimezone(UTC):%Y%m%d%H%M%S}"]
    environment = ["env", "-i", f"PATH={process.SEARCH_PATH}", "TZ=UTC", "LC_ALL=C"]
    return _run([*environment, *words], payload).status == 0


def _import(signers: Signers, environment: Mapping[str, str]) -> Flaw | None:
    """Import the trusted keys into gpg's home folder."""
    given = [f"{key}={value}" for key, value in environment.items()]
    words = ["env", "-i", f"PATH={process.SEARCH_PATH}", "LC_ALL=C", *given]
    words += ["gpg", "--batch", "--quiet", "--no-autostart", "--import"]
    result = _run(words, "\n".join(signers.openpgp).encode())
    if result.status == 0:
        return None
    why = "gpg is not installed" if result.status == 127 else "gpg does not take the trusted keys"
    return Flaw(UNCHECKED, f"cannot be checked: {why}")


def _openpgp_flaw(result: Result) -> Flaw | None:
    statuses = [(m[1], m[2].split()) for m in _STATUS.finditer(result.errors)]
    words = {word for word, _ in statuses}
    key = next((f"OpenPGP {args[0]}" for word, args in statuses if args and word in _NAMING), "")
    valid = [args for word, args in statuses if word == "VALIDSIG"]
    rows: Sequence[tuple[set[str], str, str]] = (
        ({"BADSIG"}, FORGED, "has a signature that does not fit what it says"),
        ({"EXPSIG", "EXPKEYSIG", "REVKEYSIG", "KEYREVOKED"}, OUTDATED, _RAN_OUT),
        ({"NO_PUBKEY"}, UNTRUSTED, "is signed by a key that is not trusted"),
        ({"ERRSIG"}, UNCHECKED, "has a signature that cannot be checked"),
    )
    for bad, code, text in rows:
        if words & bad:
            return Flaw(code, text, key)
    if result.status == 0 and len(valid) == 1 and "GOODSIG" in words:
        return None
    return Flaw(UNCHECKED, "has a signature that cannot be checked", key)


_NAMING: Final = frozenset({"VALIDSIG", "BADSIG", "ERRSIG", "NO_PUBKEY", "EXPKEYSIG", "REVKEYSIG"})


def _run(words: list[str], data: bytes = b"") -> Result:
    child = subprocess.Popen(  # noqa: S603  our own words, no shell
        words, start_new_session=True, cwd="/",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    return process.collect(child, data, timeout_s=_TIME_S, output_max=_OUTPUT_MAX)
