"""The best alternative of an Accept header that this server can write is chosen."""

from __future__ import annotations

import pytest

from gitkruise.errors import NotAcceptable
from gitkruise.sandbox.http.negotiation import ResponseForm, form_of

TABLE = ResponseForm("Table", "meta.k8s.io", "v1")
PARTIAL = "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
KUBECTL = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,"
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", ResponseForm()),
        ("*/*", ResponseForm()),
        (KUBECTL, TABLE),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io",
         ResponseForm("Table", "meta.k8s.io", "v1beta1")),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", ResponseForm()),
        ("application/vnd.kubernetes.protobuf,application/json", ResponseForm()),
        (f"application/vnd.kubernetes.protobuf;{PARTIAL},application/json;{PARTIAL}",
         ResponseForm("PartialObjectMetadataList", "meta.k8s.io", "v1")),
        ("application/yaml", ResponseForm(encoding="yaml")),
        ("application/json;q=0.2,application/yaml;q=0.9", ResponseForm(encoding="yaml")),
        ("text/html,application/json;q=0.1", ResponseForm()),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", ResponseForm()),
    ],
)  # fmt: skip
def test_chosen(accept: str, form: ResponseForm) -> None:
    assert form_of(accept) == form


@pytest.mark.parametrize(
    "accept",
    [
        "application/vnd.kubernetes.protobuf",
        "text/html",
        "application/json;q=0",
        "application/json;as=Table;v=v9;g=meta.k8s.io",
    ],
)
def test_nothing_to_write(accept: str) -> None:
    with pytest.raises(NotAcceptable):
        form_of(accept)


def test_discovery_has_shapes_of_its_own() -> None:
    accept = (
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
    )
    wanted = ResponseForm("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2")
    assert form_of(accept, "apidiscovery.k8s.io") == wanted
    assert form_of(accept) == ResponseForm()
