"""A cluster that answers reviews from tables, and the shop of two namespaces that it guards."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any, Final

from gitkruise.dashboard.rights import Rules
from gitkruise.errors import Unavailable
from gitkruise.wire.primitives.names import GroupKind
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest, ResourceRef, WatchEvent
from tests.dashboard.scenes import HEAD, event, fleet, pods, row
from tests.dashboard.table import Table

CLONESETS: Final = ResourceRef("apps.kruise.io", "v1alpha1", "clonesets")
SIDECARSETS: Final = ResourceRef("apps.kruise.io", "v1alpha1", "sidecarsets")
KINDS: Final = {
    GroupKind("apps.kruise.io", "CloneSet"): CLONESETS,
    GroupKind("apps.kruise.io", "SidecarSet"): SIDECARSETS,
    GroupKind("", "ConfigMap"): ResourceRef("", "v1", "configmaps"),
    GroupKind("", "Secret"): ResourceRef("", "v1", "secrets"),
}
RULES: Final = Rules({"cloneset": CLONESETS, "sidecarset": SIDECARSETS}, KINDS.get, "sandbox")
JANE, ROOT, STRANGER = "jane-token", "root-token", "stranger-token"
SHOWN: Final = (
    "clonesets.apps.kruise.io",
    "configmaps",
    "secrets",
    "pods",
    "events",
    "units.gitkruise.io",
)


class Reviewing:
    """A transport that serves reviews only. Rights are (user, resource, namespace)."""

    def __init__(self) -> None:
        self.users = {JANE: "jane", ROOT: "root", STRANGER: "stranger"}
        self.rights = {("root", "*.*", "")} | {("jane", name, "shop") for name in SHOWN}
        self.verbs = {"list", "watch"}
        self.asked: Counter[str] = Counter()
        self.away = False

    async def send(self, request: ApiRequest) -> ApiReply:
        if self.away:
            raise Unavailable("connection refused")
        self.asked[request.resource.plural] += 1
        answer = self._token if request.resource.plural == "tokenreviews" else self._access
        return ApiReply(status=201, body={"status": answer(request.body["spec"])})

    def _token(self, spec: Any) -> dict[str, Any]:
        name = self.users.get(spec["token"])
        return {"authenticated": True, "user": {"username": name}} if name else {}

    def _access(self, spec: Any) -> dict[str, Any]:
        wanted = spec["resourceAttributes"]
        name = f"{wanted['resource']}.{wanted['group']}".removesuffix(".")
        held = (spec["user"], name, wanted["namespace"]) in self.rights
        return {"allowed": held and wanted["verb"] in self.verbs}

    def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        raise NotImplementedError(request.resource)

    async def close(self) -> None:
        return None


def guarded_shop() -> Table:
    """Rows of the namespaces shop and bank, and of the cluster."""
    table = Table()
    bank = row("ledger")
    bank["object"]["namespace"] = "bank"
    units = [
        {"unit": f"{space}/web", "state": "Done", "message": "", "problems": [], "waits": ""}
        for space in ("shop", "bank")
    ]
    table.topics["fleet"] = {
        **fleet(row("cart"), units=units, later="not for everybody"),
        "cloneset/bank/ledger": bank,
        "sidecarset/mesh": row("mesh"),
    }
    assert set(HEAD) < set(table.topics["fleet"][""])
    table.topics["cluster"] = {"": HEAD}
    table.topics["events"] = {"shop/a": event("a"), "bank/b": event("b", namespace="bank")}
    table.topics["pods/cloneset/shop/cart"] = pods()
    table.topics["pods/cloneset/bank/ledger"] = pods()
    table.topics["later"] = {"": {"secret": 1}}
    return table
