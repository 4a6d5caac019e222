"""Changes of a plan on a cluster that has OpenKruise's CRDs and none of its webhooks."""

from __future__ import annotations

from typing import Any, Final

from gitkruise.admission.conversion.registry import convert, lost_fields
from gitkruise.gitops.build.kruise_defaulting import dialect_of
from gitkruise.gitops.preview.changes import changes_between, with_live
from gitkruise.kube.client.discovery import served_by
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import Obj
from tests.planner.sync.build import desired, thing
from tests.worlds import installable_crds

OURS: Final = {
    "manager": "gitkruise",
    "operation": "Apply",
    "apiVersion": "apps.kruise.io/v1beta1",
    "fieldsType": "FieldsV1",
    "fieldsV1": {
        "f:spec": {
            "f:revisionHistoryLimit": {},
            "f:minReadySeconds": {},
            "f:template": {"f:spec": {"f:dnsPolicy": {}}},
        }
    },
}

ALL: Final = load_catalog()
MESH: Final[Obj] = {
    "apiVersion": "apps.kruise.io/v1alpha1",
    "kind": "SidecarSet",
    "metadata": {"name": "mesh"},
    "spec": {"namespace": "shop", "containers": [{"name": "mesh", "image": "mesh:1"}]},
}


def web(image: str, **more: Any) -> Obj:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app", "image": image}]},
    }
    selector = {"matchLabels": {"app": "web"}}
    return thing("web", "CloneSet", spec={"selector": selector, "template": template, **more})


def test_defaults_that_the_sync_sets_itself_are_not_given_up() -> None:
    served = served_by(load_catalog(), installable_crds())
    before, after = desired(web("app:1", minReadySeconds=5)), desired(web("app:2"))
    dialect = dialect_of(before, served)
    assert dialect is not None
    live = dialect.outgoing(before.obj, None, Gates())
    live = {**live, "metadata": {**live["metadata"], "managedFields": [OURS]}}
    changes = changes_between([before], [after], served)
    (change,) = with_live(changes, [after], {after.key: live}, served)
    assert {".".join(map(str, field.path)) for field in change.fields} == {
        "spec.minReadySeconds",
        "spec.template.spec.containers.0.image",
    }


def test_a_field_that_the_stored_version_has_in_another_form_is_no_difference() -> None:
    mesh = desired(MESH)
    live = convert(mesh.obj, "v1beta1")
    assert "namespace" not in live["spec"]
    (change,) = with_live(changes_between([mesh], [mesh], ALL), [mesh], {mesh.key: live}, ALL)
    assert change.fields == ()


def test_a_cluster_that_serves_the_older_version_alone_reports_its_fields() -> None:
    assert lost_fields(MESH, ALL) == {("spec", "namespace")}
    older = Catalog((kind for kind in ALL.kinds() if kind.version != "v1beta1"), ALL.core)
    assert lost_fields(MESH, older) == frozenset()
