"""Unknown fields that are fields of another object nearby, by their name and value."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from gitkruise.git.parsing.documents import parse_file
from gitkruise.gitops.build.validate import check_documents
from gitkruise.kube.system.package_data import load_catalog

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: app}]
"""
CLONESET = DEPLOYMENT.replace("apps/v1", "apps.kruise.io/v1beta1").replace("Deployment", "CloneSet")
POD_SPEC, SPEC, TOP = 6, 2, 0
ROWS = {
    "below, of another version": (
        CLONESET, SPEC, "updateStrategy: {maxUnavailable: 50%}", "spec.updateStrategy.rollingUpdate"
    ),
    "below, not at the top": (DEPLOYMENT, TOP, "replicas: 3", "spec"),
    "below, of metadata": (DEPLOYMENT, TOP, "labels: {a: b}", "metadata"),
    "below, in the only item": (
        DEPLOYMENT, POD_SPEC, "imagePullPolicy: Always", "spec.template.spec.containers[0]"
    ),
    "above": (DEPLOYMENT, POD_SPEC, "replicas: 3", "spec"),
    "above, indented too far": (DEPLOYMENT, POD_SPEC, "strategy: {type: Recreate}", "spec"),
    "beside": (DEPLOYMENT, SPEC, "terminationGracePeriodSeconds: 5", "spec.template.spec"),
    "not with this value": (DEPLOYMENT, POD_SPEC, "replicas: [3]", ""),
    "not where it is already": (DEPLOYMENT, POD_SPEC, "selector: {}", ""),
    "not where several are as near": (DEPLOYMENT, SPEC, "finalizer: x", ""),
}  # fmt: skip


@pytest.mark.parametrize(("text", "deep", "field", "place"), ROWS.values(), ids=ROWS)
def test_the_place_of_a_field(text: str, deep: int, field: str, place: str) -> None:
    documents = parse_file((text + indent(dedent(field), " " * deep) + "\n").encode(), "a.yaml")
    _, (finding,) = check_documents(documents.documents, load_catalog(), namespace="shop")
    assert finding.code == "GK1203"
    label = finding.places[0].label
    next_ = dict(finding.notes)["next"]
    if place:
        assert (label, next_) == (
            f"is it a field of {place}?", f"move it to {place}, or take it out"
        )  # fmt: skip
    else:
        assert "move it" not in next_


MEANT = {
    "a number": ('replicas: "3"', "write it without quotes: 3"),
    "a boolean": ('paused: "true"', "write it without quotes: true"),
    "no number": ('replicas: "three"', ""),
}


@pytest.mark.parametrize(("field", "step"), MEANT.values(), ids=MEANT)
def test_a_text_where_another_type_is_wanted(field: str, step: str) -> None:
    assert advice(DEPLOYMENT + f"  {field}\n") == step


SIZES = {
    "1GB": "write 1Gi (powers of 1024) or 1G (of 1000)",
    "512mb": "write 512Mi (powers of 1024) or 512M (of 1000)",
    "64KiB": "write 64Ki (powers of 1024) or 64k (of 1000)",
    "much": "",
}


@pytest.mark.parametrize(("size", "step"), SIZES.items(), ids=SIZES)
def test_an_amount_of_bytes_as_people_write_it(size: str, step: str) -> None:
    limits = f"image: app, resources: {{limits: {{memory: {size}}}}}"
    assert advice(DEPLOYMENT.replace("image: app", limits)) == step


def advice(text: str) -> str:
    """Return the next step of the only finding, a wrong type."""
    documents = parse_file(text.encode(), "a.yaml").documents
    _, (finding,) = check_documents(documents, load_catalog(), namespace="shop")
    assert finding.code == "GK1204"
    return dict(finding.notes).get("next", "")
