"""Encrypted Secrets are opened in memory; decrypted text never leaks, whatever goes wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gitkruise.errors import SourceFailed
from gitkruise.git.manifests.decryption import Opener, locked
from gitkruise.git.manifests.reader import Manifests, read_desired
from gitkruise.git.manifests.sops import PrivateKeys, Sops, sealed
from gitkruise.git.parsing.documents import is_encrypted, parse_file
from gitkruise.git.repository.repository import Repository
from tests.git.repos import Origin
from tests.git.sops import CANARY, ENCRYPTED, KEY, OTHER, PLAIN, program, real_folder, stand_in

pytestmark = pytest.mark.slow

KEYS = PrivateKeys.from_secret({"main.agekey": f"# made for tests\n{KEY}\n", "note": "no key"})


@pytest.fixture(params=["sops", "stand-in"])
def search(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Paths of the program: the real one, and one that speaks like it."""
    if request.param == "stand-in":
        return stand_in(tmp_path / "bin")
    return real_folder()


def opened(
    repository: Repository, commit: str, search: str, keys: PrivateKeys = KEYS, path: str = ""
) -> Manifests:
    opener = Opener(repository, Sops(keys, search=search))
    return opener.opened(read_desired(repository, commit, path))


def test_opened_with_the_places_of_the_encrypted_file(
    origin: Origin, repository: Repository, search: str
) -> None:
    manifests = opened(repository, origin.commit({"s.yaml": ENCRYPTED}), search).checked()
    first, second = manifests.documents
    assert first.obj["stringData"] == {"password": PLAIN[0], "port": PLAIN[1]}
    assert second.obj["data"] == {"token": PLAIN[2]}
    assert "sops" not in first.obj
    place = first.place(("stringData", "password"))
    assert str(place) == "s.yaml:7:15"
    assert CANARY not in repr(place)


def test_a_blob_is_opened_once(
    origin: Origin, repository: Repository, search: str, tmp_path: Path
) -> None:
    opener = Opener(repository, Sops(KEYS, search=search))
    manifests = read_desired(repository, origin.commit({"s.yaml": ENCRYPTED}))
    before = opener.opened(manifests)
    opener._sops = Sops(KEYS, search=str(tmp_path))  # no program any more
    after = opener.opened(manifests)
    assert [d.obj for d in after.documents] == [d.obj for d in before.documents]
    assert after.documents[0] is before.documents[0]  # so that it is not judged again


@pytest.mark.usefixtures("kubectl")
def test_what_kustomize_made_is_opened_too(
    origin: Origin, repository: Repository, search: str
) -> None:
    files = {
        "s.yaml": ENCRYPTED,
        "kustomization.yaml": "namespace: prod\nnamePrefix: a-\nresources: [s.yaml]\n",
    }
    manifests = opened(repository, origin.commit(files), search).checked()
    found = {d.obj["metadata"]["name"]: d.obj for d in manifests.documents}
    assert found["a-database"]["stringData"]["password"] == PLAIN[0]
    assert found["a-database"]["metadata"]["namespace"] == "prod"


BROKEN = [
    ("no key", ENCRYPTED, "", "GK1503", "no given key opens it"),
    ("another key", ENCRYPTED, OTHER, "GK1503", "no given key opens it"),
    ("meddled with", ENCRYPTED.replace("name: database", "name: other"), KEY, "GK1503",
     "changed after it was encrypted"),
    ("no Secret", ENCRYPTED.replace("kind: Secret", "kind: ConfigMap", 1), KEY, "GK1504",
     "not a ConfigMap"),
]  # fmt: skip


@pytest.mark.parametrize("row", BROKEN, ids=[row[0] for row in BROKEN])
def test_what_cannot_be_opened_says_why_and_nothing_more(
    origin: Origin, repository: Repository, search: str, row: tuple[str, ...]
) -> None:
    _, text, key, code, says = row
    commit = origin.commit({"s.yaml": text})
    manifests = opened(repository, commit, search, PrivateKeys(age=key))
    assert [f.code for f in manifests.findings] == [code]
    assert says in manifests.findings[0].message
    findings = repr(manifests.findings)
    assert CANARY not in findings
    assert "SECRET-KEY" not in findings


def test_the_keys_never_show() -> None:
    assert "SECRET-KEY" not in repr(KEYS) + repr(Sops(KEYS)) + str(KEYS)
    assert KEYS.age.splitlines()[-1] == KEY


MISBEHAVING = [
    ("prints what it opened and fails", "echo hunter2; echo hunter2 >&2; exit 7", "GK1503"),
    ("answers with no YAML", "cat >/dev/null; echo 'a: [hunter2'", "GK1505"),
    ("answers with a number", "cat >/dev/null; echo 5", "GK1505"),
    ("answers with another file", "cat >/dev/null; true", "GK1505"),
    ("answers without end", "cat >/dev/null; while :; do echo hunter2hunter2hunter2; done",
     "GK1503"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("script", "code"), [r[1:] for r in MISBEHAVING], ids=[r[0] for r in MISBEHAVING]
)
def test_a_program_that_fails_leaks_nothing(
    origin: Origin, repository: Repository, tmp_path: Path, script: str, code: str
) -> None:
    text = script.replace("cat >", "/bin/cat >")
    search = program(tmp_path / "bin", f"#!/bin/sh\n{text}\n")
    manifests = opened(repository, origin.commit({"s.yaml": ENCRYPTED}), search)
    assert {f.code for f in manifests.findings} == {code}
    assert CANARY not in repr(manifests)


def test_without_the_program_the_error_says_what_to_install(
    origin: Origin, repository: Repository, tmp_path: Path
) -> None:
    commit = origin.commit({"s.yaml": ENCRYPTED})
    with pytest.raises(SourceFailed) as caught:
        opened(repository, commit, str(tmp_path))
    (finding,) = caught.value.findings
    assert (finding.code, str(finding.places[0])) == ("GK1502", "s.yaml:9:1")
    assert "install sops" in dict(finding.notes)["next"]


def test_plain_files_need_no_program(
    origin: Origin, repository: Repository, tmp_path: Path
) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    manifests = opened(repository, origin.commit({"a.yaml": text}), str(tmp_path)).checked()
    assert [d.obj["kind"] for d in manifests.documents] == ["ConfigMap"]


@pytest.mark.usefixtures("kubectl")
def test_ciphertext_in_a_generated_secret_is_refused(
    origin: Origin, repository: Repository, tmp_path: Path
) -> None:
    text = "secretGenerator:\n- name: s\n  files: [s.env]\n"
    commit = origin.commit({"kustomization.yaml": text, "s.env": "A=ENC[AES256_GCM,data:x]\n"})
    (finding,) = opened(repository, commit, str(tmp_path)).findings
    assert finding.code == "GK1504"
    assert "generated Secret" in finding.message


def test_an_encrypted_list_is_refused(origin: Origin, repository: Repository) -> None:
    text = "apiVersion: v1\nkind: SecretList\nsops: {mac: x}\nitems:\n- {kind: Secret}\n"
    (finding,) = read_desired(repository, origin.commit({"l.yaml": text})).findings
    assert finding.code == "GK1504"


def test_a_unit_that_does_not_decrypt_refuses_ciphertext() -> None:
    parsed = parse_file(ENCRYPTED.encode(), "s.yaml")
    assert [f.code for f in locked(parsed.documents)] == ["GK1501", "GK1501"]
    assert all(is_encrypted(d.obj) for d in parsed.documents)


def test_closed_secrets_can_be_compared() -> None:
    first, second = (sealed(d) for d in parse_file(ENCRYPTED.encode(), "s.yaml").documents)
    assert "sops" not in first.obj
    assert second.obj["data"]["token"].isascii()
    again = [sealed(d) for d in parse_file(ENCRYPTED.encode(), "s.yaml").documents]
    assert json.dumps([first.obj, second.obj]) == json.dumps([d.obj for d in again])
