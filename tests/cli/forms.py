"""One problem in every form that commands know, for goldens."""

from __future__ import annotations

import json
from collections.abc import Sequence

from gitkruise.cli.console.findings import finding_text, findings_list, github_annotations, sarif
from gitkruise.cli.console.style import Style, encoded
from gitkruise.errors import Finding

_LOOKS = (
    ("80 columns", Style(colour=False, unicode=True, width=80)),
    ("120 columns", Style(colour=False, unicode=True, width=120)),
    ("colour", Style(colour=True, unicode=True, width=80)),
)


def all_forms(findings: Sequence[Finding]) -> str:
    """Text at two widths and in colour, JSON, GitHub's annotations, SARIF."""
    parts = [
        f"## {title}\n"
        + "\n".join(encoded(line) for f in findings for line in finding_text(f, style).split("\n"))
        for title, style in _LOOKS
    ]
    documents = {"json": findings_list(findings), "sarif": sarif(findings, "X")}
    parts += [
        f"## {title}\n{json.dumps(value, ensure_ascii=False, indent=1)}"
        for title, value in documents.items()
    ]
    parts.append(f"## github\n{github_annotations(findings)}")
    return "\n\n".join(parts) + "\n"
