"""The base of everything that configuration is decoded into."""

from __future__ import annotations

import msgspec


class Strict(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """Camel-case names on the wire, snake-case here, nothing unknown."""
