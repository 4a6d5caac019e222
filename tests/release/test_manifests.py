"""install.yaml and the chart hold what `gitkruise install` applies."""

from __future__ import annotations

import io
import json
import re
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from jsonschema import Draft7Validator

from gitkruise.gitops.install.installer import (
    CRD,
    HOME,
    NAMESPACE,
    InstallOptions,
    manifests,
    optional_objects,
)
from gitkruise.kube.system.lease_terms import SHARDS_MAX
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of
from release.manifests import chart, chart_files, image_reference, install_yaml
from tests.release.charts import helm, rendered

pytestmark = pytest.mark.slow  # libyaml reads CRDs of 200 KB, several times
DIGEST: Final = "sha256:" + "0123456789abcdef" * 4
REPOSITORY: Final = "registry.example.com/team/gitkruise"
IMAGE: Final = f"{REPOSITORY}:1.2.3@{DIGEST}"
OTHER: Final = "delivery"
PARTS: Final = ("controller", "webhook", "agent")


def packed() -> dict[str, str]:
    return dict(chart_files("1.2.3", repository=REPOSITORY, digest=DIGEST))


def by_key(objects: Iterable[Obj]) -> dict[ObjectKey, Obj]:
    return {key_of(obj): obj for obj in objects}


def loaded(text: str) -> dict[ObjectKey, Obj]:
    return by_key(obj for obj in yaml.load_all(text, yaml.CSafeLoader) if obj)


def agent(namespace: str) -> list[Obj]:
    """The objects of deploy/agent, with the image."""
    text = json.dumps([dict(obj) for obj in optional_objects("agent", namespace)])
    found: list[Obj] = json.loads(re.sub(r'"gitkruise:[\d.]+"', json.dumps(IMAGE), text))
    return found


def test_every_namespace_of_the_chart_but_its_own_is_in_it() -> None:
    objects = loaded(
        "---\n".join(packed()[f"templates/{n}.yaml"] for n in PARTS).replace("{{-", "#")
    )
    there = {key.name for key in objects if key.group_kind == NAMESPACE}
    used = {key.namespace for key in objects} - {"", "{{ .Release.Namespace }}"}
    assert used == there | {"kube-system"}  # which every cluster has


def in_chart(options: InstallOptions) -> dict[ObjectKey, Obj]:
    """The objects of an installation without its namespace."""
    found = by_key(manifests(options))
    own = ObjectKey(*NAMESPACE, "", options.namespace)
    return {key: obj for key, obj in found.items() if key != own}


def test_install_yaml_is_the_installation_with_the_image_by_digest() -> None:
    found = loaded(install_yaml(IMAGE))
    assert found == by_key(manifests(InstallOptions(image=IMAGE)))
    (controller,) = (obj for key, obj in found.items() if key.kind == "Deployment")
    assert controller["spec"]["template"]["spec"]["containers"][0]["image"] == IMAGE


@pytest.mark.parametrize(
    ("parts", "reference"),
    [
        (("gitkruise", "1.2.3"), "gitkruise:1.2.3"),
        ((REPOSITORY, "1.2.3", DIGEST), IMAGE),
    ],
)
def test_an_image_reference(parts: tuple[str, ...], reference: str) -> None:
    assert image_reference(*parts) == reference


@pytest.mark.parametrize("parts", [("gitKruise", "1"), ("a", "1", "sha256:1"), ("a", "1+2")])
def test_what_is_no_image_reference_is_refused(parts: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="is no image reference"):
        image_reference(*parts)


@pytest.mark.parametrize("namespace", [HOME, OTHER])
def test_the_chart_with_every_part_is_the_installation_and_the_agent(namespace: str) -> None:
    files = packed()
    values = yaml.safe_load(files["values.yaml"])
    text = "---\n".join(
        rendered(files[f"templates/{name}.yaml"], values, namespace=namespace, image=IMAGE)
        for name in PARTS
    )
    crds = [yaml.safe_load(text) for path, text in files.items() if path.startswith("crds/")]
    options = InstallOptions(namespace=namespace, image=IMAGE, webhooks=True)
    assert loaded(text) | by_key(crds) == in_chart(options) | by_key(agent(namespace))


def test_the_controller_alone_is_the_default() -> None:
    files = packed()
    values = yaml.safe_load(files["values.yaml"])
    assert not values["webhook"]["enabled"]
    assert not values["agent"]["enabled"]
    text = rendered(files["templates/controller.yaml"], values, namespace=HOME, image=IMAGE)
    expected = in_chart(InstallOptions(image=IMAGE))
    assert loaded(text) == {k: obj for k, obj in expected.items() if k.group_kind != CRD}


def test_the_schema_accepts_the_defaults_and_no_other_key() -> None:
    files = packed()
    schema = json.loads(files["values.schema.json"])
    values = yaml.safe_load(files["values.yaml"])
    Draft7Validator.check_schema(schema)
    assert Draft7Validator(schema).is_valid(values)
    assert set(schema["properties"]) == {*values, "global"}
    assert schema["properties"]["shards"]["maximum"] == SHARDS_MAX
    wrong: list[Mapping[str, Any]] = [
        {"imag": {}},
        {"image": {"digest": "1"}},
        {"agent": {"on": 1}},
    ]
    assert not [one for one in wrong if Draft7Validator(schema).is_valid({**values, **one})]


def test_the_archive_is_the_chart_and_has_the_same_bytes_each_time() -> None:
    one, two = (chart("1.2.3", 1_700_000_000, repository=REPOSITORY) for _ in range(2))
    assert one == two
    with tarfile.open(fileobj=io.BytesIO(one)) as tar:
        members = tar.getmembers()
    assert {member.name for member in members} == {f"gitkruise/{path}" for path in packed()}
    assert {(m.mtime, m.uid, m.uname) for m in members} == {(1_700_000_000, 0, "root")}


@pytest.mark.parametrize(
    ("flags", "options", "more"),
    [
        ((), InstallOptions(), ()),
        ((), InstallOptions(shards=3), ()),
        (
            ("--set=webhook.enabled=true,agent.enabled=true",),
            InstallOptions(namespace=OTHER, webhooks=True),
            agent(OTHER),
        ),
    ],
    ids=["alone", "in shards", "with every part"],
)
def test_helm_renders_the_same(
    tmp_path: Path, flags: tuple[str, ...], options: InstallOptions, more: Iterable[Obj]
) -> None:
    archive = tmp_path / "gitkruise.tgz"
    archive.write_bytes(chart("1.2.3", 0, repository=REPOSITORY, digest=DIGEST))
    flags = (*flags, f"--set=shards={options.shards}", "-n", options.namespace)
    words = (helm(), "template", "here", str(archive), "--include-crds", *flags)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = in_chart(replace(options, image=IMAGE))
    assert loaded(done.stdout) == found | by_key(more)
