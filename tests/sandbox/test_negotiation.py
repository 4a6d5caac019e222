"""The best alternative of an Accept header that this server can write is chosen."""

from __future__ import annotations

import pytest

from gitkruise.errors import NotAcceptable
from gitkruise.sandbox.negotiation import Form, form_of

TABLE = Form("Table", "meta.k8s.io", "v1")
PARTIAL = "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
KUBECTL = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,"
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form()),
        ("*/*", Form()),
        (KUBECTL, TABLE),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io",
         Form("Table", "meta.k8s.io", "v1beta1")),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Form()),
        ("application/vnd.kubernetes.protobuf,application/json", Form()),
        (f"application/vnd.kubernetes.protobuf;{PARTIAL},application/json;{PARTIAL}",
         Form("PartialObjectMetadataList", "meta.k8s.io", "v1")),
        ("application/yaml", Form(encoding="yaml")),
        ("application/json;q=0.2,application/yaml;q=0.9", Form(encoding="yaml")),
        ("text/html,application/json;q=0.1", Form()),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Form()),
    ],
)  # fmt: skip
def test_chosen(accept: str, form: Form) -> None:
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
    wanted = Form("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2")
    assert form_of(accept, "apidiscovery.k8s.io") == wanted
    assert form_of(accept) == Form()
