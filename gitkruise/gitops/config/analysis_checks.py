"""Checks of metrics and of the steps that name them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from gitkruise.errors import BadRequest
from gitkruise.gitops.config.metric_addresses import unusable
from gitkruise.model.gitops.analysis import VARIABLE, VARIABLES, Metric, ThresholdRange
from gitkruise.model.gitops.config import Unit
from gitkruise.model.gitops.promotion import Promotion
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import parse_duration
from gitkruise.wire.values.jsonpath import parse_json_path

_INTERVAL_MIN: Final = timedelta(seconds=1)
Fault = tuple[tuple[str | int, ...], str, str]  # path below promotion, what is wrong, what to do


def bad_analysis(unit: Unit, promotion: Promotion) -> Iterator[Fault]:
    """Yield what keeps the measurements of a promotion from being taken or from deciding."""
    names = Counter(metric.name for metric in promotion.metrics)
    for number, metric in enumerate(promotion.metrics):
        path = ("metrics", number)
        if names[metric.name] > 1:
            yield (*path, "name"), f"{metric.name} is the name of two metrics", "rename one"
        yield from ((path + rest, why, next_) for rest, why, next_ in _metric(unit, metric))
    last = len(promotion.steps) - 1
    for number, step in enumerate(promotion.steps):
        where = ("steps", number, "analysis")
        for name in step.analysis:
            if name not in names:
                known = ", ".join(names) or "none"
                yield where, f"{name} is not a metric of this promotion", f"metrics: {known}"
        if step.analysis and number == last:
            words = "no step follows that the measurements could hold back"
            yield where, words, "take it out, or add a step: {partition: 0}"


def _metric(unit: Unit, metric: Metric) -> Iterator[Fault]:
    for field, text in (("initialDelay", metric.initial_delay), ("interval", metric.interval)):
        try:
            if text:
                parse_duration(text)
        except ValueError as error:
            yield (field,), str(error), "write 30s, 10m or 1h30m"
            return
    if metric.count < 1:
        yield ("count",), "nothing would be measured", "write 1 or more"
    elif metric.interval and metric.pause < _INTERVAL_MIN:
        yield ("interval",), "it is shorter than a second", "write 1s or more"
    elif metric.count > 1 and not metric.pause:
        yield ("interval",), f"{metric.count} measurements need time between them", "write 30s"
    for field, limit in (
        ("failureLimit", metric.failure_limit), ("inconclusiveLimit", metric.inconclusive_limit),
    ):  # fmt: skip
        if not 0 <= limit < max(metric.count, 1):
            why = f"with {metric.count} measurements a limit of {limit} has no effect"
            yield (field,), why, "write less than count"
    yield from _judgement(metric)
    yield from _provider(unit, metric)


def _judgement(metric: Metric) -> Iterator[Fault]:
    bounds = metric.threshold_range
    conditions = bool(metric.success_condition or metric.failure_condition)
    if bounds is not None and conditions:
        yield ("thresholdRange",), "conditions judge the value as well", "write one of them"
    if bounds is not None and bounds == ThresholdRange():
        yield ("thresholdRange",), "it has no bound", "write min, max or both"
    if metric.provider.job is not None and (conditions or bounds is not None):
        yield ("provider", "job"), "a Job has no value to judge", "take the condition out"


def _provider(unit: Unit, metric: Metric) -> Iterator[Fault]:
    provider = metric.provider
    if len(provider.set) != 1:
        why = "a metric has one provider"
        yield ("provider",), why, "write prometheus, web or job"
        return
    name = provider.set[0]
    if provider.job is not None:
        yield from (
            (("provider", "job", "spec", *rest), why, next_)
            for rest, why, next_ in _job(unit, provider.job.spec)
        )
        return
    field, text = ("address", "query") if provider.prometheus is not None else ("url", "url")
    why = unusable(provider.address, secret=bool(provider.secret))
    if why:
        yield ("provider", name, field), why, "write https://HOST, or http:// for a Service"
    written = provider.prometheus.query if provider.prometheus is not None else provider.address
    for found in VARIABLE.finditer(written):
        if found[1] not in VARIABLES:
            known = ", ".join(f"{{{{ {one} }}}}" for one in VARIABLES)
            yield ("provider", name, text), f"there is no variable {found[0]}", f"use {known}"
    if provider.web is not None and provider.web.json_path:
        try:
            parse_json_path(provider.web.json_path)
        except BadRequest as error:
            yield ("provider", "web", "jsonPath"), error.message, "write {$.data.errors}"


def _job(unit: Unit, spec: Mapping[str, Any]) -> Iterator[Fault]:
    containers = get(spec, "template", "spec", "containers")
    if not isinstance(containers, list) or not containers:
        yield ("template",), "the Job has no container", "write template.spec.containers"
        return
    account = get(spec, "template", "spec", "serviceAccountName", default="")
    mine = unit.spec.service_account_name
    if account and mine and account != mine:
        path = ("template", "spec", "serviceAccountName")
        why = f"Jobs of the unit run with its account {mine}"
        yield path, why, "take it out"
    if get(spec, "suspend"):
        yield ("suspend",), "a suspended Job never ends", "take it out"
