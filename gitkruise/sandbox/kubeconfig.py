"""Kubeconfig files for the sandbox: one cluster, one user, one context, written whole."""

from __future__ import annotations

import base64
import json
import os
import tempfile
from pathlib import Path
from typing import Final

NAME: Final = "gitkruise-sandbox"


def kubeconfig_text(url: str, ca: str, token: str, *, name: str = NAME) -> str:
    """A complete kubeconfig (YAML; the scalars are JSON strings, so nothing needs quoting rules)."""
    ca_data = base64.b64encode(ca.encode()).decode()
    quoted = {"url": json.dumps(url), "token": json.dumps(token), "name": json.dumps(name)}
    return f"""apiVersion: v1
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


def write_private(path: Path, data: bytes) -> None:
    """Write a file of mode 0600 so that a reader sees the old or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mkstemp: 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
