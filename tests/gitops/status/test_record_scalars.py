"""Records keep text text, whatever it looks like to a reader of YAML."""

from __future__ import annotations

import pytest

from gitkruise.gitops.status.parser import read_yaml
from gitkruise.gitops.status.serializer import _yaml


@pytest.mark.parametrize(
    "text",
    [
        "502e492", "1e5", "0123456", "0912345", "1234567", "0o17", "0x1f", "0X1F", "1_000", "-.5",
        "60%", "yes", "n", "Y", "null", "~", "", "12345678901234567890",
    ],
)  # fmt: skip
def test_a_short_commit_or_a_subject_that_looks_like_another_value(text: str) -> None:
    assert read_yaml(_yaml({"commit": text})) == {"commit": text}
