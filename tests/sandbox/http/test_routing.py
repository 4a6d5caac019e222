"""A path names one thing, or is refused on its raw form."""

from __future__ import annotations

import pytest

from gitkruise.errors import ApiError, MethodNotAllowed
from gitkruise.sandbox.http.routing import Resource, Route, ServerPage, route, verb_of
from gitkruise.wire.primitives.requests import ResourceRef

PODS = ResourceRef("", "v1", "pods")
CLONES = ResourceRef("apps.kruise.io", "v1alpha1", "clonesets")
SPACES = ResourceRef("", "v1", "namespaces")


@pytest.mark.parametrize(
    ("path", "meaning"),
    [
        ("/version", ServerPage("version")),
        ("/readyz", ServerPage("health")),
        ("/livez/ping", ServerPage("health", ("ping",))),
        ("/api", ServerPage("api")),
        ("/api/", ServerPage("api")),
        ("/apis/apps", ServerPage("apis", ("apps",))),
        ("/apis/apps/v1", ServerPage("apis", ("apps", "v1"))),
        ("/apis/apps/v1/", ServerPage("apis", ("apps", "v1"))),
        ("/api/v1/namespaces/shop/pods/", Resource(PODS, "shop")),
        ("/openapi/v2", ServerPage("openapi_v2")),
        ("/openapi/v3/apis/apps/v1", ServerPage("openapi_v3", ("apis", "apps", "v1"))),
        ("/api/v1/pods", Resource(PODS)),
        ("/api/v1/namespaces/shop/pods/web-1", Resource(PODS, "shop", "web-1")),
        ("/api/v1/namespaces/shop/pods/web-1/status", Resource(PODS, "shop", "web-1", "status")),
        ("/api/v1/namespaces/shop", Resource(SPACES, "", "shop")),
        ("/api/v1/namespaces/shop/finalize", Resource(SPACES, "", "shop", "finalize")),
        ("/api/v1/namespaces", Resource(SPACES)),
        (
            "/apis/apps.kruise.io/v1alpha1/namespaces/shop/clonesets/web%2Dx/scale",
            Resource(CLONES, "shop", "web-x", "scale"),
        ),
    ],
)
def test_known_paths(path: str, meaning: Route) -> None:
    assert route(path) == meaning


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/namespaces/..%2f..%2fx/pods", 400),  # B-A09
        ("//api", 400),
        ("/api/v1/pods//", 400),
        ("/api/v1/./pods", 400),
        ("/api/v1/pods/%00", 400),
        ("/api/v1/pods;x", 400),
        ("/api/v1/pods/%2e%2e", 400),
        ("/api/v1/pods/%ff", 400),
        ("/api/v1/pods/" + "a" * 3000, 400),
        ("/API/v1/pods", 404),
        ("/metrics", 404),
        ("/", 400),
    ],
)
def test_paths_no_client_writes(path: str, status: int) -> None:
    with pytest.raises(ApiError) as refused:
        route(path)
    assert refused.value.status == status


@pytest.mark.parametrize(
    ("method", "name", "subresource", "watch", "verb"),
    [
        ("GET", "", "", False, "list"),
        ("GET", "", "", True, "watch"),
        ("GET", "web", "", False, "get"),
        ("POST", "", "", False, "create"),
        ("POST", "web", "binding", False, "create"),
        ("PUT", "web", "", False, "update"),
        ("PATCH", "web", "scale", False, "patch"),
        ("DELETE", "web", "", False, "delete"),
        ("DELETE", "", "", False, "deletecollection"),
        ("POST", "web", "", False, ""),
        ("PATCH", "", "", False, ""),
        ("TRACE", "web", "", False, ""),  # B-A10
        ("BREW", "", "", False, ""),
    ],
)
def test_verbs(method: str, name: str, subresource: str, watch: bool, verb: str) -> None:
    target = Resource(PODS, "shop", name, subresource)
    if verb:
        assert verb_of(method, target, watch=watch) == verb
    else:
        with pytest.raises(MethodNotAllowed):
            verb_of(method, target, watch=watch)
