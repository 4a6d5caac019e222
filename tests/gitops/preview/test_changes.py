"""Changes of a plan on a cluster that has OpenKruise's CRDs and none of its webhooks."""

from __future__ import annotations

from typing import Any, Final

from gitkruise.gitops.build.kruise_defaulting import dialect_of
from gitkruise.gitops.preview.changes import changes_between, with_live
from gitkruise.kube.client.discovery import served_by
from gitkruise.kube.system.package_data import installable_crds, load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import Obj
from tests.planner.sync.build import desired, thing

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
