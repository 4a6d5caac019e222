"""gitkruise stores, hashes and rejects recorded manifests as OpenKruise did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gitkruise.wire.kruise.hashes import revision_hash, revision_name
from gitkruise.wire.kruise.revision_data import claims_hash, revision_data
from gitkruise.wire.primitives.gojson import compact
from tests.admission.writes import admitted, fields, refusal, stored

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "oracle" / "revisions.jsonl")
    .read_text()
    .strip()
    .split("\n")
]
ACCEPTED = [row for row in ROWS if "rejected" not in row]
REJECTED = [row for row in ROWS if "rejected" in row]
HASH = "kruise.io/cloneset-volumeclaimtemplate-hash"


@pytest.mark.parametrize("row", ACCEPTED, ids=lambda row: row["name"])
def test_stored_spec_data_and_revision_agree(row: dict[str, Any]) -> None:
    read_back = stored(row["manifest"])
    assert read_back["spec"] == row["stored"]
    data = revision_data(read_back["spec"]["template"])
    assert data == compact(row["data"])
    assert revision_hash(data, 0) == row["hash"]
    assert revision_name(row["name"], row["hash"]) == row["revision"]
    assert claims_hash(read_back["spec"].get("volumeClaimTemplates")) == row["annotations"][HASH]


@pytest.mark.parametrize("row", REJECTED, ids=lambda row: row["name"])
def test_the_same_fields_are_refused(row: dict[str, Any]) -> None:
    error = refusal(row["manifest"])
    assert error
    assert error.status == row["rejected"]
    assert fields(error) == set(row["fields"])


@pytest.mark.parametrize("row", ACCEPTED[::10], ids=lambda row: row["name"])
def test_the_same_template_through_v1beta1_has_the_same_revision(row: dict[str, Any]) -> None:
    beta = {**row["manifest"], "apiVersion": "apps.kruise.io/v1beta1"}
    spec = {k: v for k, v in beta["spec"].items() if k not in ("updateStrategy", "scaleStrategy")}
    template = admitted({**beta, "spec": spec})["spec"]["template"]
    assert revision_data(template) == compact(row["data"])
