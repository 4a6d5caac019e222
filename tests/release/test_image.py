"""The container image: its layout, and the Dockerfile that builds the same with docker."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from release.archives import File, tar_of, tar_of_folder
from release.oci import Image, image, layer
from release.root_files import PACKAGES, PROGRAMS, GoProgram, modules_of_image
from release.source import ROOT, Source
from tests.test_pins import name_and_floor, pins

DOCKERFILE: Final = (ROOT / "deploy" / "Dockerfile").read_text()
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())


def example() -> Image:
    parts = [layer(tar_of({name: File(name.encode())})) for name in ("one", "two")]
    return image(parts, {"User": "65532:65532"}, epoch=1_700_000_000, annotations={"a": "b"})


def opened(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        files = {m.name: tar.extractfile(m) for m in tar.getmembers() if m.isfile()}
        return {name: file.read() for name, file in files.items() if file}


def test_every_blob_of_the_layout_is_where_its_digest_says() -> None:
    made = example()
    files = opened(made.archive("example.com/a:1"))
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["digest"] == made.digest
    assert entry["annotations"]["org.opencontainers.image.ref.name"] == "1"

    def blob(descriptor: dict[str, Any]) -> bytes:
        data = files["blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")]
        assert len(data) == descriptor["size"]
        assert hashlib.sha256(data).hexdigest() == descriptor["digest"].removeprefix("sha256:")
        return data

    manifest = json.loads(blob(entry))
    config = json.loads(blob(manifest["config"]))
    inside = [gzip.decompress(blob(part)) for part in manifest["layers"]]
    assert config["rootfs"]["diff_ids"] == [
        "sha256:" + hashlib.sha256(tar).hexdigest() for tar in inside
    ]
    assert [list(opened(tar)) for tar in inside] == [["one"], ["two"]]
    assert config["created"] == "2023-11-14T22:13:20Z"


def test_an_image_has_the_same_bytes_each_time() -> None:
    assert example().archive("a:1") == example().archive("a:1")


def test_a_tar_of_a_folder_depends_on_its_content_alone(tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder, names in zip(folders, (("b", "a"), ("a", "b")), strict=True):
        (folder / "in").mkdir(parents=True)
        for name in names:
            (folder / "in" / name).write_text(name)
        (folder / "in" / "run").write_text("run")
        (folder / "in" / "run").chmod(0o700)
        (folder / "link").symlink_to("/nowhere")
    one, two = (tar_of_folder(folder, epoch=5) for folder in folders)
    assert one == two
    with tarfile.open(fileobj=io.BytesIO(one)) as tar:
        modes = {member.name: (member.mode, member.linkname) for member in tar.getmembers()}
    assert modes == {
        "in": (0o755, ""), "in/a": (0o644, ""), "in/b": (0o644, ""), "in/run": (0o755, ""),
        "link": (0o777, "/nowhere"),
    }  # fmt: skip


def test_the_dockerfile_copies_what_the_wheel_needs() -> None:
    copied = {word for line in re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE, re.MULTILINE)
              for word in line.split()}  # fmt: skip
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {*wheel["packages"], *wheel["force-include"], "pyproject.toml", "requirements.txt"}
    needed |= {PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]}
    assert needed <= copied
    assert [path for path in copied if not (ROOT / path).exists()] == []


def test_the_dockerfile_builds_without_isolation_from_pins() -> None:
    assert "--no-build-isolation" in DOCKERFILE
    pinned = pins("requirements.txt")
    for requirement in PROJECT["build-system"]["requires"]:
        assert name_and_floor(requirement)[0] in pinned


@pytest.mark.parametrize("name", [name for name in PACKAGES if name != "python3"])
def test_the_dockerfile_installs_the_packages_of_the_image(name: str) -> None:
    (words,) = re.findall(
        r"apt-get install -y --no-install-recommends (.+) \\$", DOCKERFILE, re.MULTILINE
    )
    assert name in words.split()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_dockerfile_builds_the_programs_of_the_image(program: GoProgram) -> None:
    built = DOCKERFILE.replace("\\\n", "")
    assert f"COPY {program.pins}/go.mod {program.pins}/go.sum" in built
    (line,) = re.findall(rf"^RUN .*go build -trimpath -o /{program.name} .*$", built, re.MULTILINE)
    assert f"-X {program.version_variable}=" in line
    assert line.endswith(f" {program.module}{program.package}")
    assert re.search(rf"^COPY --from=programs .*/{program.name} .*bin/$", built, re.MULTILINE)


def test_the_programs_of_the_image_are_those_that_the_tests_render_with() -> None:
    source = Source(root=ROOT, commit="c" * 40, version="1.0", epoch=0)
    kustomize, helm = modules_of_image(source).items()
    inside_of_kubectl = (ROOT / "tests/kube/real/go.mod").read_text()
    assert f"\t{kustomize[0]} {kustomize[1]} // indirect\n" in inside_of_kubectl
    assert f"\t{helm[0]} {helm[1]}\n" in (ROOT / "tests/git/helm/program/go.mod").read_text()


def test_the_dockerfile_names_the_version() -> None:
    assert f"gitkruise:{PROJECT['project']['version']} ." in DOCKERFILE
