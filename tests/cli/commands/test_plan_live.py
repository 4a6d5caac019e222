"""With a cluster a plan shows what is there, what drifted, and what the cluster makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import pytest
import yaml

from gitkruise.planner.sync.annotations import UNIT, UNIT_REF, unit_label
from gitkruise.planner.sync.prune import prune_hash
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import APPLY_PATCH, ApiRequest, ResourceRef
from tests.cli.calls import Caller
from tests.cli.live import send
from tests.cli.shop import HERE, Checkout, cloneset

LABEL = unit_label("sandbox", "default/repository")
SPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: live}\n"


def config(name: str, flag: str, kind: str = "ConfigMap", field: str = "data") -> str:
    return dedent(f"""\
        apiVersion: v1
        kind: {kind}
        metadata: {{name: {name}, namespace: live}}
        {field}: {{flag: "{flag}"}}
        """)


def service(port: int, **spec: str) -> str:
    more = "".join(f"\n  {name}: {value}" for name, value in spec.items())
    return dedent(f"""\
        apiVersion: v1
        kind: Service
        metadata: {{name: web, namespace: live}}
        spec:
          selector: {{app: web}}
          ports: [{{port: {port}}}]
        """) + more.lstrip("\n")


def put(
    kubeconfig: Path, plural: str, obj: Obj, manager: str = "gitkruise", group: str = ""
) -> None:
    """Apply `obj` as `manager` does."""
    meta = obj["metadata"]
    request = ApiRequest(
        verb="patch", resource=ResourceRef(group, "v1", plural), name=meta["name"],
        namespace=meta.get("namespace", ""), body=obj, content_type=APPLY_PATCH,
        params={"fieldManager": manager, "force": "true"},
    )  # fmt: skip
    send(kubeconfig, request)


def space(kubeconfig: Path) -> None:
    put(
        kubeconfig,
        "namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "live"}},
    )


def flags(name: str, flag: str, kind: str = "ConfigMap") -> Obj:
    meta = {"name": name, "namespace": "live"}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, "data": {"flag": flag}}


def changes(gk: Caller, checkout: Checkout, cluster: Path, *words: str) -> list[dict[str, Any]]:
    """Changes of a plan with the cluster, as JSON."""
    ended = gk("plan", "-o", "json", "--kubeconfig", str(cluster), *words, cwd=checkout.folder)
    found: list[dict[str, Any]] = ended.obj["changes"]
    return found


@pytest.mark.slow
def test_drift_of_any_kind_is_distinguished_from_the_change(
    gk: Caller, checkout: Checkout, cluster: Path
) -> None:
    space(cluster)
    put(cluster, "configmaps", flags("calm", "on"))
    put(cluster, "configmaps", flags("moved", "by hand"), "kubectl-edit")
    files = {"a.yaml": config("calm", "on"), "b.yaml": config("moved", "on")}
    checkout.commit("before", {**files, "c.yaml": config("gone", "on")})
    checkout.commit("after", {"d.yaml": config("new", "on"), "c.yaml": None})
    found = [(c["name"], c["change"], c["drift"]) for c in changes(gk, checkout, cluster)]
    assert found == [("new", "create", False), ("moved", "configure", True)]
    same = [(c["name"], c["drift"]) for c in changes(gk, checkout, cluster, "HEAD..HEAD")]
    assert same == [("new", False), ("moved", True)]


@pytest.mark.slow
def test_a_deletion_of_an_earlier_commit_that_waits_is_part_of_every_plan(
    gk: Caller, checkout: Checkout, own_cluster: Path
) -> None:
    """The newest commits do not name the object, and its unit still has it."""
    space(own_cluster)
    for name, unit, more in (
        ("left", "default/repository", {}), ("other", "shop/other", {}),
        ("kept", "default/repository", {"gitkruise.io/prune": "Disabled"}),
    ):  # fmt: skip
        obj = flags(name, "on")
        obj["metadata"]["labels"] = {UNIT: unit_label("sandbox", unit)}
        obj["metadata"]["annotations"] = {UNIT_REF: unit, **more}
        put(own_cluster, "configmaps", obj)
    checkout.commit("before", {"c.yaml": config("calm", "on")})
    checkout.commit("after", {"README.md": "words\n"})
    found = {c["name"]: c for c in changes(gk, checkout, own_cluster)}
    assert found.keys() == {"calm", "left"}
    entry = found["left"]
    assert (entry["change"], entry["pending"], entry["stays"]) == ("prune", True, False)
    text = gk("plan", "--kubeconfig", str(own_cluster), cwd=checkout.folder).out
    assert "ConfigMap live/left    deleted by an earlier commit, and still live" in text
    old = {c["name"] for c in changes(gk, checkout, own_cluster, "--to", "HEAD~")}
    assert old == {"calm"}, "no unit follows a commit that its branch has left behind"


@pytest.mark.slow
def test_a_deletion_that_a_commit_approved_waits_for_nobody(
    gk: Caller, checkout: Checkout, own_cluster: Path
) -> None:
    space(own_cluster)
    obj, label = flags("left", "on"), unit_label("sandbox", "default/repository")
    obj["metadata"]["labels"] = {UNIT: label}
    confirm = {"gitkruise.io/prune": "Confirm"}
    obj["metadata"]["annotations"] = {UNIT_REF: "default/repository", **confirm}
    put(own_cluster, "configmaps", obj)
    ref = ResourceRef("", "v1", "configmaps")
    asked = ApiRequest(verb="get", resource=ref, name="left", namespace="live")
    (live,) = send(own_cluster, asked)
    mark = prune_hash(label, {ObjectKey("", "ConfigMap", "live", "left"): live})
    checkout.commit("before", {"c.yaml": config("calm", "on")})
    checkout.commit("after", {"README.md": "words\n"})
    text = gk("plan", "--kubeconfig", str(own_cluster), cwd=checkout.folder).out
    assert "WAITS FOR APPROVAL" in text
    assert "waits for approval" in text
    checkout.commit(f"Agreed\n\nGitkruise-Approve: {mark}", {"README.md": "more words\n"})
    text = gk("plan", "--kubeconfig", str(own_cluster), cwd=checkout.folder).out
    assert "ConfigMap live/left    deleted by an earlier commit, and still live" in text
    assert "approval" not in text.lower()


@pytest.mark.slow
def test_a_namespace_with_objects_of_others_is_not_deleted(
    gk: Caller, checkout: Checkout, own_cluster: Path
) -> None:
    """As the controller holds its deletion back (GK2310), whoever approved it."""
    space(own_cluster)
    meta = {
        "name": "live", "labels": {UNIT: unit_label("sandbox", "default/repository")},
        "annotations": {UNIT_REF: "default/repository"},
    }  # fmt: skip
    put(own_cluster, "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    put(own_cluster, "configmaps", flags("theirs", "on"))
    checkout.commit("before", {"n.yaml": SPACE, "c.yaml": config("calm", "on")})
    checkout.commit("after", {"n.yaml": None})
    text = gk("plan", "--kubeconfig", str(own_cluster), cwd=checkout.folder).out
    assert "Namespace live)" not in text.partition("DELETED")[2].partition("·")[0]
    assert "1 object kept though gone from git (Namespace live)" in text
    assert "stays in the cluster: it holds ConfigMap" in text


@pytest.mark.slow
def test_the_cluster_is_asked_what_a_change_comes_to(
    gk: Caller, checkout: Checkout, cluster: Path
) -> None:
    space(cluster)
    checkout.commit("before", {"s.yaml": service(80)})
    checkout.commit("after", {"s.yaml": service(80, type="ClusterIP", sessionAffinity="None")})
    (alone,) = changes(gk, checkout, cluster)
    assert alone["change"] == "create"
    put(cluster, "services", {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "live"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    })  # fmt: skip
    assert changes(gk, checkout, cluster) == [], "the cluster has these defaults"
    assert changes(gk, checkout, cluster, "--server") == []
    checkout.commit("more", {"s.yaml": service(81)})
    (tried,) = changes(gk, checkout, cluster, "--server")
    assert [f["path"] for f in tried["fields"]] == ["spec.ports.0"]


def test_a_dry_run_shows_what_the_api_server_warns_of(
    gk: Caller, checkout: Checkout, cluster: Path
) -> None:
    space(cluster)
    headless = service(80, clusterIP="None", sessionAffinity="ClientIP")
    checkout.commit("headless", {"s.yaml": headless})
    ended = gk("plan", "--server", "--kubeconfig", str(cluster), cwd=checkout.folder)
    text = "Service live/web: spec.SessionAffinity is ignored for headless services"
    assert ended.code == 0
    assert f"warning[GK2406]: {text}" in ended.err + ended.out


def test_a_namespace_that_neither_git_nor_the_cluster_has_is_named(
    gk: Caller, checkout: Checkout, cluster: Path
) -> None:
    """As the controller would reject it, without being asked with --server."""
    words = ("plan", "--kubeconfig", str(cluster))
    checkout.commit("before", {"a.yaml": config("a", "on").replace("live", "lost")})
    ended = gk(*words, cwd=checkout.folder)
    assert ended.code == 3
    assert 'error[GK4202]: ConfigMap lost/a: namespaces "lost" not found' in ended.err
    assert "a.yaml:3:" in ended.err
    checkout.commit("with it", {"n.yaml": SPACE.replace("live", "lost")})
    assert gk(*words, cwd=checkout.folder).code == 0


OWN_SPACE: Final = HERE + dedent("""\
    ---
    apiVersion: gitkruise.io/v1alpha1
    kind: Unit
    metadata: {name: one, namespace: shop}
    spec:
      sourceRef: {name: here}
      path: one
      target: {namespace: created, createNamespace: true}
    """)


def test_a_dry_run_counts_on_the_namespace_that_the_unit_creates(
    gk: Caller, checkout: Checkout, cluster: Path
) -> None:
    text = config("a", "on").replace(", namespace: live", "")
    checkout.commit("one", {"gitkruise.yaml": OWN_SPACE, "one/a.yaml": text})
    ended = gk("plan", "--server", "--kubeconfig", str(cluster), cwd=checkout.folder)
    assert (ended.code, ended.err) == (0, "")
    assert "+ ConfigMap created/a" in ended.out


@pytest.mark.parametrize("more", [(), ("--server",)], ids=["plain", "server"])
def test_a_rejected_commit_has_no_rollout_and_one_error_for_all_of_its_objects(
    gk: Caller, checkout: Checkout, cluster: Path, more: tuple[str, ...]
) -> None:
    names = [f"c{n}" for n in range(5)]
    lost = (cloneset(name=name).replace("namespace: shop", "namespace: lost") for name in names)
    checkout.commit("five", {f"{name}.yaml": text for name, text in zip(names, lost, strict=True)})
    ended = gk("plan", "-o", "json", "--kubeconfig", str(cluster), *more, cwd=checkout.folder)
    (error,) = ended.obj["findings"]
    message = 'CloneSet lost/c0 and 4 more objects: namespaces "lost" not found'
    assert (ended.code, error["code"], error["message"]) == (3, "GK4202", message)
    assert {change["rejected"] for change in ended.obj["changes"]} == {"GK4202"}
    assert ended.obj["rollouts"] == []


def test_a_change_that_is_live_already_is_not_taken_for_a_comment(
    gk: Caller, checkout: Checkout, cluster: Path
) -> None:
    space(cluster)
    put(cluster, "configmaps", flags("a", "off"))
    checkout.commit("before", {"a.yaml": config("a", "on")})
    commit = checkout.commit("after", {"a.yaml": config("a", "off")})
    ended = gk("plan", "--kubeconfig", str(cluster), cwd=checkout.folder)
    assert f"no effect on the cluster: nothing of {commit[:7]} is left to apply" in ended.out
    checkout.commit("comment", {"a.yaml": f"# {commit}\n{config('a', 'off')}"})
    ended = gk("plan", cwd=checkout.folder)
    assert "nothing but comments and formatting" in ended.out


ANSWERS: Final = {"tried": ("--server",), "foreseen": (), "of git alone": ("--offline",)}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_the_cluster_refuses_is_reported_with_its_line_and_no_secret(
    gk: Caller, checkout: Checkout, cluster: Path, name: str
) -> None:
    space(cluster)
    put(cluster, "secrets", {**flags("fixed", "aHVudGVyMQ==", "Secret"), "immutable": True})
    text = config("fixed", "hunter2", kind="Secret", field="stringData") + "immutable: true\n"
    checkout.commit("before", {"x.yaml": text.replace("hunter2", "hunter1")})
    checkout.commit("after", {"x.yaml": text})
    ended = gk("plan", *ANSWERS[name], "--kubeconfig", str(cluster), cwd=checkout.folder)
    assert ended.code == 3
    assert "error[GK2203]" in ended.err
    assert "--> x.yaml:" in ended.err
    assert "hunter2" not in ended.out + ended.err


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_made_again_is_listed_first(
    gk: Caller, checkout: Checkout, cluster: Path, name: str
) -> None:
    space(cluster)
    put(cluster, "configmaps", {**flags("again", "on"), "immutable": True})
    text = config("again", "on").replace(
        "live}", "live, annotations: {gitkruise.io/replace: Enabled}}"
    )
    checkout.commit("before", {"x.yaml": text + "immutable: true\n"})
    checkout.commit("after", {"x.yaml": text.replace('"on"', '"off"') + "immutable: true\n"})
    ended = gk("plan", *ANSWERS[name], "--kubeconfig", str(cluster), cwd=checkout.folder)
    assert (ended.code, ended.err) == (0, "")
    assert "Blast    1 object DELETED AND CREATED AGAIN (ConfigMap live/again)" in ended.out


@pytest.mark.slow
def test_secrets_stay_hidden_when_the_cluster_answers(
    gk: Caller, checkout: Checkout, cluster: Path
) -> None:
    space(cluster)
    put(cluster, "secrets", {**flags("s", "aHVudGVyMQ=="), "kind": "Secret"})
    checkout.commit("one", {"s.yaml": config("s", "hunter1", kind="Secret", field="stringData")})
    checkout.commit("two", {"s.yaml": config("s", "hunter2", kind="Secret", field="stringData")})
    for words in ((), ("--server",)):
        ended = gk("plan", *words, "--kubeconfig", str(cluster), cwd=checkout.folder)
        assert "hunter" not in ended.out
        assert "aHVudGVy" not in ended.out
        assert "data.flag  ••• changed" in ended.out


@pytest.mark.slow
def test_a_dry_run_writes_nothing(gk: Caller, checkout: Checkout, cluster: Path) -> None:
    space(cluster)
    checkout.commit("one", {"a.yaml": config("never-made", "on")})
    assert [c["change"] for c in changes(gk, checkout, cluster, "--server")] == ["create"] * 1
    listing = ApiRequest(
        verb="list", resource=ResourceRef("", "v1", "configmaps"), namespace="live"
    )
    (there,) = send(cluster, listing)
    assert "never-made" not in {item["metadata"]["name"] for item in there["items"]}


@pytest.mark.slow
def test_a_dry_run_asks_the_current_context_without_flags(
    gk: Caller, checkout: Checkout, cluster: Path
) -> None:
    """Rejections recommend `gitkruise plan --server` to users who name no cluster either."""
    space(cluster)
    checkout.commit("one", {"a.yaml": config("never-made", "on")})
    ended = gk("plan", "--server", cwd=checkout.folder, KUBECONFIG=str(cluster))
    assert (ended.code, ended.err) == (0, "")
    assert "never-made" in ended.out


def test_a_dry_run_wants_a_cluster(gk: Caller, checkout: Checkout) -> None:
    checkout.commit("one", {"a.yaml": config("a", "on")})
    rows = [
        (["--server"], 5, "error[GK4106]: no cluster is configured"),
        (["--server", "--offline", "--sandbox"], 2, "error[GK7010]"),
    ]
    for words, code, text in rows:
        ended = gk("plan", *words, cwd=checkout.folder)
        assert (ended.code, ended.out) == (code, "")
        assert text in ended.err


@pytest.mark.slow
def test_a_kind_that_the_cluster_does_not_know_rejects_the_commit(
    gk: Caller, checkout: Checkout, cluster: Path
) -> None:
    """As `sync` does; with its definition in the same commit it may follow later."""
    job = dedent("""\
        apiVersion: apps.kruise.io/v1beta1
        kind: BroadcastJob
        metadata: {name: everywhere, namespace: live}
        """)
    definition = dedent("""\
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {name: broadcastjobs.apps.kruise.io}
        spec:
          group: apps.kruise.io
          names: {kind: BroadcastJob, plural: broadcastjobs, singular: broadcastjob}
          scope: Namespaced
          versions:
            - name: v1beta1
              served: true
              storage: true
              schema:
                openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
        """)
    space(cluster)  # else --server tries out nothing in it
    checkout.commit("job", {"space.yaml": SPACE, "job.yaml": job})
    for words in ((), ("--server",)):
        ended = gk("plan", "--kubeconfig", str(cluster), *words, cwd=checkout.folder)
        assert ended.code == 3, words
        assert (ended.out + ended.err).count("does not know kind BroadcastJob") == 1, words
    checkout.commit("definition", {"crd.yaml": definition})
    ended = gk("plan", "--kubeconfig", str(cluster), cwd=checkout.folder)
    assert (ended.code, "does not know" in ended.out + ended.err) == (0, False)


DATABASE: Final = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: main, image: "db:v1"}]}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


def test_a_rollout_that_needs_a_new_object_says_so(gk: Caller, checkout: Checkout) -> None:
    """To validate the file, as for other errors of a plan, would find nothing."""
    checkout.commit("before", {"db.yaml": DATABASE})
    checkout.commit("after", {"db.yaml": DATABASE.replace("1Gi", "2Gi")})
    ended = gk("plan", cwd=checkout.folder)
    assert ended.code == 3
    assert (
        "error[GK2203]: spec.volumeClaimTemplates of StatefulSet shop/db cannot change" in ended.err
    )
    assert "--> db.yaml:11:" in ended.err
    assert "gitkruise.io/replace: Enabled" in ended.err


@pytest.mark.slow
def test_what_model_and_cluster_refuse_is_reported_once(
    gk: Caller, checkout: Checkout, own_cluster: Path
) -> None:
    space(own_cluster)
    there = DATABASE.replace("namespace: shop", "namespace: live")
    put(own_cluster, "statefulsets", yaml.safe_load(there), group="apps")
    checkout.commit("before", {"db.yaml": there})
    checkout.commit("after", {"db.yaml": there.replace("1Gi", "2Gi")})
    for words in ((), ("--server",)):
        ended = gk("plan", *words, "--kubeconfig", str(own_cluster), cwd=checkout.folder)
        assert (ended.code, ended.err.count("error[GK2203]")) == (3, 1), words


@pytest.mark.slow
def test_a_plug_in_for_credentials_runs_twice(
    gk: Caller, checkout: Checkout, cluster: Path, tmp_path: Path
) -> None:
    """Once for what git is read with, and once for the live objects."""
    checkout.commit("one", {"c.yaml": config("plugged", "on")})
    known = yaml.safe_load(cluster.read_text())
    (user,) = known["users"]
    runs, answer = tmp_path / "runs", tmp_path / "said.json"
    kind = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    answer.write_text(json.dumps({**kind, "status": {"token": user["user"]["token"]}}))
    words = f"echo once >> {runs}; cat {answer}"
    plugin = {"command": "sh", "args": ["-c", words], "interactiveMode": "Never"}
    user["user"] = {"exec": {"apiVersion": kind["apiVersion"], **plugin}}
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(known))
    file.chmod(0o600)
    assert changes(gk, checkout, file)
    assert runs.read_text() == "once\nonce\n"
