"""A promotion that asks before each step: it goes on, holds, or goes back, also over restarts."""

from __future__ import annotations

import base64
from pathlib import Path

import msgspec
import pytest

from gitkruise.gitops.analysis.analyst import CHANGED, RESTARTED
from gitkruise.gitops.status.codecs import PROMOTION
from gitkruise.gitops.status.parser import read_yaml
from gitkruise.model.gitops.analysis import AnalysisPhase
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.git.repos import run_git
from tests.gitops.actions.test_promotion import CANARY, FIRST, canary, done
from tests.gitops.actions.test_promotion_pulls import forge_of, shown
from tests.gitops.analysis.endpoint import Endpoint, fetch_now
from tests.gitops.analysis.measured import (
    BACK,
    STEPS,
    both,
    counts,
    errors,
    measured,
    written_commit,
)
from tests.gitops.forges.forges import client
from tests.gitops.promoted import promoting, promotion, standing, written
from tests.gitops.stage import MakeStage, Stage, web
from tests.gitops.status.test_forged_records import RECORD, forge

pytestmark = pytest.mark.slow


def test_good_values_let_the_next_step_go(staged: MakeStage, endpoint: Endpoint) -> None:
    stage = staged(promotion=promotion(steps=STEPS, metrics=[errors(endpoint)]))

    async def script() -> None:
        async with both(stage):
            await canary(stage, 25)
            run = measured(stage)
            assert (done(stage), run.phase, run.pods) == (("Held", 1), AnalysisPhase.RUNNING, 1)
            assert standing(stage).why == f"it is measured: errors {counts(run)[0]} successful"
            assert standing(stage).due is None
            await stage.rest(60)
            assert (done(stage), written(stage)[2:]) == (("Done", 4), ["web: promote to all"])
            assert (measured(stage).phase, counts(measured(stage))) == (
                AnalysisPhase.SUCCESSFUL,
                (3, 0, 0, 0),
            )

    stage.play(script)
    asked = {path for path, _ in endpoint.requests}
    assert asked == {f"/rate?of={measured(stage).revision}"}
    assert len(endpoint.requests) == 3


def test_bad_values_push_the_rollback_and_count_the_pods(
    staged: MakeStage, endpoint: Endpoint
) -> None:
    metric = errors(endpoint, failureLimit=1)
    steps = [{"partition": "50%", "analysis": ["errors"]}, {"partition": 0}]
    stage = staged(onFailure="revert-push", promotion=promotion(steps=steps, metrics=[metric]))

    async def script() -> None:
        async with both(stage):
            await canary(stage, 20, web("app:v2", partition="50%"))
            endpoint.says({"errors": 0.4})
            await stage.rest(120)
            assert written(stage)[2:] == [BACK + written_commit(stage, FIRST)]
            assert (stage.state, stage.images()) == ("Done", ["app:v1"] * 4)
            run = measured(stage)
            assert (run.phase, run.pods, counts(run)[1]) == (AnalysisPhase.FAILED, 2, 2)
            assert run.message == "errors: 2 failed, and the limit is 1; the last value is 0.4"
            assert stage.record.findings == ()
            await stage.rest(300)
            assert len(written(stage)) == 3
            await stage.rest(60)

    stage.play(script)
    trailers = run_git(stage.origin.bare, "log", "-1", "--format=%(trailers:only,unfold)", "main")
    assert {"Gitkruise-Analysis: errors Failed", "Gitkruise-Pods: 2"} <= set(trailers.split("\n"))
    progress = PROMOTION.read(
        read_yaml(stage.status_file("units/shop/web/status.yaml").encode())["promotion"]
    )
    assert progress.analysis is not None
    assert (progress.analysis.phase, progress.analysis.pods) == (AnalysisPhase.FAILED, 2)
    assert [one.value for one in progress.analysis.metrics[0].measurements][-2:] == ["0.4", "0.4"]


def test_bad_values_hold_the_step_where_no_rollback_is_asked_for(
    staged: MakeStage, endpoint: Endpoint
) -> None:
    stage = staged(promotion=promotion(steps=STEPS, metrics=[errors(endpoint)]))
    endpoint.says({"errors": 1})

    async def script() -> None:
        async with both(stage):
            await canary(stage)
            assert (done(stage), len(written(stage))) == (("Held", 1), 2)
            progress = standing(stage)
            assert progress.why.startswith(
                "the analysis has failed: errors: 1 failed, and the limit is 0"
            )
            assert progress.why.endswith(f"with 1 pod on revision {measured(stage).revision}")
            (finding,) = stage.record.findings
            assert (finding.code, finding.severity) == ("GK3506", "warning")
            assert "gitkruise promote cloneset/web -n shop" in dict(finding.notes)["next"]
            asked = len(endpoint.requests)
            await stage.rest(600)
            assert (len(endpoint.requests), len(written(stage))) == (asked, 2)
            endpoint.says({"errors": 0})
            await stage.push(web("app:v3", partition="75%"), message="mended")
            await stage.rest(90)
            assert (done(stage)[0], written(stage)[3:]) == ("Done", ["web: promote to all"])
            assert stage.record.findings == ()

    stage.play(script)


def test_bad_values_of_an_earlier_version_roll_no_mended_one_back(
    staged: MakeStage, endpoint: Endpoint
) -> None:
    metric = errors(endpoint)
    stage = staged(onFailure="revert-push", promotion=promotion(steps=STEPS, metrics=[metric]))
    endpoint.says({"errors": 1})

    async def script() -> None:
        async with promoting(stage, fetch=fetch_now):
            await canary(stage)
            assert measured(stage).phase is AnalysisPhase.FAILED
        endpoint.says({"errors": 0})
        await stage.push(web("app:v3", partition="75%"), message="mended")
        stage.start_over()
        async with both(stage):
            await stage.rest(90)
            assert written(stage)[2:] == ["mended", "web: promote to all"]
            assert (stage.state, stage.images()) == ("Done", ["app:v3"] * 4)

    stage.play(script)


def test_a_step_that_a_person_takes_in_spite_of_bad_values_stays(
    staged: MakeStage, endpoint: Endpoint
) -> None:
    steps = [{"partition": "75%", "analysis": ["errors"]}, {"partition": "50%", "soak": "1h"},
             {"partition": 0}]  # fmt: skip
    metrics = [errors(endpoint, failureLimit=2)]
    stage = staged(onFailure="revert-push", promotion=promotion(steps=steps, metrics=metrics))
    endpoint.says({"errors": 1})

    async def script() -> None:
        async with both(stage):
            await canary(stage, 25)
            await stage.push(web("app:v2", partition="50%"), message="a person")
            await stage.rest(300)
            assert (done(stage), written(stage)[2:]) == (("Held", 2), ["a person"])

    stage.play(script)


def test_inconclusive_values_and_lost_answers_hold_it(
    staged: MakeStage, endpoint: Endpoint
) -> None:
    metric = errors(endpoint, failureCondition="result > 0.5", consecutiveErrorLimit=1)
    stage = staged(onFailure="revert-push", promotion=promotion(steps=STEPS, metrics=[metric]))
    endpoint.says({"errors": 0.2})

    async def script() -> None:
        async with both(stage):
            await canary(stage)
            assert measured(stage).phase is AnalysisPhase.INCONCLUSIVE
            assert standing(stage).why.startswith("the analysis is inconclusive: errors: 1 inconcl")
            assert (done(stage), len(written(stage))) == (("Held", 1), 2)
            endpoint.status = 503
            await stage.push(web("app:v3", partition="75%"), message="another")
            await stage.rest(120)
            run = measured(stage)
            assert (run.phase, counts(run)) == (AnalysisPhase.ERROR, (0, 0, 0, 2))
            assert "the endpoint answered with status 503" in run.message
            assert written(stage)[3:] == [BACK + written_commit(stage, FIRST)]

    stage.play(script)


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ([], "there is no value"),
        ([{"metric": {}, "value": [0, "NaN"]}], "NaN is not a number to compare"),
        ([{"metric": {}, "value": [0, "+Inf"]}], "+Inf is not a number to compare"),
    ],
)
def test_a_rate_without_traffic_is_reported_as_having_no_number(
    staged: MakeStage, endpoint: Endpoint, result: list[object], why: str
) -> None:
    query = {"prometheus": {"address": endpoint.url, "query": "rate"}}
    metric = errors(endpoint, provider=query, successCondition="result[0] < 0.05")
    stage = staged(promotion=promotion(steps=STEPS, metrics=[metric]))
    endpoint.says({"status": "success", "data": {"resultType": "vector", "result": result}})

    async def script() -> None:
        async with both(stage):
            await canary(stage)
            (one,) = measured(stage).metrics
            assert one.measurements[0].message == f"result[0] < 0.05: {why}"

    stage.play(script)


def test_a_restart_goes_on_counting_and_invents_nothing(
    staged: MakeStage, endpoint: Endpoint
) -> None:
    stage = staged(promotion=promotion(steps=STEPS, metrics=[errors(endpoint, count=6)]))

    async def script() -> None:
        async with both(stage):
            await canary(stage)
            before = measured(stage)
            assert counts(before)[0] in {2, 3}
        asked = len(endpoint.requests)
        await stage.rest(300)
        assert len(endpoint.requests) == asked
        stage.start_over()
        async with both(stage):
            await stage.rest(10)
            run = measured(stage)
            assert (run.started, run.note) == (before.started, "")
            assert counts(run)[0] == counts(before)[0] + 1
            assert run.metrics[0].measurements[0].at == before.metrics[0].measurements[0].at
            await stage.rest(120)
            assert (len(endpoint.requests), written(stage)[2:]) == (6, ["web: promote to all"])

    stage.play(script)


def test_without_its_memory_it_counts_from_zero_and_says_so(
    staged: MakeStage, endpoint: Endpoint
) -> None:
    stage = staged(promotion=promotion(steps=STEPS, metrics=[errors(endpoint, count=6)]))

    async def script() -> None:
        async with both(stage):
            await canary(stage)
            assert measured(stage).note == ""
        forget(stage)
        stage.start_over()
        async with both(stage):
            await stage.rest(5)
            assert (measured(stage).note, counts(measured(stage))) == (RESTARTED, (1, 0, 0, 0))

    stage.play(script)


def forget(stage: Stage) -> None:
    where = ResourceRef("coordination.k8s.io", "v1", "leases")
    request = ApiRequest(
        verb="delete", resource=where, namespace="kube-system", name="gitkruise-sync-analysis"
    )
    stage.world.handle(request, stage.clock.now())
    stage.cluster.publish()


def test_other_metrics_count_from_zero_and_say_so(staged: MakeStage, endpoint: Endpoint) -> None:
    stage = staged(promotion=promotion(steps=STEPS, metrics=[errors(endpoint, count=6)]))

    async def script() -> None:
        async with both(stage):
            await canary(stage)
        rules = promotion(steps=STEPS, metrics=[errors(endpoint, count=7)])
        stage.spec = msgspec.structs.replace(
            stage.spec, promotion=msgspec.convert(rules, type(stage.spec.promotion))
        )
        stage.start_over()
        async with both(stage):
            await stage.rest(5)
            assert (measured(stage).note, counts(measured(stage))) == (CHANGED, (1, 0, 0, 0))

    stage.play(script)


def test_a_forged_record_is_no_measurement(
    staged: MakeStage, endpoint: Endpoint, tmp_path: Path
) -> None:
    stage = staged(promotion=promotion(steps=STEPS, metrics=[errors(endpoint, count=9)]))

    async def script() -> None:
        async with both(stage):
            await canary(stage)
            await stage.rest(20)
            before = counts(measured(stage))
        forge(stage, tmp_path, RECORD, "phase: Running", "phase: Successful")
        forge(stage, tmp_path, RECORD, f"successful: {before[0]}", "successful: 9")
        stage.start_over()
        async with both(stage):
            await stage.rest(30)
            assert (measured(stage).phase, len(written(stage))) == (AnalysisPhase.RUNNING, 2)
            assert counts(measured(stage))[0] in {before[0] + 1, before[0] + 2}

    stage.play(script)


def test_secrets_authenticate_and_are_shown_nowhere(staged: MakeStage, endpoint: Endpoint) -> None:
    token = "s3cr3t-t0ken-value"
    provider = {"web": {"url": endpoint.url, "secretRef": {"name": "metrics"}}}
    metric = {"name": "echo", "provider": provider, "successCondition": "result.ok"}
    steps = [{"partition": "75%", "analysis": ["echo"]}, {"partition": 0}]
    stage = staged(promotion=promotion(steps=steps, metrics=[metric]))
    endpoint.says({"ok": False, "echo": f"Bearer {token}"})
    stage.meddle({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "metrics", "namespace": "shop"},
        "data": {"bearerToken": base64.b64encode(token.encode()).decode()},
    })  # fmt: skip

    async def script() -> None:
        async with both(stage):
            await canary(stage)
            await stage.rest(60)
            assert measured(stage).phase is AnalysisPhase.FAILED

    stage.play(script)
    assert {header for _, header in endpoint.requests} == {f"Bearer {token}"}
    value = measured(stage).metrics[0].measurements[0].value
    assert value == '{"ok":false,"echo":"Bearer ***"}'
    log = run_git(stage.origin.bare, "log", "--all", "-p")
    assert "Bearer" in log
    assert token not in log
    lease = stage.get("Lease", "gitkruise-sync-analysis", "coordination.k8s.io")
    assert token not in str(lease)


def test_bad_values_propose_the_rollback_with_the_numbers(
    staged: MakeStage, endpoint: Endpoint
) -> None:
    rules = promotion("pull-request", steps=STEPS, metrics=[errors(endpoint)])
    stage = staged(onFailure="revert-pr", promotion=rules)
    model = forge_of(stage)
    endpoint.says({"errors": 0.5})

    async def script() -> None:
        async with both(stage, forge=client(model, stage.clock)):
            await stage.push(web(), message=FIRST)
            await stage.rest()
            bad = await stage.push(CANARY, message="canary")
            await stage.rest()
            assert shown(model) == [(f"gitkruise/revert/test/shop/web/web-{bad[:7]}", "open")]
            body = model.pulls[1]["body"]
            assert "errors: 1 failed, and the limit is 0; the last value is 0.5" in body
            assert "with 1 pod on revision" in body

    stage.play(script)


def test_the_pull_request_of_the_next_step_shows_what_was_measured(
    staged: MakeStage, endpoint: Endpoint
) -> None:
    rules = promotion("pull-request", steps=STEPS, metrics=[errors(endpoint)])
    stage = staged(promotion=rules)
    model = forge_of(stage)

    async def script() -> None:
        async with both(stage, forge=client(model, stage.clock)):
            await canary(stage)
            await stage.rest(60)
            body = model.pulls[1]["body"]
            assert "errors: 3 successful, the last value 0.01." in body
            assert "Measured on 1 pod of revision" in body

    stage.play(script)


def test_a_secret_is_read_with_the_account_of_the_unit(
    staged: MakeStage, endpoint: Endpoint
) -> None:
    provider = {"web": {"url": endpoint.url, "secretRef": {"name": "metrics"}}}
    pod = {"containers": [{"name": "smoke", "image": "job:v1"}]}
    metrics = [
        {"name": "echo", "provider": provider},
        {"name": "smoke", "provider": {"job": {"spec": {"template": {"spec": pod}}}}},
    ]
    steps = [{"partition": "75%", "analysis": ["echo", "smoke"]}, {"partition": 0}]
    rules = promotion(steps=steps, metrics=metrics)
    stage = staged(promotion=rules, serviceAccountName="deployer")

    async def script() -> None:
        async with both(stage):
            await canary(stage)
            await stage.rest(60)

    stage.play(script)
    user = "system:serviceaccount:shop:deployer"
    sent = [r for r in stage.wire.requests if r.resource.plural in {"secrets", "jobs"}]
    mine = [r for r in sent if r.name == "metrics" or (r.verb == "create" and r.namespace)]
    assert {(r.verb, r.resource.plural, r.user) for r in mine} == {
        ("get", "secrets", user), ("create", "jobs", user),
    }  # fmt: skip
    (made,) = [r.body for r in mine if r.verb == "create"]
    assert made["spec"]["template"]["spec"]["serviceAccountName"] == "deployer"
    echo, smoke = measured(stage).metrics
    assert 'secrets "metrics" not found' in echo.measurements[-1].message
    assert (smoke.phase, echo.phase) == (AnalysisPhase.SUCCESSFUL, AnalysisPhase.ERROR)


def test_the_same_version_is_measured_again_after_its_rollback(
    staged: MakeStage, endpoint: Endpoint
) -> None:
    rules = promotion(steps=STEPS, metrics=[errors(endpoint)])
    stage = staged(onFailure="revert-push", promotion=rules)
    endpoint.says({"errors": 1})

    async def script() -> None:
        async with both(stage):
            await canary(stage)
            assert len(written(stage)) == 3
            failed = measured(stage)
            assert (failed.phase, failed.left, failed.pods) == (AnalysisPhase.FAILED, True, 1)
        endpoint.says({"errors": 0})
        stage.start_over()
        async with both(stage):
            await stage.rest(5)
            assert measured(stage) == failed
            run_git(stage.origin.work, "pull", "--quiet", "origin", "main")
            await stage.push(CANARY, message="again")
            await stage.rest(90)
            assert written(stage)[3:] == ["again", "web: promote to all"]
            run = measured(stage)
            assert (run.phase, run.revision) == (AnalysisPhase.SUCCESSFUL, failed.revision)

    stage.play(script)


def test_a_new_version_ends_the_measurements_of_the_old_one(
    staged: MakeStage, endpoint: Endpoint
) -> None:
    stage = staged(promotion=promotion(steps=STEPS, metrics=[errors(endpoint, count=9)]))

    async def script() -> None:
        async with both(stage):
            await canary(stage)
            old = measured(stage)
            await stage.push(web("app:v2", partition=0), message="a person")
            await stage.rest(30)
            run = measured(stage)
            assert (run.phase, run.left, counts(run)) == (
                AnalysisPhase.INCONCLUSIVE, True, counts(old),
            )  # fmt: skip
            assert "the rollout left the step" in run.message
            assert stage.record.findings == ()

    stage.play(script)
