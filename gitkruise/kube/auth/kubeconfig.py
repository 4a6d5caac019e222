"""Reading kubeconfig files: merged as kubectl merges them, one context chosen."""

from __future__ import annotations

import base64
import logging
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from gitkruise.errors import ClusterFailed, Finding
from gitkruise.kube.system.private_files import read_regular
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.base64_text import decoded

_FILES: Final = {
    "certificate-authority",
    "client-certificate",
    "client-key",
    "tokenFile",
}
# What is read of a file: a map of fields, a list of one kind of item, or a type. kubectl refuses
# a file in which a field has another type; a field may be left empty.
_CLUSTER: Final[Mapping[str, Any]] = {
    "server": str, "certificate-authority": str, "certificate-authority-data": str,
    "insecure-skip-tls-verify": bool, "tls-server-name": str, "proxy-url": str,
}  # fmt: skip
_EXEC: Final[Mapping[str, Any]] = {
    "apiVersion": str, "command": str, "args": [str], "env": [{"name": str, "value": str}],
    "installHint": str, "interactiveMode": str, "provideClusterInfo": bool,
}  # fmt: skip
_USER: Final[Mapping[str, Any]] = {
    "token": str, "tokenFile": str, "username": str, "password": str,
    "client-certificate": str, "client-certificate-data": str,
    "client-key": str, "client-key-data": str,
    "exec": _EXEC, "auth-provider": {"name": str, "config": {}},
}  # fmt: skip
_FILE: Final[Mapping[str, Any]] = {
    "current-context": str,
    "clusters": [{"name": str, "cluster": _CLUSTER}],
    "users": [{"name": str, "user": _USER}],
    "contexts": [{"name": str, "context": {"cluster": str, "user": str, "namespace": str}}],
}
_WORDS: Final = {str: "text", bool: "true or false"}
_NESTING_MAX: Final = 100
log = logging.getLogger(__name__)
EXEC: Final = "exec"
_PLUGINS: Final = (EXEC, "auth-provider")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedContext:
    """One context, resolved: PEM texts are contents; `plugin` names what must make credentials."""

    context: str
    others: tuple[str, ...]
    server: str
    namespace: str
    ca_pem: str
    verify: bool
    tls_server_name: str
    proxy: str
    client_cert_pem: str
    client_key_pem: str = field(repr=False)
    token: str = field(repr=False)
    token_file: str
    basic: str = field(repr=False)  # "user:password", base64
    plugin: str
    exec: Mapping[str, Any] = field(repr=False)  # its environment may hold secrets
    cluster: Mapping[str, Any]  # which such a plugin may see


def merged(paths: Sequence[Path]) -> dict[str, Any]:
    """The files as one: the first to name an entry (or the current context) wins.

    Relative file names in it become absolute, from the folder of the file that holds them.
    Raises ClusterFailed GK4106 for a file that cannot be read or is no kubeconfig.
    """
    whole: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [],
        "users": [],
        "contexts": [],
        "current-context": "",
    }
    for path in paths:
        one = _read(path)
        whole["current-context"] = whole["current-context"] or one.get("current-context") or ""
        for section in ("clusters", "users", "contexts"):
            known = {entry["name"] for entry in whole[section]}
            for entry in one.get(section) or ():
                if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                    raise broken(f"{path} is no kubeconfig", f"an entry of {section} has no name")
                if entry["name"] not in known:
                    whole[section].append(_absolute(entry, path.parent))
    return whole


def choose(config: Mapping[str, Any], context: str = "") -> ResolvedContext:
    """The named or current context. Raises ClusterFailed GK4106, GK4103."""
    names = tuple(entry["name"] for entry in config["contexts"])
    name = context or config["current-context"]
    if not name and len(names) == 1:
        name = names[0]
    if name not in names:
        what = f'there is no context "{name}"' if name else "no current context is set"
        raise _no_context(what, names)
    entry = _entry(config, "contexts", name).get("context") or {}
    cluster = _entry(config, "clusters", entry.get("cluster") or "").get("cluster") or {}
    user: Mapping[str, Any] = {}
    if entry.get("user"):
        user = _entry(config, "users", entry["user"]).get("user") or {}
    server = str(cluster.get("server") or "")
    if not server.startswith(("https://", "http://")):
        raise broken(f'context "{name}" has no server address', f"it says {server!r}")
    basic = f"{user.get('username')}:{user.get('password') or ''}" if user.get("username") else ""
    return ResolvedContext(
        context=name,
        others=tuple(other for other in names if other != name),
        server=server.rstrip("/"),
        namespace=entry.get("namespace") or "default",
        ca_pem=_pem(cluster, "certificate-authority"),
        verify=not cluster.get("insecure-skip-tls-verify"),
        tls_server_name=cluster.get("tls-server-name") or "",
        proxy=cluster.get("proxy-url") or "",
        client_cert_pem=_pem(user, "client-certificate"),
        client_key_pem=_pem(user, "client-key"),
        token=user.get("token") or "",
        token_file=user.get("tokenFile") or "",
        basic=base64.b64encode(basic.encode()).decode() if basic else "",
        plugin=next((plugin for plugin in _PLUGINS if user.get(plugin)), ""),
        exec=user.get(EXEC) or {},
        cluster=cluster,
    )


NO_CLUSTER: Final = (
    "name one with --kubeconfig FILE; or use the embedded cluster: gitkruise sandbox up --detach,"
    " then this command with --sandbox"
)


def broken(message: str, why: str, next_step: str = "kubectl config view") -> ClusterFailed:
    """GK4106: the way to the cluster is not described well enough to try it."""
    notes = (("", why), ("unchanged", "nothing was read or written"), ("next", next_step))
    return ClusterFailed(Finding(code="GK4106", message=message, notes=notes))


def _no_context(what: str, names: Sequence[str]) -> ClusterFailed:
    known = ", ".join(names) or "none"
    notes = (
        ("contexts", known),
        ("unchanged", "nothing was read or written"),
        ("next", f"--context {names[0]}" if names else NO_CLUSTER),
    )
    return ClusterFailed(Finding(code="GK4103", message=what, notes=notes))


def _read(path: Path) -> dict[str, Any]:
    try:
        data = read_regular(path)
        if path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            log.warning(
                log_line("kubeconfig-readable-by-others", file=path, next=f"chmod 600 {path}")
            )
        _check_nesting(path, data)
        value = yaml.load(data, Loader=yaml.CSafeLoader)
    except FileNotFoundError as error:
        raise broken(f"cannot read {path}", "it does not exist", NO_CLUSTER) from error
    except OSError as error:
        raise broken(f"cannot read {path}", error.strerror or str(error)) from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise broken(f"{path} is no kubeconfig", str(error).replace("\n", " ")) from error
    if not isinstance(value, dict):
        raise broken(f"{path} is no kubeconfig", "it is empty or no mapping")
    for why in _misfits(value, _FILE, ""):
        raise broken(f"{path} is no kubeconfig", why)
    return value


def _misfits(value: Any, shape: Any, at: str) -> Iterator[str]:
    """Yield a sentence for each field of another type than its shape; no value is quoted."""
    if value is None:
        return
    if isinstance(shape, type):
        if not isinstance(value, shape):
            yield f"{at} is not {_WORDS[shape]}"
    elif isinstance(shape, list):
        if isinstance(value, list):
            for number, item in enumerate(value):
                yield from _misfits(item, shape[0], f"{at}[{number}]")
        else:
            yield f"{at} is not a list"
    elif isinstance(value, dict):
        for key, inner in shape.items():
            yield from _misfits(value.get(key), inner, f"{at}.{key}".lstrip("."))
    else:
        yield f"{at} is not a map"


def _check_nesting(path: Path, data: bytes) -> None:
    """Refuse what the loader, which calls itself for each level, could not survive."""
    depth = 0
    for event in yaml.parse(data, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _NESTING_MAX:
            raise broken(f"{path} is no kubeconfig", f"it nests over {_NESTING_MAX} levels")


def _absolute(entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    out = dict(entry)
    for section in ("cluster", "user"):
        inner = entry.get(section)
        if isinstance(inner, dict):
            named = {k: str(folder / v) for k, v in inner.items() if k in _FILES and v}
            out[section] = {**inner, **named}
            command = get(inner, "exec", "command", default="")
            if "/" in command:
                out[section]["exec"] = {**inner["exec"], "command": str(folder / command)}
    return out


def _entry(config: Mapping[str, Any], section: str, name: str) -> Mapping[str, Any]:
    for entry in config[section]:
        if entry["name"] == name:
            found: Mapping[str, Any] = entry
            return found
    raise broken(
        f"the kubeconfig has no {section.removesuffix('s')} {name!r}", "a context names it"
    )


def _pem(section: Mapping[str, Any], name: str) -> str:
    """`name-data` (base64) before the file `name`."""
    data, path = section.get(f"{name}-data"), section.get(name)
    try:
        if data:
            return decoded(data).decode()
        return read_regular(Path(path)).decode() if path else ""
    except ValueError as error:
        raise broken(f"{name}-data of the kubeconfig is no base64 PEM", str(error)) from error
    except OSError as error:
        raise broken(f"cannot read {path}", error.strerror or str(error)) from error
