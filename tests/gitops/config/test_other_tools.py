"""Documents of Flux and Argo CD among manifests: findings say what does the same here."""

from __future__ import annotations

from json import dumps
from typing import Final

import pytest
from msgspec.structs import replace

from gitkruise.git.parsing.documents import parse_file
from gitkruise.gitops.build.validate import check_documents
from gitkruise.gitops.reconcile.preflight import unserved
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.config import Reference, Unit, UnitSpec
from gitkruise.model.gitops.document import Desired
from gitkruise.wire.primitives.names import ObjectKey
from tests.gitops.status.test_health_checks import CRD

WEB: Final = Unit("shop", "web", UnitSpec(source_ref=Reference(name="src")))
FOREIGN = [
    ("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "sourceRef, path, target.namespace"),
    ("helm.toolkit.fluxcd.io/v2", "HelmRelease", "render.kind: helm"),
    ("argoproj.io/v1alpha1", "Application", "sourceRef for source.repoURL"),
    ("source.toolkit.fluxcd.io/v1", "GitRepository", "GitSource"),
    ("source.toolkit.fluxcd.io/v1", "OCIRepository", "url oci://HOST/NAME"),
    ("source.toolkit.fluxcd.io/v1", "HelmRepository", "render.helm.repository, secretRef"),
    ("image.toolkit.fluxcd.io/v1", "ImageRepository", "images with repository, secretRef"),
    ("image.toolkit.fluxcd.io/v1", "ImagePolicy", "images with policy and filterTags"),
    ("image.toolkit.fluxcd.io/v1", "ImageUpdateAutomation", "images with write"),
    ("example.com/v1", "Application", "install the CRD"),
    ("autoscaling/v2beta2", "HorizontalPodAutoscaler", "write apiVersion: autoscaling/v2, kind:"),
    ("extensions/v1beta1", "Ingress", "write apiVersion: networking.k8s.io/v1, kind: Ingress"),
]


@pytest.mark.parametrize(("api_version", "kind", "words"), FOREIGN, ids=[r[1] for r in FOREIGN])
def test_a_kind_that_is_not_served_says_what_does_its_work(
    api_version: str, kind: str, words: str
) -> None:
    text = f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a, namespace: b}}\n"
    catalog = load_catalog()
    objects, findings = check_documents(
        parse_file(text.encode(), "a.yaml").documents, catalog, namespace="shop"
    )
    assert not findings
    (finding,) = unserved(objects, catalog, dict.fromkeys((d.key for d in objects), WEB))
    assert finding.code == "GK4201"
    assert words in dict(finding.notes)["next"]


UNIT = """\
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {name: web}
spec:
  sourceRef: {name: src}
  targetNamespace: shop
"""


def test_a_unit_among_manifests_says_what_to_write() -> None:
    documents = parse_file(UNIT.encode(), "a.yaml").documents
    _, (finding,) = check_documents(documents, load_catalog(), namespace="shop")
    assert (finding.code, str(finding.places[0])) == ("GK1203", "a.yaml:6:3")
    assert dict(finding.notes)["next"] == "write target.namespace"


def test_a_definition_in_one_unit_excuses_no_unknown_kind_of_another() -> None:
    texts = ("apiVersion: extensions/v1beta1\nkind: Ingress\nmetadata: {name: a}\n", dumps(CRD))
    catalog = load_catalog()
    objects: list[Desired] = []
    units: dict[ObjectKey, Unit] = {}
    for name, text in zip(("web", "crds"), texts, strict=True):
        document = parse_file(text.encode(), f"{name}.yaml").documents
        (made,), _ = check_documents(document, catalog, namespace="shop")
        objects.append(made)
        units[made.key] = replace(WEB, name=name)
    assert [f.object for f in unserved(objects, catalog, units)] == ["Ingress a"]
