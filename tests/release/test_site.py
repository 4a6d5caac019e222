"""The documentation site: every page is there and in the menu, links hold, no host is asked."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gitkruise import __version__
from release.site import CONFIG, PAGES, ROOT, Page, list_versions, main, pages

CONCEPTS = Page(name="concepts.md", source="docs/concepts.md")
BEHAVIOUR = Page(name="behaviour/kubelet.md", source="docs/behaviour/kubelet.md")
START = Page(name="index.md", source=PAGES["index.md"])


@pytest.mark.parametrize(
    ("page", "link", "place"),
    [
        (CONCEPTS, "codes.md", "codes.md"),
        (CONCEPTS, "dashboard.png", "dashboard.png"),
        (CONCEPTS, "../README.md", "index.md"),
        (CONCEPTS, "../deploy/agent/rbac.yaml", "source/deploy/agent/rbac.yaml"),
        (CONCEPTS, "../examples-repo/README.md", "examples-repo.md"),
        (BEHAVIOUR, "../codes.md", "codes.md"),
        (BEHAVIOUR, "../../CONTRIBUTING.md", "contributing.md"),
        (START, "docs/demo.md", "demo.md"),
        (START, "examples-repo/gitkruise.yaml", "source/examples-repo/gitkruise.yaml"),
        (START, "docs/behaviour/README.md", "behaviour/README.md"),
    ],
)
def test_where_a_link_leads(page: Page, link: str, place: str) -> None:
    assert page.place(link) == place


def test_the_menu_has_each_page_once() -> None:
    def named(part: Any) -> Iterator[str]:
        if isinstance(part, str):
            yield part
        else:
            for inner in part.values() if isinstance(part, dict) else part:
                yield from named(inner)

    menu = sorted(named(tomllib.loads(CONFIG.read_text())["project"]["nav"]))
    assert menu == sorted(page.name for page in pages())


def test_versions_are_listed_from_the_newest(tmp_path: Path) -> None:
    for version in ("0.2.0", "0.10.0", "0.10.0-rc.1", "1.0.0"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "index.html").touch()
    (tmp_path / "other").mkdir()
    list_versions(tmp_path)
    listed = [row["version"] for row in json.loads((tmp_path / "versions.json").read_text())]
    assert listed == ["1.0.0", "0.10.0", "0.10.0-rc.1", "0.2.0"]
    assert 'url=1.0.0/index.html"' in (tmp_path / "index.html").read_text()


@pytest.mark.slow
def test_the_site(tmp_path: Path) -> None:
    """zensical itself ends with an error for links that lead nowhere."""
    done = CliRunner().invoke(main, ["--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    site = tmp_path / __version__
    for page in pages():
        written = site / page.name.replace("README.md", "index.md").replace(".md", ".html")
        text = written.read_text()
        assert "<h1" in text
        assert re.findall(r'<(?:script|link|img)[^>]* (?:src|href)="?https?://[^">]+', text) == []
    assert (site / "source/deploy/agent/rbac.yaml").read_text() == (
        ROOT / "deploy/agent/rbac.yaml"
    ).read_text()
    assert "ContainerRecreateRequest" in (site / "search.json").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        __version__, "index.html", "versions.json",
    ]  # fmt: skip
