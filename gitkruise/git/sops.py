"""Files encrypted with SOPS, opened by the sops program in memory; what they say never leaks."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from gitkruise.errors import Finding, InvalidManifests, SourceFailed
from gitkruise.git import process
from gitkruise.model.document import Document
from gitkruise.wire.names import Obj
from gitkruise.wire.paths import drop, get, put

Form: TypeAlias = Literal["yaml", "json"]
METADATA: Final = "sops"
CIPHERTEXT: Final = "ENC[AES256_GCM,"
DECRYPT_S: Final = 20.0
OUTPUT_MAX: Final = 4 << 20
_KEY_SUFFIX: Final = ".agekey"
_DEAD_PROXY: Final = "http://127.0.0.1:9"  # nothing listens there
_RECIPIENTS_SHOWN: Final = 3
# What sops prints may hold what it decrypted, so none of it is shown: only what it means.
_MEANINGS: Final[tuple[tuple[str, str, str], ...]] = (
    # part of what sops prints · what it means · next step
    ("data key", "none of the keys given opens it",
     "put the private key of one of its recipients into the Secret of render.decryption"),
    ("mac mismatch", "it was changed after it was encrypted",
     "change encrypted files with sops alone, and encrypt this one again"),
    ("message authentication failed", "a value was changed after it was encrypted",
     "change encrypted files with sops alone, and encrypt this one again"),
    ("metadata not found", "it says nothing about how it was encrypted", "encrypt it again"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeKeys:
    """Private age keys, one `AGE-SECRET-KEY-1…` a line; never shown."""

    text: str = field(default="", repr=False)

    @classmethod
    def from_secret(cls, data: Mapping[str, str]) -> AgeKeys:
        """From the keys of a Secret that end in `.agekey`, as Flux names them."""
        texts = [data[name].strip() for name in sorted(data) if name.endswith(_KEY_SUFFIX)]
        return cls(text="\n".join(filter(None, texts)))


def is_encrypted(obj: Any) -> bool:
    """Whether `obj` carries what sops writes into the files it encrypts."""
    return isinstance(get(obj, METADATA, "mac"), str) if isinstance(obj, dict) else False


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

    def __init__(self, keys: AgeKeys, *, search: str = process.SEARCH_PATH) -> None:
        self._keys, self._search = keys, search

    def decrypt(self, data: bytes, document: Document, *, form: Form, whole: bool) -> bytes:
        """`data` in plain text. `document` is named in errors; `whole` files prove their MAC.

        Raises SourceFailed GK1502 without the program, InvalidManifests GK1503 when it refuses.
        """
        found = shutil.which("sops", path=self._search)
        if found is None:
            raise SourceFailed(_missing(document))
        words = [found, "--decrypt", "--input-type", form, "--output-type", form]
        words += [] if whole else ["--ignore-mac"]
        child = subprocess.Popen(  # noqa: S603  a full path and our own words
            [*process.limited(), *words, "/dev/stdin"], env=self._environment(), cwd="/",
            start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        result = process.collect(child, data, timeout_s=DECRYPT_S, output_max=OUTPUT_MAX)
        if result.stopped or result.status != 0:
            raise InvalidManifests(_refused(document, result))
        return result.output

    def _environment(self) -> dict[str, str]:
        """No home, no other program, no network: only the age keys given can open anything."""
        return {
            "PATH": "/nonexistent", "HOME": "/nonexistent", "LC_ALL": "C", "TMPDIR": "/nonexistent",
            "XDG_CONFIG_HOME": "/nonexistent", "GOMEMLIMIT": "256MiB", "HTTP_PROXY": _DEAD_PROXY,
            "HTTPS_PROXY": _DEAD_PROXY, "SOPS_AGE_KEY": self._keys.text,
        }  # fmt: skip


def _missing(document: Document) -> Finding:
    return Finding(
        code="GK1502",
        message="an encrypted file needs the program sops, and it is not installed",
        places=(document.place((METADATA,), key=True),),
        notes=(
            ("unchanged", "what runs stays as it is; the commit is tried again"),
            ("next", "install sops beside gitkruise"),
        ),
    )


def _refused(document: Document, result: process.Result) -> Finding:
    said = result.errors.lower()
    why, next_step = f"sops gave up (exit status {result.status})", "see what sops -d says to it"
    if result.stopped:
        why = f"sops went beyond its limit of {result.stopped}"
    else:
        for part, meaning, step in _MEANINGS:
            if part in said:
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
    listed = get(obj, METADATA, "age")
    for entry in (listed if isinstance(listed, list) else [])[:_RECIPIENTS_SHOWN]:
        recipient = entry.get("recipient") if isinstance(entry, dict) else None
        if isinstance(recipient, str) and recipient.startswith("age1") and recipient.isalnum():
            yield recipient[:80]


def as_json(obj: Obj) -> bytes:
    """A rendered object as sops reads it."""
    return json.dumps(obj, ensure_ascii=False).encode()
