"""A running controller says when its configuration file is not what it runs any more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitkruise.cli.commands.cluster.config_news import ConfigFileWatch
from gitkruise.errors import Finding, Severity
from gitkruise.gitops.config.loader import load_config

SOURCE = """\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {name: src, namespace: shop}
spec: {url: https://example.com/shop.git}
"""


def unit(name: str, path: str) -> str:
    return f"""---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {{name: {name}, namespace: shop}}
spec: {{sourceRef: {{name: src}}, path: {path}}}
"""


FIRST = SOURCE + unit("one", "a")
# the text of the file later: what is said of it
ROWS: dict[str, tuple[str, str]] = {
    "a unit more": (FIRST + unit("two", "b"), "Unit shop/two (new)"),
    "a unit less": (SOURCE, "Unit shop/one (gone)"),
    "another path": (SOURCE + unit("one", "b"), "Unit shop/one (changed)"),
    "another source": (FIRST.replace("shop.git", "x.git"), "GitSource shop/src (changed)"),
    "not YAML": ("kind: [", "it cannot be read now: GK1101"),
    "a comment": (f"# later\n{FIRST}", ""),
}


def findings_after(file: Path, *texts: str | None) -> list[Finding | None]:
    """What is said while the file has one text after the other; None removes it."""
    news, findings = ConfigFileWatch(load_config(file)), list[Finding | None]()
    for number, text in enumerate(texts, 1):
        if text is None:
            file.unlink()
        else:
            file.write_text(text)
            os.utime(file, (number, number))
        findings += news.look()
    return findings


@pytest.mark.parametrize("row", ROWS)
def test_a_change_of_the_file_is_named_once(tmp_path: Path, row: str) -> None:
    text, message = ROWS[row]
    file = tmp_path / "gitkruise.yaml"
    file.write_text(FIRST)
    found = findings_after(file, text, text)
    if not message:
        assert found == []
        return
    (finding,) = found
    assert finding is not None
    assert (finding.code, finding.severity) == ("GK7016", Severity.WARNING)
    assert message in finding.message
    assert "as the file said when this process started" in dict(finding.notes)["unchanged"]


def test_a_file_that_is_gone_and_comes_back_is_news_twice(tmp_path: Path) -> None:
    file = tmp_path / "gitkruise.yaml"
    file.write_text(FIRST)
    gone, back = findings_after(file, None, FIRST)
    assert gone is not None
    assert "GK7001" in gone.message
    assert back is None


def test_a_new_file_of_a_directory_counts_as_well(tmp_path: Path) -> None:
    (tmp_path / "source.yaml").write_text(FIRST)
    news = ConfigFileWatch(load_config(tmp_path))
    (tmp_path / "more.yaml").write_text(unit("two", "b"))
    (finding,) = news.look()
    assert finding is not None
    assert "Unit shop/two (new)" in finding.message
