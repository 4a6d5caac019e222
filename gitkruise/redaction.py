"""Text without the secrets that are known by their form: keys, tokens, passwords in URLs."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "***"

_LOOKS: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY(?:-----)?[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\bAKIA[0-9A-Z]{16}\b|\beyJ[\w-]+\.[\w-]+\.[\w-]+"
    r"|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|\bxox[abprs]-[\w-]{10,}"
    r"|(?<=://)[^/\s:@]*:[^/\s@]+@|(?<=http://)[^/\s@]+@|(?<=https://)[^/\s@]+@"
    r"|--?[\w-]*(?:password|passwd|token|secret|api-?key)[\w-]*[= ]\S+"
    r"|AGE-SECRET-KEY-1\w+",
    re.IGNORECASE,
)
_MAY_LOOK: Final = re.compile(
    r"://|-----|passw|token|secret|api-?key|AKIA|eyJ|gh[pousr]_|github_pat|glpat|xox|AGE-",
    re.IGNORECASE,
)


def looks_secret(text: str) -> bool:
    """Return whether the text has the form of a key, a token or a URL with a password."""
    return _MAY_LOOK.search(text) is not None and _LOOKS.search(text) is not None


def scrubbed(text: str) -> str:
    """The text of a message without URL passwords, private keys and tokens of known forms."""
    return _LOOKS.sub(_cover, text) if looks_secret(text) else text


def _cover(found: re.Match[str]) -> str:
    return f"{HIDDEN}@" if found[0].endswith("@") else HIDDEN
