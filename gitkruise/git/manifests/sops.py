"""Files encrypted with SOPS, opened by the sops program in memory; what they say never leaks."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from gitkruise.errors import Finding, InvalidManifests, SourceFailed
from gitkruise.git.manifests.gpg_home import agent, private_folder, run
from gitkruise.git.parsing.documents import METADATA
from gitkruise.git.plumbing import process
from gitkruise.model.gitops.document import Document
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import drop, get, put

Form: TypeAlias = Literal["yaml", "json"]
CIPHERTEXT: Final = "ENC[AES256_GCM,"
DECRYPT_S: Final = 20.0
OUTPUT_MAX: Final = 4 << 20
_AGE_SUFFIX, _OPENPGP_SUFFIX = ".agekey", ".asc"
_DEAD_PROXY: Final = "http://127.0.0.1:9"  # nothing listens there
_RECIPIENTS_SHOWN: Final = 3
# Output of sops may contain what it decrypted, so it is never shown: only its meaning.
_MEANINGS: Final[tuple[tuple[str, str, str], ...]] = (
    # part of what sops prints · what it means · next step
    ("data key", "no given key opens it",
     "put the private key of a recipient into the Secret of render.decryption, re-read within 2m"),
    ("mac mismatch", "it was changed after it was encrypted",
     "change encrypted files with sops alone, and encrypt this one again"),
    ("message authentication failed", "a value was changed after it was encrypted",
     "change encrypted files with sops alone, and encrypt this one again"),
    ("metadata not found", "it says nothing about how it was encrypted", "encrypt it again"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateKeys:
    """Private keys for encrypted files; never shown. `age` has one `AGE-SECRET-KEY-1…` a line.

    `openpgp` are armoured keys that need no passphrase.
    """

    age: str = field(default="", repr=False)
    openpgp: str = field(default="", repr=False)

    @classmethod
    def from_secret(cls, data: Mapping[str, str]) -> PrivateKeys:
        """From the keys of a Secret that end in `.agekey` and `.asc`, as Flux names them."""
        texts = {
            suffix: [data[name].strip() for name in sorted(data) if name.endswith(suffix)]
            for suffix in (_AGE_SUFFIX, _OPENPGP_SUFFIX)
        }
        age, openpgp = ("\n".join(filter(None, found)) for found in texts.values())
        return cls(age=age, openpgp=openpgp)


def is_ciphertext(value: Any) -> bool:
    """Return whether a value of a `sealed` Secret is what sops wrote in place of another."""
    try:
        text = b64decode(value, validate=True) if isinstance(value, str) else b""
    except ValueError:
        return False
    return text.startswith(b"ENC[")


def sealed(document: Document) -> Document:
    """An encrypted Secret as far as it can be judged and compared without the key.

    The metadata of sops is left out; values under `data` stay the ciphertext, encoded as a
    Secret's are, so that equal ciphertext is an equal value.
    """
    obj: Obj = drop(document.obj, (METADATA,))
    data = obj.get("data")
    if isinstance(data, dict):
        encoded = {k: b64encode(str(v).encode()).decode() for k, v in data.items()}
        obj = put(obj, ("data",), encoded)
    return dataclasses.replace(document, obj=obj)


class Sops:
    """The sops program with one set of keys. Plaintext is in this process' memory alone."""

    def __init__(self, keys: PrivateKeys, *, search: str = process.SEARCH_PATH) -> None:
        self._keys, self._search = keys, search
        self._home: Path | None = None  # where gpg finds the keys of OpenPGP
        self._stack = ExitStack()

    @contextmanager
    def ready(self) -> Iterator[None]:
        """While this lasts, keys of OpenPGP are imported once, for the first file that needs them.

        Not thread-safe.
        """
        with ExitStack() as stack:
            self._stack = stack
            try:
                yield
            finally:
                self._home = None

    def decrypt(self, data: bytes, document: Document, *, form: Form, whole: bool) -> bytes:
        """`data` in plain text. `document` is named in errors; `whole` files prove their MAC.

        Raises SourceFailed GK1502 without the program, InvalidManifests GK1503 when it refuses.
        Keys of OpenPGP are of use only while `ready` lasts.
        """
        found = shutil.which("sops", path=self._search)
        if found is None:
            raise SourceFailed(_missing(document, "sops"))
        words = [found, "--decrypt", "--input-type", form, "--output-type", form]
        words += [] if whole else ["--ignore-mac"]
        child = subprocess.Popen(  # noqa: S603  a full path and our own words
            [*process.limited(), *words, "/dev/stdin"], env=self._environment(document), cwd="/",
            start_new_session=True, preexec_fn=process.Tether.hook,  # noqa: PLW1509  as in launch
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        result = process.collect(child, data, timeout_s=DECRYPT_S, output_max=OUTPUT_MAX)
        if result.stopped or result.status != 0:
            raise InvalidManifests(_refused(document, result))
        return result.output

    def _environment(self, document: Document) -> dict[str, str]:
        """No home, no other program but gpg, no network: only the keys given can open anything."""
        return {
            "PATH": "/nonexistent", "HOME": "/nonexistent", "LC_ALL": "C", "TMPDIR": "/nonexistent",
            "XDG_CONFIG_HOME": "/nonexistent", "GOMEMLIMIT": "256MiB", "HTTP_PROXY": _DEAD_PROXY,
            "HTTPS_PROXY": _DEAD_PROXY, "SOPS_AGE_KEY": self._keys.age,
            **(self._openpgp(document) if self._keys.openpgp else {}),
        }  # fmt: skip

    def _openpgp(self, document: Document) -> dict[str, str]:
        """Variables that lead sops to gpg and gpg to the keys; none for a file that needs none."""
        if not get(document.obj, METADATA, "pgp"):
            return {}
        gpg = shutil.which("gpg", path=process.SEARCH_PATH)
        if gpg is None:
            raise SourceFailed(_missing(document, "gpg"))
        if self._home is None:
            home = self._stack.enter_context(private_folder())
            self._stack.enter_context(agent(home))
            words = ["gpg", "--batch", "--no-tty", "--quiet", "--pinentry-mode", "error"]
            result = run([*words, "--import"], home, self._keys.openpgp.encode())
            if result.status != 0:
                raise InvalidManifests(_bad_keys(document))
            self._home = home
        return {"GNUPGHOME": str(self._home), "SOPS_GPG_EXEC": gpg}


def _bad_keys(document: Document) -> Finding:
    return Finding(
        code="GK1503",
        message="an encrypted file cannot be opened: gpg does not take the keys (*.asc) given",
        places=(document.place((METADATA,), key=True),),
        notes=(("next", "export them again: gpg --export-secret-keys --armor FINGERPRINT"),),
    )


def _missing(document: Document, program: str) -> Finding:
    return Finding(
        code="GK1502",
        message=f"an encrypted file needs the program {program}, and it is not installed",
        places=(document.place((METADATA,), key=True),),
        notes=(
            ("unchanged", "what runs stays as it is; the commit is tried again"),
            ("next", f"install {program} next to gitkruise"),
        ),
    )


def _refused(document: Document, result: process.Result) -> Finding:
    output = result.errors.lower()
    why, next_step = f"sops gave up (exit status {result.status})", "see what sops -d says to it"
    if result.stopped:
        why = f"sops went beyond its limit of {result.stopped}"
    else:
        for part, meaning, step in _MEANINGS:
            if part in output:
                why, next_step = meaning, step
                break
    wanted = ", ".join(_recipients(document.obj))
    return Finding(
        code="GK1503",
        message=f"an encrypted file cannot be opened: {why}",
        places=(document.place((METADATA,), key=True),),
        notes=(*((("encrypted for", wanted),) if wanted else ()), ("next", next_step)),
    )


def _recipients(obj: Obj) -> Iterator[str]:
    for tool, field_, start in (("age", "recipient", "age1"), ("pgp", "fp", "")):
        listed = get(obj, METADATA, tool)
        for entry in (listed if isinstance(listed, list) else [])[:_RECIPIENTS_SHOWN]:
            recipient = entry.get(field_) if isinstance(entry, dict) else None
            if isinstance(recipient, str) and recipient.startswith(start) and recipient.isalnum():
                yield recipient[:80]


def as_json(obj: Obj) -> bytes:
    """A rendered object as sops reads it."""
    return json.dumps(obj, ensure_ascii=False).encode()
