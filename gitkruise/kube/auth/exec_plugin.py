"""One run of the exec plugin of a kubeconfig (client.authentication.k8s.io), within a time limit.

The official client speaks to the plugin, and waits for it for ever. Where no user can help it, the
plugin therefore runs below `limited_plugin`, which ends it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

from gitkruise.kube.auth.credentials import IssuedCredentials
from gitkruise.wire.primitives.times import parse_time

# Less than a request waits, so that its error names the plugin. A person at a terminal has time.
UNATTENDED_S: Final = 20.0
_OUTPUT_MAX: Final = 300  # characters of its complaint in ours
_LIMITED: Final = "from gitkruise.kube.auth.limited_plugin import main; main()"


class PluginFailed(Exception):
    """The plugin ran, or could not, and issued nothing."""


def run_plugin(spec: Mapping[str, Any], cluster: Mapping[str, Any]) -> IssuedCredentials:
    """Run the plugin that `spec`, a user's `exec`, describes. Raises PluginFailed. Blocking."""
    from kubernetes.config import ConfigException, exec_provider, kube_config  # noqa: PLC0415  160 ms

    # The package ships no types.
    ExecProvider: Any = exec_provider.ExecProvider
    ConfigNode: Any = kube_config.ConfigNode
    try:
        user, where = ConfigNode("exec", dict(spec)), ConfigNode("cluster", dict(cluster))
        provider = ExecProvider(user, None, where)
        if not sys.stdout.isatty():  # by which the client decides, too
            provider.args[:0] = [sys.executable, "-P", "-c", _LIMITED, str(UNATTENDED_S)]
        status = provider.run()
    except ConfigException as error:
        raise PluginFailed(str(error).removeprefix("exec: ")[:_OUTPUT_MAX]) from error
    except (OSError, TypeError, ValueError) as error:
        raise PluginFailed(f"it cannot be started: {error}") from error
    except AttributeError as error:  # of the client, whose user has seen why on the terminal
        raise PluginFailed("it failed") from error
    return _issued(status)


def _issued(status: Any) -> IssuedCredentials:
    """Return what the status of an ExecCredential says; no error quotes it."""
    try:
        issued = IssuedCredentials(
            header=f"Bearer {status['token']}" if status.get("token") else "",
            cert_pem=status.get("clientCertificateData") or "",
            key_pem=status.get("clientKeyData") or "",
            until=parse_time(status.get("expirationTimestamp")),
        )
    except (AttributeError, TypeError, ValueError) as error:
        raise PluginFailed("its output is no ExecCredential") from error
    if not issued.header and not (issued.cert_pem and issued.key_pem):
        raise PluginFailed("it gives neither a token nor a certificate with its key")
    return issued
