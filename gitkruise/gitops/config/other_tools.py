"""Names of Flux and Argo CD, and the fields of gitkruise that do the same.

Users bring documents and habits from these tools. A finding about such a name says what to write
instead, where a guess by spelling would lead astray (`targetNamespace`, `postBuild`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gitkruise.wire.primitives.names import GroupKind

_FLUX_KUSTOMIZE: Final = "kustomize.toolkit.fluxcd.io"
_FLUX_SOURCE: Final = "source.toolkit.fluxcd.io"
_FLUX_NOTIFY: Final = "notification.toolkit.fluxcd.io"
_KUSTOMIZATION: Final = "write it in the kustomization.yaml of the path"
_CHART: Final = (
    "write render.kind: helm, and render.helm: repository, chart and version; or name the folder of"
    " a chart in path"
)
_NEITHER: Final = "take it out: gitkruise has no such field"

# By the kind and the path of a field without numbers of items.
_FIELDS: Final[Mapping[tuple[str, str], str]] = {
    ("Unit", "spec.targetNamespace"): "write target.namespace",
    ("Unit", "spec.storageNamespace"): "write render.helm.namespace",
    ("Unit", "spec.postBuild"): "write render.substitute: vars for substitute, from for"
                                " substituteFrom",
    ("Unit", "spec.decryption"): "write render.decryption",
    ("Unit", "spec.prune"): "write prune: {enabled: true} or prune: {enabled: false}",
    ("Unit", "spec.deletionPolicy"): "write prune.deletionPolicy",
    ("Unit", "spec.force"): "write apply.replace: onImmutable",
    ("Unit", "spec.timeout"): "write health.timeout",
    ("Unit", "spec.wait"): "take it out: gitkruise waits for the health of all objects",
    ("Unit", "spec.healthChecks"): "take it out: gitkruise waits for the health of all objects",
    ("Unit", "spec.healthCheckExprs"): "write health.exprs",
    ("Unit", "spec.retryInterval"): "take it out: pauses between tries grow by themselves",
    ("Unit", "spec.kubeConfig"): "take it out: a gitkruise applies to one cluster (run --context)",
    ("Unit", "spec.sourceRef.kind"): "take it out: a unit follows a GitSource",
    ("Unit", "spec.dependsOn.readyExpr"): "write ready",
    ("Unit", "spec.patches"): _KUSTOMIZATION,
    ("Unit", "spec.images.name"): f"images of a unit follow a registry; {_KUSTOMIZATION}",
    ("Unit", "spec.images.newName"): _KUSTOMIZATION,
    ("Unit", "spec.images.newTag"): _KUSTOMIZATION,
    ("Unit", "spec.images.digest"): _KUSTOMIZATION,
    ("Unit", "spec.images.image"): "write repository",
    ("Unit", "spec.images.imageRepositoryRef"): "write repository: the image of the"
                                                " ImageRepository",
    ("Unit", "spec.images.exclusionList"): "write filterTags: pattern names what counts",
    ("Unit", "spec.images.certSecretRef"): "write secretRef: its Secret has the certificate",
    ("Unit", "spec.images.provider"): _NEITHER,
    ("Unit", "spec.images.insecure"): _NEITHER,
    ("Unit", "spec.components"): _KUSTOMIZATION,
    ("Unit", "spec.namePrefix"): _KUSTOMIZATION,
    ("Unit", "spec.nameSuffix"): _KUSTOMIZATION,
    ("Unit", "spec.commonMetadata"): _KUSTOMIZATION,
    ("Unit", "spec.chart"): _CHART,
    ("Unit", "spec.chartRef"): _CHART,
    ("Unit", "spec.releaseName"): "write render.helm.releaseName",
    ("Unit", "spec.values"): "write render.helm.values",
    ("Unit", "spec.valuesFrom"): "write render.helm.valuesFrom",
    ("Unit", "spec.install"): _NEITHER,
    ("Unit", "spec.upgrade"): _NEITHER,
    ("Unit", "spec.rollback"): "write onFailure",
    ("Unit", "spec.driftDetection"): "write drift",
    ("Unit", "spec.source"): "name a GitSource in sourceRef, and the folder in path; a chart of a"
                             " repository in render.helm",
    ("Unit", "spec.destination"): "write target.namespace",
    ("Unit", "spec.project"): "name the account with the rights in serviceAccountName",
    ("Unit", "spec.syncPolicy"): "write prune, drift and target.createNamespace",
    ("Unit", "spec.ignoreDifferences"): "write drift.ignore",
    ("Unit", "spec.render.helm.repoURL"): "write repository",
    ("Unit", "spec.render.helm.url"): "write repository",
    ("Unit", "spec.render.helm.sourceRef"): "write repository: the address of the HelmRepository",
    ("Unit", "spec.render.helm.targetRevision"): "write version",
    ("Unit", "spec.render.helm.interval"): "write interval of the unit",
    ("Unit", "spec.render.helm.certSecretRef"): "write secretRef: its Secret has the certificate",
    ("Unit", "spec.render.helm.insecure"): _NEITHER,
    ("Unit", "spec.render.helm.passCredentials"): _NEITHER,
    ("Unit", "spec.render.helm.verify"): _NEITHER,
    ("Unit", "spec.render.helm.valueFiles"): "write valuesFiles",
    ("Unit", "spec.render.helm.valuesObject"): "write values",
    ("Unit", "spec.render.helm.valuesFrom.kind"): "write configMap: NAME or secret: NAME",
    ("Unit", "spec.render.helm.valuesFrom.name"): "write configMap: NAME or secret: NAME",
    ("Unit", "spec.render.helm.valuesFrom.valuesKey"): "write key",
    ("Unit", "spec.render.helm.valuesFrom.targetPath"): _NEITHER,
    ("Unit", "spec.render.substitute.from.kind"): "write configMap: NAME or secret: NAME",
    ("Unit", "spec.render.substitute.from.name"): "write configMap: NAME or secret: NAME",
    ("GitSource", "spec.repoURL"): "write url",
    ("GitSource", "spec.targetRevision"): "write ref",
    ("GitSource", "spec.recurseSubmodules"): _NEITHER,
    ("GitSource", "spec.sparseCheckout"): _NEITHER,
    ("GitSource", "spec.include"): _NEITHER,
    ("GitSource", "spec.suspend"): "suspend the units of the source",
    ("GitSource", "spec.insecure"): "take it out: http is for this machine alone",
    ("GitSource", "spec.certSecretRef"): "write secretRef: its Secret has ca.crt",
    ("GitSource", "spec.proxySecretRef"): _NEITHER,
}  # fmt: skip
_FLUX_IMAGE: Final = "image.toolkit.fluxcd.io"
_UNIT: Final = "a gitkruise Unit does this"
_KINDS: Final[Mapping[GroupKind, str]] = {
    GroupKind(_FLUX_KUSTOMIZE, "Kustomization"):
        f"{_UNIT}: sourceRef, path, target.namespace, render.substitute, prune, interval",
    GroupKind("helm.toolkit.fluxcd.io", "HelmRelease"):
        f"{_UNIT}: render.kind: helm, render.helm with repository, chart, version and values",
    GroupKind("argoproj.io", "Application"):
        f"{_UNIT}: sourceRef for source.repoURL, path, target.namespace, prune, drift; a chart is"
        " in render.helm",
    GroupKind("argoproj.io", "ApplicationSet"): f"{_UNIT}: write one for each application",
    GroupKind("argoproj.io", "AppProject"):
        "the serviceAccountName of a gitkruise Unit bounds what it may write",
    GroupKind(_FLUX_SOURCE, "GitRepository"):
        "a gitkruise GitSource does this: url, ref, interval, secretRef, verify, ignore",
    GroupKind(_FLUX_SOURCE, "HelmRepository"):
        "a gitkruise Unit names the address itself: render.helm.repository, secretRef",
    GroupKind(_FLUX_SOURCE, "HelmChart"):
        "a gitkruise Unit names the chart itself: render.helm.repository, chart, version",
    GroupKind(_FLUX_SOURCE, "OCIRepository"):
        "a gitkruise GitSource does this: url oci://HOST/NAME, ref with tag, semver or digest,"
        " secretRef, verify",
    GroupKind(_FLUX_SOURCE, "Bucket"):
        "gitkruise follows git repositories and artifacts of registries: a GitSource",
    GroupKind(_FLUX_IMAGE, "ImageRepository"):
        "a gitkruise Unit does this: images with repository, secretRef and interval",
    GroupKind(_FLUX_IMAGE, "ImagePolicy"):
        "a gitkruise Unit does this: images with policy and filterTags",
    GroupKind(_FLUX_IMAGE, "ImageUpdateAutomation"):
        "a gitkruise Unit does this: images with write: commit or pullRequest; comments that mark"
        " fields are not needed",
    GroupKind(_FLUX_NOTIFY, "Receiver"): "a gitkruise Receiver does this: type, secretRef, sources",
    GroupKind(_FLUX_NOTIFY, "Alert"): "a gitkruise Sink does this: notify",
    GroupKind(_FLUX_NOTIFY, "Provider"): "a gitkruise Sink does this: forge or notify",
}  # fmt: skip


def instead_of_field(kind: str, path: Sequence[str | int]) -> str:
    """Return what to write instead of a field of a gitkruise document; "" for an unknown name."""
    return _FIELDS.get((kind, ".".join(str(part) for part in path if isinstance(part, str))), "")


def instead_of_kind(kind: GroupKind) -> str:
    """Return what does the work of another tool's kind; "" for any other kind."""
    return _KINDS.get(kind, "")
