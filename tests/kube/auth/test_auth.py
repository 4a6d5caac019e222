"""Finding the cluster: kubeconfig files, contexts, plugins, the pod's own account."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitkruise.errors import ClusterFailed, Finding
from gitkruise.kube.auth import connection as auth
from gitkruise.kube.auth import exec_plugin
from gitkruise.kube.auth.connection import Connection
from gitkruise.kube.auth.credentials import REISSUE_S, IssuedCredentials, Plugin
from tests.clock import ManualClock
from tests.worlds import START


def config(**users: Any) -> dict[str, Any]:
    """One context a user, all on one cluster; the first is current."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": next(iter(users), ""),
        "clusters": [{"name": "c", "cluster": {"server": "https://10.1.2.3:6443/"}}],
        "contexts": [
            {"name": name, "context": {"cluster": "c", "user": name, "namespace": "shop"}}
            for name in users
        ],
        "users": [{"name": name, "user": user} for name, user in users.items()],
    }


def written(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else yaml.safe_dump(value))
    return path


def header(connection: Connection) -> str | None:
    return asyncio.run(connection.credentials.headers()).get("Authorization")


def test_a_token(tmp_path: Path) -> None:
    path = written(tmp_path / "config", config(prod={"token": "abc"}, stage={"token": "x"}))
    found = auth.from_kubeconfig([path])
    assert (found.server, found.context, found.namespace, found.other_contexts) == (
        "https://10.1.2.3:6443",
        "prod",
        "shop",
        ("stage",),
    )
    assert header(found) == "Bearer abc"
    assert header(auth.from_kubeconfig([path], context="stage")) == "Bearer x"
    assert "abc" not in repr(found)


def test_the_first_file_wins_and_names_are_relative_to_their_file(tmp_path: Path) -> None:
    first = config(prod={"token": "first"})
    second = config(prod={"token": "second"}, lab={"tokenFile": "lab.token"})
    second["clusters"][0]["cluster"] = {"server": "https://other"}
    paths = [written(tmp_path / "one" / "c", first), written(tmp_path / "two" / "c", second)]
    (tmp_path / "two" / "lab.token").write_text("from a file\n")
    assert header(auth.from_kubeconfig(paths)) == "Bearer first"
    lab = auth.from_kubeconfig(paths, context="lab")
    assert (lab.server, header(lab)) == ("https://10.1.2.3:6443", "Bearer from a file")


def test_certificates_from_data_and_from_files(tmp_path: Path) -> None:
    value = config(
        prod={
            "client-certificate-data": "Q0V\nSVA==\n",  # wrapped, as `base64` writes it
            "client-key": "key.pem",
        }
    )
    value["clusters"][0]["cluster"] |= {"certificate-authority": "ca.pem", "tls-server-name": "k"}
    (tmp_path / "key.pem").write_text("KEY")
    (tmp_path / "ca.pem").write_text("CA")
    found = auth.from_kubeconfig([written(tmp_path / "config", value)])
    assert (found.client_cert_pem, found.client_key_pem, found.ca_pem, found.tls_server_name) == (
        "CERT",
        "KEY",
        "CA",
        "k",
    )
    assert header(found) is None
    assert "KEY" not in repr(found)


def test_basic_credentials(tmp_path: Path) -> None:
    path = written(tmp_path / "config", config(old={"username": "u", "password": "p"}))
    assert header(auth.from_kubeconfig([path])) == "Basic dTpw"


def plugin(script: str) -> dict[str, Any]:
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "interactiveMode": "Never",
            "command": sys.executable,
            "args": ["-c", script],
        }
    }


def answering(status: Any, version: str = "client.authentication.k8s.io/v1") -> dict[str, Any]:
    credential = {"apiVersion": version, "kind": "ExecCredential", "status": status}
    return plugin(f"import json; print(json.dumps({credential!r}))")


def test_an_exec_plugin(tmp_path: Path) -> None:
    path = written(tmp_path / "config", config(good=answering({"token": "made"})))
    assert header(auth.from_kubeconfig([path])) == "Bearer made"


PLUGINS: list[tuple[dict[str, Any], str]] = [
    (plugin("import sys; sys.exit('no login')"), "process returned 1. no login"),
    (plugin(""), "failed to decode process output"),
    (plugin("print('<html>')"), "failed to decode process output"),
    (plugin("print([])"), "malformed response. missing key 'apiVersion'"),
    (answering({"token": "t", "expirationTimestamp": "soon"}), "its output is no ExecCredential"),
    (answering(None), "its output is no ExecCredential"),
    (answering({}), "it gives neither a token nor a certificate with its key"),
    (answering({"token": "t"}, "v7"), "plugin api version v7 does not match client."),
    ({"exec": {"command": "/no/such"}}, "malformed request. missing key 'apiVersion'"),
    (
        {"exec": {"apiVersion": "v1", "command": "/no/such"}},
        "process returned 1. it cannot be started",
    ),
]


@pytest.mark.parametrize(("user", "why"), PLUGINS, ids=[row[1][:30] for row in PLUGINS])
def test_a_plugin_that_issues_nothing(tmp_path: Path, user: dict[str, Any], why: str) -> None:
    with pytest.raises(ClusterFailed) as caught:
        auth.from_kubeconfig([written(tmp_path / "config", config(bad=user))])
    finding = caught.value.findings[0]
    assert (finding.code, finding.message) == (
        "GK4104",
        'the exec plugin of context "bad" gives no credentials',
    )
    assert finding.notes[0][1].startswith(why)


def test_a_plugin_that_hangs_is_killed_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_plugin, "UNATTENDED_S", 0.5)
    user = plugin("import subprocess; subprocess.run(['sleep', '1000'])")
    with pytest.raises(ClusterFailed) as caught:
        auth.from_kubeconfig([written(tmp_path / "config", config(slow=user))])
    assert caught.value.findings[0].notes[0][1] == "process returned 1. it did not end within 0.5 s"


class Issuer:
    """A plugin in this process: each run is a new token, or a failure."""

    def __init__(self, until: datetime | None) -> None:
        self.runs, self.until, self.fails = 0, until, False

    def __call__(self) -> IssuedCredentials:
        self.runs += 1
        if self.fails:
            raise ClusterFailed(Finding(code="GK4104", message="no login"))
        return IssuedCredentials(header=f"Bearer {self.runs}", until=self.until)


def test_a_plugin_runs_once_for_all_requests_of_an_expired_token() -> None:
    clock = ManualClock(START)
    issuer = Issuer(START + timedelta(seconds=60))
    found = Plugin(issuer, clock)

    async def headers() -> set[str]:
        async with asyncio.TaskGroup() as tasks:
            asking = [tasks.create_task(found.headers()) for _ in range(20)]
        return {task.result()["Authorization"] for task in asking}

    async def refused() -> None:
        """Each request gets the failure of the one run."""
        for _ in range(5):
            with pytest.raises(ClusterFailed, match="no login"):
                await found.headers()

    async def main() -> None:
        assert await headers() == {"Bearer 1"}
        clock.advance(60)
        assert await headers() == {"Bearer 2"}
        assert await headers() == {"Bearer 2"}, "its own clock is late: the server decides"
        await found.renew()
        assert (await headers(), issuer.runs) == ({"Bearer 2"}, 2)
        clock.advance(REISSUE_S)
        issuer.fails = True
        await refused()
        assert issuer.runs == 3
        clock.advance(REISSUE_S)
        issuer.fails = False
        assert (await headers(), issuer.runs) == ({"Bearer 4"}, 4)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "context", "error"),
    [
        ("", "", "GK4106: .*config is no kubeconfig"),
        ("[1, 2]", "", "GK4106: .*config is no kubeconfig"),
        ("a: [", "", "GK4106: .*config is no kubeconfig"),
        ("users: [{}]", "", "GK4106: .*config is no kubeconfig"),
        (config(prod={}), "test", 'GK4103: there is no context "test"'),
        ({**config(prod={}, b={}), "current-context": ""}, "", "GK4103: no current context"),
        ({**config(prod={}), "clusters": []}, "", "GK4106: the kubeconfig has no cluster 'c'"),
        ({**config(prod={}), "users": []}, "", "GK4106: the kubeconfig has no user 'prod'"),
        (config(prod={"client-key-data": "?"}), "", "GK4106: client-key-data .* no base64"),
        (config(prod={"client-key-data": "\u0430"}), "", "GK4106: client-key-data .* no base64"),
        (config(prod={"client-key-data": 5}), "", "GK4106: .*config is no kubeconfig"),
        (config(prod={"token": 5}), "", "GK4106: .*config is no kubeconfig"),
        (config(prod={"exec": {"command": [], "args": "a"}}), "", "GK4106: .* no kubeconfig"),
        ({**config(prod={}), "contexts": {"name": "prod"}}, "", "GK4106: .* no kubeconfig"),
        (
            {**config(prod={}), "users": [{"name": "prod", "user": []}]},
            "",
            "GK4106: .* no kubeconfig",
        ),
        (config(prod={"client-key": "none"}), "", "GK4106: cannot read .*none"),
    ],
    ids=[
        "empty",
        "list",
        "cut",
        "no name",
        "no such context",
        "nothing current",
        "no cluster",
        "no user",
        "no base64",
        "no ASCII",
        "no text",
        "a number",
        "no command",
        "no list",
        "no map",
        "no file",
    ],
)
def test_broken_kubeconfigs_are_named(tmp_path: Path, text: Any, context: str, error: str) -> None:
    path = written(tmp_path / "config", text)
    with pytest.raises(ClusterFailed, match=error) as caught:
        auth.from_kubeconfig([path], context=context)
    notes = dict(caught.value.findings[0].notes)
    assert notes["unchanged"] == "nothing was read or written"
    assert notes["next"]


def test_a_missing_kubeconfig_leads_to_another_file_or_the_embedded_cluster(tmp_path: Path) -> None:
    with pytest.raises(ClusterFailed, match=r"GK4106: cannot read .*none") as caught:
        auth.from_kubeconfig([tmp_path / "none"])
    next_step = dict(caught.value.findings[0].notes)["next"]
    assert "--kubeconfig FILE" in next_step
    assert "gitkruise sandbox up" in next_step


def test_a_missing_context_lists_the_others(tmp_path: Path) -> None:
    path = written(tmp_path / "config", config(a={}, b={}))
    with pytest.raises(ClusterFailed) as caught:
        auth.from_kubeconfig([path], context="c")
    assert dict(caught.value.findings[0].notes)["contexts"] == "a, b"


def test_inside_a_pod(tmp_path: Path) -> None:
    for name, text in (("token", "t1\n"), ("ca.crt", "CA"), ("namespace", "ops\n")):
        (tmp_path / name).write_text(text)
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    found = auth.in_cluster(environ, tmp_path)
    assert found is not None
    assert (found.server, found.namespace, found.ca_pem) == ("https://[fd00::1]:443", "ops", "CA")

    async def main() -> None:
        assert await found.credentials.headers() == {"Authorization": "Bearer t1"}
        (tmp_path / "token").write_text("t2")
        assert await found.credentials.headers() == {"Authorization": "Bearer t1"}
        await found.credentials.renew()
        assert await found.credentials.headers() == {"Authorization": "Bearer t2"}
        (tmp_path / "token").write_text("")
        with pytest.raises(ClusterFailed, match="GK4104: no token in"):
            await found.credentials.renew()

    asyncio.run(main())
    assert auth.in_cluster({}, tmp_path) is None


def test_a_token_is_used_while_its_file_is_empty(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "token").write_text("t1")
    (tmp_path / "ca.crt").write_text("CA")
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    found = auth.in_cluster(environ, tmp_path)
    assert found is not None
    clock = ManualClock(datetime(2026, 11, 21, tzinfo=UTC))

    async def main() -> None:
        assert await found.credentials.headers() == {"Authorization": "Bearer t1"}
        (tmp_path / "token").write_text("")
        for _ in range(70):
            await clock.sleep(1)
            assert await found.credentials.headers() == {"Authorization": "Bearer t1"}
        (tmp_path / "token").write_text("t2")
        await clock.sleep(61)
        assert await found.credentials.headers() == {"Authorization": "Bearer t2"}

    clock.run(main())
    assert caplog.text.count("token-not-read") == 1
    assert f"GK4104: no token in {tmp_path}/token: it is empty" in caplog.text


OTHER_SERVER = "is of another server now"
RENEWALS: dict[str, tuple[dict[str, str], str, str]] = {
    "token": ({"token": "t2"}, "10.1.2.3", "Bearer t2"),
    "password": ({"username": "a", "password": "b"}, "10.1.2.3", "Basic YTpi"),
    "another server": ({"token": "t2"}, "10.9.9.9", OTHER_SERVER),
}


def test_a_client_certificate_is_read_again_from_its_kubeconfig(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("cert", "key")]

    def write(*texts: str) -> None:
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)

    write("c1", "k1")
    user = {"client-certificate": "cert", "client-key": "key"}
    found = auth.from_kubeconfig([written(tmp_path / "config", config(a=user))])
    assert (found.client_cert_pem, found.client_key_pem) == ("c1", "k1")
    write("c2", "k2")
    assert found.client_pair is not None
    assert found.client_pair() == ("c2", "k2")
    moved = (tmp_path / "config").read_text().replace("10.1.2.3", "10.9.9.9")
    (tmp_path / "config").write_text(moved)
    with pytest.raises(ClusterFailed, match=f"GK4106.*{OTHER_SERVER}"):
        found.client_pair()


def test_authorities_are_read_again_from_a_kubeconfig_and_inside_a_pod(tmp_path: Path) -> None:
    for name in ("token", "ca.crt"):
        (tmp_path / name).write_text("first")
    content: Any = config(a={})
    content["clusters"][0]["cluster"]["certificate-authority"] = "ca.crt"
    path = written(tmp_path / "config", content)
    environ = {"KUBERNETES_SERVICE_HOST": "10.1.2.3", "KUBERNETES_SERVICE_PORT": "443"}
    for found in (auth.from_kubeconfig([path]), auth.in_cluster(environ, tmp_path)):
        assert found is not None
        assert found.ca_pem == "first"
        assert found.authorities is not None
        (tmp_path / "ca.crt").write_text("second")
        assert found.authorities() == "second"
        (tmp_path / "ca.crt").write_text("first")


@pytest.mark.parametrize("row", RENEWALS)
def test_a_token_is_read_again_from_its_kubeconfig(tmp_path: Path, row: str) -> None:
    user, server, expected = RENEWALS[row]
    path = written(tmp_path / "config", config(a={"token": "t1"}))
    found = auth.from_kubeconfig([path]).credentials

    async def renewed() -> str:
        assert await found.headers() == {"Authorization": "Bearer t1"}
        whole = config(b={}, a=user)  # the current context is no longer the one that was chosen
        written(path, yaml.safe_dump(whole).replace("10.1.2.3", server))
        assert found.renewable
        await found.renew()
        return (await found.headers())["Authorization"]

    if expected is OTHER_SERVER:
        with pytest.raises(ClusterFailed, match=f"GK4106.*{expected}"):
            asyncio.run(renewed())
    else:
        assert asyncio.run(renewed()) == expected


def test_the_order_of_search(tmp_path: Path) -> None:
    one = written(tmp_path / "one", config(one={"token": "1"}))
    two = written(tmp_path / "two", config(two={"token": "2"}))
    environ = {"KUBECONFIG": f"{tmp_path}/none:{two}"}
    assert auth.find(environ).context == "two"
    assert auth.find(environ, kubeconfig_file=str(one)).context == "one"
    with pytest.raises(ClusterFailed, match=r"GK4106: cannot read .*/gone"):
        auth.find(environ, kubeconfig_file=str(tmp_path / "gone"))
