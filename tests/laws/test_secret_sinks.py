"""Law of secrets: whatever a Secret holds, no word of it reaches git, a forge, a chat or a file.

More: HYPOTHESIS_PROFILE=night pytest tests/laws/test_secret_sinks.py
"""

from __future__ import annotations

import base64
import html
import json
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.git.repos import run_git
from tests.gitops.notify.harness import ForgeHarness
from tests.gitops.stage import Stage, web
from tests.laws.examples import one_in

ODD = st.sampled_from(
    ["", "`", "```\n", '"', "'", "\n", "<b>", "@all #1", "é", "\t", "  ", "|", "\\"]
)
VALUE = st.tuples(st.integers(10**8, 10**9), ODD, st.text("abc0\n", max_size=12), ODD).map(
    lambda parts: f"zq{parts[0]}{parts[1]}{parts[2]}{parts[3]}{parts[0]}qz"
)
SECRETS = st.dictionaries(st.sampled_from("abcdef"), VALUE, min_size=1, max_size=4)


def secret(data: dict[str, str], *, plain: bool) -> dict[str, Any]:
    obj = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}}
    if plain:
        return {**obj, "stringData": data}
    return {**obj, "data": {k: base64.b64encode(v.encode()).decode() for k, v in data.items()}}


def spellings(value: str) -> Iterator[bytes]:
    """How a value could be written, each of its lines among them."""
    for text in (value, *(line for line in value.splitlines() if len(line) > 8)):
        yield text.encode()
        yield json.dumps(text)[1:-1].encode()
        yield repr(text)[1:-1].encode()
        yield html.escape(text).encode()
        yield base64.b64encode(text.encode())


def published_by(harness: ForgeHarness, folder: Path) -> bytes:
    """Everything that left the process, and what waits to."""
    log = run_git(harness.stage.origin.bare, "log", "-p", "--all", "--notes", "--", "units")
    seen = repr((harness.model.comments, harness.model.statuses, log)).encode()
    raw = json.dumps(harness.model.comments).encode() + log.encode("utf-8", "surrogateescape")
    kept = b"".join(file.read_bytes() for file in folder.glob("outbox.sqlite*"))
    return seen + raw + kept + b"".join(harness.chat.received)


@settings(max_examples=one_in(25))
@example(before={"a": "zq1`1qz"}, after={"a": "zq2\n\n2qz"}, plain=True)
@given(before=SECRETS, after=SECRETS, plain=st.booleans())
def test_no_value_leaves_the_process(
    before: dict[str, str], after: dict[str, str], *, plain: bool
) -> None:
    with tempfile.TemporaryDirectory() as name, closing(Stage(Path(name))) as stage:
        harness = ForgeHarness(stage, Path(name))

        async def script() -> None:
            async with harness.open():
                await harness.push(secret(before, plain=plain), web(), message="first")
                await stage.rest()
                harness.branch(1, secret(after, plain=plain), web("app:v2"))
                await stage.rest(5)
                await harness.merge(1)
                await stage.rest()
                broken = {**secret(after, plain=plain), "type": 7}
                await harness.push(broken, web("app:v2"), message="refused")
                await stage.rest()

        stage.play(script)
        published = published_by(harness, Path(name))
    assert b"Secret shop/db" in published
    values = [*before.values(), *after.values()]
    assert not [word for value in values for word in spellings(value) if word in published]
