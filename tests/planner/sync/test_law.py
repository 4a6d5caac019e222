"""Doing what plans say until they say nothing makes the cluster what git wants, once."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.sync_round import Live, PruneRules, SyncSnapshot
from gitkruise.planner.sync.diff import owned_differences
from gitkruise.wire.primitives.names import Obj, ObjectKey
from tests.planner.sync.build import applied, foreign, key, planned, snapshot, thing

KINDS = st.sampled_from(["ConfigMap", "Secret", "Service", "CloneSet", "Ingress", "Namespace"])


@st.composite
def objects(draw: st.DrawFn) -> Obj:
    name, kind = draw(st.sampled_from("abcd")), draw(KINDS)
    waves = st.sampled_from(["", "-1", "2"])
    wave = draw(waves)
    notes = {"gitkruise.io/wave": wave} if wave and kind != "Namespace" else {}
    return thing(name, kind, notes=notes, data={"v": str(draw(st.integers(0, 2)))})


def distinct(found: list[Obj]) -> list[Obj]:
    return list({key(obj): obj for obj in found}.values())


SETS = st.lists(objects(), max_size=7).map(distinct)


@given(SETS, SETS, st.data())
def test_plans_end_in_what_git_wants(want: list[Obj], was: list[Obj], data: st.DataObject) -> None:
    live: dict[ObjectKey, Live] = {}
    for obj in was:
        how = data.draw(st.sampled_from(["ours", "drifted", "foreign"]))
        made = {"ours": applied(obj), "drifted": applied(obj, data={"v": "x"})}
        live[key(obj)] = made.get(how) or foreign(obj)
    start = dict(live)
    rules = PruneRules(max_delete=100, max_delete_percent=100)
    deleted: set[ObjectKey] = set()
    for _ in range(40):
        s = replace(snapshot(want, list(live.values())), prune=rules)
        plan = planned(s, load_catalog())
        if plan.quiet:
            break
        order(s, [d.key for d in plan.apply])
        assert not (plan.apply and plan.prune)  # UNIT-2: everything is applied before deletes
        for d in plan.apply:
            live[d.key] = applied(d.obj)
        for gone in plan.prune:
            deleted.add(gone)
            del live[gone]
    else:
        raise AssertionError("plans do not end")
    wanted = {key(obj): obj for obj in want}
    assert all(not owned_differences(obj, live[k].obj, None) for k, obj in wanted.items())  # UNIT-6
    ours = {k for k, one in start.items() if "gitkruise.io/unit" in one.obj["metadata"]["labels"]}
    kept = {"Namespace"}
    expected = {k for k in ours - wanted.keys() if k.kind not in kept} if want else set()
    assert deleted == expected  # UNIT-1, UNIT-3
    assert not plan.apply  # UNIT-5


def order(s: SyncSnapshot, now: list[ObjectKey]) -> None:
    """UNIT-4: nothing that is new goes before something new of an earlier wave or stage."""
    place = {d.key: (d.stage > 0, d.wave if d.stage else 0, d.stage) for d in s.desired.objects}
    new = {k for k in place if k not in s.live}
    firsts = [place[k] for k in now if k in new]
    assert all(place[k] >= max(firsts) for k in new - set(now)) if firsts else True
