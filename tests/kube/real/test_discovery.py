"""Discovery and schemas of the embedded cluster are the real server's, for the kinds of both."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

import pytest

from gitkruise.kube.client.discovery import served_catalog
from gitkruise.kube.system.package_data import data_dir, load_catalog, read_json
from tests.kube.real.apiserver import Apiserver, talking
from tests.sandbox.discovery.test_discovery import compare, page
from tests.transcripts.real import client_of

pytestmark = pytest.mark.kube
ACCEPT: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
RECORDED: Final = sorted(
    path.stem
    for path in (data_dir("schemas") / "openapi").glob("*.json")
    if ".kruise.io" not in path.stem
)


@pytest.mark.parametrize(("root", "least"), [("api", 17), ("apis", 40)])
def test_aggregated(root: str, least: int, server: Apiserver) -> None:
    theirs = client_of(server).ask(f"/{root}", headers={"Accept": ACCEPT})
    assert compare(page(root), json.loads(theirs.data)) >= least


def test_schemas(server: Apiserver) -> None:
    client = client_of(server)
    index = json.loads(client.ask("/openapi/v3").data)["paths"]
    for name in RECORDED:
        document = json.loads(client.ask(index[name.replace("__", "/")]["serverRelativeURL"]).data)
        schemas = _without_prose(document["components"]["schemas"])
        ours = read_json("openapi", f"{name}.json")["schemas"]
        assert {key: schemas.get(key) for key in ours} == ours, name


def _without_prose(value: Any) -> Any:
    if isinstance(value, dict):
        rows = value.items()
        return {k: _without_prose(v) for k, v in rows if k != "description" or isinstance(v, dict)}
    return [_without_prose(one) for one in value] if isinstance(value, list) else value


def test_every_kind_that_users_may_write_is_known(server: Apiserver) -> None:
    """Among them those without a recorded schema: APIServices, RuntimeClasses, FlowSchemas."""

    async def known() -> set[tuple[str, str, str]]:
        async with talking(server) as transport:
            catalog = await served_catalog(transport, load_catalog())
        return {(kind.group, kind.version, kind.kind) for kind in catalog.kinds()}

    document = json.loads(client_of(server).ask("/apis", headers={"Accept": ACCEPT}).data)
    served = {
        (group["metadata"]["name"], version["version"], one["responseKind"]["kind"])
        for group in document["items"]
        for version in group["versions"]
        for one in version["resources"]
        if {"create", "list", "patch"} <= {*one["verbs"]}
    }
    assert ("apiregistration.k8s.io", "v1", "APIService") in served
    assert served <= asyncio.run(known())
