"""A promotion that could never make a step is refused when the configuration is read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gitkruise.errors import UsageProblem
from gitkruise.gitops.config.loader import load_config
from gitkruise.gitops.config.metric_addresses import out_of_reach, unusable
from gitkruise.model.gitops.promotion import PromotionStep
from gitkruise.model.workloads.labels import (
    ADVANCED_STATEFULSET,
    CLONESET,
    DEPLOYMENT,
    STATEFULSET,
)
from gitkruise.wire.primitives.names import GroupKind

SOURCE = """
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {name: src, namespace: shop}
spec: {url: ., ref: {REF}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {name: out, namespace: shop}
spec: {git: {sourceRef: {name: src}}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {name: web, namespace: shop}
spec:
  sourceRef: {name: src}
  sinkRef: {name: out}
  promotion:
    workload: {kind: CloneSet, name: web}
    via: commit
    steps:
    - {partition: 75%, soak: 10m}
    - {partition: 50%}
"""
BAD = {
    "no-partition": ("75%", "lots", "steps.0.partition: 'lots' is no partition"),
    "a-number-as-text": ("75%", '"30"', "steps.0.partition: '30' is no partition"),
    "no-number": ("{partition: 75%,", "{updated: lots,", "steps.0.updated: 'lots' is no number"),
    "bare-text": ("{partition: 50%}", "50%", "50% does not say which pods it counts"),
    "bare-number": ("{partition: 50%}", "5", "5 does not say which pods it counts"),
    "no-amount": ("{partition: 50%}", "{soak: 5m}", "steps.1: the step does not say how many"),
    "two-amounts": (
        "partition: 75%",
        "partition: 75%, updated: 25%",
        "steps.0: updated and partition set the same field",
    ),
    "mixed-upwards": (
        "{partition: 50%}",
        "{updated: 20%}",
        "steps.1.updated: updated: 20% keeps no fewer pods back than 75%",
    ),
    "upwards": ("50%}", "80%}", "steps.1.partition: 80% keeps no fewer pods back than 75%"),
    "another-group": (
        "{kind: CloneSet, name: web}",
        "{kind: CloneSet, name: web, apiVersion: apps/v1}",
        "workload.apiVersion: apps/v1 has no CloneSet that can be promoted",
    ),
    "no-time": ("10m", '"10"', "steps.0.soak: '10' has no unit"),
    "a-tag": ("branch: main", "tag: v1", "follows no branch"),
    "no-sink": ("sinkRef: {name: out}", "path: .", "no Sink that may write"),
    "no-forge": ("via: commit", "via: pull-request", "no forge to open a pull request on"),
    "no-forge-for-reverts": (
        "  promotion:",
        "  onFailure: revert-pr\n  promotion:",
        "spec.onFailure: ",
    ),
    "nothing-to-merge": ("via: commit", "via: commit\n    merge: whenReady", "nothing to merge"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_promotion_that_could_never_go_on_is_refused_with_its_line(
    name: str, tmp_path: Path
) -> None:
    old, new, words = BAD[name]
    good = SOURCE.replace("{REF}", "{branch: main}")
    file = tmp_path / "gitkruise.yaml"
    file.write_text(good)
    assert load_config(file).units["shop/web"].spec.promotion
    assert old in good
    file.write_text(good.replace(old, new))
    with pytest.raises(UsageProblem, match=re.escape(words)) as caught:
        load_config(file)
    (finding,) = caught.value.findings
    assert (finding.code, finding.places[0].file) == ("GK7033", str(file))


@pytest.mark.parametrize(
    ("name", "way_out"),
    [("no-forge", "via: commit"), ("no-forge-for-reverts", "onFailure: revert-push")],
)
def test_a_way_without_pull_requests_is_named(name: str, way_out: str, tmp_path: Path) -> None:
    old, new, _ = BAD[name]
    file = tmp_path / "gitkruise.yaml"
    file.write_text(SOURCE.replace("{REF}", "{branch: main}").replace(old, new))
    with pytest.raises(UsageProblem) as caught:
        load_config(file)
    assert dict(caught.value.findings[0].notes)["next"].endswith(f"or write {way_out}")


UNSIGNED = "GitSource src requires signatures, and Sink out does not sign"
SIGNS = "signing: {format: ssh, secretRef: {name: key}}"


@pytest.mark.parametrize(
    ("mode", "signing", "via", "words"),
    [
        ("head", "", "commit", UNSIGNED),
        ("head", SIGNS, "commit", ""),
        ("head", "", "pull-request", ""),
        ("range", "", "pull-request", UNSIGNED),
        ("range", SIGNS, "pull-request", ""),
    ],
)
def test_commits_that_the_source_would_not_trust_are_refused(
    mode: str, signing: str, via: str, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "gitkruise.yaml"
    good = SOURCE.replace("{REF}", "{branch: main}").replace("via: commit", f"via: {via}")
    forge = "forge: {type: gitea, url: https://f.example, repo: a/b, secretRef: {name: f}}"
    rules = f"verify: {{mode: {mode}, secretRef: {{name: keys}}}}"
    good = good.replace("url: .,", f"url: ., {rules},")
    git = f"git: {{sourceRef: {{name: src}}, {signing}}}, {forge}"
    file.write_text(good.replace("git: {sourceRef: {name: src}}", git))
    if not words:
        assert load_config(file).units
        return
    with pytest.raises(UsageProblem, match=re.escape(words)) as caught:
        load_config(file)
    assert [finding.code for finding in caught.value.findings] == ["GK7033"]


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("kind: StatefulSet", STATEFULSET),
        ("kind: StatefulSet, apiVersion: apps/v1", STATEFULSET),
        ("kind: StatefulSet, apiVersion: apps.kruise.io/v1beta1", ADVANCED_STATEFULSET),
        ("kind: StatefulSet, apiVersion: apps.kruise.io/v1alpha1", ADVANCED_STATEFULSET),
        ("kind: CloneSet, apiVersion: apps.kruise.io/v1alpha1", CLONESET),
        ("kind: Deployment", DEPLOYMENT),
    ],
)
def test_the_kind_of_a_promoted_workload(words: str, kind: GroupKind, tmp_path: Path) -> None:
    file = tmp_path / "gitkruise.yaml"
    good = SOURCE.replace("{REF}", "{branch: main}")
    file.write_text(good.replace("kind: CloneSet, name", f"{words}, name"))
    promotion = load_config(file).units["shop/web"].spec.promotion
    assert promotion is not None
    assert promotion.workload.group_kind == kind


def test_a_bare_step_is_refused_with_both_spellings(tmp_path: Path) -> None:
    file = tmp_path / "gitkruise.yaml"
    file.write_text(SOURCE.replace("{REF}", "{branch: main}").replace("{partition: 50%}", "30%"))
    with pytest.raises(UsageProblem) as caught:
        load_config(file)
    (finding,) = caught.value.findings
    spellings = " ".join(text for _, text in finding.notes)
    assert ("{updated: 30%}" in spellings, "{partition: 30%}" in spellings) == (True, True)


@pytest.mark.parametrize(
    ("updated", "replicas", "partition"),
    [("70%", 40, "30%"), (28, 40, "12"), ("100%", 40, "0"), (40, 40, "0"), (0, 40, "100%"),
     ("0%", 40, "100%"), (50, 40, "0")],
)  # fmt: skip
def test_updated_pods_are_the_partition_of_the_others(
    updated: int | str, replicas: int, partition: str
) -> None:
    assert PromotionStep(updated=updated).asks(replicas).text == partition


METRICS = (
    SOURCE.replace("soak: 10m}", "soak: 10m, analysis: [errors, smoke]}")
    + """
    metrics:
    - name: errors
      interval: 30s
      count: 5
      failureLimit: 1
      successCondition: result[0] < 0.05
      provider:
        prometheus: {address: "http://prometheus:9090", query: "up{hash='{{ revision }}'}"}
    - name: smoke
      provider:
        job: {spec: {template: {spec: {containers: [{name: c, image: smoke:v1}]}}}}
    - name: latency
      thresholdRange: {max: 500}
      provider:
        web: {url: "https://shop.example/latency", jsonPath: "{$.p99}", secretRef: {name: web}}
"""
)
PROM, WEB = "promotion.metrics.0.", "promotion.metrics.2."
BAD_METRICS = {
    "unknown": ("[errors, smoke]", "[errors, nope]", "steps.0.analysis: nope is not a metric"),
    "twice": ("name: smoke", "name: errors", "metrics.0.name: errors is the name of two metrics"),
    "nothing-follows": ("{partition: 50%}", "{partition: 50%, analysis: [errors]}",
                        "steps.1.analysis: no step follows"),
    "another-group": (
        "{kind: CloneSet, name: web}",
        "{kind: CloneSet, name: web, apiVersion: apps/v1}",
        "workload.apiVersion: apps/v1 has no CloneSet that can be promoted",
    ),
    "no-time": ("interval: 30s", 'interval: "30"', PROM + "interval: '30' has no unit"),
    "no-interval": ("interval: 30s", "initialDelay: 1m",
                    PROM + "interval: 5 measurements need time between them"),
    "too-often": ("interval: 30s", "interval: 500ms", PROM + "interval: it is shorter than a sec"),
    "endless": ("failureLimit: 1", "failureLimit: 5", "failureLimit: with 5 measurements"),
    "inconclusive": ("failureLimit: 1", "inconclusiveLimit: 7", "inconclusiveLimit: with 5"),
    "two-providers": ("        job:", "        web: {url: 'https://x.example'}\n        job:",
                      "metrics.1.provider: a metric has one provider"),
    "two-judges": ("thresholdRange: {max: 500}",
                   "thresholdRange: {max: 1}\n      failureCondition: result > 1",
                   "conditions judge the value as well"),
    "no-bound": ("{max: 500}", "{}", WEB + "thresholdRange: it has no bound"),
    "a-job-with-a-value": ("- name: smoke", "- name: smoke\n      successCondition: result == 1",
                           "a Job has no value to judge"),
    "no-container": ("containers: [{name: c, image: smoke:v1}]", "containers: []",
                     "job.spec.template: the Job has no container"),
    "asleep": ("job: {spec: {", "job: {spec: {suspend: true, ", "a suspended Job never ends"),
    "no-address": ("http://prometheus:9090", "prometheus:9090", "it is not an address"),
    "a-file": ("http://prometheus:9090", "file:///etc/passwd", "it is not an address"),
    "a-variable-as-host": ("https://shop.example", "https://{{ target }}.example", "not an addr"),
    "credentials": ("https://shop.example", "https://me:pw@shop.example", "contains credentials"),
    "a-secret-in-clear": ("https://shop.example", "http://shop.example", "are sent by https"),
    "a-variable": ("{{ revision }}", "{{ secret }}", "query: there is no variable {{ secret }}"),
    "a-path": ("{$.p99}", "{$.p99", "jsonPath: "),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_METRICS)
def test_a_metric_that_could_not_decide_is_refused_with_its_line(name: str, tmp_path: Path) -> None:
    old, new, words = BAD_METRICS[name]
    good = METRICS.replace("{REF}", "{branch: main}")
    file = tmp_path / "gitkruise.yaml"
    file.write_text(good)
    promotion = load_config(file).units["shop/web"].spec.promotion
    assert promotion is not None
    assert [one.name for one in promotion.measured(3, 4)] == ["errors", "smoke"]
    assert promotion.measured(2, 4) == promotion.measured(4, 4) == ()
    assert old in good
    file.write_text(good.replace(old, new))
    with pytest.raises(UsageProblem, match=re.escape(words)) as caught:
        load_config(file)
    finding = caught.value.findings[0]
    assert (finding.code, finding.places[0].file) == ("GK7033", str(file))


def test_a_condition_that_cannot_be_read_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "gitkruise.yaml"
    good = METRICS.replace("{REF}", "{branch: main}")
    file.write_text(good.replace("result[0] < 0.05", "result[0] <"))
    with pytest.raises(UsageProblem, match="successCondition") as caught:
        load_config(file)
    assert [finding.code for finding in caught.value.findings] == ["GK7031"]


# Address, and the reason why an object of namespace shop may not name it: "" if it may.
REACH = [
    ("https://prometheus.example.com/prom", ""),
    ("http://prometheus.shop.svc:9090", ""),
    ("http://prometheus.shop.svc.cluster.local:9090", ""),
    ("https://prometheus.shop.svc", ""),
    ("http://prometheus.monitoring.svc:9090", "it is a Service of namespace monitoring"),
    ("https://prometheus.monitoring.svc.cluster.local", "it is a Service of namespace monitoring"),
    ("https://PROMETHEUS.Monitoring.SVC.", "it is a Service of namespace monitoring"),
    ("http://prometheus.example.com", "http is for Services"),
    ("http://prometheus", "a host of the cluster is written"),
    ("https://kubernetes", "a host of the cluster is written"),
    ("https://a.b.shop.svc", "a host of the cluster is written"),
    ("https://10-1-2-3.shop.pod.cluster.local", "a host of the cluster is written"),
    ("http://localhost:8080", "gitkruise's own machine"),
    ("https://localhost.", "gitkruise's own machine"),
    ("https://x.localhost", "gitkruise's own machine"),
    ("http://127.0.0.1:8080", "gitkruise's own machine"),
    ("http://[::1]:8080", "gitkruise's own machine"),
    ("https://127.1", "not by IP addresses"),
    ("https://2130706433", "not by IP addresses"),
    ("https://0x7f.1", "not by IP addresses"),
    ("https://0x7f000001", "not by IP addresses"),
    ("https://169.254.169.254/latest", "not by IP addresses"),
    ("https://[fd00::1]", "not by IP addresses"),
    ("https://[::ffff:127.0.0.1]", "not by IP addresses"),
]


@pytest.mark.parametrize(("address", "why"), REACH)
def test_addresses_that_an_object_may_name(address: str, why: str) -> None:
    assert unusable(address, secret=False) == ""
    found = out_of_reach(address, "shop", cross_namespace=False, local=False)
    assert why in found if why else not found
    freed = out_of_reach(address, "shop", cross_namespace=True, local=True)
    assert bool(freed) == (bool(why) and "namespace" not in why and "own machine" not in why)


@pytest.mark.parametrize(
    "address",
    ["", "x", "ftp://x.example", "http://", "http://:80", "https://x.example:0", "https://a b.c",
     "https://x.example#f", "https://u@x.example", "https://x.example\\@y.example",
     "https://x\n.example", "https://x%00.example", "https://é.example", "https://[::1", "//x"],
)  # fmt: skip
def test_what_is_no_address(address: str) -> None:
    assert unusable(address, secret=False)
