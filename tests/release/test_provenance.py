"""Lists of components, digests, the statement of origin and the signature."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from release.archives import File, tar_of
from release.bill import bill_of_distributions, bill_of_image, read_pins
from release.provenance import digests_of, sign, statement, write_sums
from release.source import ROOT, NotReleasable, Source
from tests.conftest import need
from tests.test_pins import normal, pins

SOURCE: Final = Source(root=ROOT, version="1.2.3", commit="4f2c9e1d" * 5, epoch=1_700_000_000)
STATUS: Final = """\
Package: git
Status: install ok installed
Architecture: amd64
Version: 1:2.47.3-0+deb13u1
Description: fast
 of several lines: yes

Package: tzdata
Architecture: all
Version: 2026a-1
"""


def purls(bill: dict[str, Any]) -> set[str]:
    return {component["purl"] for component in bill["components"]}


def test_the_bill_names_every_pin() -> None:
    bill = json.loads(bill_of_distributions(SOURCE))
    named = {f"pkg:pypi/{name}@{version}" for name, version in pins("requirements.txt").items()}
    assert purls(bill) == named
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/gitkruise@1.2.3"
    assert bill["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"


def test_the_bill_says_who_depends_on_whom() -> None:
    bill = json.loads(bill_of_distributions(SOURCE))
    needs = {row["ref"]: set(row.get("dependsOn", ())) for row in bill["dependencies"]}
    versions = pins("requirements.txt")

    def ref(name: str) -> str:
        return f"pkg:pypi/{normal(name)}@{versions[normal(name)]}"

    assert {ref("aiohttp"), ref("click"), ref("kubernetes")} <= needs["gitkruise"]
    assert ref("multidict") not in needs["gitkruise"]
    assert {ref("multidict"), ref("yarl")} <= needs[ref("aiohttp")]
    reached, open_ = {"gitkruise"}, ["gitkruise"]
    while open_:
        new = needs[open_.pop()] - reached
        reached |= new
        open_ += new
    assert reached == {"gitkruise", *purls(bill)}


def test_the_bill_has_the_same_bytes_each_time() -> None:
    assert bill_of_distributions(SOURCE) == bill_of_distributions(SOURCE)


def test_the_bill_of_the_image_has_debian_packages_and_modules_of_go(tmp_path: Path) -> None:
    base = tmp_path / "base.tar"
    base.write_bytes(tar_of({"./var/lib/dpkg/status": File(STATUS.encode())}))
    bill = json.loads(bill_of_image(SOURCE, base, {"k8s.io/kubernetes": "v1.34.1"}))
    more = purls(bill) - purls(json.loads(bill_of_distributions(SOURCE)))
    assert more == {
        "pkg:deb/debian/git@1:2.47.3-0%2Bdeb13u1?arch=amd64",
        "pkg:deb/debian/tzdata@2026a-1?arch=all",
        "pkg:golang/k8s.io/kubernetes@v1.34.1",
    }


def test_the_bill_is_valid_cyclonedx() -> None:
    errors = JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill_of_distributions(SOURCE))
    assert errors is None


def test_a_pin_of_another_form_is_refused() -> None:
    with pytest.raises(NotReleasable, match="requirements"):
        read_pins("a==1\nb==2 \\\n    --hash=sha256:00\n    # via a\n")


def test_the_statement_names_files_commit_and_builder() -> None:
    document = json.loads(statement(SOURCE, {"a.whl": "sha256:" + "0" * 64}, {"image": False}))
    assert document["_type"] == "https://in-toto.io/Statement/v1"
    assert document["subject"] == [{"name": "a.whl", "digest": {"sha256": "0" * 64}}]
    definition = document["predicate"]["buildDefinition"]
    assert definition["resolvedDependencies"] == [
        {"name": "source", "digest": {"gitCommit": SOURCE.commit}}
    ]
    assert definition["externalParameters"] == {"image": False}
    assert document["predicate"]["runDetails"]["builder"]["id"].startswith("urn:")


def test_sha256sum_checks_the_sums(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
    assert set(digests_of(tmp_path.iterdir())) == {"a", "b"}
    sums = write_sums(tmp_path)
    words = ("sha256sum", "--check", "--strict", sums.name)
    assert subprocess.run(words, cwd=tmp_path, check=True, capture_output=True).stdout
    (tmp_path / "a").write_text("changed")
    assert subprocess.run(words, cwd=tmp_path, check=False, capture_output=True).returncode == 1


@pytest.mark.slow
def test_gpg_verifies_the_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("gpg", present=bool(shutil.which("gpg")), how="apt-get install gnupg")
    home = tmp_path / "keys"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    words = ("--batch", "--passphrase", "", "--quick-generate-key", "dana@example.com", "ed25519")
    subprocess.run(("gpg", *words), check=True, capture_output=True)
    sums = tmp_path / "SHA256SUMS"
    sums.write_text("digests\n")
    sign(sums, "dana@example.com")
    verify = ("gpg", "--verify", f"{sums}.asc", str(sums))
    assert subprocess.run(verify, check=False, capture_output=True).returncode == 0
    sums.write_text("other digests\n")
    assert subprocess.run(verify, check=False, capture_output=True).returncode == 1
    subprocess.run(("gpgconf", "--kill", "all"), check=True)
