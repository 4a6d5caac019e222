"""Errors as a person reads them: what, where, why, what stayed unchanged, what to do next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from gitkruise.errors import (
    ApiError,
    Cause,
    Finding,
    Forbidden,
    InternalError,
    InvalidObject,
    NotFound,
    SourcePlace,
    StatusDetails,
)
from gitkruise.git.plumbing.errors import remote_failure
from gitkruise.git.plumbing.process import Result
from gitkruise.gitops.build.builder import next_step
from gitkruise.gitops.reconcile.rejections import cannot_change, refusal
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiRequest
from tests.cli.forms import all_forms
from tests.git.repos import run_git
from tests.gitops.stage import MakeStage, Stage, config_map, documents, web
from tests.planner.sync.build import desired

pytestmark = pytest.mark.slow

Break = Callable[[Stage, str], str]


def in_place_only(level: str) -> str:
    obj = web(podUpdatePolicy="InPlaceOnly")
    obj["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "LEVEL", "value": level}]
    return documents(obj)


def moved() -> str:
    return documents(web()).replace("app: web", "app: web-v2")


GOOD = documents(web())
ROWS: list[tuple[str, str, str]] = [
    ("GK1101-yaml", GOOD, GOOD.replace("image: app:v1", "image:app:v1")),
    ("GK1203-unknown-field", GOOD, GOOD.replace("podUpdatePolicy", "podUpdatPolicy")),
    ("GK1301-twice", GOOD, GOOD + "---\n" + GOOD),
    ("GK2104-in-place-only", in_place_only("info"), in_place_only("debug")),
    ("GK2201-selector", GOOD, moved()),
    ("GK2202-mismatch", GOOD, GOOD.replace("app: web", "app: other", 1)),
    ("GK4201-kind", GOOD, GOOD.replace("kind: CloneSet", "kind: Rollout")),
    ("GK2301-emptied", GOOD, "# nothing\n"),
]


def all_forms_of(stage: Stage, code: str) -> str:
    """The finding in every form, without what differs from run to run."""
    found = next(f for f in stage.record.findings if f.code.startswith(code[:4]))
    assert any(label == "unchanged" for label, _ in found.notes)
    text = all_forms([found])
    for commit in run_git(stage.origin.bare, "log", "--all", "--format=%H %s").splitlines():
        name, _, subject = commit.partition(" ")
        text = text.replace(name, f"<{subject}>").replace(name[:7], f"<{subject[:7]}>")
    return text


@pytest.mark.parametrize(("name", "good", "bad"), ROWS, ids=[row[0] for row in ROWS])
def test_rejections(
    staged: MakeStage, golden: Callable[[str, str], None], name: str, good: str, bad: str
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(app=good, message="good")
            await stage.rest()
            await stage.push(app=bad, message="bad")
            await stage.rest(5)

    stage.play(script)
    text = all_forms_of(stage, name)
    golden(f"gitops/{name}.txt", text)
    assert f"\nerror[{name[:6]}]" in text
    assert "= next:" in text


def test_a_rewritten_branch(staged: MakeStage, golden: Callable[[str, str], None]) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            first = await stage.push(web(), message="first")
            await stage.push(web("app:v2"), message="second")
            await stage.rest()
            run_git(stage.origin.work, "reset", "--hard", "-q", first)
            run_git(stage.origin.bare, "update-ref", "refs/heads/main", first)
            await stage.push(web("app:v3"), message="rewritten")
            await stage.rest(5)

    stage.play(script)
    lost = stage.record.applied
    assert lost
    golden(
        "gitops/GK3204-rewritten.txt",
        all_forms_of(stage, "GK3204").replace(lost.id, "<second>").replace(lost.short, "<second>"),
    )


def test_a_remote_that_is_away(staged: MakeStage, golden: Callable[[str, str], None]) -> None:
    stage = staged()
    url = "ssh://git@git.example.com/shop/deploy.git"
    git_error = "fatal: ssh: connect to host git.example.com port 22: Connection timed out"
    result = Result(status=128, output=b"", errors=git_error)

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), message="first")
            await stage.rest()
            failed = remote_failure(url, result, tries=3, timeout_s=60)
            await stage.follower.take(failed)
            await stage.rest(5)

    stage.play(script)
    golden("gitops/GK3101-away.txt", all_forms_of(stage, "GK3101"))


def test_a_missing_right(staged: MakeStage, golden: Callable[[str, str], None]) -> None:
    stage = staged()

    def denied(request: ApiRequest) -> Forbidden | None:
        text = 'clonesets.apps.kruise.io "web" is forbidden: User "bot" cannot patch resource'
        return Forbidden(text) if request.verb == "patch" else None

    async def script() -> None:
        stage.wire.refuse = denied
        async with stage.running():
            await stage.push(web(), message="first")
            await stage.rest(5)

    stage.play(script)
    golden("gitops/GK4301-forbidden.txt", all_forms_of(stage, "GK4301"))


BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
    "metadata": {"name": "b", "namespace": "shop"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reads"},
}  # fmt: skip


def test_a_missing_role_is_no_missing_namespace() -> None:
    error = NotFound('rolebindings.rbac.authorization.k8s.io "reads" not found')
    finding = refusal(desired(BINDING), error)
    assert finding.message.endswith(" shop/b: Role reads does not exist")
    assert dict(finding.notes)["next"] == "add Role reads to git"


@pytest.mark.parametrize("account", ["", "team/deployer"])
def test_rights_that_the_account_lacks_itself(account: str) -> None:
    error = Forbidden('rolebindings "b" is forbidden: user "x" (groups=["y"]) is attempting to '
                      "grant RBAC permissions not currently held:\n{}")  # fmt: skip
    notes = dict(refusal(desired(BINDING), error, account).notes)
    assert notes["needed"].endswith(" grants, or verb bind on the role")
    assert (account or "the account of gitkruise") in notes["next"]


@pytest.mark.parametrize("error", [
    Forbidden('rolebindings "b" is forbidden'), InvalidObject("spec: no"),
    InternalError('failed calling webhook "x.io": no endpoints'),
], ids=["right", "rule", "webhook"])  # fmt: skip
@pytest.mark.parametrize("live", [None, BINDING], ids=["absent", "live"])
def test_only_what_is_there_stays_unchanged(error: ApiError, live: Obj | None) -> None:
    notes = dict(refusal(desired(BINDING), error, live=live).notes)
    assert notes["unchanged"].startswith("the live " if live else "the cluster, which has no ")


CORRECT: Final = (
    "correct app.yaml, or the rule of the cluster that the message names, and try: "
    "gitkruise plan --server --include-dirty"
)
FORBIDDEN: list[tuple[str, tuple[Cause, ...], str, str]] = [
    (
        'configmaps "a" is forbidden: unable to create new content in namespace default',
        (Cause(field="metadata.namespace", reason="NamespaceTerminating", message=""),),
        "GK4301", "kubectl describe namespace shop   shows what its deletion waits for",
    ),
    (
        'configmaps "a" is forbidden: exceeded quota: small, requested: configmaps=1', (),
        "GK4301", "kubectl describe resourcequota -n shop   shows what is used",
    ),
    (
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied", (),
        "GK2102", CORRECT,
    ),
    ("policy 'p' with binding 'b' denied request: no such key: team", (), "GK2102", CORRECT),
    ('pods "a" is forbidden: violates PodSecurity "restricted:latest"', (), "GK2102", CORRECT),
    ('pods "a" is forbidden: maximum memory usage per Pod is 1Gi', (), "GK2102", CORRECT),
    ('pods "a" is forbidden: failed quota: q: must specify cpu', (), "GK2102", CORRECT),
]  # fmt: skip


@pytest.mark.parametrize(("message", "causes", "code", "next_"), FORBIDDEN)
def test_no_right_helps_where_none_is_missing(
    staged: MakeStage, message: str, causes: tuple[Cause, ...], code: str, next_: str
) -> None:
    stage = staged()
    error = Forbidden(message, StatusDetails(causes=causes))

    async def script() -> None:
        stage.wire.refuse = lambda r: error if r.verb == "patch" else None
        async with stage.running():
            await stage.push(config_map("a", b="c"), message="first")
            await stage.rest(5)

    stage.play(script)
    text = all_forms_of(stage, code)
    assert f" {next_}\n" in f"{text}\n"
    assert "needed" not in text


def test_a_rule_is_shown_without_the_diff_that_follows_it() -> None:
    """kube-apiserver 1.34, for a claim of less storage."""
    rule = "Forbidden: spec is immutable after creation except resources.requests"
    cause = Cause("spec", "FieldValueForbidden", f"{rule}\n@@ -6,7 +6,7 @@\n")
    error = InvalidObject("is invalid", StatusDetails(causes=(cause,)))
    assert dict(cannot_change(desired(BINDING), error).notes)["why"] == rule


def test_a_webhook_whose_certificate_is_refused(
    staged: MakeStage, golden: Callable[[str, str], None]
) -> None:
    stage = staged()
    why = (
        'Internal error occurred: failed calling webhook "vcloneset.kb.io": failed to call '
        'webhook: Post "https://webhook.gitkruise.svc:443/validate": tls: failed to verify '
        "certificate: x509: certificate is valid for webhook.gitkruise"
    )

    async def script() -> None:
        stage.wire.refuse = lambda r: InternalError(why) if r.verb == "patch" else None
        async with stage.running():
            await stage.push(web(), message="first")
            await stage.rest(5)
            text = all_forms_of(stage, "GK5101")
            stage.wire.refuse = lambda _: None
            await stage.rest(120)
            assert stage.state == "Done"
        golden("gitops/GK5101-webhook.txt", text)

    stage.play(script)


def test_a_webhook_of_ours_is_served_by_a_command_of_ours(staged: MakeStage) -> None:
    stage = staged()
    why = 'failed calling webhook "clonesets.webhook.gitkruise.io": connection refused'

    async def script() -> None:
        stage.wire.refuse = lambda r: InternalError(why) if r.verb == "patch" else None
        async with stage.running():
            await stage.push(web(), message="first")
            await stage.rest(5)
            text = all_forms_of(stage, "GK5101")
            assert "next: start what serves it again: gitkruise webhook," in text
            assert "or: gitkruise webhook --withdraw removes its registration" in text

    stage.play(script)


def test_a_file_is_validated_only_where_that_finds_the_error() -> None:
    place, codes = (SourcePlace(file="web/link.yaml"),), ("GK2102", "GK3011", "GK1001")
    found = [Finding(code=code, message="", places=place) for code in codes]
    assert [*map(next_step, found)] == [
        (
            "correct web/link.yaml, or the rule of the cluster that the message names, and try: "
            "gitkruise plan --server --include-dirty"
        ),
        "commit plain files in its place, or list web/link.yaml in .gitkruiseignore",
        "gitkruise validate web/link.yaml",
    ]


def test_a_conflict(staged: MakeStage, golden: Callable[[str, str], None]) -> None:
    stage = staged()

    async def script() -> None:
        stage.meddle(config_map("settings", mode="slow"), manager="some-operator")
        async with stage.running():
            await stage.push(config_map("settings", mode="fast"), message="first")
            await stage.rest(5)

    stage.play(script)
    golden("gitops/GK2401-conflict.txt", all_forms_of(stage, "GK2401"))


def test_too_many_deletes(staged: MakeStage, golden: Callable[[str, str], None]) -> None:
    stage = staged()
    keep, *rest = [config_map(name, a="b") for name in ("keep", "k1", "k2", "k3", "k4")]

    async def script() -> None:
        async with stage.running():
            await stage.push(keep, *rest, message="first")
            await stage.rest()
            await stage.push(keep, message="drop")
            await stage.rest(5)

    stage.play(script)
    golden("gitops/GK2303-too-many.txt", all_forms_of(stage, "GK2303"))
