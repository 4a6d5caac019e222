"""Images of a unit that follow a registry: a policy, and the tag that it chooses.

Names and rules are those of Flux's ImageRepository and ImagePolicy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from gitkruise.model.gitops.analysis import SecretReference
from gitkruise.model.gitops.strict_struct import Strict
from gitkruise.wire.schema.patterns import ExtractingPattern, PatternTooCostly

Order: TypeAlias = Literal["asc", "desc"]
Write: TypeAlias = Literal["pullRequest", "commit", "none"]
_TAG: Final = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_SHOWN: Final = 80  # characters of a value in a reason


class SemverPolicy(Strict, frozen=True):
    range: str


class OrderPolicy(Strict, frozen=True):
    """`asc` chooses the last tag, `desc` the first."""

    order: Order = "asc"


class ImagePolicy(Strict, frozen=True):
    """Exactly one of the three is set."""

    semver: SemverPolicy | None = None
    alphabetical: OrderPolicy | None = None
    numerical: OrderPolicy | None = None

    def __str__(self) -> str:
        if self.semver is not None:
            return f"semver {self.semver.range}"
        if self.numerical is not None:
            return f"numerical {self.numerical.order}"
        return f"alphabetical {(self.alphabetical or OrderPolicy()).order}"


class FilterTags(Strict, frozen=True):
    """Tags that match `pattern` (RE2) count; the policy compares what `extract` makes of them."""

    pattern: str = ""
    extract: str = ""


class FollowedImage(Strict, frozen=True):
    """A repository of a registry whose newest tag, by the policy, is written to git."""

    repository: str
    policy: ImagePolicy
    filter_tags: FilterTags = FilterTags()
    secret_ref: SecretReference | None = None
    interval: str = "5m"
    write: Write = "pullRequest"


@dataclass(frozen=True, slots=True)
class ChosenTag:
    """The tag that a policy chooses, or "" and the reason why there is none."""

    tag: str
    why: str = ""


def choose_tag(tags: Iterable[str], image: FollowedImage) -> ChosenTag:
    """Return the tag that the policy of an image chooses. The order of `tags` does not matter.

    Of tags that the policy cannot tell apart the last by name is chosen. Raises UsageProblem
    GK7022 and BadPattern for a policy that was not checked.
    """
    try:
        values = _values({tag for tag in tags if _TAG.fullmatch(tag)}, image.filter_tags)
    except PatternTooCostly as error:
        return ChosenTag("", f"the pattern cannot be matched with all tags: {error}")
    if not values:
        matching = f" that matches {image.filter_tags.pattern}" if image.filter_tags.pattern else ""
        return ChosenTag("", f"there is no tag{matching}")
    policy = image.policy
    if policy.semver is not None:
        return _semver(values, policy.semver.range)
    if policy.numerical is not None:
        wrong = min((v for v in values if not _NUMBER.fullmatch(v)), default=None)
        if wrong is not None:
            tag = values[wrong]
            what = f"tag {tag}" if wrong == tag else f"{wrong[:_SHOWN]!r}, extracted from {tag},"
            return ChosenTag("", f"{what} is not a number")
        return ChosenTag(_last(values, policy.numerical, Decimal))
    return ChosenTag(_last(values, policy.alphabetical or OrderPolicy(), str))


def _values(tags: Collection[str], chosen: FilterTags) -> dict[str, str]:
    """Return tags by the values that are compared; of several for a value the last by name."""
    if not chosen.pattern:
        return {tag: tag for tag in tags}
    pattern = ExtractingPattern(chosen.pattern)
    pattern.check_size(sum(map(len, tags)))
    found: dict[str, str] = {}
    for tag in sorted(tags):
        if not chosen.extract:
            value = tag if pattern.search(tag) else None
        else:
            value = pattern.expand(tag, chosen.extract)
        if value is not None:
            found[value] = tag
    return found


def _semver(values: dict[str, str], text: str) -> ChosenTag:
    from gitkruise.wire.values.semver_range import Range  # noqa: PLC0415  seldom needed

    best = Range(text).best(values)
    if best is None:
        return ChosenTag("", f"no tag is a version in {text}")
    return ChosenTag(values[best])


def _last(values: dict[str, str], policy: OrderPolicy, key: Callable[[str], Decimal | str]) -> str:
    """Return the tag whose value comes last in the order of the policy."""
    ends = max if policy.order == "asc" else min
    end = ends(map(key, values))
    return max(tag for value, tag in values.items() if key(value) == end)


def tag_to_write(current: str, chosen: str, image: FollowedImage) -> str:
    """Return the tag to write instead of the `current` one, for a `chosen` one of the registry.

    "" keeps the current one: it is that, or it satisfies the policy and comes after that, as a tag
    does that the registry no longer lists.
    """
    return "" if choose_tag((current, chosen), image).tag == current else chosen
