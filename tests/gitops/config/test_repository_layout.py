"""Folders that become units, and the text of a gitkruise.yaml for them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.errors import SourceFailed
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.config.loader import load_config
from gitkruise.gitops.config.repository_layout import (
    RepositoryLayout,
    UnitFolder,
    chosen_units,
    config_text,
    dns_label,
    layout_of,
    unique,
)
from tests.git.repos import make_origin

OBJECT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n"
UNIT = "apiVersion: gitkruise.io/v1alpha1\nkind: Unit\nmetadata: {name: a}\nspec: {}\n"
BASE = "resources: [map.yaml]\n"
CHART = "apiVersion: v2\nname: web\nversion: 1.0.0\n"
TEMPLATE = "kind: {{ .Values.kind }}\n"


def on(*folders: str) -> str:
    return f"resources: [{', '.join(folders)}]\n"


class Row(NamedTuple):
    """Files of a repository, the paths of units with their objects (None: rendered), the rest."""

    files: dict[str, str]
    units: dict[str, int | None]
    rest: dict[str, tuple[object, ...]] | None = None


ROWS: dict[str, Row] = {
    "nothing": Row({"README.md": "x"}, {}),
    "folders of the top": Row(
        {
            "apps/a.yaml": OBJECT,
            "apps/deep/b.yml": OBJECT,
            "mesh/c.txt": "{}",
            "batch/d.yaml": OBJECT,
        },
        {"apps": 2, "batch": 1},
    ),
    "objects at the top": Row({"a.yaml": OBJECT, "apps/b.yaml": OBJECT}, {".": 2}),
    "values and workflows are no objects": Row(
        {"values.yaml": "a: 1", ".github/ci.yaml": OBJECT, "apps/a.yaml": OBJECT}, {"apps": 1}
    ),
    "an ignored folder": Row(
        {".gitkruiseignore": "/old\n", "old/a.yaml": OBJECT, "new/a.yaml": OBJECT}, {"new": 1}
    ),
    "a kustomization": Row({"web/kustomization.yaml": BASE, "web/map.yaml": OBJECT}, {"web": None}),
    "a kustomization at the top": Row({"kustomization.yml": BASE, "map.yaml": OBJECT}, {".": None}),
    "an overlay of a base": Row(
        {
            "base/kustomization.yaml": BASE,
            "base/map.yaml": OBJECT,
            "prod/Kustomization": on("../base"),
            "mesh/a.yaml": OBJECT,
        },
        {"mesh": 1, "prod": None},
    ),
    "overlays are alternatives": Row(
        {
            "base/kustomization.yaml": BASE,
            "base/map.yaml": OBJECT,
            "envs/prod/kustomization.yaml": on("../../base"),
            "envs/test/kustomization.yaml": on("../../base"),
            "other/kustomization.yaml": BASE,
            "other/map.yaml": OBJECT,
        },
        {"other": None},
        {"alternatives": (("envs/prod", "envs/test"),)},
    ),
    "a kustomization that cannot be read": Row(
        {"web/kustomization.yaml": "resources: [missing.yaml]\n"}, {"web": None}
    ),
    "manifests next to a kustomization": Row(
        {
            "apps/a.yaml": OBJECT,
            "apps/plain/b.yaml": OBJECT,
            "apps/web/kustomization.yaml": BASE,
            "apps/web/map.yaml": OBJECT,
        },
        {"apps/plain": 1, "apps/web": None},
        {"left_out": ("apps",)},
    ),
    "manifests at the top next to one": Row(
        {"a.yaml": OBJECT, "web/kustomization.yaml": BASE, "web/map.yaml": OBJECT},
        {"web": None},
        {"left_out": (".",)},
    ),
    "a chart": Row(
        {
            "apps/a.yaml": OBJECT,
            "charts/web/Chart.yaml": CHART,
            "charts/web/templates/a.yaml": TEMPLATE,
        },
        {"apps": 1},
        {"charts": ("charts/web",)},
    ),
    "units that exist": Row(
        {"apps/a.yaml": OBJECT, "clusters/unit.yaml": UNIT},
        {"apps": 1, "clusters": 1},
        {"declared": ("clusters/unit.yaml",)},
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_folders_that_become_units(row: str, tmp_path: Path) -> None:
    files, units, rest = ROWS[row]
    origin = make_origin(tmp_path)
    commit = origin.commit(files)
    with Repository.open(str(origin.bare)) as repository:
        found = layout_of(repository, commit)
    wanted = tuple(UnitFolder(path, count) for path, count in units.items())
    assert found == RepositoryLayout(wanted, **(rest or {}))  # type: ignore[arg-type]  # by the names of its fields


def test_chosen_folders(tmp_path: Path) -> None:
    origin = make_origin(tmp_path)
    commit = origin.commit(
        {"web/kustomization.yaml": BASE, "web/map.yaml": OBJECT, "a/b/c.yaml": OBJECT}
    )
    with Repository.open(str(origin.bare)) as repository:
        found = chosen_units(repository, commit, ("web/", "./a/b", "web"))
        assert found.units == (UnitFolder("web", None), UnitFolder("a/b", 1))
        with pytest.raises(SourceFailed, match="GK3202"):
            chosen_units(repository, commit, ("missing",))


BRANCHES = st.sampled_from(["main", "on", "1.2", "release/v1", "null", "weiß", "a#b", 'a"b'])
PATHS = st.lists(
    st.sampled_from([".", "apps", "on", "apps/a b", "Apps", "envs/1", "ä"]), unique=True
)


@given(name=st.text(max_size=80), branch=BRANCHES, paths=PATHS.filter(len))
def test_the_text_says_what_was_chosen(
    name: str, branch: str, paths: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "gitkruise.yaml"
    file.write_text(config_text(name, branch, paths), encoding="utf-8")
    config = load_config(file)
    assert [unit.spec.path for unit in config.units.values()] == paths
    assert len(config.units) == len(paths)
    assert {source.spec.ref.branch for source in config.sources.values()} == {branch}


def test_everything_that_is_commented_out_can_be_used(tmp_path: Path) -> None:
    text = config_text("shop", "main", ["apps", "mesh"])
    plain = load_config(_written(tmp_path, text))
    used = re.sub(r"^  # ", "  ", text, flags=re.MULTILINE)
    chosen = load_config(_written(tmp_path, used))
    assert used.count("\n") == text.count("\n")
    unit, other = chosen.units.values()
    assert unit.spec != plain.units[unit.id].spec
    assert unit.spec.target.create_namespace
    assert len(unit.spec.windows) == 1
    assert other == plain.units[other.id]


def _written(folder: Path, text: str) -> Path:
    file = folder / "gitkruise.yaml"
    file.write_text(text)
    return file


def test_names_are_dns_labels() -> None:
    assert dns_label("envs/Prod_1.2") == "envs-prod-1-2"
    assert dns_label("--") == "repository"
    long = dns_label("a" * 62 + "-b")
    assert long == "a" * 62
    taken = {long}
    assert unique(long, taken) == "a" * 61 + "-2"
    assert unique("b", taken) == "b"
    assert taken == {long, "a" * 61 + "-2", "b"}
