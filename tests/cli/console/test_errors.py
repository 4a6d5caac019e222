"""Problems in colour, plain, as JSON, for GitHub and as SARIF, each provoked for real."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.findings import SHOWN, findings_text, github_annotations
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.cluster import ClusterChoice, connected
from gitkruise.errors import ClusterFailed, Finding, Severity, SourceFailed, SourcePlace
from gitkruise.git.repository.repository import Repository
from gitkruise.wire.primitives.requests import ApiRequest
from tests.cli.calls import Caller
from tests.cli.forms import all_forms
from tests.cli.live import NAMESPACES
from tests.cli.shop import CONFIG_MAP, Checkout, cloneset

GOOD = cloneset()
# A commit's manifests, by the error they provoke.
BAD = {
    "GK1101-not-yaml": {"checkout.yaml": GOOD.replace("image: ", "image:")},
    "GK1203-unknown-field": {"checkout.yaml": GOOD.replace("partition:", "partiton:")},
    "GK1204-wrong-type": {"checkout.yaml": GOOD.replace("value: info", "value: off")},
    "GK1301-declared-twice": {"checkout.yaml": GOOD, "legacy.yaml": cloneset(replicas=8)},
    "GK2101-rule-of-the-kind": {"checkout.yaml": GOOD.replace("replicas: 10", "replicas: -1")},
    "GK2202-selector-mismatch": {
        "checkout.yaml": GOOD.replace("labels:\n        app: ", "labels:\n        app: x")
    },
}  # fmt: skip


def masked(text: str) -> str:
    return re.sub(r'"version": "\d[^"]*"', '"version": "X"', text)


@pytest.mark.parametrize("name", BAD)
def test_forms_of_a_manifest_error(
    gk: Caller, name: str, golden: Callable[[str, str], None]
) -> None:
    for file, text in BAD[name].items():
        (gk.folder / file).write_text(text)
    code = name.partition("-")[0]
    forms = []
    for title, words, env in (
        ("80 columns", [], {"COLUMNS": "80"}),
        ("120 columns", [], {"COLUMNS": "120"}),
        ("colour", ["--color", "always"], {"COLUMNS": "80"}),
        ("json", ["-o", "json"], {}),
        ("github", ["-o", "github"], {}),
        ("sarif", ["-o", "sarif"], {}),
    ):
        ended = gk("validate", *words, **env)
        assert ended.code == 1
        assert code in ended.out
        forms.append(f"## {title}\n{masked(ended.out)}")
    golden(f"cli-errors/{name}.txt", "\n".join(forms))


@pytest.mark.parametrize("name", BAD)
def test_plan_refuses_the_commit_and_names_the_line(
    gk: Caller, checkout: Checkout, name: str
) -> None:
    checkout.commit("good", {"checkout.yaml": GOOD})
    checkout.commit("bad", dict(BAD[name]))
    ended = gk("plan", cwd=checkout.folder)
    assert (ended.code, ended.out) == (3, "")
    assert re.search(rf"{name[:6]}.*\n(.*\n)*?  --> \w+\.yaml:\d+", ended.err)


@pytest.mark.slow
def test_git_and_cluster_errors(
    gk: Caller, checkout: Checkout, tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    """Those without a place in a file: what git or the cluster said, what to do next."""
    from tests.cli.console.test_exit_codes import kubeconfig  # noqa: PLC0415

    checkout.commit("good", {"checkout.yaml": GOOD})
    checkout.write({"checkout.yaml": cloneset("v3")})
    config = str(kubeconfig(tmp_path))
    lines = {
        "no repository": gk("plan"),
        "no such commit": gk("plan", "v9", cwd=checkout.folder),
        "dirty tree": gk("plan", cwd=checkout.folder),
        "no status branch": gk("history", cwd=checkout.folder),
        "no cluster": gk("status"),
        "unreachable": gk("status", "--kubeconfig", config),
        "no such context": gk("status", "--kubeconfig", config, "--context", "qa"),
        "no sandbox": gk("status", "--sandbox"),
    }
    text = "\n".join(f"## {title}: exit {e.code}\n{e.err}" for title, e in lines.items())
    golden("cli-errors/git-and-cluster.txt", text.replace(str(tmp_path), "TMP"))


@pytest.mark.slow
def test_a_remote_and_a_cluster_out_of_reach(
    tmp_path: Path, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.cli.console.test_exit_codes import kubeconfig  # noqa: PLC0415

    with (
        Repository.open("https://127.0.0.1:9/deploy.git", mirrors=tmp_path / "mirrors") as remote,
        pytest.raises(SourceFailed) as far,
    ):
        remote.tip("main")
    at_once = [  # git says how long it took
        replace(f, notes=tuple((n, re.sub(r"after \d+ ms", "after 0 ms", v)) for n, v in f.notes))
        for f in far.value.findings
    ]
    golden("cli-errors/GK3101-remote.txt", all_forms(at_once))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path)))

    async def ask() -> None:
        async with connected(ClusterChoice(), read_environment()) as chosen:
            await chosen.transport.send(ApiRequest(verb="list", resource=NAMESPACES))

    with pytest.raises(ClusterFailed) as lost:
        asyncio.run(ask())
    golden("cli-errors/GK4101-cluster.txt", all_forms(lost.value.findings))
    assert all("unchanged" in dict(f.notes) for f in (*far.value.findings, *lost.value.findings))


def test_a_secret_value_is_never_shown(gk: Caller) -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\nstringDta:\n  password: hunter2\n"
    (gk.folder / "s.yaml").write_text(secret)
    for form in ("text", "json", "github", "sarif"):
        ended = gk("validate", "-o", form)
        assert ended.code == 1
        assert "hunter2" not in ended.out + ended.err


def test_workflow_commands_escape_what_would_end_them() -> None:
    place = SourcePlace(file="a,b:c.yaml", line=3, column=2)
    text = github_annotations([Finding(code="GK1", message="50%\nmore", places=(place,))])
    assert text == "::error file=a%2Cb%3Ac.yaml,line=3,col=2,title=GK1::50%25\\u000amore"


def test_sarif_names_its_rules_and_places(gk: Caller) -> None:
    for file, text in BAD["GK1301-declared-twice"].items():
        (gk.folder / file).write_text(text)
    run = json.loads(gk("validate", "-o", "sarif").out)["runs"][0]
    assert [r["id"] for r in run["tool"]["driver"]["rules"]] == ["GK1301"]
    places = run["results"][0]["locations"]
    files = [p["physicalLocation"]["artifactLocation"]["uri"] for p in places]
    assert sorted(files) == ["checkout.yaml", "legacy.yaml"]


KUSTOMIZED = {
    "base/kustomization.yaml": "resources: [flags.yaml]\npatches:\n  - path: patch.yaml\n"
    "configMapGenerator:\n  - name: x\n    files: [values=values.yaml]\n",
    "base/flags.yaml": CONFIG_MAP,
    "base/patch.yaml": "- op: remove\n  path: /data/flag\n",
    "base/values.yaml": "just: values\n",
    "chart/Chart.yaml": "apiVersion: v2\nname: a\nversion: 1.0.0\n",
    "chart/templates/a.yaml": "{{ if .Values.a }}\nkind: A\n{{ end }}\n",
}


def test_files_for_kustomize_and_helm_alone_are_left_out(gk: Caller) -> None:
    for file, text in KUSTOMIZED.items():
        path = gk.folder / file
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
    ended = gk("validate")
    assert (ended.code, ended.err) == (0, "1 object: no problem\n")


VALUES = {
    "gitkruise.yaml": "apiVersion: gitkruise.io/v1alpha1\nkind: GitSource\nmetadata: {name: src}\n"
    "spec: {url: .}\n---\n"
    "apiVersion: gitkruise.io/v1alpha1\nkind: Unit\nmetadata: {name: web}\nspec:\n"
    "  sourceRef: {name: src}\n  path: chart\n"
    "  render: {kind: helm, helm: {valuesFiles: [envs/web.yaml]}}\n",
    "envs/web.yaml": "replicas: 3\n",
    "envs/.gitkruiseignore": "draft*\n",
    "envs/draft.yaml": "just: text\n",
    "envs/flags.yaml": CONFIG_MAP,
}


@pytest.mark.parametrize(("folder", "objects"), [(".", "3 objects"), ("envs", "1 object")])
def test_values_of_units_and_ignored_files_are_left_out(
    gk: Caller, folder: str, objects: str
) -> None:
    (gk.folder / ".git").mkdir()
    (gk.folder / "envs").mkdir()
    for file, text in VALUES.items():
        (gk.folder / file).write_text(text)
    ended = gk("validate", folder)
    assert (ended.code, ended.err) == (0, f"{objects}: no problem\n")


def test_a_link_in_a_folder_is_refused_as_by_a_plan(gk: Caller) -> None:
    (gk.folder / "flags.yaml").write_text(CONFIG_MAP)
    (gk.folder / "link.yaml").symlink_to("flags.yaml")
    assert gk("validate", "link.yaml").code == 0
    ended = gk("validate")
    assert ended.code == 1
    assert "error[GK3011]: link.yaml: a symbolic link; commit the file itself" in ended.out


def test_a_file_named_twice_is_read_once(gk: Caller) -> None:
    (gk.folder / "a.yaml").write_text(CONFIG_MAP)
    assert gk("validate", "a.yaml", "a.yaml", ".").code == 0


def test_own_documents_are_checked_by_their_schema(gk: Caller) -> None:
    (gk.folder / "gitkruise.yaml").write_text(
        "apiVersion: gitkruise.io/v1alpha1\nkind: GitSource\nmetadata: {name: x}\n"
        "spec: {url: ., brunch: main}\n"
    )
    ended = gk("validate")
    assert (ended.code, "GK7003" in ended.out, "gitkruise.yaml:4:" in ended.out) == (
        1,
        True,
        True,
    )


UNIT = VALUES["gitkruise.yaml"].partition("---\n")[2]
REFUSED = [
    ("gitkruise.yaml", UNIT, "GK7007", "gitkruise.yaml:5:14"),
    ("gitkruise.yaml", UNIT.replace("v1alpha1", "v1"), "GK7002", "gitkruise.yaml:2:"),
    ("gitkruise.yaml", CONFIG_MAP, "GK7002", "gitkruise.yaml:2:"),
    ("apps/unit.yaml", UNIT.replace("v1alpha1", "v1"), "GK7002", "apps/unit.yaml:2:"),
    ("apps/unit.yaml", UNIT, "", ""),  # the cluster may have its source
]


@pytest.mark.parametrize(("file", "text", "code", "place"), REFUSED)
def test_a_configuration_that_run_refuses_is_not_valid(
    gk: Caller, file: str, text: str, code: str, place: str
) -> None:
    (gk.folder / ".git").mkdir()
    (gk.folder / "apps").mkdir()
    (gk.folder / file).write_text(text)
    ended = gk("validate")
    assert (ended.code, code in ended.out, place in ended.out) == (int(bool(code)), True, True)


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_validate_refuses_what_is_no_file(gk: Caller, tmp_path: Path, kind: str) -> None:
    named = tmp_path / "named.yaml"
    if kind == "pipe":
        os.mkfifo(named)
    else:
        named.symlink_to("/dev/zero")
    ended = gk("validate", str(named))
    assert (ended.code, "error[GK7011]: cannot read" in ended.err) == (2, True)
    assert "not a regular file" in ended.err
    (tmp_path / "good.yaml").write_text("# nothing\n")
    assert gk("validate", str(tmp_path)).code == 0  # a folder is looked through for files


KUSTOMIZATIONS = (
    "- a", "text", "7", "patches: x", "patches: [1, {path: [a]}, null]", "secretGenerator: {a: b}",
    "secretGenerator: [x, 1]", "secretGenerator:\n- files: x\n  envs: {a: b}",
    "configMapGenerator:\n- files: [1, {a: b}]", 'patches: ["a\\0b"]', "components: 1",
)  # fmt: skip


@pytest.mark.parametrize("text", KUSTOMIZATIONS)
def test_a_kustomization_of_any_shape_is_left_to_plan(
    gk: Caller, tmp_path: Path, text: str
) -> None:
    (tmp_path / "kustomization.yaml").write_text(text)
    ended = gk("validate", str(tmp_path / "kustomization.yaml"))
    assert (ended.code, ended.err) == (0, "0 objects: no problem\n")


def test_warnings_do_not_push_an_error_out_of_the_list() -> None:
    warnings = [
        Finding(code="GK2108", message=f"{n}", severity=Severity.WARNING) for n in range(SHOWN)
    ]
    error = Finding(code="GK1101", message="wrong")
    text = findings_text([*warnings, error], Style.of_errors(read_environment()))
    assert text.splitlines()[0].startswith("error[GK1101]: wrong")
    assert text.splitlines()[-1] == "… and 1 more"
