"""Helm, and the chart rendered with its defaults without it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from typing import Any

import yaml

from release.source import ROOT
from tests.conftest import need

_CONFIG = re.compile(
    r" *\{\{- if \.Values\.config \}\}.*?\{\{- if not \.Values\.config \}\}\n", re.DOTALL
)
_SECRETS = re.compile(r" *\{\{- with \.Values\.imagePullSecrets \}\}.*?\{\{- end \}\}\n", re.DOTALL)
_RESOURCES = re.compile(r"\n *\{\{- toYaml \.Values\.([\w.]+) \| nindent \d+ \}\}")
_SHARDS = re.compile(
    r" *\{\{- (?:if gt|range \$n)[^\n]*\.Values\.shards.*?\{\{- end \}\}\n", re.DOTALL
)
_IF_ENABLED = re.compile(r"\{\{- if \.Values\.\w+\.enabled \}\}\n")
_BUILT = ROOT / "tests" / "git" / "helm" / "program" / "bin" / "helm"


def helm() -> str:
    """Path of a stock helm."""
    found = shutil.which("helm") or (str(_BUILT) if _BUILT.exists() else "")
    need("helm", present=bool(found), how="put helm on the PATH")
    return found


def rendered(template: str, values: Mapping[str, Any], *, namespace: str, image: str) -> str:
    """A template of the chart as helm renders it with default values, all parts enabled."""

    def resources(found: re.Match[str]) -> str:
        value: Any = values
        for key in found[1].split("."):
            value = value[key]
        return " " + yaml.safe_dump(value, default_flow_style=True).strip()

    for pattern in (_CONFIG, _SECRETS, _SHARDS, _IF_ENABLED):
        template = pattern.sub("", template)
    template = _RESOURCES.sub(resources, template)
    template = re.sub(r"^ *\{\{- end \}\}\n", "", template, flags=re.MULTILINE)
    template = template.replace("{{ .Release.Namespace }}", namespace)
    return template.replace('{{ include "gitkruise.image" . }}', image)
