"""Shards of an installation: the flag, the replicas, and the rights to their Leases."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.errors import ClusterFailed
from gitkruise.gitops.install.installer import Installer, InstallOptions, manifests
from gitkruise.gitops.install.shards import CONTROLLER, LEASES_ROLE, shards_in
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from tests.gitops.install.hall import SPACE, Hall


def found(count: int, name: tuple[str, str]) -> Any:
    objects = manifests(InstallOptions(shards=count))
    return next(o for o in objects if (o["kind"], o["metadata"]["name"]) == name)


def test_a_replica_for_each_shard_is_started_with_their_number() -> None:
    before, after = (found(count, CONTROLLER)["spec"] for count in (1, 3))
    args = [spec["template"]["spec"]["containers"][0]["args"] for spec in (before, after)]
    assert args[1] == [*args[0], "--shards", "3"]
    assert after["replicas"] == 3
    assert after["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": "100%"}
    assert "replicas" not in before
    assert "strategy" not in before


def test_the_controller_may_write_the_leases_of_its_shards_and_no_others() -> None:
    before, after = ({str(r) for r in named(found(count, LEASES_ROLE))} for count in (1, 2))
    assert after - before == {
        "gitkruise-sync-shard-0", "gitkruise-sync-shard-1",
        "gitkruise-sync-member-0", "gitkruise-sync-member-1",
    }  # fmt: skip


def test_the_controller_may_list_leases_only_where_it_looks_at_shards() -> None:
    verbs = [[rule["verbs"] for rule in found(n, LEASES_ROLE)["rules"]] for n in (1, 2)]
    assert verbs == [[["create"], ["get", "update"]], [["create", "list"], ["get", "update"]]]


def named(role: Obj) -> list[str]:
    return [name for rule in role["rules"] for name in rule.get("resourceNames", ())]


@pytest.mark.parametrize(
    ("args", "count"),
    [
        ([], 1),
        (["run", "--shards", "3"], 3),
        (["run", "--shards=4", "--metrics", ":8443"], 4),
        (["run", "--shards"], 1),
    ],
)
def test_an_upgrade_keeps_the_number_of_shards(args: list[str], count: int) -> None:
    live = {"spec": {"template": {"spec": {"containers": [{"args": args}]}}}}
    assert shards_in(live) == count


def test_the_flag_of_an_installation_is_read_back() -> None:
    assert [shards_in(found(count, CONTROLLER)) for count in (1, 3)] == [1, 3]
    assert shards_in(None) == 1


async def patch(hall: Hall, spec: Obj, manager: str, subresource: str = "") -> None:
    await hall.transport.send(
        ApiRequest(
            verb="patch",
            resource=ResourceRef("apps", "v1", "deployments"),
            namespace=SPACE,
            name="gitkruise",
            subresource=subresource,
            body={"spec": spec},
            content_type=MERGE_PATCH,
            params={"fieldManager": manager},
        )
    )


async def scale(hall: Hall, count: int) -> None:
    """`kubectl scale`, after which kubectl owns the number."""
    await patch(hall, {"replicas": count}, "kubectl", "scale")


@pytest.mark.slow
def test_an_installation_that_was_scaled_by_hand_gets_its_shards(hall: Hall) -> None:
    async def script(hall: Hall) -> None:
        await hall.install()
        await scale(hall, 2)
        options = InstallOptions(shards=3)
        installer = Installer(hall.transport, load_catalog(), hall.clock, options)
        await installer.install(manifests(options))
        live = hall.world.get(ObjectKey("apps", "Deployment", SPACE, "gitkruise"))
        assert live is not None
        assert live["spec"]["replicas"] == 3

    hall.run(script)


@pytest.mark.slow
def test_other_fields_of_others_are_refused_with_shards_as_well(hall: Hall) -> None:
    async def script(hall: Hall) -> None:
        await hall.install()
        await patch(hall, {"strategy": {"rollingUpdate": {"maxSurge": 1}}}, "kubectl-edit")
        await scale(hall, 2)
        options = InstallOptions(shards=3)
        installer = Installer(hall.transport, load_catalog(), hall.clock, options)
        with pytest.raises(ClusterFailed, match="GK4501"):
            await installer.install(manifests(options))

    hall.run(script)
