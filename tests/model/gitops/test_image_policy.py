"""A policy chooses the tag that Flux's ImagePolicy chooses."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gitkruise.model.gitops.image_policy import ChosenTag, FollowedImage, choose_tag, tag_to_write

TIMES = ("main-0a1b2c3-1606234201", "main-9f8e7d6-1606364286", "dev-1a2b3c4-1999999999")


def image(policy: dict[str, Any], pattern: str = "", extract: str = "") -> FollowedImage:
    return msgspec.convert(
        {
            "repository": "registry.example.com/shop/web",
            "policy": policy,
            "filterTags": {"pattern": pattern, "extract": extract},
        },
        FollowedImage,
    )


def semver(text: str) -> dict[str, Any]:
    return {"semver": {"range": text}}


LAST_NUMBER = {"numerical": {"order": "asc"}}
FIRST_NUMBER = {"numerical": {"order": "desc"}}
LAST_NAME: dict[str, Any] = {"alphabetical": {}}
FIRST_NAME = {"alphabetical": {"order": "desc"}}

# Tags, image, and the tag that is chosen.
CHOICES = [
    (("1.0.0", "v1.2.0", "1.1.9", "2.0.0"), image(semver("1.x")), "v1.2.0"),
    (("1.0.0", "1.1.0-rc.1"), image(semver(">=1.0.0")), "1.0.0"),
    (("1.0.0", "1.1.0-rc.1"), image(semver(">=1.0.0-0")), "1.1.0-rc.1"),
    (("latest", "1", "1.2", "1.2.3"), image(semver("*")), "1.2.3"),
    (("1.0.0-web", "1.1.0-web", "1.2.0"), image(semver("*"), "^(.*)-web$", "$1"), "1.1.0-web"),
    (("a", "z", "m"), image(LAST_NAME), "z"),
    (("a", "z", "m"), image(FIRST_NAME), "a"),
    (("10", "9", "8.5", "-88"), image(LAST_NUMBER), "10"),
    (("10", "9", "8.5", "-88"), image(FIRST_NUMBER), "8.5"),
    (("1e3", "999"), image(LAST_NUMBER), "1e3"),
    # Flux compares numbers of 64 bits: it cannot tell these apart.
    (("20260921141320001", "20260921141320002"), image(LAST_NUMBER), "20260921141320002"),
    (TIMES, image(LAST_NUMBER, "^main-[a-f0-9]+-(?P<ts>[0-9]+)$", "$ts"), TIMES[1]),
    (TIMES, image(FIRST_NUMBER, "^main-[a-f0-9]+-(?P<ts>[0-9]+)$", "${ts}"), TIMES[0]),
    (TIMES, image(LAST_NUMBER, "main-([a-f0-9]+)-([0-9]+)", "$2"), TIMES[1]),
    (("rel1", "ver1", "ver3", "ver2"), image(LAST_NAME, "^ver"), "ver3"),
    (("a1", "b1"), image(LAST_NUMBER, "[ab]([0-9])", "$1"), "b1"),
    (("x1", "no tag", "../up", ""), image(LAST_NAME), "x1"),
    # Go's templates: a group that is unknown or took no part is empty, and `$$` is a `$`.
    (("a", "ab"), image(LAST_NAME, "a(b)?", "$1"), "ab"),
    (("a", "b"), image(LAST_NAME, ".", "$nothing$$${9}"), "b"),
]


@pytest.mark.parametrize(("tags", "followed", "tag"), CHOICES)
def test_a_policy_chooses_a_tag(tags: tuple[str, ...], followed: FollowedImage, tag: str) -> None:
    assert choose_tag(tags, followed) == ChosenTag(tag)


REASONS = [
    ((), image(LAST_NAME), "there is no tag"),
    (("dev-1",), image(LAST_NUMBER, "^main-"), "there is no tag that matches ^main-"),
    (("2.0.0", "latest"), image(semver("1.x")), "no tag is a version in 1.x"),
    (("0", "1a", "b"), image(LAST_NUMBER), "tag 1a is not a number"),
    (
        ("v1-a",), image(LAST_NUMBER, "v1-(.*)", "$1"),
        "'a', extracted from v1-a, is not a number",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("tags", "followed", "why"), REASONS)
def test_without_a_tag_the_reason_is_known(
    tags: tuple[str, ...], followed: FollowedImage, why: str
) -> None:
    assert choose_tag(tags, followed) == ChosenTag("", why)


def test_a_costly_pattern_is_not_matched_with_many_tags() -> None:
    costly = image(LAST_NAME, "[a-z]{1,900}[b-y]{1,900}")
    tags = [f"{number:05}{'a' * 100}" for number in range(2000)]
    chosen = choose_tag(tags, costly)
    assert chosen.tag == ""
    assert "the pattern cannot be matched with all tags" in chosen.why


# The tag in git, the tag that was chosen, image, and what is written.
WRITTEN = [
    ("1.0.0", "1.1.0", image(semver("1.x")), "1.1.0"),
    ("1.1.0", "1.1.0", image(semver("1.x")), ""),
    ("1.2.0", "1.1.0", image(semver("1.x")), ""),
    ("2.0.0", "1.1.0", image(semver("1.x")), "1.1.0"),
    ("latest", "12", image(LAST_NUMBER), "12"),
    ("8", "9", image(FIRST_NUMBER), ""),
]


@pytest.mark.parametrize(("current", "chosen", "followed", "tag"), WRITTEN)
def test_a_tag_in_git_that_comes_after_the_chosen_one_stays(
    current: str, chosen: str, followed: FollowedImage, tag: str
) -> None:
    assert tag_to_write(current, chosen, followed) == tag
