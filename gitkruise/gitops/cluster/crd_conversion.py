"""Failures of the webhook that converts the objects of a CRD between its versions."""

from __future__ import annotations

import re
from typing import Final

# What kube-apiserver answers with 500 to every read and write that needs a conversion.
_FAILED: Final = re.compile(r"conversion webhook for \S+, Kind=\S+ failed: (.+)", re.DOTALL)
_COLUMNS: Final = "CRD:.metadata.name,BY:.spec.conversion.webhook.clientConfig.service"


def unconverted(message: str) -> str:
    """Return the reason why an API server cannot convert an object; "" for any other failure."""
    found = _FAILED.search(message)
    return found[1] if found else ""


def look_at(group: str) -> str:
    """Return the next step: see which servers convert the objects of the CRDs of `group`."""
    return f"start what converts it: kubectl get crds -o custom-columns={_COLUMNS} | grep {group}"
