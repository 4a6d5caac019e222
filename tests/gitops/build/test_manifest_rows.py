"""Bad manifests end in one named error at their place; what is only unusual is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

from gitkruise.errors import Finding
from gitkruise.git.manifests import reader
from gitkruise.git.manifests.reader import read_desired
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.validate import check_documents
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.document import Desired
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import put
from tests.git.repos import make_origin
from tests.gitops.stage import config_map, documents
from tests.worlds import cloneset, deployment

CONTAINER = ("spec", "template", "spec", "containers")
SECRET: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
CANARY = "hunter2"


class Rows(NamedTuple):
    """One commit with a folder for each row, named after its number."""

    repository: Repository
    commit: str
    folders: Mapping[str, str]


@cache
def catalog() -> Catalog:
    return load_catalog()


def judged(rows: Rows, row: str) -> tuple[list[Desired], list[Finding]]:
    """What the commit with all rows asks for in the folder of one, and what is wrong with it."""
    read = read_desired(rows.repository, rows.commit, rows.folders[row])
    objects, findings = check_documents(read.documents, catalog(), namespace="shop")
    return objects, [*read.findings, *findings]


LAUNCH: Final = "apps.kruise.io/container-launch-priority"


def web(*path: str | int, value: Any) -> str:
    return documents(put(cloneset("web", 4, "app:v1"), path, value))


def canary(key: str, value: str, **strategy: Any) -> str:
    obj = put(deployment("web"), ("metadata", "annotations"), {key: value})
    return documents(put(obj, ("spec", "strategy"), strategy))


def rolling(**fields: Any) -> str:
    path = ("spec", "updateStrategy", "rollingUpdate")
    return documents(put(cloneset("web", 4, "app:v1"), path, fields))


def container(**fields: Any) -> str:
    return web(*CONTAINER, value=[{"name": "app", "image": "app:v1", **fields}])


def meta(**fields: Any) -> str:
    obj = config_map("a")
    return documents({**obj, "metadata": {**obj["metadata"], **fields}})


JOB_LABELS: Final = {"batch.kubernetes.io/controller-uid": "u"}


def exported_job(selector: Obj, **more: Any) -> Obj:
    """A Job as `kubectl get -o yaml` shows it."""
    labels = {**selector, "batch.kubernetes.io/job-name": "a", "job-name": "a"}
    pod = {"restartPolicy": "Never", "containers": [{"name": "app", "image": "app:v1"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"selector": {"matchLabels": selector}, "template": template, **more}
    return {"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "a", "labels": labels}, "spec": spec}  # fmt: skip


def named(name: str) -> str:
    return documents(config_map(name))


def lists(depth: int) -> str:
    inner: Obj = config_map("a")
    for _ in range(depth):
        inner = {"apiVersion": "v1", "kind": "List", "items": [inner]}
    return documents(inner)


def crd(schema: Obj) -> Obj:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": "x.io", "names": {"plural": "foos", "kind": "Foo"}, "scope": "Namespaced",
        "versions": [version],
    }  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.x.io"}, "spec": spec,
    }  # fmt: skip


def foo(**fields: Any) -> Obj:
    return {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}, **fields}


def text_field(pattern: str) -> Obj:
    return {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}


def nested(depth: int) -> Obj:
    schema: Obj = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"p": schema}}
    return schema


OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u"}
REFUSED: list[tuple[str, str, str, str]] = [
    # row, code, where, text
    ("B-M03 nested", "GK2010", "a.yaml:5:9", lists(3)),
    ("B-M03 items", "GK9001", "a.yaml:", "kind: List\nitems:\n" + "- {}\n" * 100_001),
    ("B-M05", "GK1203", "a.yaml:22:3", web("spec", "replcas", value=3)),
    ("B-M06 missing", "GK2005", "a.yaml:3:1", "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n"),
    ("B-M06 list", "GK2005", "a.yaml:3:1", "apiVersion: v1\nkind: ConfigMap\nmetadata: [a]\n"),
    ("B-M06 number", "GK2005", "a.yaml:4:", "apiVersion: v1\nkind: A\nmetadata:\n  name: 5\n"),
    *((f"B-M06 {n[:5]}", "GK2005", "a.yaml:4:9", named(n))
      for n in ("x" * 254, "Upper", "../x", "a/b", "a%2fb", "a.", "аpp", "-a", "a b")),
    ("B-M06 empty", "GK2005", "a.yaml:4:3", named("")),
    ("B-M06 role", "GK2005", "a.yaml:4:9", documents({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "a/b"}})),
    ("B-M06 service", "GK2005", "a.yaml:4:9", documents(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "1a"}})),
    ("B-M07", "GK2006", "a.yaml:3:12", "apiVersion: v1\nkind: A\nmetadata: {generateName: a-}\n"),
    ("B-M08", "GK1301", "a.yaml:2:1", documents(config_map("a"), config_map("a"))),
    ("B-M09", "GK1301", "a.yaml:2:1", named("a") + "---\n" + meta(namespace="shop")),
    ("B-M10 cluster", "GK2008", "a.yaml:5:3", documents(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x", "namespace": "shop"}})),
    ("B-M10 number", "GK1204", "a.yaml:5:14", meta(namespace=5)),
    ("B-M11 deletion", "GK2022", "a.yaml:5:22", meta(deletionTimestamp="2020-01-01T00:00:00Z")),
    ("B-M11 owner", "GK2022", "a.yaml:6:3", meta(ownerReferences=[OWNER])),
    ("B-M12", "GK2022", "a.yaml:6:5", meta(finalizers=["x.io/keep"])),
    ("B-M14 annotation", "GK2101", "a.yaml:6:", meta(annotations={"a": "x" * (300 << 10)})),
    ("B-M14 label", "GK2101", "a.yaml:6:5", meta(labels={"a": "x" * 64})),
    ("B-M14 key", "GK2101", "a.yaml:6:5", meta(labels={"a//b": "x"})),
    ("B-M14 list", "GK1204", "a.yaml:6:3", meta(annotations=["x"])),
    *((f"health {words}", "GK2017", "a.yaml:6:", meta(annotations={"gitkruise.io/health": words}))
      for words in ("metadata.name", "metadata.name > 1", "status.")),
    ("a wave", "GK2009", "a.yaml:7:24", meta(annotations={"a": "b", "gitkruise.io/wave": "1.0"})),
    *((f"word {value}", "GK2028", "a.yaml:6:", meta(annotations={f"gitkruise.io/{name}": value}))
      for name, value in (("prune", "false"), ("prune", "Disable"), ("reconcile", "off"),
                          ("replace", "true"), ("substitute", "no"), ("ignore", "data.a"),
                          ("ignore", "/data/a spec.x"))),
    ("B-M15 negative", "GK2101", "a.yaml:6:13", web("spec", "replicas", value=-1)),
    ("B-M15 large", "GK1204", "a.yaml:6:13", web("spec", "replicas", value=2**31)),
    ("B-M15 text", "GK1204", "a.yaml:6:13", web("spec", "replicas", value="3")),
    ("B-M15 part", "GK1204", "a.yaml:6:13", web("spec", "replicas", value=1.5)),
    *((f"B-M16 {u} {s}", "GK2101", "a.yaml:21:23", rolling(maxUnavailable=u, maxSurge=s))
      for u, s in ((0, 0), ("0%", "0%"), ("-5%", 0), ("5 %", 0), ("%", 0), ("5", 0), ("٣%", 0),
                   (-1, 0))),
    ("B-M17 negative", "GK2101", "a.yaml:21:18", rolling(partition=-1)),
    ("B-M18 empty", "GK2101", "a.yaml:7:13", web("spec", "selector", value={})),
    ("B-M18 other", "GK2202", "a.yaml:7:3",
     web("spec", "selector", value={"matchLabels": {"app": "other"}})),
    ("B-M19 none", "GK2101", "a.yaml:15:", web(*CONTAINER, value=[])),
    ("B-M19 null", "GK1204", "a.yaml:16:9", web(*CONTAINER, value=[None])),
    ("B-M19 twice", "GK2101", "a.yaml:18:", web(*CONTAINER, value=[
        {"name": "app", "image": "a"}, {"name": "app", "image": "b"}])),
    ("B-M19 port 0", "GK2101", "a.yaml:19:", container(ports=[{"containerPort": 0}])),
    ("B-M19 port", "GK2101", "a.yaml:19:", container(ports=[{"containerPort": 65536}])),
    ("B-M19 env", "GK2024", "a.yaml:21:", container(
        env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])),
    ("B-M19 mount", "GK2101", "a.yaml:19:", container(
        volumeMounts=[{"name": "gone", "mountPath": "/x"}])),
    *((f"CAN-8 {value}", "GK2101", "a.yaml:6:", canary("gitkruise.io/canary", value))
      for value in ("three", "-1", "30.5%", "")),
    ("B-M20 empty", "GK2101", "a.yaml:17:16", container(image="")),
    *((f"B-M20 {i[:8]}", "GK2023", "a.yaml:17:16", container(image=i))
      for i in ("a b", "a:b:c", "a@sha256:xyz", "REPO/App:x", "x" * 5000, "app:${TAG}")),
    *((f"B-M21 {q}", code, "a.yaml:20:", container(resources={"requests": {"cpu": q}}))
      for q, code in (("1Zi", "GK1204"), ("1..2", "GK1204"), ("-1", "GK2101"))),
    ("B-M23 names", "GK9005", "a.yaml", web("spec", "scaleStrategy", value={
        "podsToDelete": [f"pod-{n}-{'x' * 90}" for n in range(12_000)]})),
    ("B-M25", "GK2101", "a.yaml:6:13", documents(
        {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": {"name": "s"},
         "spec": {"selector": {}, "containers": [{"name": "x", "image": "a"}]}})),
    ("B-M26", "GK2107", "a.yaml:5:", documents(*(
        {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": {"name": name},
         "spec": {"selector": {"matchLabels": {"app": "a"}},
                  "containers": [{"name": "x", "image": "a"}]}} for name in ("one", "two")))),
    ("B-M27 text", "GK2101", "a.yaml:6:6", documents({**SECRET, "data": {"a": CANARY + "!!"}})),
    ("B-M27 list", "GK1204", "a.yaml:6:", documents({**SECRET, "data": [CANARY]})),
    ("B-M27 number", "GK1204", "a.yaml:6:6", documents({**SECRET, "stringData": {"a": 5}})),
    ("B-M27 word", "GK1204", "a.yaml:5:13", documents({**SECRET, "stringData": CANARY})),
    ("B-M27 2 MiB", "GK9005", "a.yaml",
     f"{documents(SECRET)}stringData: {{a: {'hunter2' * 300_000}}}\n"),
    ("B-M31 shape", "GK1204", "a.yaml:5:7", documents({**crd({}), "spec": []})),
    ("B-M31 pattern", "GK1204", "a.yaml:", documents(
        crd(text_field("(a+)+$")), foo(a="a" * 4_000 + "b"))),
    ("B-M31 deep", "GK9002", "a.yaml:", yaml.safe_dump(crd(nested(60)), indent=1)),
]  # fmt: skip


READ: list[tuple[str, list[str], str]] = [
    ("B-M04 version", [], documents({**config_map("a"), "apiVersion": "v9"})),  # the cluster's word
    ("B-M04 with its CRD", [], documents(
        foo(a="b"), crd({"type": "object", "properties": {"a": {"type": "string"}}}))),
    ("B-M06 free", [], documents({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "system:Reader"}, "rules": []})),
    ("B-M11", ["GK2021"] * 5, meta(uid="x", resourceVersion="5", generation=3, selfLink="x",
                                   creationTimestamp="2020-01-01T00:00:00Z", managedFields=[])),
    ("B-M11 exported", ["GK2021"] * 2, meta(annotations={
        "deployment.kubernetes.io/revision": "2",
        "deprecated.daemonset.template.generation": "1"})),
    ("B-M11 exported job", ["GK2021"], documents(exported_job(JOB_LABELS))),
    ("B-M11 old job", ["GK2021"], documents(exported_job({"controller-uid": "u"}))),
    ("B-M11 own selector", [], documents(exported_job(JOB_LABELS, manualSelector=True))),
    ("CAN-8", [], canary("gitkruise.io/canary", "30%")),
    ("CAN-8 plain", [], canary("canary", "3")),
    ("CAN-8 not ours", ["GK2025"], canary("canary", "true")),
    ("CAN-8 recreate", ["GK2025"], canary("canary", "3", type="Recreate")),
    ("CAN-8 another kind", ["GK2025"], web("metadata", "annotations", value={
        "gitkruise.io/canary": "3"})),
    ("CAN-8 plain on another kind", [], web("metadata", "annotations", value={"canary": "3"})),
    ("CAN-8 template", ["GK2025"], documents(put(
        deployment("web"), ("spec", "template", "metadata", "annotations"),
        {"gitkruise.io/canary": "3"}))),
    ("a name that a label holds with a hash", [], web("metadata", "name", value="a" * 52)),
    ("a longer one", ["GK2029"], web("metadata", "name", value="a" * 53)),
    ("a longer one of a Deployment", [], documents(deployment("a" * 53))),
    ("launch order in another case", ["GK2027"], web("spec", "template", "metadata", value={
        "labels": {"app": "web"}, "annotations": {LAUNCH: "ordered"}})),
    ("launch order", [], web("spec", "template", "metadata", value={
        "labels": {"app": "web"}, "annotations": {LAUNCH: "Ordered"}})),
    *((f"word {value}", [], meta(annotations={f"gitkruise.io/{name}": value}))
      for name, value in (("prune", "Confirm"), ("prune", "disabled"), ("reconcile", "Enabled"),
                          ("replace", "enabled"), ("ignore", "/data/a, /data/b"), ("prune", ""))),
    ("B-M11 empty", [], documents({**config_map("a"), "status": {}})),
    ("B-M12 ours", [], meta(finalizers=["foregroundDeletion", "kubernetes.io/pvc-protection"])),
    ("B-M13", ["GK2021"], web("status", value={"replicas": 3})),
    ("B-M15 null", [], web("spec", "replicas", value=None)),
    *((f"B-M16 {u}", [], rolling(maxUnavailable=u)) for u in ("120%", "12.5%", "101%")),
    ("B-M17 large", [], rolling(partition=99)),
    ("B-M17 share", [], rolling(partition="150%")),
    *((f"B-M21 {q}", [], container(resources={"requests": {"cpu": q}}))
      for q in ("1e-400", "0.0000000001")),  # rounded up to 1n, as a server does
    ("B-M23 twice", [], web("spec", "scaleStrategy", value={"podsToDelete": ["p", "p"]})),
    ("B-M27 both", [], documents({**SECRET, "data": {"a": "aGk="}, "stringData": {"a": "x"}})),
    ("B-M31 open", [], documents(crd(
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True}), foo(spec={"x": 1}))),
    ("B-M31 lookahead", [], documents(crd(text_field("(?=a)b")))),  # the server refuses the CRD
    ("B-M31 reference", [], documents(crd(
        {"type": "object", "properties": {"a": {"$ref": "#/a"}}}))),  # likewise
    ("B-M32", [], documents(crd({
        **text_field("a"), "x-kubernetes-validations": [{"rule": "self.a.matches('(a+)+$')"}]}))),
]  # fmt: skip


MORE: Final = {
    "B-M27 over": documents(
        {**SECRET, "data": {"a": "aGk=", "b": "aGk="}, "stringData": {"a": "x"}}
    ),
    "B-M36": meta(annotations={
        "gitkruise.io/unit-ref": "x", "gitkruise.io/digest": "d", "gitkruise.io/commit": "c",
        "gitkruise.io/artifact": "v1", "gitkruise.io/rollout": "done", "a": "b",
        "gitkruise.io/canary-paused": "x/2/y", "gitkruise.io/canary-lock": "x",
        "gitkruise.io/git-pause": "true",
    }, labels={"gitkruise.io/unit": "x"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rows]:
    texts = {row[0]: row[3] for row in REFUSED} | {row[0]: row[2] for row in READ} | MORE
    assert len(texts) == len(REFUSED) + len(READ) + len(MORE)
    folders = {row: f"{number:03}" for number, row in enumerate(texts)}
    origin = make_origin(tmp_path_factory.mktemp("rows"))
    commit = origin.commit({f"{folders[row]}/a.yaml": text for row, text in texts.items()})
    with Repository.open(str(origin.bare)) as repository:
        yield Rows(repository, commit, folders)


@pytest.mark.parametrize(
    ("row", "code", "where"), [row[:3] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_a_bad_manifest_is_refused_by_name_and_place(
    rows: Rows, row: str, code: str, where: str
) -> None:
    _, findings = judged(rows, row)
    errors = [finding for finding in findings if finding.is_error]
    assert {finding.code for finding in errors} == {code}
    assert str(errors[0].places[0]).startswith(f"{rows.folders[row]}/{where}")
    assert all(len(finding.message) < 700 for finding in errors)
    assert CANARY not in repr(errors)


@pytest.mark.parametrize(("row", "noted"), [row[:2] for row in READ], ids=[r[0] for r in READ])
def test_an_unusual_manifest_is_read(rows: Rows, row: str, noted: list[str]) -> None:
    objects, findings = judged(rows, row)
    assert [(f.code, f.severity) for f in findings] == [(code, "warning") for code in noted]
    assert objects
    for desired in objects:
        assert "status" not in desired.obj
        assert not {"uid", "resourceVersion", "generation"} & desired.obj["metadata"].keys()


def test_forged_marks_of_ours_are_never_taken(rows: Rows) -> None:
    (desired,), findings = judged(rows, "B-M36")
    assert desired.obj["metadata"]["annotations"] == {"a": "b"}
    assert "labels" not in desired.obj["metadata"]
    assert findings == []


def test_string_data_wins_over_data(rows: Rows) -> None:
    (desired,), _ = judged(rows, "B-M27 over")
    assert desired.obj["data"] == {"a": "eA==", "b": "aGk="}


def test_rules_that_the_cluster_aggregates_are_not_compared(tmp_path: Path) -> None:
    """The controller manager fills them in; manifests often have an empty list."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "view"}, "rules": [],
    }  # fmt: skip
    whole = {**role, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    named = [{**role, "metadata": {"name": "plain"}}, whole]
    origin = make_origin(tmp_path)
    commit = origin.commit({"a.yaml": documents(*named)}, "roles")
    with Repository.open(str(origin.bare)) as repository:
        read = read_desired(repository, commit, ".")
    objects, findings = check_documents(read.documents, catalog(), namespace="shop")
    assert findings == []
    assert {d.key.name: "rules" in d.obj for d in objects} == {"plain": True, "view": False}


@pytest.mark.parametrize(
    ("limit", "value"), [("FILES_MAX", 3), ("BYTES_MAX", 100), ("DOCUMENTS_MAX", 6)]
)
def test_a_source_has_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    """B-M37"""
    origin = make_origin(tmp_path)
    commit = origin.commit({
        f"{n}.yaml": documents(config_map(f"a{n}"), config_map(f"b{n}")) for n in range(4)
    })  # fmt: skip
    with Repository.open(str(origin.bare)) as repository:
        assert read_desired(repository, commit).checked().documents
        monkeypatch.setattr(reader, limit, value)
        (finding,) = read_desired(repository, commit).findings
    assert finding.code == "GK9006"
