"""Alert rules and the Grafana dashboard: Prometheus accepts them, and the controller has their
metrics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gitkruise.gitops.telemetry.metrics import Metrics
from tests.clock import ManualClock
from tests.conftest import need
from tests.gitops.telemetry.test_metrics import Nothing
from tests.worlds import START

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "deploy" / "monitoring"
SCENARIOS: Final = Path(__file__).parent / "rules_test.yaml"
METRIC: Final = re.compile(r"\b(?:gitkruise|process)_[a-z_]+\b")
PARTS: Final = {"histogram": ("_bucket", "_sum", "_count")}
RULES: Final[list[dict[str, Any]]] = [
    rule
    for group in yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARD: Final[dict[str, Any]] = json.loads((FOLDER / "dashboard.json").read_text())


def promtool(*words: str) -> str:
    """Output of a run that must succeed, in the folder of the scenarios."""
    program = shutil.which("promtool")
    need("prometheus", present=bool(program), how="apt-get install prometheus")
    assert program is not None
    done = subprocess.run(
        [program, *words], cwd=SCENARIOS.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def exported() -> set[str]:
    """Names of all samples that a controller may have, from its own registry."""
    metrics = Metrics(ManualClock(START))
    metrics.of(Nothing())
    metrics.of_shards(lambda: {0: True})
    metrics.of_process()
    types = re.findall(r"^# TYPE (\S+) (\S+)$", metrics.text().decode(), re.MULTILINE)
    return {name + part for name, kind in types for part in PARTS.get(kind, ("",))}


def queries() -> Iterator[str]:
    """Every expression of the dashboard."""
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def test_prometheus_accepts_the_rules() -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "rules", str(FOLDER / "rules.yaml"))


@pytest.mark.slow
def test_alerts_fire_when_they_should_and_not_before() -> None:
    assert "SUCCESS" in promtool("test", "rules", SCENARIOS.name)


def test_every_alert_fires_in_a_scenario() -> None:
    text = SCENARIOS.read_text()
    fired = set(re.findall(r'labels: \S*\{alertname="(\w+)"|labels: .*alertname="(\w+)"', text))
    assert {"".join(names) for names in fired} == {rule["alert"] for rule in RULES}


def test_the_scenario_without_alerts_has_every_metric_of_the_rules() -> None:
    well = yaml.safe_load(SCENARIOS.read_text())["tests"][0]
    assert [one["exp_samples"] for one in well["promql_expr_test"]] == [[], []]
    given = {name for one in well["input_series"] for name in METRIC.findall(one["series"])}
    assert {name for rule in RULES for name in METRIC.findall(rule["expr"])} == given


def test_rules_and_dashboard_use_metrics_that_a_controller_has() -> None:
    rules, panels = [rule["expr"] for rule in RULES], list(queries())
    for expressions in (rules, panels):
        used = [set(METRIC.findall(text)) for text in expressions]
        assert [text for text, names in zip(expressions, used, strict=True) if not names] == []
        assert set().union(*used) - exported() == set()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_to_do_next(rule: dict[str, Any]) -> None:
    notes, name = rule["annotations"], rule["alert"]
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert set(notes) == {"summary", "description", "runbook"}
    assert re.search(r"Next:\s.*`(gitkruise|kubectl) [^`]+`", notes["description"])
    page, _, anchor = notes["runbook"].partition("#")
    heads = re.findall(r"^### (\w+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert anchor == name.lower()
    assert name in heads


def test_every_section_of_the_page_is_an_alert() -> None:
    heads = re.findall(r"^### (\w+)$", (ROOT / "docs/monitoring.md").read_text(), re.MULTILINE)
    assert heads == [rule["alert"] for rule in RULES]


def test_commands_that_alerts_name_exist() -> None:
    from gitkruise.cli.root import COMMANDS  # noqa: PLC0415

    text = " ".join(rule["annotations"]["description"] for rule in RULES)
    assert set(re.findall(r"`gitkruise (\w+)", text)) <= set(COMMANDS)


def test_the_dashboard_is_one_that_grafana_imports() -> None:
    panels = DASHBOARD["panels"]
    assert DASHBOARD["schemaVersion"] >= 36
    assert [v["type"] for v in DASHBOARD["templating"]["list"]] == ["datasource", "query"]
    assert sorted({panel["id"] for panel in panels}) == list(range(1, len(panels) + 1))
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(panels)
    for panel in panels:
        assert panel["title"]
        assert panel["description"]
        for one in (panel, *panel["targets"]):
            assert one["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_prometheus_reads_every_query_of_the_dashboard(tmp_path: Path) -> None:
    filled = [
        text.replace("$job", ".*").replace("$__rate_interval", "5m")
        for text in queries()
        if not text.startswith("label_values(")
    ]
    rules = [{"record": f"panel:{at}", "expr": text} for at, text in enumerate(filled)]
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(file))


def test_the_folder_is_a_kustomization(kubectl: str) -> None:
    words = [kubectl, "kustomize", str(FOLDER)]
    built = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    objects = {obj["kind"]: obj for obj in yaml.safe_load_all(built)}
    rules = objects["PrometheusRule"]["spec"]["groups"]
    assert [rule for group in rules for rule in group["rules"]] == RULES
    assert json.loads(objects["ConfigMap"]["data"]["gitkruise.json"]) == DASHBOARD
    (endpoint,) = objects["PodMonitor"]["spec"]["podMetricsEndpoints"]
    token = objects["Secret"]["metadata"]["name"]
    assert endpoint["authorization"]["credentials"] == {"name": token, "key": "token"}
    assert objects["ClusterRoleBinding"]["roleRef"]["name"] == "gitkruise-metrics-reader"
    controller = yaml.safe_load((ROOT / "deploy/base/controller.yaml").read_text())
    pod = controller["spec"]["template"]
    chosen = objects["PodMonitor"]["spec"]["selector"]["matchLabels"]
    assert chosen.items() <= pod["metadata"]["labels"].items()
    assert endpoint["port"] in {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
