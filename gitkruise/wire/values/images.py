"""Image references, as far as defaults and comparisons depend on them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_DOMAIN: Final = (
    r"(?:(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
    r"(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
)
_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE: Final = re.compile(
    rf"(?P<name>(?:{_DOMAIN}/)?{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
_DIGEST: Final = re.compile(r"sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}")
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}")
_HUB: Final = frozenset({"docker.io", "index.docker.io"})
_NAME_LIMIT, _TEXT_LIMIT = 255, 4096


@lru_cache(maxsize=1024)  # a thousand pods have the same few images
def image_tag(image: str) -> str:
    """The tag Kubernetes sees: "latest" without tag and digest, "" with a digest alone.

    Also "" for what is no image reference. Source: parsers.ParseImageName of Kubernetes over
    distribution's normalised references.
    """
    found = _parsed(image)
    return "" if not found else found["tag"] or ("" if found["digest"] else "latest")


def is_image(text: str) -> bool:
    """Return whether a container runtime can parse `text` as an image reference."""
    return _parsed(text) is not None


@lru_cache(maxsize=4096)  # as above
def repository(image: str) -> str:
    """The registry and path of a reference, spelt out; "" for what is no image reference."""
    found = _parsed(image)
    return found["name"] if found else ""


def same_image(one: str, other: str) -> bool:
    """Return whether two references name the same image: nodes report the registry in full."""
    if one == other:
        return True
    left, right = _parsed(one), _parsed(other)
    if left is None or right is None:
        return False
    return (left["name"], left["digest"]) == (right["name"], right["digest"]) and (
        image_tag(one) == image_tag(other)
    )


def _parsed(image: str) -> re.Match[str] | None:
    found = _REFERENCE.fullmatch(_normal(image)) if image and len(image) <= _TEXT_LIMIT else None
    if not found or len(found["name"]) > _NAME_LIMIT or _IDENTIFIER.fullmatch(image):
        return None
    good = not found["digest"] or _DIGEST.fullmatch(found["digest"])
    return found if good else None


@lru_cache(maxsize=1024)
def familiar_parts(image: str) -> tuple[str, str]:
    """Return (name without `docker.io/library`, tag or digest) as a NodeImage spells them.

    The tag is `latest` without tag and digest; a digest takes the place of the tag. Raises
    ValueError for what is no image reference.
    """
    found = _parsed(image)
    if found is None:
        raise ValueError(f"invalid image {image}")
    name = found["name"].removeprefix("docker.io/")
    first, slash, rest = name.partition("/")
    short = rest if slash and name != found["name"] and first == "library" else name
    return short, found["digest"] or found["tag"] or "latest"


def image_of_parts(name: str, tag: str) -> str:
    """Return the reference of a name and a tag or digest: a digest follows `@`."""
    return f"{name}{'@' if ':' in tag else ':'}{tag}"


def default_pull_policy(image: str) -> str:
    """`Always` for the tag latest, else `IfNotPresent` (v1.SetDefaults_Container)."""
    return "Always" if image_tag(image) == "latest" else "IfNotPresent"


def _normal(image: str) -> str:
    """With the registry spelt out, so that a first path part is not taken for a registry."""
    first, slash, rest = image.partition("/")
    if first in _HUB and slash:
        return f"docker.io/{rest if '/' in rest else f'library/{rest}'}"
    is_registry = slash and (
        "." in first or ":" in first or first == "localhost" or first != first.lower()
    )
    if is_registry:
        return image
    return f"docker.io/{image if slash else f'library/{image}'}"
