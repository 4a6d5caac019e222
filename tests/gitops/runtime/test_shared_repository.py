"""Two Sinks of one cluster for one repository of a forge: none overwrites the other."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.git.repos import run_git
from tests.gitops.forges.forges import REPO, TOKEN, ModelForge, served
from tests.gitops.programs import SOURCE, unit
from tests.gitops.source.test_repositories import put_secret
from tests.gitops.stage import config_map, documents
from tests.observer.program import Program
from tests.observer.pulls import CHECK

SINK: Final = """---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {{{{name: {name}, namespace: shop}}}}
spec:
  forge: {{{{type: github, url: "{forge}", repo: {repo}, secretRef: {{{{name: forge}}}}}}}}
"""


@pytest.mark.slow
def test_each_sink_has_a_section_and_a_check(tmp_path: Path) -> None:
    """Also for a pull request that was planned before the second one was there."""
    program, forge = Program(tmp_path, ""), ModelForge("github")
    origin, stage = program.origin, program.stage
    files = {f"{n}/a.yaml": documents(config_map(n, x="1")) for n in ("one", "two")}
    forge.commits.add(origin.commit(dict(files), "first"))
    run_git(origin.work, "checkout", "--quiet", "--detach", "main")
    changed = {f"{n}/a.yaml": documents(config_map(n, x="2")) for n in ("one", "two")}
    head = origin.commit(dict(changed), "both", branch="topic")
    run_git(origin.bare, "update-ref", "refs/pull/7/head", head)
    run_git(origin.work, "checkout", "--quiet", "main")
    forge.open_pull(7, head, branch="topic")

    async def script() -> None:
        async with served(forge) as url:
            put_secret(stage, "forge", token=TOKEN)
            a, b = (SINK.format(name=n, forge=url, repo=REPO) for n in "ab")
            one, two = unit("one", ", sinkRef: {{name: a}}"), unit("two", ", sinkRef: {{name: b}}")
            program.configure(SOURCE + a + one)
            async with program.up():
                await stage.rest(90)
            assert "→ `main` on `test` " in forge.comments[7][0]["body"]
            program.configure(SOURCE + a + b + one + two)
            async with program.up():
                await stage.rest(90)

    try:
        program.play(script, inside=True)
    finally:
        stage.close()
    (comment,) = forge.comments[7]
    body = comment["body"]
    assert "→ `main` on `test` " not in body, "the section of both"
    for name in "ab":
        assert f"→ `main` on `test.sink-shop.{name}`" in body
        assert forge.last(head, f"{CHECK}/sink-shop.{name}")[0] == "success"
