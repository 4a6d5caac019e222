"""Law of findings: no secret of a manifest is in one, wherever it is and however it is written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from gitkruise.cli.console.findings import findings_list, findings_text, github_annotations, sarif
from gitkruise.cli.console.style import Style
from gitkruise.errors import Finding, InvalidManifests
from gitkruise.git.manifests.substitute import Values, substitute
from gitkruise.git.parsing.documents import parse_file
from gitkruise.gitops.build.validate import check_documents
from gitkruise.gitops.status.serializer import commit_body, record_files
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import State
from tests.fuzz.canaries import ENCODINGS, PLACES, SPELLINGS, Canary, canaries

AT = datetime(2026, 11, 21, 10, tzinfo=UTC)
STYLES = [Style(colour, unicode, 80) for colour in (False, True) for unicode in (False, True)]


def outlets(findings: Sequence[Finding], record: UnitRecord) -> str:
    """Findings as each outlet has them, in one text."""
    texts = [findings_text(findings, style) for style in STYLES]
    texts += [json.dumps(findings_list(findings)), json.dumps(sarif(findings, "1"))]
    texts += [github_annotations(findings), repr(findings)]
    if findings:
        texts.append(str(InvalidManifests(*findings)))
    texts += [data.decode() for data in record_files(record).values()]
    return "\n".join([*texts, commit_body([record])])


def findings_of(canary: Canary) -> list[Finding]:
    """All that reading, substituting and judging a file finds."""
    parsed = parse_file(canary.text.encode(), canary.file)
    findings = list(parsed.findings)
    documents = [d for d in parsed.documents if isinstance(d.obj, dict)]
    for document in documents:
        findings += substitute(document, Values(known={}))[1]
    typed = [d for d in documents if isinstance(d.obj.get("kind"), str)]
    findings += check_documents(typed, load_catalog(), namespace="shop")[1]
    return findings


def record_of(findings: Sequence[Finding]) -> UnitRecord:
    return UnitRecord(
        unit="shop/web", cluster="prod", source="main", state=State.REJECTED,
        message=findings[0].message if findings else "", since=AT, findings=tuple(findings),
    )  # fmt: skip


def test_the_law_covers_what_it_says() -> None:
    assert (len(PLACES), len(ENCODINGS), len(SPELLINGS)) == (13, 9, 42)


@pytest.mark.parametrize("place", PLACES)
def test_no_finding_quotes_a_secret(place: str, fuzz_seed: int) -> None:
    found = 0
    hits = []
    for canary in canaries(fuzz_seed, place):
        findings = findings_of(canary)
        found += bool(findings)
        output = outlets(findings, record_of(findings))
        if any(needle in output for needle in canary.needles):
            hits.append(canary.name)
    assert hits == []
    assert found > 100, "most spellings are mistakes, so that something is said of them"
