"""Kubeconfig files for the sandbox: one cluster, one user, one context, written whole."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gitkruise.errors import Finding, UsageProblem
from gitkruise.kube.private import write_private

NAME: Final = "gitkruise-sandbox"
MARK: Final = "# written by gitkruise sandbox; overwritten at each start"


def kubeconfig_text(url: str, ca: str, token: str, *, name: str = NAME) -> str:
    """A complete kubeconfig. Its YAML scalars are JSON strings, so nothing needs quoting rules."""
    ca_data = base64.b64encode(ca.encode()).decode()
    quoted = {"url": json.dumps(url), "token": json.dumps(token), "name": json.dumps(name)}
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
    """`text` at `path` while the block lasts; removed after it unless somebody changed it.

    Raises UsageProblem GK7018 rather than overwrite a kubeconfig that is not a sandbox's.
    """
    if path.exists() and not path.read_text().startswith(MARK):
        raise UsageProblem(
            Finding(
                code="GK7018",
                message=f"{path} is not a kubeconfig of a sandbox",
                notes=(
                    ("why", "writing it would lose the clusters and users it holds"),
                    ("next", "name another file with --kubeconfig, and list both in KUBECONFIG"),
                ),
            )
        )
    write_private(path, text.encode())
    try:
        yield
    finally:
        if path.exists() and path.read_text() == text:
            path.unlink()
