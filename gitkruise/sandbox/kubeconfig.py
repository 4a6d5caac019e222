"""Kubeconfig files for the sandbox: one cluster, one user, one context, written whole."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from gitkruise.errors import Finding, UsageProblem
from gitkruise.kube.system.private_files import read_regular, write_private

NAME: Final = "gitkruise-sandbox"
MARK: Final = "# written by gitkruise sandbox; overwritten at each start"


def kubeconfig_text(url: str, ca: str, token: str) -> str:
    """A complete kubeconfig. Its YAML scalars are JSON strings, so nothing needs quoting rules."""
    ca_data = base64.b64encode(ca.encode()).decode()
    quoted = {"url": json.dumps(url), "token": json.dumps(token), "name": json.dumps(NAME)}
    return f"""{MARK}
apiVersion: v1
kind: Config
clusters:
- name: {quoted["name"]}
  cluster:
    server: {quoted["url"]}
    certificate-authority-data: {ca_data}
users:
- name: {quoted["name"]}
  user:
    token: {quoted["token"]}
contexts:
- name: {quoted["name"]}
  context:
    cluster: {quoted["name"]}
    user: {quoted["name"]}
    namespace: default
current-context: {quoted["name"]}
preferences: {{}}
"""


@contextmanager
def written(path: Path, text: str) -> Iterator[None]:
    """`text` at `path` while the block lasts; removed afterwards unless it was changed.

    Raises UsageProblem GK7018 rather than overwrite a kubeconfig that is not a sandbox's.
    """
    try:
        found = read_regular(path)
    except FileNotFoundError:
        found = MARK.encode()
    except OSError as error:
        raise _foreign(path, error.strerror or str(error)) from error
    if not found.startswith(MARK.encode()):
        raise _foreign(path, "writing it would lose the clusters and users it holds")
    write_private(path, text.encode())
    try:
        yield
    finally:
        with suppress(OSError):  # it is another's now
            if read_regular(path) == text.encode():
                path.unlink()


def _foreign(path: Path, why: str) -> UsageProblem:
    words = "name another file with --kubeconfig, and list both in KUBECONFIG"
    return UsageProblem(
        Finding(
            code="GK7018",
            message=f"{path} is not a kubeconfig of a sandbox",
            notes=(("why", why), ("unchanged", "the file was left as it is"), ("next", words)),
        )
    )
