"""explain shows codes and fields; doctor checks git, configuration, cluster and rights."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from gitkruise.errors import Forbidden
from gitkruise.gitops.cluster.engine import LEASE_NAMESPACE, WORKLOADS_LEASE
from gitkruise.gitops.inspect.doctor_cluster import (
    Check,
    Right,
    cluster_checks,
    granting,
    needed_rights,
    object_checks,
    rights_checks,
)
from gitkruise.kube.system.lease_terms import SYNC_LEASE
from gitkruise.wire.primitives.requests import APPLY_PATCH, ApiRequest, ResourceRef
from tests.cli.calls import ROOT, Caller
from tests.cli.commands.test_wait import CONFIG, UNIT, sinkless
from tests.cli.console.test_exit_codes import kubeconfig
from tests.cli.live import leases, send
from tests.cli.shop import START, Checkout, cloneset, unit_record
from tests.clock import ManualClock
from tests.git.repos import ENV, make_origin, run_git
from tests.kube.toy import Fault, Toy

CODES = re.findall(r"(?m)^### (GK\d{4})$", (ROOT / "docs" / "codes.md").read_text())
WHO = {name: value for name, value in ENV.items() if name.startswith("GIT_")}


def test_every_code_is_explained(gk: Caller) -> None:
    for code in CODES[::9]:
        ended = gk("explain", code, "-o", "json")
        assert (ended.code, ended.obj["kind"]) == (0, "CodeExplanation")
        assert ended.obj["text"]
        assert "###" not in ended.obj["text"] + ended.obj["next"]
    assert gk("explain", "3204").out.startswith("GK3204\nThe branch was rewritten")


FIELDS = [
    ("unit", "Unit", "prune"), ("unit.spec.drift.mode", "Unit.spec.drift.mode", "correct | detect"),
    ("gitsources.spec.ref", "GitSource.spec.ref", "semver"), ("Unit.spec.dependsOn", "", "ready"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "head", "text"), FIELDS, ids=[row[0] for row in FIELDS])
def test_a_field_and_those_below_it(gk: Caller, words: str, head: str, text: str) -> None:
    if words == "unit":
        text = "spec"
    ended = gk("explain", words)
    assert (ended.code, head in ended.out, text in ended.out) == (0, True, True), ended.out


UNKNOWN = [
    ("GK9099", "near: GK9000"),
    ("GK9999", "next: "),
    ("pod.spec", "GitSource"),
    ("unit.spec.dirft", "drift"),
]


@pytest.mark.parametrize(("words", "text"), UNKNOWN, ids=[row[0] for row in UNKNOWN])
def test_what_nobody_knows_is_answered_with_what_is_near(gk: Caller, words: str, text: str) -> None:
    ended = gk("explain", words)
    assert (ended.code, "GK7060" in ended.err, text in ended.err) == (2, True, True)


@pytest.fixture
def sound(checkout: Checkout) -> Checkout:
    checkout.commit("one", {"gitkruise.yaml": CONFIG, "apps/c.yaml": cloneset()})
    checkout.record("sandbox", unit_record())
    return checkout


@pytest.mark.slow
def test_all_is_well(gk: Caller, sound: Checkout, own_cluster: Path) -> None:
    words = ["doctor", "--kubeconfig", str(own_cluster), "-o", "json"]
    ended = gk(*words, cwd=sound.folder, **WHO)
    items = {(i["area"], i["name"]): i for i in ended.obj["items"]}
    assert ended.code == 0, ended.out
    assert {i["verdict"] for i in ended.obj["items"]} == {"good"}
    assert items["git", "identity"]["message"] == "Dana K <dana@example.com>"
    assert items["git", "record"]["message"].startswith("cluster sandbox: 1 unit, last written")
    assert items["config", "documents"]["message"] == "1 source, 1 unit, 1 sink, 0 receivers"
    assert "v1alpha1, v1beta1" in items["cluster", "kinds"]["message"]
    assert "gitkruise-sync is free" in items["cluster", "sync"]["message"]


def test_a_configuration_that_nobody_wrote_is_not_counted(gk: Caller, checkout: Checkout) -> None:
    unborn = gk("doctor", "config", cwd=checkout.folder)
    assert "next: commit to the branch that HEAD names" in unborn.out
    assert unborn.out.endswith("\n1 check: 1 failed, 0 to look at\n")
    checkout.commit("one", {"apps/c.yaml": cloneset()})
    (check,) = gk("doctor", "config", "-o", "json", cwd=checkout.folder).obj["items"]
    none = "none: the repository counts as one unit; gitkruise init writes gitkruise.yaml"
    assert (check["verdict"], check["message"]) == ("good", none)


def test_a_unit_that_no_controller_has_recorded_is_named(gk: Caller, sound: Checkout) -> None:
    """A controller that runs does not read a changed gitkruise.yaml again."""
    other = UNIT.replace("name: shop,", "name: data,", 1)
    sound.commit("another unit", {"gitkruise.yaml": CONFIG + other})
    items = gk("doctor", "config", "-o", "json", cwd=sound.folder, **WHO).obj["items"]
    (check,) = (item for item in items if item["name"] == "unit")
    assert (check["verdict"], check["message"].partition(":")[0]) == ("warning", "shop/data")
    assert "no controller has recorded it" in check["message"]


def test_a_unit_that_nothing_records_is_named(gk: Caller, sound: Checkout) -> None:
    other = sinkless(UNIT).replace("name: shop,", "name: data,", 1)
    sound.commit("another unit", {"gitkruise.yaml": CONFIG + other})
    items = gk("doctor", "config", "-o", "json", cwd=sound.folder, **WHO).obj["items"]
    (check,) = (item for item in items if item["name"] == "unit")
    assert (check["verdict"], check["message"].partition(":")[0]) == ("warning", "shop/data")
    assert "it has no Sink with git" in check["message"]


@pytest.mark.slow
def test_who_applies_and_since_when(gk: Caller, cluster: Path) -> None:
    holders = {"": "3 shards", "-shard-0": "box_1", "-shard-1": ""}
    with leases(cluster, holders, "2026-01-02T03:04:05.000000Z"):
        ended = gk("doctor", "cluster", "--kubeconfig", str(cluster), "-o", "json")
    checks = {i["name"]: (i["verdict"], i["message"]) for i in ended.obj["items"]}
    assert checks["controller"][1].startswith("sandbox since ")
    assert checks["controller"][1].endswith(", for as long as it runs")
    assert checks["sync"][1].startswith("3 shards, its lease renewed ")
    assert checks["shard 0"][0] == "good"
    assert checks["shard 0"][1].startswith("box_1, its lease renewed ")
    lost = "its units are not reconciled"
    assert checks["shard 1"] == ("bad", f"no replica holds it since 2026-01-02T03:04:05Z: {lost}")
    assert checks["shard 2"] == ("bad", f"no replica holds it: {lost}")


LEFT = [
    ("2 shards", ["gitkruise-sync-member-2", "gitkruise-sync-shard-2"]),
    ("box_1", ["gitkruise-sync-member-2", "gitkruise-sync-shard-1", "gitkruise-sync-shard-2"]),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("holder", "names"), LEFT, ids=[row[0] for row in LEFT])
def test_leases_of_an_earlier_number_of_shards_are_named(
    gk: Caller, cluster: Path, holder: str, names: list[str]
) -> None:
    holders = {"": holder, "-shard-0": "box_1", "-shard-1": "", "-shard-2": "", "-member-2": ""}
    with leases(cluster, holders, "2026-01-02T03:04:05.000000Z"):
        ended = gk("doctor", "cluster", "--kubeconfig", str(cluster), "-o", "json")
    (check,) = (i for i in ended.obj["items"] if i["name"] == "leases")
    listed = ", ".join(names)
    assert check["message"] == f"{len(names)} remain of an earlier number of shards: {listed}"
    assert check["next"] == f"kubectl delete lease -n {LEASE_NAMESPACE} {' '.join(names)}"


def unit_object(name: str, ready: tuple[str, str, str] | None, phase: str = "") -> ApiRequest:
    """Request that stores a Unit whose Ready is (status, reason, message)."""
    body = {
        "apiVersion": "gitkruise.io/v1alpha1", "kind": "Unit",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"sourceRef": {"name": "fleet"}},
    }  # fmt: skip
    if ready is not None:
        since = {"type": "Ready", "lastTransitionTime": "2026-01-02T03:04:05Z"}
        condition = dict(zip(("status", "reason", "message"), ready, strict=True))
        body["status"] = {"phase": phase, "conditions": [{**since, **condition}]}
    return ApiRequest(
        verb="patch", resource=ResourceRef("gitkruise.io", "v1alpha1", "units"),
        namespace="default", name=name, body=body, content_type=APPLY_PATCH,
        subresource="status" if ready else "", params={"fieldManager": "test", "force": "true"},
    )  # fmt: skip


REFUSED = ("False", "BuildFailed", "GK2101: replicas")
SILENT = ("Unknown", "Progressing", "GK4103: cannot watch Pod")
UNITS: list[tuple[tuple[str, str, str] | None, str, str, str]] = [
    (("True", "Held", "4 of 10"), "Held", "", ""),
    (("Unknown", "Progressing", "3 of 5"), "Rolling", "", ""),
    (REFUSED, "Rejected", "bad", "x is Rejected (BuildFailed) since 2026-01-02T03:04:05Z: GK2101"),
    (("False", "HealthCheckFailed", "image"), "Stuck", "bad", "default/x is Stuck"),
    (SILENT, "Unknown", "warning", "cannot watch Pod"),
    (("False", "Drifted", "2 fields"), "Drifted", "warning", "default/x is Drifted"),
    (("False", "WindowClosed", "m"), "Waiting", "warning", "default/x is Waiting (WindowClosed)"),
    (None, "", "warning", "default/x has no status"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("ready", "phase", "verdict", "text"), UNITS)
def test_objects_are_checked_by_their_conditions(
    gk: Caller, own_cluster: Path, ready: tuple[str, str, str] | None, phase: str, verdict: str,
    text: str,
) -> None:  # fmt: skip
    made = unit_object("x", None)
    send(own_cluster, made, *([unit_object("x", ready, phase)] if ready else []))
    ended = gk("doctor", "cluster", "--kubeconfig", str(own_cluster), "-o", "json")
    gone = replace(made, verb="delete", body=None, params={}, content_type="")
    send(own_cluster, gone)
    items = {i["name"]: i for i in ended.obj["items"]}
    well = int(not verdict)
    assert items["objects"]["message"].startswith(f"{well} of 1 sources, units, sinks")
    assert ended.code == (verdict == "bad")
    if verdict:
        assert (items["unit"]["verdict"], text in items["unit"]["message"]) == (verdict, True)
    else:
        assert "unit" not in items
    none = gk("doctor", "cluster", "--kubeconfig", str(own_cluster), "-o", "json").obj["items"]
    assert "objects" not in {i["name"] for i in none}


def test_objects_that_may_not_be_listed_are_not_known() -> None:
    async def look() -> list[Check]:
        toy = Toy()
        toy.faults = [Fault("list", Forbidden("units is forbidden"))]
        return await object_checks(toy)

    (check,) = asyncio.run(look())
    assert (check.verdict, check.message) == ("warning", "not known: units is forbidden")


def test_a_cluster_is_checked_as_far_as_its_reader_may_see_it() -> None:
    async def look() -> list[Check]:
        toy = Toy()
        toy.faults = [Fault("list", Forbidden("no kinds")), Fault("get", Forbidden("no lease"))]
        return await cluster_checks(
            toy, ManualClock(START), LEASE_NAMESPACE, driving=WORKLOADS_LEASE, applying=SYNC_LEASE
        )

    kinds, engine, sync = asyncio.run(look())
    assert (kinds.name, kinds.verdict, kinds.message) == ("kinds", "warning", "not known: no kinds")
    assert (engine.name, engine.verdict, engine.message) == (
        "engine",
        "warning",
        "not known: no lease",
    )
    assert (sync.name, sync.verdict) == ("sync", "good")


def test_the_rights_on_each_lease_are_asked_for_by_name() -> None:
    leases = [right for right in needed_rights() if right.namespace == LEASE_NAMESPACE]
    named = {(right.verb, right.name) for right in leases}
    names = (WORKLOADS_LEASE, SYNC_LEASE, f"{SYNC_LEASE}-units", f"{SYNC_LEASE}-analysis")
    assert named == {("create", ""), *((v, n) for v in ("get", "update") for n in names)}
    assert (
        str(leases[-1]) == "update leases.coordination.k8s.io kube-system/gitkruise-sync-analysis"
    )
    before, after = ({right.name for right in needed_rights(count)} for count in (1, 2))
    assert after - before == {
        "gitkruise-sync-shard-0", "gitkruise-sync-shard-1",
        "gitkruise-sync-member-0", "gitkruise-sync-member-1",
    }  # fmt: skip
    role, binding = granting(leases, "dana")
    assert (role["kind"], binding["kind"]) == ("Role", "RoleBinding")
    assert role["metadata"]["namespace"] == LEASE_NAMESPACE
    assert [rule.get("resourceNames") for rule in role["rules"]] == [None, *([n] for n in names)]


def broken_config(checkout: Checkout) -> None:
    checkout.commit("x", {"gitkruise.yaml": CONFIG.replace("path: apps", "path: nowhere")})


def no_config(checkout: Checkout) -> None:
    checkout.commit("x", {"gitkruise.yaml": CONFIG.replace("url: .", "brunch: main")})


WRONG = [
    (broken_config, "config", "there is no folder nowhere"), (no_config, "config", "GK7003"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("row", WRONG, ids=[row[0].__name__ for row in WRONG])
def test_what_is_wrong_is_1_and_named(gk: Caller, sound: Checkout, row: tuple[object, ...]) -> None:
    happen, area, text = row
    assert callable(happen)
    happen(sound)
    ended = gk("doctor", str(area), cwd=sound.folder)
    assert (ended.code, str(text) in ended.out) == (1, True), ended.out


AWAY = "file:///nowhere/shop.git"
SOURCES = {
    "answers": ("url: .", "good", "answers", ""),
    "no branch": ("url: ., ref: {branch: prod}", "bad", "has no refs/heads/prod", "push it"),
    "no tag": ("url: ., ref: {tag: v1}", "bad", "has no refs/tags/v1", "push it"),
    "a range": ("url: ., ref: {semver: '>=1.0.0'}", "good", "answers", ""),
    "gone": (f"url: '{AWAY}'", "bad", "GK3103", f"git ls-remote {AWAY}"),
    "not ours": (
        f"url: '{AWAY}', secretRef: {{name: key}}",
        "warning",
        "of this user",
        "Secret key",
    ),
}


@pytest.mark.parametrize("row", SOURCES.values(), ids=SOURCES)
def test_each_source_is_asked(
    gk: Caller, sound: Checkout, tmp_path: Path, row: tuple[str, str, str, str]
) -> None:
    spec, verdict, message, next_ = row
    text = CONFIG.replace("spec: {url: .", f"spec: {{{spec}").replace(
        "url: .", f"url: {sound.folder}"
    )
    file = tmp_path / "units.yaml"
    file.write_text(text)
    ended = gk("doctor", "config", "--config", str(file), "-o", "json", cwd=sound.folder)
    (check,) = (item for item in ended.obj["items"] if item["name"] == "source")
    assert (check["verdict"], message in check["message"]) == (verdict, True), check
    assert (next_ in check["next"], ended.code) == (True, int(verdict == "bad"))


@pytest.mark.slow
def test_no_repository_and_no_cluster(gk: Caller, tmp_path: Path) -> None:
    ended = gk("doctor", "--kubeconfig", str(kubeconfig(tmp_path)))
    assert (ended.code, ended.err) == (1, "")
    for text in ("GK3103", "GK4101", "connection refused", "3 checks: 3 failed"):
        assert text in ended.out


@pytest.mark.slow
def test_a_remote_that_does_not_answer_and_one_that_is_ahead(gk: Caller, tmp_path: Path) -> None:
    origin = make_origin(tmp_path)
    origin.commit({"a.yaml": "# one\n"})
    origin.commit({"a.yaml": "# two\n"})
    run_git(origin.work, "reset", "-q", "--hard", "HEAD~1")
    behind = gk("doctor", "git", cwd=origin.work)
    assert (behind.code, "1 behind" in behind.out, "git pull --ff-only" in behind.out) == (
        0, True, True,
    )  # fmt: skip
    origin.bare.rename(tmp_path / "away")
    gone = gk("doctor", "git", cwd=origin.work)
    assert (gone.code, "GK3103" in gone.out) == (1, True)


def test_wrong_usage(gk: Caller) -> None:
    assert gk("doctor", "nonsense").code == 2


def test_missing_rights_become_a_role_for_who_asks() -> None:
    rights = [
        Right("", "pods", "patch"),
        Right("", "pods", "delete"),
        Right("", "events", "create"),
    ]
    role, binding = granting(rights, "system:serviceaccount:ops:deployer")
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch", "delete"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    ]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "namespace": "ops", "name": "deployer"}
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    (_, person) = granting(rights, "dana")
    assert person["subjects"][0]["kind"] == "User"
    assert Right("", "pods", "patch") in needed_rights()


def test_a_second_fix_takes_no_right_away() -> None:
    """kubectl apply replaces an object of the same name, with its rules and subjects."""
    pods, events = Right("", "pods", "patch"), Right("", "events", "create")
    fixes = granting([pods], "dana"), granting([events], "dana"), granting([pods], "kim")
    names = [{document["metadata"]["name"] for document in fix} for fix in fixes]
    assert [len(name) for name in names] == [1, 1, 1]
    assert len(set.union(*names)) == 3
    assert granting([pods], "dana") == fixes[0]


def test_the_lease_that_chooses_the_engine_is_among_the_rights() -> None:
    right = Right("coordination.k8s.io", "leases", "get", name="kruise-manager")
    assert right in needed_rights()
    assert str(right) == "get leases.coordination.k8s.io kruise-manager"


def test_rights_are_reported_as_those_of_a_controller() -> None:
    """A user who only reads lacks most of them, and is not to be given them."""
    rights = [Right("", "pods", "patch"), Right("", "pods", "list")]
    (check,) = rights_checks(rights, rights[:1])
    assert check.message == "1 of 2 that gitkruise run needs are missing: patch pods"
    assert check.next.startswith("for the account of gitkruise run: ")
    (well,) = rights_checks(rights, [])
    assert well.message == "all 2 that gitkruise run needs"


@pytest.mark.slow
def test_the_fix_is_yaml_for_kubectl(gk: Caller, cluster: Path) -> None:
    ended = gk("doctor", "rbac", "--print-fix", "--kubeconfig", str(cluster))
    assert ended.code == 0
    assert list(yaml.safe_load_all(ended.out)) == []  # nothing is missing here
