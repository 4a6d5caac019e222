"""Content negotiation: what a client can read, and which form of the answer it asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gitkruise.errors import NotAcceptable

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
OPENAPI_V2_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
YAML: Final = "application/yaml"
_JSON: Final = frozenset({"application/json", "application/*", "*/*", "text/json"})
_ACCEPT_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class MediaType:
    """One alternative of an Accept header; parameters without `q`."""

    name: str
    params: tuple[tuple[str, str], ...] = ()

    def get(self, key: str) -> str:
        return dict(self.params).get(key, "")


@dataclass(frozen=True, slots=True)
class ResponseForm:
    """Form of a response. `shape` is "", Table, PartialObjectMetadata or ...List.

    `version` is the meta.k8s.io (or apidiscovery.k8s.io) version the client named.
    """

    shape: str = ""
    group: str = ""
    version: str = ""
    encoding: str = "json"  # or yaml


@lru_cache(maxsize=256)
def alternatives(accept: str) -> tuple[MediaType, ...]:
    """The alternatives of an Accept header, best first (quality, then order)."""
    ranked: list[tuple[float, int, MediaType]] = []
    for position, part in enumerate(accept[:_ACCEPT_MAX].split(",")):
        name, *raw = (piece.strip() for piece in part.split(";"))
        pairs = [(key.strip(), value.strip()) for key, _, value in (p.partition("=") for p in raw)]
        quality = _quality(dict(pairs).get("q", "1"))
        if name and quality > 0:
            params = tuple(pair for pair in pairs if pair[0] != "q")
            ranked.append((-quality, position, MediaType(name.lower(), params)))
    return tuple(media for _, _, media in sorted(ranked, key=lambda entry: entry[:2]))


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0  # as Go's parser: an invalid quality does not exclude the type


SHAPES: Final[Mapping[str, tuple[str, ...]]] = {
    "meta.k8s.io": ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"),
    "apidiscovery.k8s.io": ("APIGroupDiscoveryList",),
}
VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "meta.k8s.io": ("v1", "v1beta1"),
    "apidiscovery.k8s.io": ("v2", "v2beta1"),
}


@lru_cache(maxsize=256)
def form_of(accept: str, group: str = "meta.k8s.io") -> ResponseForm:
    """The first alternative this server can write; raises NotAcceptable when there is none.

    Protobuf is not written: a client that also takes JSON gets JSON. `group` is the API group
    whose shapes (`as=`) the endpoint knows; a shape of another kind skips the alternative.
    """
    if not accept:
        return ResponseForm()
    for media in alternatives(accept):
        encoding = "json" if media.name in _JSON else "yaml" if media.name == YAML else ""
        if not encoding:
            continue
        shape = media.get("as")
        if not shape:
            return ResponseForm(encoding=encoding)
        if (
            media.get("g") == group
            and shape in SHAPES[group]
            and media.get("v") in VERSIONS[group]
            and encoding == "json"
        ):
            return ResponseForm(shape, group, media.get("v"))
    raise NotAcceptable(
        "only the following media types are accepted: application/json, application/yaml"
    )
