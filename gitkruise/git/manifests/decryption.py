"""The encrypted objects of a commit, opened; their places stay those of the encrypted files."""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Iterator
from typing import Any, Final

from gitkruise.errors import Finding, InvalidManifests
from gitkruise.git.manifests.reader import Manifests
from gitkruise.git.manifests.sops import CIPHERTEXT, Form, Sops, as_json
from gitkruise.git.parsing.documents import METADATA, is_encrypted, parse_file
from gitkruise.git.repository.repository import Repository
from gitkruise.model.gitops.document import Document
from gitkruise.printable import shown
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import drop

_FILES_KEPT: Final = 1_000
_SPLIT: Final = "put what is secret into a Secret, and leave the rest in plain text"
_DATA_ALONE: Final = "encrypt the data alone: sops --encrypted-regex '^(data|stringData)$'"


class Opener:
    """Opens encrypted Secrets with one set of keys; a blob opened once is kept in memory."""

    def __init__(self, repository: Repository, sops: Sops) -> None:
        self._repository, self._sops = repository, sops
        self._opened: dict[str, dict[int, Obj]] = {}  # blob id: objects by their number in it
        self._documents: dict[tuple[str, int], tuple[Document, Document]] = {}

    def opened(self, manifests: Manifests) -> Manifests:
        """`manifests` with every encrypted Secret in plain. Raises SourceFailed GK1502.

        What cannot be opened is a finding (GK1503, GK1504, GK1505) that quotes nothing decrypted.
        """
        with self._sops.ready():
            return self._all(manifests)

    def _all(self, manifests: Manifests) -> Manifests:
        findings: list[Finding] = []
        documents = []
        failed: set[str] = set()  # files; one that cannot be opened is reported once
        for document in manifests.documents:
            if document.file in failed and is_encrypted(document.obj):
                continue
            try:
                documents.append(self._one(document, manifests))
            except InvalidManifests as error:
                findings += error.findings
                failed.add(document.file)
        return dataclasses.replace(
            manifests, documents=tuple(documents), findings=(*manifests.findings, *findings)
        )

    def _one(self, document: Document, manifests: Manifests) -> Document:
        if not is_encrypted(document.obj):
            if manifests.rendered:
                check_generated(document)
            return document
        check_kind(document)
        if manifests.rendered:
            text = self._sops.decrypt(as_json(document.obj), document, form="json", whole=False)
            (obj,) = _objects(text, document, "json").values()
            return dataclasses.replace(document, obj=obj)
        return self._from_file(document, manifests.commit)

    def _from_file(self, document: Document, commit: str) -> Document:
        entry = self._repository.find(commit, document.file)
        assert entry is not None  # it was read a moment ago
        known = self._documents.get((entry.id, document.index))
        if known is not None and known[0] is document:
            return known[1]
        if entry.id not in self._opened:
            data = self._repository.read_blob(entry.id)
            form: Form = "json" if document.file.lower().endswith(".json") else "yaml"
            text = self._sops.decrypt(data, document, form=form, whole=True)
            self._opened[entry.id] = _objects(text, document, form)
            while len(self._opened) > _FILES_KEPT:
                self._opened.pop(next(iter(self._opened)))
        obj = self._opened[entry.id].get(document.index)
        if obj is None:
            raise _unreadable(document, "another number of documents")
        plain = dataclasses.replace(document, obj=obj)
        self._documents[entry.id, document.index] = (document, plain)
        while len(self._documents) > _FILES_KEPT:
            self._documents.pop(next(iter(self._documents)))
        return plain


def _objects(text: bytes, document: Document, form: Form) -> dict[int, Obj]:
    parsed = parse_file(text, f"decrypted.{form}")
    if not parsed.ok:
        wrong = sorted({f.code for f in parsed.findings if f.is_error})
        raise _unreadable(document, ", ".join(wrong))
    if not all(isinstance(d.obj, dict) for d in parsed.documents):
        raise _unreadable(document, "no object")
    return {d.index: drop(d.obj, (METADATA,)) for d in parsed.documents}


def _unreadable(document: Document, why: str) -> InvalidManifests:
    return InvalidManifests(
        Finding(
            code="GK1505",
            message=f"what an encrypted file holds cannot be read ({why})",
            places=(document.place((METADATA,), key=True),),
            notes=(("next", "look at it with sops, and run gitkruise validate on the plain text"),),
        )
    )


def check_kind(document: Document) -> None:
    """Raises InvalidManifests GK1504 for an encrypted object that is no Secret."""
    kind = document.obj.get("kind")
    if (kind, document.obj.get("apiVersion")) == ("Secret", "v1"):
        return
    raise InvalidManifests(
        Finding(
            code="GK1504",
            message=f"only a Secret may be encrypted, not a {shown(str(kind))}",
            places=(document.place(("kind",)),),
            notes=(
                ("why", "what is not in a Secret is shown in plans and records"),
                ("next", _SPLIT if CIPHERTEXT not in f"{kind}" else _DATA_ALONE),
            ),
        )
    )


def locked(documents: tuple[Document, ...]) -> Iterator[Finding]:
    """GK1501 for each encrypted object of a unit that has no render.decryption."""
    for document in documents:
        if is_encrypted(document.obj):
            yield Finding(
                code="GK1501",
                message="this object is encrypted with sops, and the unit does not decrypt",
                places=(document.place((METADATA,), key=True),),
                notes=(
                    ("why", "the cluster would be given the ciphertext for its value"),
                    ("next", "set render.decryption: {provider: sops, secretRef: {name: …}}"),
                ),
            )


def check_generated(document: Document) -> None:
    """Raises InvalidManifests GK1504 for a Secret that a kustomization generated of an encrypted
    file: generators take files as they are."""
    values: Any = document.obj.get("data")
    if document.obj.get("kind") != "Secret" or not isinstance(values, dict):
        return
    for name, value in values.items():
        if _holds_ciphertext(value):
            raise InvalidManifests(
                Finding(
                    code="GK1504",
                    message=f"data.{name} of a generated Secret is an encrypted file",
                    places=(document.place(),),
                    notes=(
                        ("why", "generators take files as they are, before anything is decrypted"),
                        ("next", "write the Secret itself, encrypted, and list it in resources"),
                    ),
                )
            )


def _holds_ciphertext(value: object) -> bool:
    try:
        return isinstance(value, str) and CIPHERTEXT.encode() in base64.b64decode(value)
    except (binascii.Error, ValueError):
        return False
