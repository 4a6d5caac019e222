"""Charts are rendered from the files of a commit alone, and every object keeps its template."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gitkruise.errors import Finding, InvalidManifests, RendererMissing, Severity
from gitkruise.git.helm import render
from gitkruise.git.helm.release import ClusterValues, Release, ReleaseInputs
from gitkruise.git.manifests.reader import Manifests, ParseCache, Rendering, read_desired
from gitkruise.git.repository.repository import Repository
from gitkruise.model.gitops.document import Document
from tests.git.helm_program import real, stand_in
from tests.git.repos import Origin

pytestmark = pytest.mark.slow

CHART = {
    "web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
    "web/values.yaml": "replicas: 3\npartition: 0\n",
    "web/templates/app.yaml": """\
{{- if gt (int .Values.replicas) 0 }}
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata:
  name: {{ .Release.Name }}
  namespace: {{ .Release.Namespace }}
spec:
  replicas: {{ .Values.replicas }}
  updateStrategy:
    partition: {{ .Values.partition }}
{{- end }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-settings
data:
  kube: {{ .Capabilities.KubeVersion.Version }}
  kruise: {{ .Capabilities.APIVersions.Has "apps.kruise.io/v1alpha1/CloneSet" | quote }}
  level: {{ .Values.level | default "info" }}
""",
    "prod/web.yaml": "replicas: 10\npartition: 30%\n",
}
INPUTS = ReleaseInputs(kube_version="v1.34.1")


def rendered(
    repository: Repository, commit: str, search: str, path: str = "web", **release: Any
) -> Manifests:
    given = Release(**{"name": "shop", "namespace": "prod", "inputs": INPUTS, **release})
    return read_desired(
        repository, commit, path, rendering=Rendering(kind="helm", release=given, search=search)
    )


def by_kind(manifests: Manifests) -> Mapping[str, Document]:
    return {d.obj["kind"]: d for d in manifests.checked().documents}


def refusal(
    repository: Repository, commit: str, search: str = "/nonexistent", **release: Any
) -> Finding:
    with pytest.raises(InvalidManifests) as caught:
        rendered(repository, commit, search, **release).checked()
    return caught.value.findings[0]


def test_a_chart_is_rendered_with_its_release(origin: Origin, repository: Repository) -> None:
    commit = origin.commit(CHART)
    kinds = by_kind(
        rendered(
            repository, commit, real(),
            values_files=("prod/web.yaml",), values={"level": "debug"},
            api_versions=("apps.kruise.io/v1alpha1/CloneSet",),
        )
    )  # fmt: skip
    app, settings = kinds["CloneSet"], kinds["ConfigMap"]
    assert app.obj["metadata"] == {"name": "shop", "namespace": "prod"}
    assert app.obj["spec"] == {"replicas": 10, "updateStrategy": {"partition": "30%"}}
    assert settings.obj["data"] == {"kube": "v1.34.1", "kruise": "true", "level": "debug"}
    assert str(app.place(("spec", "updateStrategy", "partition"))) == "web/templates/app.yaml:10:16"
    assert str(settings.place(("data", "level"))) == "web/templates/app.yaml:20:10"


def test_the_content_of_a_release_is_all_that_decides_it(
    origin: Origin, repository: Repository
) -> None:
    search, commit = real(), origin.commit(CHART)
    one = rendered(repository, commit, search)
    files = rendered(repository, commit, search, values_files=("prod/web.yaml",))
    other = rendered(repository, origin.commit({"README": "x"}), search)
    assert one.tree == other.tree
    assert one.inputs == ("web",)
    assert files.inputs == ("web", "prod/web.yaml")
    different: list[dict[str, Any]] = [
        {"name": "b"}, {"namespace": "b"}, {"values": {"a": 1}}, {"include_crds": False},
        {"api_versions": ("b/v1",)}, {"inputs": ReleaseInputs(kube_version="v1.30.0")},
    ]  # fmt: skip
    trees = {rendered(repository, commit, search, **change).tree for change in different}
    assert len({one.tree, files.tree, *trees}) == 2 + len(different)


def test_later_values_win(origin: Origin, repository: Repository) -> None:
    commit = origin.commit(CHART)
    inputs = ReleaseInputs(
        kube_version="v1.34.1",
        values=(ClusterValues(origin="ConfigMap prod/web", text="replicas: 5\npartition: 4\n"),),
    )
    app = by_kind(
        rendered(
            repository, commit, real(),
            values_files=("prod/web.yaml",), values={"partition": 1}, inputs=inputs,
        )
    )["CloneSet"]  # fmt: skip
    assert app.obj["spec"] == {"replicas": 5, "updateStrategy": {"partition": 1}}


def test_a_chart_may_render_to_nothing(origin: Origin, repository: Repository) -> None:
    off = {"web/templates/app.yaml": "{{ if .Values.on }}\na: b\n{{ end }}\n"}
    found = rendered(repository, origin.commit({**CHART, **off}), real())
    assert (found.documents, found.findings) == ((), ())


@pytest.mark.parametrize("text", ["a: [", "- a"])
def test_values_that_cannot_be_read_are_named(
    origin: Origin, repository: Repository, text: str
) -> None:
    commit = origin.commit({**CHART, "prod/web.yaml": text})
    finding = refusal(repository, commit, real(), values_files=("prod/web.yaml",))
    assert (finding.code, str(finding.places[0])) == ("GK3408", "prod/web.yaml")
    assert finding.notes == (("next", "correct the values of prod/web.yaml"),)
    given = (ClusterValues(origin="ConfigMap prod/web", text=text),)
    inputs = ReleaseInputs(kube_version="v1.34.1", values=given)
    finding = refusal(repository, commit, real(), inputs=inputs)
    assert finding.message.startswith("helm cannot read the values of ConfigMap prod/web: ")


def test_the_command_to_try_names_the_files_of_values(
    origin: Origin, repository: Repository
) -> None:
    commit = origin.commit({**CHART, "web/templates/x.yaml": '{{ fail "no" }}'})
    finding = refusal(repository, commit, real(), values_files=("prod/web.yaml",))
    command = "helm template web --values prod/web.yaml"
    assert finding.notes == (("next", f"correct it, and try: {command}"),)


BROKEN = [
    # what the template has, code, place, words
    ("nil", "a: {{ .Values.no.such }}", "GK3408", "web/templates/x.yaml:1:14", "nil pointer"),
    ("parse", "a: 1\nb: {{ if }", "GK3408", "web/templates/x.yaml:2", "unexpected"),
    ("include", 'a: {{ include "none" . }}', "GK3408", "web/templates/x.yaml:1:7", "no template"),
    ("yaml", "kind: A\n  b: {{ 1 }}\n", "GK3408", "web/templates/x.yaml", "mapping values"),
    ("fail", '{{ fail "set the size" }}', "GK3408", "web/templates/x.yaml:1:4", "set the size"),
    ("no kind", "a: b\n", "GK2001", "web/templates/x.yaml:1:1", "apiVersion is missing"),
]  # fmt: skip


@pytest.mark.parametrize("row", BROKEN, ids=[row[0] for row in BROKEN])
def test_an_error_is_at_its_line_of_the_template(
    origin: Origin, repository: Repository, row: tuple[str, ...]
) -> None:
    _, text, code, place, words = row
    finding = refusal(repository, origin.commit({**CHART, "web/templates/x.yaml": text}), real())
    assert (finding.code, str(finding.places[0])) == (code, place)
    assert words in finding.message
    assert "/tmp" not in finding.message


def test_an_error_in_a_helper_is_at_the_helper_first(
    origin: Origin, repository: Repository
) -> None:
    commit = origin.commit(
        {
            **CHART,
            "web/templates/_it.tpl": '{{ define "it" }}\n{{ .Values.no.such }}\n{{ end }}\n',
            "web/templates/x.yaml": 'a: {{ include "it" . }}\n',
        }
    )
    places = [str(p) for p in refusal(repository, commit, real()).places]
    assert places == ["web/templates/_it.tpl:2:11", "web/templates/x.yaml:1:7"]


def test_missing_dependencies_are_named(origin: Origin, repository: Repository) -> None:
    needs = "dependencies:\n- {name: redis, version: 1.0.0, repository: 'https://x.example'}\n"
    chart = {**CHART, "web/Chart.yaml": CHART["web/Chart.yaml"] + needs}
    finding = refusal(repository, origin.commit(chart), real())
    assert (finding.code, str(finding.places[0])) == ("GK3409", "web/Chart.yaml:5:3")
    assert "redis" in finding.message
    assert "helm dependency build web" in dict(finding.notes)["next"]
    redis = {
        "web/charts/redis/Chart.yaml": "apiVersion: v2\nname: redis\nversion: 1.0.0\n",
        "web/charts/redis/templates/x.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: r}\n",
    }
    secret = by_kind(rendered(repository, origin.commit({**chart, **redis}), real()))["Secret"]
    assert str(secret.place(("kind",))) == "web/charts/redis/templates/x.yaml:2:7"
    assert secret.private


REFUSED = [
    # changed files, changes of the release, code, place, words
    ("no chart", {"web/Chart.yaml": None}, {}, "GK3404", "web", "no Chart.yaml"),
    ("no values", {}, {"values_files": ("no.yaml",)}, "GK3404", "web", "no.yaml is not in"),
    ("outside", {}, {"values_files": ("a/../../x",)}, "GK3404", "web", "outside"),
    ("absolute", {}, {"values_files": ("/etc/passwd",)}, "GK3404", "web", "outside"),
    ("schema", {"web/values.schema.json": '{"a": {"$ref": "file:///etc/passwd"}}'}, {}, "GK3402",
     "web/values.schema.json", "file:///etc/passwd"),
    ("meta", {"web/values.schema.json": '{"\\u0024schema": "http://127.0.0.1/"}'}, {}, "GK3402",
     "web/values.schema.json", "127.0.0.1"),
    ("deep", {"web/values.schema.json": "[" * 900 + "]" * 900}, {}, "GK3408",
     "web/values.schema.json", "not JSON"),
]  # fmt: skip


@pytest.mark.parametrize("row", REFUSED, ids=[row[0] for row in REFUSED])
def test_a_chart_reads_its_commit_alone(
    origin: Origin, repository: Repository, row: tuple[str, dict[str, Any], Any, str, str, str]
) -> None:
    _, files, release, code, place, words = row
    origin.commit(CHART)
    finding = refusal(repository, origin.commit(files), **release)
    assert (finding.code, str(finding.places[0])) == (code, place)
    assert words in finding.message


@pytest.mark.parametrize("file", ["web/templates/x.yaml", "prod/x.yaml"])
def test_a_link_in_a_chart_is_refused(origin: Origin, repository: Repository, file: str) -> None:
    folder, name = file.rpartition("/")[::2]
    origin.commit(CHART)
    (origin.work / folder / name).symlink_to("/etc/passwd")
    commit = origin.commit({})
    assert refusal(repository, commit, values_files=("prod/x.yaml",)).code == "GK3011"


JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  annotations:
    helm.sh/hook: {hook}
    helm.sh/hook-weight: "{weight}"
"""
HOOKS = [
    ("before", "pre-install,pre-upgrade", "pre-apply"),
    ("after", "post-upgrade, post-install", "post-apply"),
    ("rollback", "pre-install,pre-upgrade,pre-rollback", "pre-apply"),
    ("end", "pre-delete", "pre-delete"),
    ("once", "pre-install", ""),
    ("later", "post-delete", ""),
    ("both", "pre-install,post-install", ""),
]


@pytest.mark.parametrize(("hook", "phase"), [row[1:] for row in HOOKS], ids=[r[0] for r in HOOKS])
def test_hooks_run_as_ours_or_are_refused(
    origin: Origin, repository: Repository, hook: str, phase: str
) -> None:
    commit = origin.commit({**CHART, "web/templates/job.yaml": JOB.format(hook=hook, weight=0)})
    manifests = rendered(repository, commit, real())
    if phase:
        job = by_kind(manifests)["Job"]
        assert job.obj["metadata"]["annotations"]["gitkruise.io/hook"] == phase
        return
    (finding,) = manifests.errors()
    assert (finding.code, str(finding.places[0])) == ("GK3410", "web/templates/job.yaml:6:19")
    assert hook in finding.message
    assert "Job migrate" in finding.message


def test_weights_of_hooks_are_refused(origin: Origin, repository: Repository) -> None:
    jobs = [
        JOB.replace("migrate", name).format(hook="pre-install,pre-upgrade", weight=weight)
        for name, weight in (("a", 1), ("b", 2))
    ]
    commit = origin.commit({**CHART, "web/templates/job.yaml": "---\n".join(jobs)})
    findings = rendered(repository, commit, real()).errors()
    assert [f.code for f in findings] == ["GK3410", "GK3410"]
    assert [str(f.places[0]) for f in findings] == [
        "web/templates/job.yaml:6:19", "web/templates/job.yaml:14:19",
    ]  # fmt: skip


def test_tests_are_left_out_and_named(origin: Origin, repository: Repository) -> None:
    test = JOB.replace("Job", "Pod").replace("batch/v1", "v1").format(hook="test", weight=0)
    commit = origin.commit({**CHART, "web/templates/tests/t.yaml": test})
    manifests = rendered(repository, commit, real())
    assert "Pod" not in by_kind(manifests)
    (finding,) = manifests.findings
    assert (finding.code, finding.severity) == ("GK3411", Severity.WARNING)
    assert "Pod migrate" in finding.message
    assert not rendered(repository, commit, real(), skip_tests=True).findings


CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: foos.example.com
  annotations:
    "helm.sh/hook": crd-install
"""


def test_definitions_are_plain_objects(origin: Origin, repository: Repository) -> None:
    commit = origin.commit({**CHART, "web/templates/crd.yaml": CRD})
    found = by_kind(rendered(repository, commit, real()))["CustomResourceDefinition"]
    assert not found.obj["metadata"]["annotations"]
    commit = origin.commit({"web/templates/crd.yaml": CRD.replace("crd-install", '"{{ 1 }}"')})
    assert refusal(repository, commit, real()).code == "GK3410"
    moved = {"web/crds/crd.yaml": CRD, "web/templates/crd.yaml": None}
    commit = origin.commit(moved)
    assert "CustomResourceDefinition" in by_kind(rendered(repository, commit, real()))
    without = rendered(repository, commit, real(), include_crds=False)
    assert "CustomResourceDefinition" not in by_kind(without)


CANARY = "hunter2-hunter2"
FROM_SECRET = ReleaseInputs(
    kube_version="v1.34.1",
    values=(ClusterValues(origin="Secret prod/web", text=f"level: {CANARY}\n", secret=True),),
)


def test_a_secret_value_goes_into_secrets_alone(origin: Origin, repository: Repository) -> None:
    commit = origin.commit(CHART)
    finding = refusal(repository, commit, real(), inputs=FROM_SECRET)
    assert finding.code == "GK1403"
    assert str(finding.places[0]) == "web/templates/app.yaml:13"
    assert CANARY not in str(finding)
    token = "apiVersion: v1\nkind: Secret\nmetadata: {name: t}\n"
    token += "data:\n  t: {{ .Values.level | b64enc }}\n"
    commit = origin.commit({"web/templates/app.yaml": token})
    secret = by_kind(rendered(repository, commit, real(), inputs=FROM_SECRET))["Secret"]
    assert base64.b64decode(secret.obj["data"]["t"]).decode() == CANARY
    assert secret.private


def test_an_error_quotes_no_secret_value(origin: Origin, repository: Repository) -> None:
    template = {"web/templates/app.yaml": '{{ fail (printf "no %s" .Values.level) }}'}
    commit = origin.commit({**CHART, **template})
    finding = refusal(repository, commit, real(), inputs=FROM_SECRET)
    assert (finding.code, str(finding.places[0])) == ("GK3408", "web/templates/app.yaml:1:4")
    assert CANARY not in repr(finding)
    values = {"level": CANARY, "password": CANARY}
    assert CANARY not in repr(refusal(repository, commit, real(), values=values))
    assert CANARY in repr(refusal(repository, commit, real(), values={"level": CANARY}))


def test_assumed_inputs_of_a_cluster_are_reported(origin: Origin, repository: Repository) -> None:
    inputs = ReleaseInputs(
        kube_version="v1.34.0", assumed=True, unread=("Secret prod/web",), why="it is away"
    )
    first, second = rendered(repository, origin.commit(CHART), real(), inputs=inputs).findings
    assert {first.code, second.code} == {"GK3412"}
    assert "without the values of Secret prod/web" in first.message
    assert first.notes == (("why", "it is away"),)
    assert "v1.34.0, which is assumed" in second.message
    plain = {"web/templates/app.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"}
    inputs = ReleaseInputs(kube_version="v1.34.0", assumed=True)
    assert not rendered(repository, origin.commit(plain), real(), inputs=inputs).findings


MISSING = [
    ("none", None, "not installed"),
    ("old", "v2.17.0", "v2.17.0"),
    ("too old", "v3.7.2", "v3.7.2"),
    ("unknown", "v5.0.0", "v5.0.0"),
    ("no helm", "hello", "hello"),
]


@pytest.mark.parametrize(
    ("version", "words"), [r[1:] for r in MISSING], ids=[r[0] for r in MISSING]
)
def test_without_a_helm_that_is_understood(
    origin: Origin, repository: Repository, tmp_path: Path, version: str | None, words: str
) -> None:
    search = stand_in(tmp_path / "bin", "exit 1", version) if version else str(tmp_path)
    with pytest.raises(RendererMissing) as caught:
        rendered(repository, origin.commit(CHART), search)
    (finding,) = caught.value.findings
    assert finding.code == "GK3401"
    assert words in finding.message
    assert "helm 3.8 or 4.0" in dict(finding.notes)["why"]


SHOWS_ITSELF = """\
printf -- '---\\n# Source: web/templates/app.yaml\\napiVersion: v1\\nkind: ConfigMap\\n'
printf 'metadata: {name: a}\\ndata:\\n  env: |\\n'
/usr/bin/env | /usr/bin/sed 's/^/    /'
printf '  words: "%s"\\n' "$*"
"""


def test_the_program_has_no_network_no_home_and_no_secrets(
    origin: Origin, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", "hunter2")
    search = stand_in(tmp_path / "bin", SHOWS_ITSELF)
    commit = origin.commit(CHART)
    data = by_kind(rendered(repository, commit, search, name="--post-renderer=x"))["ConfigMap"].obj[
        "data"
    ]
    env = dict(line.split("=", 1) for line in data["env"].splitlines())
    assert env["HTTPS_PROXY"] == "http://127.0.0.1:9"
    assert env["KUBECONFIG"] == "/dev/null"
    assert "CANARY" not in env
    assert env["HELM_PLUGINS"] == f"{env['HOME']}/empty"
    assert env["HOME"].startswith("/tmp")
    words = data["words"].split(" ")
    assert words[words.index("--") + 1 :] == ["--post-renderer=x", f"{env['HOME']}/tree/web"]


LIMITS = [
    ("time", "while :; do :; done", "RENDER_S", 0.3, "GK3406"),
    ("output", "while :; do echo 'a: b'; done", "BYTES_MAX", 1_000_000, "GK3406"),
    ("memory", "/usr/bin/head -c 200000000 /dev/zero | /usr/bin/tail -c 150000000", "MEMORY_MIB",
     64, "GK3408"),
]  # fmt: skip


@pytest.mark.parametrize("row", LIMITS, ids=[row[0] for row in LIMITS])
def test_the_program_has_limits(
    origin: Origin, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    row: tuple[str, str, str, float, str],
) -> None:  # fmt: skip
    _, script, limit, value, code = row
    monkeypatch.setattr(render, limit, value)
    commit, search = origin.commit(CHART), stand_in(tmp_path / "bin", script)
    assert refusal(repository, commit, search).code == code


def test_equal_content_is_rendered_once(origin: Origin, repository: Repository) -> None:
    cache, search = ParseCache(), real()
    release = Release(name="shop", namespace="prod", inputs=INPUTS)
    first, second = (
        read_desired(
            repository,
            commit,
            "web",
            cache=cache,
            rendering=Rendering(kind="helm", release=release, search=search),
        )
        for commit in (origin.commit(CHART), origin.commit({"other": "x"}))
    )
    assert first.documents[0] is second.documents[0]


def test_places_are_found_after_the_repository_is_closed(origin: Origin) -> None:
    commit = origin.commit(CHART)
    with Repository.open(str(origin.bare)) as closed:
        kinds = by_kind(rendered(closed, commit, real()))
    place = kinds["CloneSet"].place(("spec", "updateStrategy", "partition"))
    assert str(place) == "web/templates/app.yaml:10:16"
