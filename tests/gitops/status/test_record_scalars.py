"""Records keep text text, whatever it looks like to a reader of YAML."""

from __future__ import annotations

import pytest

from gitkruise.gitops.status.parser import read_yaml
from gitkruise.gitops.status.serializer import _yaml


@pytest.mark.parametrize(
    "text",
    ["502e492", "1e5", "0123456", "1234567", "0o17", "0x1f", "1_000", "60%", "yes", "null", "~"],
)
def test_a_short_commit_that_looks_like_a_number(text: str) -> None:
    assert read_yaml(_yaml({"commit": text})) == {"commit": text}
