"""How many cases a law tries: a share of what the chosen hypothesis profile gives."""

from __future__ import annotations

from hypothesis import settings


def one_in(share: int) -> int:
    """The profile's number of examples divided by `share`, at least 1."""
    assert settings.default is not None
    return max(settings.default.max_examples // share, 1)
