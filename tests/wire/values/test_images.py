"""The pull policy of an image follows the tag Kubernetes sees."""

from __future__ import annotations

import pytest

from gitkruise.wire.values.images import default_pull_policy, image_tag, repository, same_image

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


SAME = {
    "one text": ("side:1", "side:1", True),
    "the registry spelt out": ("busybox:1", "docker.io/library/busybox:1", True),
    "no folder of the hub is library": ("docker.io/busybox:1", "busybox:1", True),
    "the hub has two names": ("index.docker.io/a/b:1", "a/b:1", True),
    "no tag is latest": ("a/b", "docker.io/a/b:latest", True),
    "another tag": ("side:1", "side:2", False),
    "another registry": ("r.io/side:1", "side:1", False),
    "a digest": (f"side@sha256:{'a' * 64}", f"docker.io/library/side@sha256:{'a' * 64}", True),
    "another digest": (f"side@sha256:{'a' * 64}", f"side@sha256:{'b' * 64}", False),
    "a digest and a tag": (f"side@sha256:{'a' * 64}", "side", False),
    "no reference": ("", "docker.io/library/busybox:1", False),
}


@pytest.mark.parametrize(("one", "other", "same"), SAME.values(), ids=SAME)
def test_two_references_may_mean_the_same_image(one: str, other: str, same: bool) -> None:
    assert same_image(one, other) is same


def test_the_repository_is_spelt_out() -> None:
    assert repository("busybox:1") == "docker.io/library/busybox"
    assert repository(f"r.io/a/b:1@sha256:{'a' * 64}") == "r.io/a/b"
    assert repository("sha256:abc") == "docker.io/library/sha256"
    assert repository("") == ""
