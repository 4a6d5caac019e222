"""The pull policy of an image follows the tag Kubernetes sees."""

from __future__ import annotations

import pytest

from gitkruise.wire.images import default_pull_policy, image_tag

SHA = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("nginx", "latest"),
        ("nginx:latest", "latest"),
        ("nginx:1.25", "1.25"),
        ("r/a:v1", "v1"),
        ("localhost:5000/a", "latest"),
        ("localhost/a:b", "b"),
        ("reg.io:5000/a/b:1.2", "1.2"),
        ("[::1]:5000/a", "latest"),
        ("Registry/a:1", "1"),
        (f"a@{SHA}", ""),
        (f"a:latest@{SHA}", "latest"),
        (f"a:1@{SHA}", "1"),
        ("", ""),
        ("Nginx", ""),
        ("a/B", ""),
        ("a b", ""),
        ("a@sha256:0123", ""),
        ("a@sha256:" + "0" * 40, ""),
        ("0123456789abcdef" * 4, ""),
        ("a" * 300, ""),
        ("a:" + "t" * 129, ""),
    ],
)
def test_tags(image: str, tag: str) -> None:
    assert image_tag(image) == tag
    assert default_pull_policy(image) == ("Always" if tag == "latest" else "IfNotPresent")
