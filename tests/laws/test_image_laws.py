"""The tag that a policy chooses follows from the set of tags, and is the last of those that fit."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from gitkruise.model.gitops.image_policy import (
    FilterTags,
    FollowedImage,
    ImagePolicy,
    OrderPolicy,
    SemverPolicy,
    choose_tag,
    tag_to_write,
)

VERSIONS = st.builds(
    "{}{}.{}.{}{}".format, st.sampled_from(["", "v"]), *[st.integers(0, 3)] * 3,
    st.sampled_from(["", "-rc.1", "-web"]),
)  # fmt: skip
BUILDS = st.builds("{}-{}".format, st.sampled_from(["main", "dev"]), st.integers(0, 30))
TAGS = st.lists(st.one_of(VERSIONS, BUILDS, st.integers(0, 99).map(str), st.just("latest")))
ORDERS = st.builds(OrderPolicy, order=st.sampled_from(["asc", "desc"]))
POLICIES = st.one_of(
    st.builds(ImagePolicy, alphabetical=ORDERS),
    st.builds(ImagePolicy, numerical=ORDERS),
    st.sampled_from(["*", "1.x", ">=1.0.0-0", "~2.1 || 0.x"]).map(
        lambda text: ImagePolicy(semver=SemverPolicy(range=text))
    ),
)
FILTERS = st.sampled_from([
    FilterTags(), FilterTags(pattern="^main-"), FilterTags(pattern="^main-([0-9]+)$", extract="$1"),
    FilterTags(pattern="^(.*)-web$", extract="$1"),
])  # fmt: skip
IMAGES = st.builds(
    FollowedImage,
    repository=st.just("registry.example.com/web"),
    policy=POLICIES,
    filter_tags=FILTERS,
)


@given(st.data(), TAGS, IMAGES)
def test_the_order_and_number_of_tags_do_not_matter(
    data: st.DataObject, tags: list[str], image: FollowedImage
) -> None:
    shuffled = data.draw(st.permutations([*tags, *tags[:2]]))
    assert choose_tag(shuffled, image) == choose_tag(tags, image)


@given(TAGS, IMAGES)
def test_the_tag_is_one_of_those_that_match_the_filter(
    tags: list[str], image: FollowedImage
) -> None:
    chosen = choose_tag(tags, image)
    assert bool(chosen.tag) != bool(chosen.why)
    if chosen.tag:
        assert chosen.tag in tags
        assert re.search(image.filter_tags.pattern, chosen.tag)


@given(TAGS, IMAGES)
def test_the_tag_wins_against_each_other_one(tags: list[str], image: FollowedImage) -> None:
    chosen = choose_tag(tags, image)
    for tag in tags if chosen.tag else ():
        assert choose_tag((tag, chosen.tag), image) == chosen
        assert choose_tag([one for one in tags if one != tag] + [chosen.tag], image) == chosen


@given(TAGS, IMAGES)
def test_a_tag_that_was_written_stays(tags: list[str], image: FollowedImage) -> None:
    chosen = choose_tag(tags, image)
    for tag in {*tags, chosen.tag} if chosen.tag else ():
        written = tag_to_write(tag, chosen.tag, image) or tag
        assert written == chosen.tag
        assert tag_to_write(written, chosen.tag, image) == ""
