"""Objects that are rejected because of an object that the same commit changes or removes."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.errors import ApiError, api_error
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.requests import ApiRequest
from tests.gitops.stage import MakeStage, Stage, config_map
from tests.worlds import SPACE

pytestmark = pytest.mark.slow

_ADMISSION: Final = "admissionregistration.k8s.io"
_RBAC: Final = "rbac.authorization.k8s.io"


def webhooks(policy: str) -> Obj:
    """Return a configuration whose service does not exist."""
    called = {"service": {"namespace": SPACE, "name": "gone"}, "caBundle": ""}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": ["*"]}  # fmt: skip
    hook = {"name": "guard.example.com", "clientConfig": called, "rules": [rule],
            "failurePolicy": policy, "sideEffects": "None",
            "admissionReviewVersions": ["v1"]}  # fmt: skip
    return {"apiVersion": f"{_ADMISSION}/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "guard"}, "webhooks": [hook]}  # fmt: skip


def quota(maps: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "maps"},
            "spec": {"hard": {"count/configmaps": maps}}}  # fmt: skip


def role(name: str) -> Obj:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    return {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": {"name": name},
            "rules": [rule]}  # fmt: skip


def binding(name: str) -> Obj:
    account = {"kind": "ServiceAccount", "name": "app", "namespace": SPACE}
    return {"apiVersion": f"{_RBAC}/v1", "kind": "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
            "subjects": [account]}  # fmt: skip


def rejections(stage: Stage, request: ApiRequest) -> ApiError | None:
    """Return what kube-apiserver answers for as long as the cause lives."""

    def live(group: str, kind: str) -> dict[str, Any]:
        found = stage.world.objects(GroupKind(group, kind))
        return {obj["metadata"]["name"]: obj for obj in found}

    if request.verb != "patch":
        return None
    if request.resource.plural == "configmaps":
        guards = live(_ADMISSION, "ValidatingWebhookConfiguration").values()
        if any(guard["webhooks"][0]["failurePolicy"] == "Fail" for guard in guards):
            why = 'failed calling webhook "guard.example.com": service "gone" not found'
            return api_error({"message": f"Internal error occurred: {why}"}, 500)
        if any(
            q["spec"]["hard"]["count/configmaps"] == "1" for q in live("", "ResourceQuota").values()
        ):
            why = "exceeded quota: maps, requested: count/configmaps=1, limited: count/configmaps=1"
            reply = {"message": f'configmaps "b" is forbidden: {why}', "reason": "Forbidden"}
            return api_error(reply, 403) if request.name == "b" else None
    if request.resource.plural == "rolebindings" and request.name not in live(_RBAC, "Role"):
        why = f'rolebindings.{_RBAC} "{request.name}" not found'  # the name is the role's
        return api_error({"message": why, "reason": "NotFound"}, 404)
    return None


ROWS: Final[list[tuple[str, list[Obj], list[Obj]]]] = [
    (
        "a webhook stops to fail",
        [config_map("a", x="1"), webhooks("Fail")],
        [config_map("a", x="2"), webhooks("Ignore")],
    ),
    (
        "a webhook is removed",
        [config_map("a", x="1"), webhooks("Fail")],
        [config_map("a", x="2")],
    ),
    (
        "a webhook is removed and a quota grows",
        [config_map("a", x="1"), webhooks("Fail"), quota("1")],
        [config_map("a", x="2"), quota("2")],
    ),
    (
        "a quota grows",
        [config_map("a", x="1"), quota("1")],
        [config_map("a", x="1"), config_map("b", x="1"), quota("2")],
    ),
    (
        "a role arrives with its binding",
        [config_map("a", x="1")],
        [config_map("a", x="1"), binding("reads"), role("reads")],
    ),
]  # fmt: skip


def test_findings_stay_while_another_object_is_tried_again(staged: MakeStage) -> None:
    """A status branch would get a commit with each try."""
    stage = staged()

    def refuse(request: ApiRequest) -> ApiError | None:
        if request.verb != "patch" or "dryRun" in request.params:
            return None
        if request.name == "a":
            why = 'failed calling webhook "guard.example.com": service "gone" not found'
            return api_error({"message": f"Internal error occurred: {why}"}, 500)
        if request.name == "b":
            why = "configmaps \"b\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p'"
            return api_error({"message": f"{why} denied request: no", "reason": "Invalid"}, 422)
        return None

    async def script() -> None:
        stage.wire.refuse = refuse
        async with stage.running():
            await stage.push(config_map("a", x="1"), config_map("b", x="1"))
            await stage.rest(30)
            seen = len(stage.offered)
            await stage.rest(60)
            codes = [[f.code for f in record.findings] for record in stage.offered[seen:]]
            assert codes == [["GK2102", "GK5101"]] * len(codes)
            assert len(codes) > 1

    stage.play(script)


def test_a_policy_of_the_unit_itself_may_take_effect_late(staged: MakeStage) -> None:
    """API servers read policies and quotas from caches of their own."""
    stage = staged()
    late: list[Any] = []

    def refuse(request: ApiRequest) -> ApiError | None:
        grown = any(
            q["spec"]["hard"]["count/configmaps"] == "2"
            for q in stage.world.objects(GroupKind("", "ResourceQuota"))
        )
        if request.verb != "patch" or request.name != "b":
            return None
        if grown:
            late.append(stage.clock.now())
        why = "exceeded quota: maps, requested: count/configmaps=1, limited: count/configmaps=1"
        reply = {"message": f'configmaps "b" is forbidden: {why}', "reason": "Forbidden"}
        return api_error(reply, 403) if len(late) < 2 else None

    async def script() -> None:
        async with stage.running():
            await stage.push(quota("1"))
            await stage.rest()
            stage.wire.refuse = refuse
            await stage.push(quota("2"), config_map("b", x="1"))
            seen = len(stage.offered)
            await stage.rest(15)
            assert (stage.state, stage.record.findings) == ("Done", ())
            assert {str(record.state) for record in stage.offered[seen:]} <= {
                "Rolling",
                "Waiting",
                "Done",
            }

    stage.play(script)


@pytest.mark.parametrize("restarts", [False, True], ids=["runs", "restarts"])
@pytest.mark.parametrize(("before", "after"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_the_cause_is_applied_or_removed_first(
    staged: MakeStage, before: list[Obj], after: list[Obj], restarts: bool
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(*before)
            await stage.rest()
            assert stage.state == "Done"
            stage.wire.refuse = lambda request: rejections(stage, request)
            if not restarts:
                await stage.push(*after)
                await stage.rest(30)
        if restarts:
            stage.start_over()
            async with stage.running():
                await stage.push(*after)
                await stage.rest(150)
        assert (stage.state, stage.record.findings) == ("Done", ())
        for obj in after:
            group = obj["apiVersion"].rpartition("/")[0]
            if obj["kind"] == "ConfigMap":
                live = stage.get(obj["kind"], obj["metadata"]["name"], group)
                assert live["data"] == obj["data"]

    stage.play(script)
