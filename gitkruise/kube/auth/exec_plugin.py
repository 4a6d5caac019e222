"""One run of the exec plugin of a kubeconfig (client.authentication.k8s.io), within a time limit.

The official client waits for a plugin for ever, and keeps the reason of a failure to its log.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from typing import Any, Final

from gitkruise.kube.auth.credentials import IssuedCredentials
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import parse_time

# Less than a request waits, so that its error names the plugin. A person at a terminal has time.
UNATTENDED_S: Final = 20.0
_OUTPUT_MAX: Final = 300  # characters of its complaint in ours
_EXTENSION: Final = "client.authentication.k8s.io/exec"


class PluginFailed(Exception):
    """The plugin ran, or could not, and issued nothing."""


def run_plugin(spec: Mapping[str, Any], cluster: Mapping[str, Any]) -> IssuedCredentials:
    """Run the plugin that `spec`, a user's `exec`, describes. Raises PluginFailed. Blocking."""
    attended = spec.get("interactiveMode") != "Never" and os.isatty(0)
    named = {one["name"]: str(one["value"]) for one in spec.get("env") or ()}
    given = {"KUBERNETES_EXEC_INFO": json.dumps(_asked(spec, cluster, attended=attended))}
    inherited = os.environ  # noqa: TID251  a plugin finds its own settings there
    try:
        process = subprocess.Popen(  # noqa: S603  the kubeconfig of this user names it
            [spec["command"], *map(str, spec.get("args") or ())],
            env={**inherited, **named, **given},
            stdin=None if attended else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if attended else subprocess.PIPE,
            start_new_session=not attended,
        )
    except (OSError, KeyError, ValueError) as error:
        raise PluginFailed(f"it cannot be started: {error}") from error
    with process:
        try:
            output, complaint = process.communicate(timeout=None if attended else UNATTENDED_S)
        except subprocess.TimeoutExpired as error:
            os.killpg(process.pid, signal.SIGKILL)  # what it started may hold its output open
            raise PluginFailed(f"it did not end within {UNATTENDED_S:g} s") from error
    if process.returncode:
        said = (complaint or b"").decode("utf-8", "replace").strip()[-_OUTPUT_MAX:]
        raise PluginFailed(f"it ended with {process.returncode}: {said}".rstrip(": "))
    return _issued(output, str(spec.get("apiVersion")))


def _asked(
    spec: Mapping[str, Any], cluster: Mapping[str, Any], *, attended: bool
) -> dict[str, Any]:
    """Return the ExecCredential that a plugin reads."""
    wanted: dict[str, Any] = {"interactive": attended}
    if spec.get("provideClusterInfo"):
        extensions = cluster.get("extensions") or ()
        own = [one.get("extension") for one in extensions if one.get("name") == _EXTENSION]
        wanted["cluster"] = {k: v for k, v in cluster.items() if k != "extensions"}
        wanted["cluster"] |= {"config": own[0]} if own else {}
    return {"apiVersion": spec.get("apiVersion"), "kind": "ExecCredential", "spec": wanted}


def _issued(output: bytes, api_version: str) -> IssuedCredentials:
    """Return what the ExecCredential of a plugin says; its text may hold a token, and no error
    quotes it."""
    try:
        answer = json.loads(output)
        version, status = answer.get("apiVersion"), get(answer, "status", default={})
        issued = IssuedCredentials(
            header=f"Bearer {status['token']}" if status.get("token") else "",
            cert_pem=status.get("clientCertificateData") or "",
            key_pem=status.get("clientKeyData") or "",
            until=parse_time(status.get("expirationTimestamp")),
        )
    except (ValueError, AttributeError, TypeError) as error:
        raise PluginFailed("its output is no ExecCredential") from error
    if version != api_version:
        raise PluginFailed(f"it answers in {version}, not in {api_version}")
    if not issued.header and not (issued.cert_pem and issued.key_pem):
        raise PluginFailed("it gives neither a token nor a certificate with its key")
    return issued
