"""Address and identity for a cluster: from a kubeconfig, or inside a pod."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gitkruise.errors import ClusterFailed, Finding
from gitkruise.kube.auth import kubeconfig
from gitkruise.kube.auth.credentials import (
    Header,
    IssuedCredentials,
    KubeconfigHeader,
    Plugin,
    RequestCredentials,
    TokenFile,
)
from gitkruise.kube.auth.exec_plugin import PluginFailed, run_plugin
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.private_files import read_regular
from gitkruise.wire.primitives.names import Obj

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_KUBECONFIG: Final = Path("~/.kube/config")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A cluster to talk to. PEM texts are contents, not paths; `server` has no trailing slash.

    `client_pair` reads certificate and key of the client again, after the server refused them, and
    `authorities` what is trusted, after the server showed a certificate that is not.
    `context` and `other_contexts` only serve messages; `inside` says that we run in one of its
    pods.
    """

    server: str
    credentials: RequestCredentials = field(default_factory=Header)
    namespace: str = "default"
    context: str = ""
    other_contexts: tuple[str, ...] = ()
    ca_pem: str = ""  # "" trusts the system's authorities
    authorities: Callable[[], str] | None = None
    client_cert_pem: str = ""
    client_key_pem: str = field(default="", repr=False)
    client_pair: Callable[[], tuple[str, str]] | None = None
    verify: bool = True
    tls_server_name: str = ""
    proxy: str = ""
    inside: bool = False

    @property
    def host(self) -> str:
        """`host:port`, for messages."""
        return urlsplit(self.server).netloc.rpartition("@")[2]

    def ssl_context(self) -> ssl.SSLContext | None:
        """TLS 1.2 or later with host names checked; None for plain http.

        Raises ClusterFailed GK4106 when a certificate or key is not one.
        """
        if not self.server.startswith("https://"):
            return None
        try:
            context = ssl.create_default_context(cadata=self.ca_pem or None)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if not self.verify:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            if self.client_cert_pem:
                _load_pair(context, self.client_cert_pem, self.client_key_pem)
        except (ssl.SSLError, ValueError) as error:
            raise kubeconfig.broken(
                f"a certificate or key for {self.host} is unusable", str(error)
            ) from error
        return context


def in_cluster(environ: Mapping[str, str], root: Path = SERVICE_ACCOUNT) -> Connection | None:
    """The cluster whose pod we run in, with the pod's service account; None outside of one."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port or not (root / "token").exists():
        return None
    address = f"[{host}]" if ":" in host else host
    namespace = root / "namespace"
    return Connection(
        server=f"https://{address}:{port}",
        credentials=TokenFile(root / "token"),
        namespace=_text_of(namespace).strip() if namespace.exists() else "default",
        ca_pem=_text_of(root / "ca.crt"),
        authorities=partial(_text_of, root / "ca.crt"),
        inside=True,
    )


def from_kubeconfig(paths: Sequence[Path], *, context: str = "") -> Connection:
    """The chosen (or current) context of one or several kubeconfig files, merged as kubectl does.

    Raises ClusterFailed: GK4106 a file cannot be read or is no kubeconfig, GK4103 no such context.
    """
    config = kubeconfig.merged(paths)
    chosen = kubeconfig.choose(config, context)
    now = partial(_chosen_again, paths, chosen)
    base = Connection(
        server=chosen.server,
        namespace=chosen.namespace,
        context=chosen.context,
        other_contexts=chosen.others,
        ca_pem=chosen.ca_pem,
        authorities=lambda: now().ca_pem,
        client_cert_pem=chosen.client_cert_pem,
        client_key_pem=chosen.client_key_pem,
        client_pair=(lambda: _pair(now())) if chosen.client_cert_pem else None,
        verify=chosen.verify,
        tls_server_name=chosen.tls_server_name,
        proxy=chosen.proxy,
    )
    if chosen.plugin:
        return _plugged(base, chosen, config)
    if chosen.token_file and not chosen.token:
        return replace(base, credentials=TokenFile(Path(chosen.token_file)))
    value = _authorization(chosen)
    again = KubeconfigHeader(value, lambda: _authorization(now()))
    return replace(base, credentials=again) if value else base


def find(environ: Mapping[str, str], *, kubeconfig_file: str = "", context: str = "") -> Connection:
    """As kubectl finds its cluster: the flag, $KUBECONFIG, ~/.kube/config, then the pod's own.

    Raises ClusterFailed GK4106 when there is none, and what `from_kubeconfig` raises.
    """
    named = kubeconfig_file or environ.get("KUBECONFIG", "")
    if named:
        files = [named] if kubeconfig_file else [part for part in named.split(":") if part]
        paths = [Path(part).expanduser() for part in files]
        present = [path for path in paths if path.exists()]
        return from_kubeconfig(present or paths[:1], context=context)
    usual = DEFAULT_KUBECONFIG.expanduser()
    if usual.exists():
        return from_kubeconfig([usual], context=context)
    inside = in_cluster(environ)
    if inside is None:
        raise kubeconfig.broken(
            "no cluster is configured",
            f"there is no {DEFAULT_KUBECONFIG}, KUBECONFIG is not set, and this is not a pod",
            kubeconfig.NO_CLUSTER,
        )
    return inside


def _authorization(chosen: kubeconfig.ResolvedContext) -> str:
    """Return the Authorization header of a context; "" for a client certificate or nothing."""
    if chosen.basic:
        return f"Basic {chosen.basic}"
    return f"Bearer {chosen.token}" if chosen.token else ""


def _pair(chosen: kubeconfig.ResolvedContext) -> tuple[str, str]:
    return chosen.client_cert_pem, chosen.client_key_pem


def _chosen_again(
    paths: Sequence[Path], before: kubeconfig.ResolvedContext
) -> kubeconfig.ResolvedContext:
    """Return the context as it is now, of the same server only: a token must not reach another
    one."""
    now = kubeconfig.choose(kubeconfig.merged(paths), before.context)
    if now.server != before.server:
        raise kubeconfig.broken(
            f'context "{now.context}" is of another server now',
            f"{now.server}, before {before.server}",
            "start gitkruise again",
        )
    return now


def _plugged(base: Connection, chosen: kubeconfig.ResolvedContext, config: Obj) -> Connection:
    """Return `base` with the credentials of an exec or auth-provider plugin, which runs now."""

    def issue() -> IssuedCredentials:
        try:
            if chosen.plugin == kubeconfig.EXEC:
                return run_plugin(chosen.exec, chosen.cluster)
            return _by_official_client(config, chosen.context)
        except PluginFailed as error:
            raise _no_credentials(chosen, str(error)) from error

    plugin = Plugin(issue, SystemClock())

    def pair() -> tuple[str, str]:
        issued = plugin.issued
        return issued.cert_pem or base.client_cert_pem, issued.key_pem or base.client_key_pem

    cert, key = pair()
    return replace(
        base, credentials=plugin, client_cert_pem=cert, client_key_pem=key, client_pair=pair
    )


def _by_official_client(config: Obj, context: str) -> IssuedCredentials:
    """Return the credentials of an auth-provider entry. Raises PluginFailed. Blocking."""
    from kubernetes.client import Configuration  # noqa: PLC0415  costs 160 ms
    from kubernetes.config import ConfigException, load_kube_config_from_dict  # noqa: PLC0415

    found = Configuration()
    try:
        load_kube_config_from_dict(  # type: ignore[no-untyped-call]  # it ships no types
            config, context=context, client_configuration=found, persist_config=False
        )
    except (ConfigException, OSError, ValueError) as error:
        raise PluginFailed(str(error)) from error
    header = found.auth_settings().get("BearerToken", {}).get("value") or ""
    if not header and not found.cert_file:
        raise PluginFailed("it failed, or gave neither a token nor a certificate")
    return IssuedCredentials(
        header=header, cert_pem=_text_of(found.cert_file), key_pem=_text_of(found.key_file)
    )


def _no_credentials(chosen: kubeconfig.ResolvedContext, why: str) -> ClusterFailed:
    notes = (
        ("", why),
        ("unchanged", "nothing was read or written"),
        ("other contexts", ", ".join(chosen.others)),
        ("next", f"kubectl --context {chosen.context} get namespaces"),
    )
    message = f'the {chosen.plugin} plugin of context "{chosen.context}" gives no credentials'
    return ClusterFailed(
        Finding(code="GK4104", message=message, notes=tuple(note for note in notes if note[1]))
    )


def _text_of(path: str | Path | None) -> str:
    """The text of a file, "" for none. Raises ClusterFailed GK4106 where it cannot be read."""
    try:
        return read_regular(Path(path)).decode() if path else ""
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", "") or "it is not UTF-8 text"
        raise kubeconfig.broken(f"cannot read {path}", why) from error


def _load_pair(context: ssl.SSLContext, cert_pem: str, key_pem: str) -> None:
    """Load a client certificate through private files: OpenSSL reads it from nowhere else."""
    with tempfile.TemporaryDirectory(prefix="gitkruise-") as folder:
        cert, key = Path(folder) / "cert", Path(folder) / "key"
        for path, text in ((cert, cert_pem), (key, key_pem or cert_pem)):
            path.touch(mode=0o600)
            path.write_text(text)
        context.load_cert_chain(cert, key)
