"""`why` and `trace` show how a WorkloadSpread divides pods."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gitkruise.cli.commands.inspect.trace import trace_lines, trace_obj
from gitkruise.cli.commands.inspect.why import why_lines, why_obj
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.local_repository import Records
from gitkruise.gitops.inspect.cluster_view import Managed, Survey
from gitkruise.gitops.inspect.explain import Why, explain
from gitkruise.gitops.inspect.trace import trace_pod
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.labels import CLONESET
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import Obj
from tests.worlds import SPACE, START, Lab, cloneset, spread, subset

PLAIN = Style(colour=False, unicode=True, width=100)


def surveyed(*objects: Obj) -> tuple[Survey, Managed]:
    lab = Lab(nodes=6)
    for obj in objects:
        lab.apply(obj)
    lab.run(60)
    transport = WorldTransport(Cluster(lab.world, lambda: lab.now))
    survey = Survey(transport, load_catalog(), (CLONESET,), namespace=SPACE)
    asyncio.run(survey.look())
    (found,) = survey.managed(lab.now)
    return survey, found


def answered(survey: Survey, found: Managed) -> Why:

    return replace(explain(found, None), division=survey.division(found))


ZONES = spread("zones", subset("a", 3, zone="zone-a"), subset("b", zone="zone-b"))


def test_ws_71_why_shows_the_pods_of_each_subset() -> None:
    answer = answered(*surveyed(ZONES, cloneset()))
    text = "\n".join(why_lines(answer, Records(), PLAIN, START, wide=False))
    assert "WorkloadSpread zones divides its pods: 3 in a, 2 in b" in text
    subsets = [{"name": "a", "pods": 3}, {"name": "b", "pods": 2}]
    assert why_obj(answer, Records())["workloadSpread"] == {"name": "zones", "subsets": subsets}


def test_without_a_spread_why_says_nothing_of_it() -> None:
    answer = answered(*surveyed(cloneset()))
    assert "WorkloadSpread" not in "\n".join(why_lines(answer, Records(), PLAIN, START, wide=False))
    assert "workloadSpread" not in why_obj(answer, Records())


def test_ws_71_trace_shows_the_subset_of_a_pod() -> None:
    _, found = surveyed(ZONES, cloneset())
    traced = [trace_pod(pod, found, None, ()) for pod in found.pods]
    lines = ["\n".join(trace_lines(one, Records(), PLAIN, START)) for one in traced]
    assert sum("subset    a of WorkloadSpread zones" in text for text in lines) == 3
    assert sum("subset    b of WorkloadSpread zones" in text for text in lines) == 2
    first = next(one for one, text in zip(traced, lines, strict=True) if " a of " in text)
    document = trace_obj(first, Records())
    assert (document["workloadSpread"], document["subset"]) == ("zones", "a")
    _, alone = surveyed(cloneset())
    bare = trace_pod(alone.pods[0], alone, None, ())
    assert "subset" not in trace_obj(bare, Records())
