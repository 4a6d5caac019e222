"""install.yaml and the Helm chart, both from the objects that `gitkruise install` applies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml

from gitkruise.gitops.install.installer import (
    CRD,
    HOME,
    NAMESPACE,
    InstallOptions,
    manifest_text,
    manifests,
    optional_objects,
)
from gitkruise.gitops.install.shards import CONTROLLER, FLAG, LEASES_ROLE, LOOK
from gitkruise.kube.system.lease_terms import SYNC_LEASE, member_lease, shard_lease
from gitkruise.wire.primitives.names import Obj, key_of
from gitkruise.wire.primitives.paths import get, put
from gitkruise.wire.values.images import is_image
from release.archives import File, compressed, tar_of

CHART: Final = Path(__file__).parent / "chart"
NAME: Final = "gitkruise"
CONFIG_FILE: Final = "gitkruise.yaml"
_POD: Final = ("spec", "template", "spec")
_CONTAINER: Final = (*_POD, "containers", 0)
_WORKLOADS: Final = frozenset({"Deployment", "DaemonSet"})
_NAMESPACE: Final = "{{ .Release.Namespace }}"
_IMAGE: Final = '{{ include "gitkruise.image" . }}'
_SECRETS_MARK, _RESOURCES_MARK, _CONFIG_MARK = "@secrets@", "@resources@", "@config@"
_SECRETS: Final = """\
      {{- with .Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
"""
_RESOURCES: Final = """\
        resources:
          {{- toYaml .Values.%sresources | nindent 10 }}
"""
_SHARDS_MARK, _REPLICAS_MARK = "@shards@", "@replicas@"
_LEASES_MARK, _LOOK_MARK = "@leases@", "@look@"
_SHARDED: Final = "{{- if gt (int .Values.shards) 1 }}"
_SHARDS: Final = f"""\
        {_SHARDED}
        - {FLAG}
        - "{{{{ .Values.shards }}}}"
        {{{{- end }}}}
"""
_REPLICAS: Final = f"""\
  {_SHARDED}
  replicas:
    {{{{- toYaml .Values.shards | nindent 4 }}}}
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxSurge: 0
      maxUnavailable: 100%
  {{{{- end }}}}
"""
_EACH: Final = """\
  {{- range $n := until (ternary (int .Values.shards) 0 (gt (int .Values.shards) 1)) }}
  - %s
  {{- end }}
"""
_LOOK: Final = f"""\
  {_SHARDED}
  - {LOOK}
  {{{{- end }}}}
"""
_LEASES: Final = "".join(_EACH % make(SYNC_LEASE, 0).replace("-0", "-{{ $n }}")
                         for make in (shard_lease, member_lease))  # fmt: skip
_CONFIG: Final = """\
  gitkruise.yaml: |
    {{- if .Values.config }}
    {{- .Values.config | nindent 4 }}
    {{- end }}
    {{- if not .Values.config }}
%s
    {{- end }}
"""


def image_reference(repository: str, version: str, digest: str = "") -> str:
    """`repository:version@digest`, as pods name it; the digest is left out when it is empty.

    Raises ValueError for a name that no container runtime can parse.
    """
    reference = f"{repository}:{version}" + (f"@{digest}" if digest else "")
    if not is_image(reference):
        raise ValueError(f"{reference} is no image reference")
    return reference


def install_yaml(image: str) -> str:
    """The output of `gitkruise install --export --image IMAGE`."""
    return manifest_text(manifests(InstallOptions(image=image)))


def chart(version: str, epoch: int, *, repository: str = NAME, digest: str = "") -> bytes:
    """The chart as an archive: sorted entries, with the time of the commit."""
    files = chart_files(version, repository=repository, digest=digest)
    packed = {f"{NAME}/{path}": File(text.encode()) for path, text in files}
    return compressed(tar_of(packed, epoch=epoch))


def chart_files(
    version: str, *, repository: str = NAME, digest: str = ""
) -> Iterator[tuple[str, str]]:
    """(path in the chart, text) of every file.

    The CRDs are in crds/: helm installs those that are missing, and leaves OpenKruise's alone. The
    namespace is not in the chart, because helm needs it before it installs.
    """
    parts = _parts()
    for obj in manifests(InstallOptions(crds_only=True)):
        yield f"crds/{key_of(obj).name}.yaml", manifest_text([obj])
    for name, objects in parts.items():
        text = _template(objects, "" if name == "controller" else f"{name}.")
        if name != "controller":
            text = f"{{{{- if .Values.{name}.enabled }}}}\n{text}{{{{- end }}}}\n"
        yield f"templates/{name}.yaml", text
    words = {"VERSION": version, "REPOSITORY": repository, "DIGEST": digest}
    for name, objects in parts.items():
        words[f"{name.upper()}_RESOURCES"] = _resources(objects, 2 if name == "controller" else 4)
    for path in sorted(p for p in CHART.rglob("*") if p.is_file()):
        target = str(path.relative_to(CHART)).removesuffix(".in")
        text = path.read_text()
        yield target, _filled(text, words) if path.suffix == ".in" else text


def _parts() -> Mapping[str, tuple[Obj, ...]]:
    """Objects of each template, with actions of helm where a user has a choice.

    Raises ValueError if an object has a text that helm would take for an action.
    """
    plain = [*manifests(InstallOptions(webhooks=True)), *optional_objects("agent", HOME)]
    if "{{" in manifest_text(obj for obj in plain if key_of(obj).group_kind != CRD):
        raise ValueError("deploy/ has an object with {{, which helm would evaluate")
    own = manifests(InstallOptions(namespace=_NAMESPACE, image=_IMAGE))
    more = manifests(InstallOptions(namespace=_NAMESPACE, image=_IMAGE, webhooks=True))
    return {
        "controller": tuple(o for o in own if key_of(o).group_kind not in {CRD, NAMESPACE}),
        "webhook": tuple(obj for obj in more if obj not in own),
        "agent": tuple(_with_image(obj) for obj in optional_objects("agent", _NAMESPACE)),
    }


def _with_image(obj: Obj) -> Obj:
    if obj["kind"] not in _WORKLOADS:
        return obj
    changed: Obj = put(obj, (*_CONTAINER, "image"), _IMAGE)
    return changed


def _template(objects: Sequence[Obj], values: str) -> str:
    """Objects as text, with the actions of helm that stand for more than a word."""
    text = manifest_text(_marked(obj) for obj in objects)
    for obj in objects:
        if obj["kind"] == "ConfigMap":
            example = "".join(f"    {line}\n" for line in obj["data"][CONFIG_FILE].splitlines())
            action = _CONFIG % example.rstrip()
            text = _replaced(text, f"  {CONFIG_FILE}: '{_CONFIG_MARK}'\n", action)
        if _named(obj) == CONTROLLER:
            text = _replaced(text, f"        - '{_SHARDS_MARK}'\n", _SHARDS)
            text = _replaced(text, f"  replicas: '{_REPLICAS_MARK}'\n", _REPLICAS)
        if _named(obj) == LEASES_ROLE:
            text = _replaced(text, f"  - '{_LEASES_MARK}'\n", _LEASES)
            text = _replaced(text, f"  - '{_LOOK_MARK}'\n", _LOOK)
    text = _replaced(text, f"      imagePullSecrets: '{_SECRETS_MARK}'\n", _SECRETS)
    return _replaced(text, f"        resources: '{_RESOURCES_MARK}'\n", _RESOURCES % values)


def _marked(obj: Obj) -> Obj:
    if obj["kind"] == "ConfigMap":
        obj = put(obj, ("data", CONFIG_FILE), _CONFIG_MARK)
    if _named(obj) == CONTROLLER:
        args = (*_CONTAINER, "args")
        obj = put(obj, args, [*get(obj, *args), _SHARDS_MARK])
        obj = put(obj, ("spec", "replicas"), _REPLICAS_MARK)
    if _named(obj) == LEASES_ROLE:
        for path, mark in (
            (("rules", 0, "verbs"), _LOOK_MARK),
            (("rules", 1, "resourceNames"), _LEASES_MARK),
        ):
            obj = put(obj, path, [*get(obj, *path), mark])
    if obj["kind"] in _WORKLOADS:
        obj = put(obj, (*_CONTAINER, "resources"), _RESOURCES_MARK)
        obj = put(obj, (*_POD, "imagePullSecrets"), _SECRETS_MARK)
    return obj


def _named(obj: Obj) -> tuple[str, str]:
    return obj["kind"], obj["metadata"]["name"]


def _replaced(text: str, mark: str, action: str) -> str:
    """Put an action in the one place of its mark."""
    if text.count(mark) != 1:
        raise ValueError(f"{text.count(mark)} places have {mark.strip()}, not one")
    return text.replace(mark, action)


def _resources(objects: Iterable[Obj], indent: int) -> str:
    (found,) = (get(o, *_CONTAINER, "resources") for o in objects if o["kind"] in _WORKLOADS)
    lines = yaml.safe_dump(dict(found), sort_keys=False).splitlines()
    return "\n".join(" " * indent + line for line in lines)


def _filled(text: str, words: Mapping[str, str]) -> str:
    for name, value in words.items():
        text = text.replace(f"@{name}@", value)
    return text
