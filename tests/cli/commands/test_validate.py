"""`gitkruise validate` reads files as a unit does, and names kinds that are not in Kubernetes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.cli.calls import Caller
from tests.cli.shop import HERE
from tests.git.sops import ENCRYPTED

LIST: Final = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: a}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: b}
  dta: {}
"""


def test_items_of_a_list_are_objects(gk: Caller, tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text(LIST)
    ended = gk("validate", "list.yaml", cwd=tmp_path)
    assert "2 objects: 1 error" in ended.out + ended.err
    assert "list.yaml:10:3" in ended.out
    assert 'unknown field "dta"' in ended.out
    fixed = gk("validate", "--fix", "list.yaml", cwd=tmp_path)
    assert fixed.code == 0
    assert (tmp_path / "list.yaml").read_text() == LIST.replace("dta", "data")


def test_an_encrypted_or_nested_list_is_refused_as_in_a_unit(gk: Caller, tmp_path: Path) -> None:
    nested = LIST.replace("kind: ConfigMap", "kind: List\n  items: []", 1)
    (tmp_path / "list.yaml").write_text(nested)
    assert "GK2010" in gk("validate", "list.yaml", cwd=tmp_path).out


def test_only_a_secret_may_be_encrypted_as_in_a_unit(gk: Caller, tmp_path: Path) -> None:
    text = ENCRYPTED.replace("${SPACE}", "shop")
    (tmp_path / "secret.yaml").write_text(text)
    assert gk("validate", cwd=tmp_path).code == 0
    settings = text.replace("kind: Secret", "kind: ConfigMap", 1)
    (tmp_path / "secret.yaml").write_text(settings)
    ended = gk("validate", cwd=tmp_path)
    assert ended.code == 1
    assert "error[GK1504]: only a Secret may be encrypted, not a ConfigMap" in ended.out
    sealed = settings.replace("kind: ConfigMap", "kind: ENC[AES256_GCM,data:a,type:str]")
    (tmp_path / "secret.yaml").write_text(sealed)
    ended = gk("validate", cwd=tmp_path)
    assert "GK2001" not in ended.out
    assert "sops --encrypted-regex '^(data|stringData)$'" in ended.out


def test_what_a_unit_does_not_follow_is_an_error(gk: Caller, tmp_path: Path) -> None:
    one = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    for folder in ("app", "app/module/deep", "kept"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.yaml").write_text(one)
    (tmp_path / "app" / "link").symlink_to("../kept")
    (tmp_path / "app" / "module" / ".git").write_text("gitdir: ../../.git/modules/module\n")
    (tmp_path / ".git").mkdir()
    ended = gk("validate", "app", cwd=tmp_path)
    assert ended.code == 1
    assert "error[GK3011]: app/link: a symbolic link; commit the file itself" in ended.out
    assert "error[GK3012]: app/module: a submodule, which is not followed" in ended.out
    assert "1 object: 2 errors" in ended.out + ended.err
    (tmp_path / ".gitkruiseignore").write_text("module\nlink\n")
    assert "1 object: no problem" in gk("validate", "app", cwd=tmp_path).err


KINDS: Final = {
    "an old version": ("extensions/v1beta1", "Ingress", "networking.k8s.io/v1, kind: Ingress"),
    "an old version of two": (
        "autoscaling/v2beta2",
        "HorizontalPodAutoscaler",
        "autoscaling/v2, kind: HorizontalPodAutoscaler",
    ),
    "no version": ("v2", "ConfigMap", "v1, kind: ConfigMap"),
    "another case": ("apps/v1", "deployment", "apps/v1, kind: Deployment"),
    "no kind": ("v1", "ConfigMapp", ""),
    "a custom kind": ("gateway.networking.k8s.io/v1", "Gateway", None),
    "one of another group": ("example.com/v1", "ConfigMap", None),
    "a known kind": ("v1", "ConfigMap", None),
}


@pytest.mark.parametrize(("version", "kind", "meant"), KINDS.values(), ids=KINDS)
def test_kinds_that_kubernetes_does_not_have(
    gk: Caller, tmp_path: Path, version: str, kind: str, meant: str | None
) -> None:
    text = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n"
    (tmp_path / "a.yaml").write_text(text)
    ended = gk("validate", "a.yaml", cwd=tmp_path)
    assert ended.code == 0
    assert ("warning[GK4201]" in ended.out) is (meant is not None)
    if meant is not None:
        step = f"write apiVersion: {meant}" if meant else "correct kind and apiVersion"
        assert f"next: {step}" in ended.out


UNIT: Final = f"""\
{HERE}---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {{name: shop, namespace: shop}}
spec:
  sourceRef: {{name: here}}
  path: ./apps/
  render: {{substitute: {{vars: {{replicas: "3"}}}}}}
"""
VARIABLES: Final = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: ${replicas}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: 'web:1', args: ['$${tag} ${tag:=x}']}]}
"""
INSTEAD: Final = {  # of the unit and the manifest
    "all are known": ("", "", "", "1 object: no problem"),
    "undefined": ("web:1", "web:${tag}", "error[GK1401]: ${tag} is not defined", "1 error"),
    "wrong": ('"3"', "many", "error[GK1204]", "1 error"),
    "of the cluster": (
        "vars:", "from: [{configMap: x}], vars:", "validate asks no cluster", "0 errors, 1 warning",
    ),
    "another folder": ("./apps/", "app", "error[GK1204]", "1 error"),
}  # fmt: skip


@pytest.mark.parametrize("row", INSTEAD.values(), ids=INSTEAD)
def test_variables_have_the_values_of_their_unit(
    gk: Caller, tmp_path: Path, row: tuple[str, str, str, str]
) -> None:
    old, new, line, total = row
    (tmp_path / ".git").mkdir()
    (tmp_path / "apps" / "web").mkdir(parents=True)
    (tmp_path / "gitkruise.yaml").write_text(UNIT.replace(old, new))
    (tmp_path / "apps" / "web" / "a.yaml").write_text(VARIABLES.replace(old, new))
    ended = gk("validate", "apps", cwd=tmp_path)
    assert (line in ended.out, total in ended.err) == (True, True), ended


def test_the_caret_is_at_the_reference_that_is_not_escaped(gk: Caller, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "gitkruise.yaml").write_text(UNIT)
    (tmp_path / "apps").mkdir()
    text = VARIABLES.replace("${tag:=x}", "${tag}")
    (tmp_path / "apps" / "a.yaml").write_text(text)
    column = text.splitlines()[-1].index(" ${tag}") + 2
    assert f"apps/a.yaml:9:{column}\n" in gk("validate", "apps", cwd=tmp_path).out
