"""A plan names the manifests that changed in no folder of a unit of the configuration."""

from __future__ import annotations

import pytest

from tests.cli.calls import Caller
from tests.cli.shop import CONFIG_MAP, HERE, Checkout, cloneset

UNITS = f"""\
{HERE}---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {{name: shop, namespace: shop}}
spec: {{sourceRef: {{name: here}}, path: apps}}
"""
OUTSIDE = "infra/<b>`x.yaml"


def test_a_manifest_in_no_folder_of_a_unit_is_named(gk: Caller, checkout: Checkout) -> None:
    """A Unit that is an object of a cluster may have it: "no effect" would be false."""
    checkout.commit("one", {"gitkruise.yaml": UNITS, "apps/c.yaml": cloneset()})
    checkout.commit("two", {OUTSIDE: CONFIG_MAP, "README.md": "x\n"})
    text = " ".join(gk("plan", cwd=checkout.folder).out.split())
    assert f"units of gitkruise.yaml: no folder of theirs has {OUTSIDE}. Units" in text
    assert text.endswith("name the file with --config Summary nothing")
    assert OUTSIDE not in gk("plan", "-o", "html", cwd=checkout.folder).out
    assert "`` no effect" in gk("plan", "-o", "markdown", cwd=checkout.folder).out


@pytest.mark.parametrize(
    ("config", "file"),
    [
        (UNITS, "README.md"),
        (UNITS.replace("path: apps", "path: ."), "infra/x.txt"),
        (UNITS.replace("path: apps", "path: ./infra/"), "infra/.hidden/x.yaml"),
        ("# no units\n", "c/x.yaml"),
    ],
)
def test_other_files_have_no_effect(gk: Caller, checkout: Checkout, config: str, file: str) -> None:
    name = "gitkruise.yaml" if "kind" in config else "other.yaml"
    checkout.commit("one", {name: config, "apps/c.yaml": cloneset(), "infra/c.yaml": CONFIG_MAP})
    checkout.commit("two", {file: "# nothing\n"})
    assert "nothing but comments" in gk("plan", cwd=checkout.folder).out


@pytest.mark.parametrize("texts", [(None, UNITS), (UNITS, None)])
def test_units_come_and_go_with_their_file_and_no_object_does(
    gk: Caller, checkout: Checkout, texts: tuple[str | None, str | None]
) -> None:
    """No unit follows a repository without a configuration: none deletes or hands over."""
    files: dict[str, str | None] = {"apps/c.yaml": cloneset(), "infra/c.yaml": CONFIG_MAP}
    checkout.commit("one", files | ({"gitkruise.yaml": texts[0]} if texts[0] else {}))
    checkout.commit("two", {"gitkruise.yaml": texts[1]})
    ended = gk("plan", cwd=checkout.folder)
    assert ended.code == 0
    assert "no pod restarts and nothing is deleted" in ended.out
    assert ended.out.endswith("Summary  nothing\n")
    assert "default/repository" not in ended.out
    kept = "gitkruise.yaml is deleted, and a controller that runs keeps its units"
    assert (kept in " ".join(ended.out.split())) is (texts[1] is None)
    assert ("nothing but comments" in ended.out) is (texts[1] is not None)
