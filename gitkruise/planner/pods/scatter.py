"""Scatter: spread pods that carry certain labels evenly over the update order."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from gitkruise.model.workloads.pod import PodFacts

Term = tuple[str, str]  # label key and value


def scatter(
    waiting: Sequence[PodFacts], everyone: Sequence[PodFacts], terms: Sequence[Term]
) -> list[PodFacts]:
    """`waiting` with the pods of each term spread out; densities are those of `everyone`.

    Several terms apply one after the other, the most frequent first. Source: CloneSet's
    scatterStrategy.
    """
    ordered = list(waiting)
    for term in _by_frequency(ordered, terms):
        ordered = _scatter_one(ordered, everyone, term)
    return ordered


def expanded(terms: Sequence[Term], everyone: Sequence[PodFacts]) -> tuple[Term, ...]:
    """`terms` with a value `*` replaced by every value that pods of `everyone` have for the key,
    in their order, and each term once. Source: SidecarSet's scatterStrategy; CloneSet has no `*`.
    """
    found: dict[Term, None] = {}
    for key, value in terms:
        if value != "*":
            found[key, value] = None
            continue
        found.update({(key, p.labels[key]): None for p in everyone if key in p.labels})
    return tuple(found)


def _carries(pod: PodFacts, term: Term) -> bool:
    return pod.labels.get(term[0], "") == term[1]


def _by_frequency(waiting: Sequence[PodFacts], terms: Sequence[Term]) -> list[Term]:
    if len(terms) <= 1:
        return list(terms)
    counts = {term: sum(_carries(pod, term) for pod in waiting) for term in terms}
    return sorted((t for t in counts if counts[t]), key=lambda term: -counts[term])


def _scatter_one(
    waiting: list[PodFacts], everyone: Sequence[PodFacts], term: Term
) -> list[PodFacts]:
    match = [pod for pod in waiting if _carries(pod, term)]
    rest = [pod for pod in waiting if not _carries(pod, term)]
    if len(match) <= 1 or len(rest) <= 1:
        return waiting
    last = match.pop()
    matching = sum(_carries(pod, term) for pod in everyone) - 1
    others = len(everyone) - matching - 1
    groups, per_match, per_rest, lead = _groups(len(match), len(rest), matching, others)
    out = rest[:lead]
    taken_m, taken_r = 0, lead
    for _ in range(groups):
        out += match[taken_m : taken_m + per_match] + rest[taken_r : taken_r + per_rest]
        taken_m, taken_r = taken_m + per_match, taken_r + per_rest
    return [*out, *match[taken_m:], *rest[taken_r:], last]


def _groups(match: int, rest: int, all_match: int, all_rest: int) -> tuple[int, int, int, int]:
    """(groups, matching pods a group, other pods a group, other pods in front)."""
    if _single(all_rest / all_match) >= _single(rest / match):
        return (*_even(match, rest), 0)
    _, per_match, per_rest = _even(all_match, all_rest)
    groups = min(match // per_match, rest // per_rest)
    return groups, per_match, per_rest, rest - groups * per_rest


def _even(match: int, rest: int) -> tuple[int, int, int]:
    groups = min(match, rest)
    return groups, _half_away(match / groups), _half_away(rest / groups)


def _half_away(value: float) -> int:
    return math.floor(value + 0.5)


def _single(value: float) -> float:
    """Rounded to single precision, in which the reference compares."""
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded
