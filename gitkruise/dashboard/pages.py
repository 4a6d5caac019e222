"""Pages and the modules that run in a browser, as they lie in the package."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "assets"
PAGE: Final = "index.html"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_VERSION: Final = b"{version}"
_STATIC: Final = "static"
_PROPOSED: Final = frozenset({"pr", "branch"})  # [NAMESPACE/OWNER/] and a number or a name
_PLACES: Final = frozenset({"/", "/commits", "/drift", "/events", "/nodes"})


@dataclass(frozen=True, slots=True)
class Asset:
    """One file and its media type."""

    content: bytes
    type: str


@dataclass(frozen=True, slots=True)
class Pages:
    """Every asset by name. `version` changes with any of them, so that caches may keep them."""

    assets: Mapping[str, Asset]
    version: str

    @property
    def page(self) -> bytes:
        """The page of every place, with the addresses of its assets."""
        return self.assets[PAGE].content.replace(_VERSION, self.version.encode())

    def asset(self, path: str) -> Asset | None:
        """Return the asset at `/static/VERSION/NAME`; None for any other path."""
        head, _, name = path.rpartition("/")
        return self.assets.get(name) if head == f"/{_STATIC}/{self.version}" else None


def is_page(path: str) -> bool:
    """Return whether a path is one of a page: a place, /NOUN/[NAMESPACE/]NAME, or that of a pull
    request or branch."""
    first, *rest = path.removeprefix("/").split("/")
    noun = first.isalpha() and first != _STATIC
    parts = {1, 3} if first in _PROPOSED else {1, 2}
    return path in _PLACES or (noun and len(rest) in parts and all(rest))


def load_pages(folder: Path = FOLDER) -> Pages:
    """Read the assets of the package. Raises OSError."""
    files = {path.name: path for path in sorted(folder.iterdir()) if path.suffix in _TYPES}
    assets = {name: Asset(p.read_bytes(), _TYPES[p.suffix]) for name, p in files.items()}
    digest = hashlib.sha256()
    for name, asset in assets.items():
        digest.update(name.encode() + b"\0" + asset.content + b"\0")
    return Pages(assets, digest.hexdigest()[:16])
