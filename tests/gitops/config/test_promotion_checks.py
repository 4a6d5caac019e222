"""A promotion that could never make a step is refused when the configuration is read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gitkruise.errors import UsageProblem
from gitkruise.gitops.config.loader import load_config
from gitkruise.model.gitops.promotion import PromotionStep

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
    with pytest.raises(UsageProblem, match=re.escape(words)) as told:
        load_config(file)
    (finding,) = told.value.findings
    assert (finding.code, finding.places[0].file) == ("GK7033", str(file))


def test_a_bare_step_is_refused_with_both_spellings(tmp_path: Path) -> None:
    file = tmp_path / "gitkruise.yaml"
    file.write_text(SOURCE.replace("{REF}", "{branch: main}").replace("{partition: 50%}", "30%"))
    with pytest.raises(UsageProblem) as told:
        load_config(file)
    (finding,) = told.value.findings
    said = " ".join(text for _, text in finding.notes)
    assert ("{updated: 30%}" in said, "{partition: 30%}" in said) == (True, True)


@pytest.mark.parametrize(
    ("updated", "replicas", "partition"),
    [("70%", 40, "30%"), (28, 40, "12"), ("100%", 40, "0"), (40, 40, "0"), (0, 40, "100%"),
     ("0%", 40, "100%"), (50, 40, "0")],
)  # fmt: skip
def test_updated_pods_are_the_partition_of_the_others(
    updated: int | str, replicas: int, partition: str
) -> None:
    assert PromotionStep(updated=updated).asks(replicas).text == partition
