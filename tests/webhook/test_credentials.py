"""Certificates are made once, shared, renewed in time, and trusted before they are shown."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gitkruise.errors import ClusterFailed
from gitkruise.kube.serve.certificates import hosts_of, server_context, signed_by
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.webhook.certificates import (
    CertificateStore,
    FolderVault,
    SecretVault,
    ServingCertificates,
    credentials_of,
    current,
    renewed,
)
from tests.sandbox.backend.test_state_dir import handshake
from tests.worlds import SPACE, START, empty_world

NOW = datetime.now(UTC)  # noqa: TID251  TLS compares with the real clock
HOSTS = ("hook.shop.svc", "hook.shop.svc.cluster.local")
YEAR = timedelta(days=365)


def believed(credentials: ServingCertificates, host: str = HOSTS[0]) -> bool:
    """Whether a client that trusts the bundle believes what is shown."""
    try:
        handshake(server_context(credentials.server), credentials.bundle.decode(), host)
    except ssl.SSLCertVerificationError:
        return False
    return True


def test_api_servers_believe_the_service_and_nobody_else() -> None:
    made = renewed(None, HOSTS, NOW)
    assert believed(made)
    assert believed(made, HOSTS[1])
    assert not believed(made, "kubernetes.default.svc")


def test_nothing_changes_while_all_is_well() -> None:
    made = renewed(None, HOSTS, NOW)
    assert renewed(made, HOSTS, NOW + timedelta(days=50)) == made
    assert credentials_of(made.files()) == made


def test_a_server_certificate_is_renewed_under_the_same_authority() -> None:
    made = renewed(None, HOSTS, NOW)
    later = renewed(made, HOSTS, NOW + timedelta(days=61))
    assert later.server != made.server
    assert (later.authority, later.bundle) == (made.authority, made.bundle)


def test_other_hosts_take_another_certificate() -> None:
    made = renewed(None, HOSTS, NOW)
    moved = renewed(made, ("10.0.0.5",), NOW)
    assert hosts_of(moved.server) == {"10.0.0.5"}
    assert moved.bundle == made.bundle
    assert believed(moved, "10.0.0.5")


def test_a_new_authority_is_trusted_before_anything_it_signed_is_shown() -> None:
    def after(days: int, known: ServingCertificates | None) -> ServingCertificates:
        return renewed(known, HOSTS, NOW + timedelta(days=days))

    shown = after(3250, after(0, None))
    both = after(3290, shown)
    assert both.authority != shown.authority
    assert both.bundle == both.authority.certificate + shown.bundle
    assert both.server == shown.server, "one thing at a time"
    assert not signed_by(both.server, both.authority)
    moved = after(3320, both)
    assert signed_by(moved.server, moved.authority)
    assert moved.bundle == both.bundle, "what other replicas show stays trusted"
    ended = after(3651, moved)
    assert ended.bundle == ended.authority.certificate, "an authority that ended is dropped"


def test_an_authority_that_has_ended_is_no_use() -> None:
    old = renewed(None, HOSTS, NOW - 11 * YEAR)
    fresh = renewed(old, HOSTS, NOW)
    assert believed(fresh)
    assert old.authority.certificate not in fresh.bundle


def vaults(folder: Path) -> dict[str, tuple[CertificateStore, CertificateStore]]:
    """Two replicas' views of each sort of place."""
    cluster = Cluster(empty_world(), lambda: START)
    replicas = [SecretVault(WorldTransport(cluster), SPACE) for _ in range(2)]
    folders = [FolderVault(folder / "keys") for _ in range(2)]
    return {"secret": (replicas[0], replicas[1]), "folder": (folders[0], folders[1])}


@pytest.mark.parametrize("where", ["secret", "folder"])
def test_whoever_comes_second_shows_the_same(tmp_path: Path, where: str) -> None:
    async def main() -> None:
        one, two = vaults(tmp_path)[where]
        made = await current(one, HOSTS, NOW)
        assert await current(two, HOSTS, NOW) == made
        later = NOW + timedelta(days=61)
        fresh = await current(two, HOSTS, later)
        assert fresh.server != made.server
        assert await current(one, HOSTS, later) == fresh

    asyncio.run(main())


def test_of_two_that_make_them_at_once_one_wins(tmp_path: Path) -> None:
    async def main() -> None:
        one, two = vaults(tmp_path)["secret"]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(current(v, HOSTS, NOW)) for v in (one, two)]
        assert tasks[0].result() == tasks[1].result()
        late = renewed(None, HOSTS, NOW)
        assert not await two.write(late.files(), ""), "it is there already"
        assert not await two.write(late.files(), "1"), "it was changed meanwhile"

    asyncio.run(main())


def test_files_are_for_nobody_else(tmp_path: Path) -> None:
    asyncio.run(current(FolderVault(tmp_path / "keys"), HOSTS, NOW))
    assert all(p.stat().st_mode & 0o777 == 0o600 for p in (tmp_path / "keys").iterdir())


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
def test_what_cannot_be_read_is_left_and_reported(tmp_path: Path, name: str) -> None:
    vault = FolderVault(tmp_path)
    asyncio.run(current(vault, HOSTS, NOW))
    (tmp_path / name).write_text("no certificate")
    with pytest.raises(ClusterFailed, match="GK5112"):
        asyncio.run(current(vault, HOSTS, NOW))
    assert (tmp_path / name).read_text() == "no certificate"


def test_a_part_that_is_gone_is_made_anew(tmp_path: Path) -> None:
    vault = FolderVault(tmp_path)
    asyncio.run(current(vault, HOSTS, NOW))
    (tmp_path / "tls.key").unlink()
    assert believed(asyncio.run(current(vault, HOSTS, NOW)))
