"""Overlap of label selectors: whether two of them can match one object."""

from __future__ import annotations

from collections.abc import Sequence

from gitkruise.wire.values.selectors import Op, Requirement, Selector

_ANY_OF = (Op.EQUALS, Op.DOUBLE_EQUALS, Op.IN)
_NONE_OF = (Op.NOT_EQUALS, Op.NOT_IN)


def overlap(one: Selector, other: Selector) -> bool:
    """True when some labels satisfy both; decided key by key, and exactly.

    OpenKruise's own test is nearly this one: it also takes `{x Exists}` and a selector that does
    not mention x for disjoint, and lets real conflicts pass.
    """
    if one.nothing or other.nothing:
        return False
    by_key: dict[str, list[Requirement]] = {}
    for requirement in (*one.requirements, *other.requirements):
        by_key.setdefault(requirement.key, []).append(requirement)
    return all(_satisfiable(terms) for terms in by_key.values())


def _satisfiable(terms: Sequence[Requirement]) -> bool:
    """Return whether a value, or the absence, of one label can satisfy all terms on its key."""
    if any(term.op is Op.NOT_EXISTS for term in terms):
        return all(term.op is Op.NOT_EXISTS or term.op in _NONE_OF for term in terms)
    choices = [set(term.values) for term in terms if term.op in _ANY_OF]
    if not choices:
        return True
    allowed = set.intersection(*choices)
    for term in terms:
        if term.op in _NONE_OF:
            allowed -= set(term.values)
    return bool(allowed)
