"""A plan leaves to other units what the controller leaves to them, and says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.app import controller
from gitkruise.gitops.preview.changes import changes_between
from gitkruise.gitops.preview.inputs import read_base, read_side
from gitkruise.gitops.preview.preview import Preview, live_preview, offline_preview
from gitkruise.gitops.preview.rejection import as_taken
from gitkruise.gitops.preview.report import report_of
from gitkruise.model.gitops.change import ChangeKind
from gitkruise.model.gitops.config import Config
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.report import PlanReport
from gitkruise.model.workloads.feature_gates import Gates
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.reconcile.test_hooks import job
from tests.gitops.stage import MakeStage, Stage, config_map, documents
from tests.observer.histories import SINK

ONE, TWO = config_map("one", a="b"), config_map("two", a="b")
THING, OTHER = config_map("thing", a="old"), config_map("thing", a="new")
BASE: Final = {"one/a.yaml": documents(ONE, THING), "two/a.yaml": documents(TWO)}
REF, MARK = "gitkruise.io/unit-ref", "gitkruise.io/unit"
GATES: Final = Gates()
ROWS: dict[str, tuple[str, str, str, str, str]] = {
    # what it shows: unit one, unit two, more of unit one's spec, the message, kind of the change
    "shared": (documents(ONE, THING), documents(TWO, OTHER), "",
               "ConfigMap shop/thing is in more than one unit; unit shop/one owns it", "unchanged"),
    "moved": (documents(ONE), documents(TWO, OTHER), "", "", "configure"),
    "moved out of a suspended unit": (
        documents(ONE), documents(TWO, OTHER), ", suspend: true",
        "ConfigMap shop/thing belongs to unit shop/one, which is suspended", "unchanged"),
    "a copy of another name": (documents(ONE, THING), documents(TWO, config_map("x", a="b")), "",
                               "", "unchanged"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_a_plan_says_what_the_controller_does(staged: MakeStage, tmp_path: Path, name: str) -> None:
    one, two, more, message, kind = ROWS[name]
    stage, records = staged(), dict[str, UnitRecord]()
    text = SOURCE + unit("one") + unit("two")

    def program(text: str) -> Any:
        heed = (lambda r: records.update({r.unit: r}),)
        return options(stage, tmp_path, text, listeners=heed)

    async def script() -> None:
        old = stage.origin.commit(BASE)
        async with controller(program(text), stage.wire, stage.clock):
            await stage.rest(60)
        new = stage.origin.commit({"one/a.yaml": one, "two/a.yaml": two})
        after = program(SOURCE + unit("one", more) + unit("two"))
        catalog = stage.world.catalog
        base, target = (
            read_side(stage.repository, c, after.config, catalog, GATES) for c in (old, new)
        )
        now = stage.clock.now()
        for tried_on in ("", "test"):
            preview = await live_preview(
                base, target, catalog, GATES, transport=stage.wire, now=now, tried_on=tried_on
            )
            report = report_of(preview, base, target, cluster="test")
            assert (messages(report), kind_of(preview)) == ([message] if message else [], kind)
        async with controller(after, stage.wire, stage.clock):
            await stage.rest(60)
        found = stage.get("ConfigMap", "thing")
        assert found["data"] == {"a": "new" if kind == "configure" else "old"}
        texts = [f.message for f in records["shop/two"].findings]
        assert texts == ([message] if message else [])

    stage.play(script)


ALONE: Final = (
    ("reconcile", "Disabled"), ("apply", "IfNotPresent"), ("apply", "Ignore"),
    ("hold", "2999-01-01T00:00:00Z the fire"),
)  # fmt: skip


@pytest.mark.parametrize("note", ALONE, ids=str)
def test_a_plan_leaves_alone_what_opted_out_of_changes(
    staged: MakeStage, tmp_path: Path, note: tuple[str, str]
) -> None:
    stage, (name, value) = staged(), note
    noted = {f"gitkruise.io/{name}": value}
    other = {**OTHER, "metadata": {**OTHER["metadata"], "annotations": noted}}
    program = options(stage, tmp_path, SOURCE + unit("one"))
    line = f"left alone: ConfigMap shop/thing (annotation gitkruise.io/{name}: {value})"

    async def script() -> None:
        old = stage.origin.commit({"one/a.yaml": documents(ONE, THING)})
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(60)
            new = stage.origin.commit({"one/a.yaml": documents(ONE, other)})
            catalog, now = stage.world.catalog, stage.clock.now()
            base, target = (
                read_side(stage.repository, c, program.config, catalog, GATES) for c in (old, new)
            )
            previews = [
                await live_preview(
                    base, target, catalog, GATES, transport=stage.wire, now=now, tried_on=tried_on
                )
                for tried_on in ("", "test")
            ]
            for preview in (*previews, offline_preview(base, target, catalog, GATES)):
                blast = [span.text for span in report_of(preview, base, target).blast]
                assert (kind_of(preview), line in blast) == ("unchanged", True)
            again = await live_preview(
                target, target, catalog, GATES, transport=stage.wire, now=now
            )
            assert (kind_of(again), again.notes) == ("unchanged", ())
            await stage.rest(60)
            assert stage.get("ConfigMap", "thing")["data"] == {"a": "old"}

    stage.play(script)


def test_a_hook_that_opted_out_does_not_run_again(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    config = options(stage, tmp_path, SOURCE + unit("one")).config
    hook = job("before", "pre-apply")
    hook["metadata"]["annotations"]["gitkruise.io/reconcile"] = "Disabled"
    old, new = (stage.origin.commit({"one/a.yaml": documents(hook, x)}) for x in (THING, OTHER))
    base, target = (
        read_side(stage.repository, c, config, stage.world.catalog, GATES) for c in (old, new)
    )
    preview = offline_preview(base, target, stage.world.catalog, GATES)
    blast = [span.text for span in report_of(preview, base, target).blast]
    assert blast == ["no pod restarts and nothing is deleted"]
    first = offline_preview(None, base, stage.world.catalog, GATES)
    assert first.notes == (
        "left alone: Job shop/before (annotation gitkruise.io/reconcile: Disabled)",
    )


def messages(report: PlanReport) -> list[str]:
    assert {f.code for f in report.findings} <= {"GK2402"}
    return [f.message for f in report.findings]


def kind_of(preview: Preview) -> str:
    (change,) = {c.kind for c in preview.changes if c.key.name == "thing"}
    return str(change)


def test_offline_it_names_what_is_shared_and_what_moves(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    config = options(stage, tmp_path, SOURCE + unit("one") + unit("two")).config
    old = stage.origin.commit(BASE)
    moved = stage.origin.commit({"one/a.yaml": documents(ONE), "two/a.yaml": documents(OTHER, TWO)})
    both = stage.origin.commit({"one/a.yaml": documents(ONE, THING)})
    catalog = stage.world.catalog
    base, move, share = (
        read_side(stage.repository, c, config, catalog, GATES) for c in (old, moved, both)
    )
    preview = offline_preview(base, move, catalog, GATES)
    report = report_of(preview, base, move)
    assert (messages(report), kind_of(preview)) == ([], "configure")
    assert next(span.text for span in report.blast) == (
        "1 object moves from unit shop/one to unit shop/two; unknown without a cluster: "
        "the unit that owns it now"
    )
    preview = offline_preview(base, share, catalog, GATES)
    assert messages(report_of(preview, base, share)) == [
        "ConfigMap shop/thing is in more than one unit"
    ]
    assert all(c.kind is ChangeKind.UNCHANGED for c in preview.changes)
    (first,) = offline_preview(None, share, catalog, GATES).unplayed
    assert first.message == (
        "ConfigMap shop/thing is in more than one unit: the first one that applies it may own it"
    )
    assert dict(first.notes)["unchanged"].startswith("not created, unless one of the units")


def test_what_a_rejecting_unit_keeps_is_its_own_where_another_one_gave_it_up(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage = staged()
    config = options(stage, tmp_path, SOURCE + unit("one") + unit("two")).config
    old = stage.origin.commit({**BASE, "two/a.yaml": documents(TWO, OTHER)})
    new = stage.origin.commit({"one/a.yaml": "{broken", "two/a.yaml": documents(TWO)})
    base, target = (
        read_side(stage.repository, c, config, stage.world.catalog, GATES) for c in (old, new)
    )
    taken = as_taken(base, target)
    units = {key.name: unit.id for key, unit in taken.units.items()}
    assert units == {"one": "shop/one", "thing": "shop/one", "two": "shop/two"}
    assert not [
        c for c in changes_between(base.objects, taken.objects, stage.world.catalog)
        if c.kind is ChangeKind.PRUNE
    ]  # fmt: skip


def test_a_plan_starts_from_what_a_rejecting_unit_keeps_from_others(
    staged: MakeStage, tmp_path: Path
) -> None:
    """A commit that mends the unit hands the object over: it changes as the new unit asks."""
    stage = staged()
    config = options(stage, tmp_path, SOURCE + unit("one") + unit("two")).config
    newer = config_map("thing", a="c")
    stage.origin.commit({**BASE, "two/a.yaml": documents(TWO)})
    given = stage.origin.commit({"one/a.yaml": "{broken", "two/a.yaml": documents(TWO, newer)})
    mended = stage.origin.commit({"one/a.yaml": documents(ONE)})
    catalog = stage.world.catalog
    base = read_base(stage.repository, given, config, config, catalog, GATES)
    target = read_side(stage.repository, mended, config, catalog, GATES)
    assert {key.name: unit.id for key, unit in base.units.items()}["thing"] == "shop/one"
    changes = changes_between(base.objects, target.objects, catalog)
    assert [c.key.name for c in changes if c.kind is ChangeKind.CONFIGURE] == ["thing"]


def test_a_plan_names_the_hooks_that_run_again(staged: MakeStage, tmp_path: Path) -> None:
    """Of the units that change, though the hooks themselves do not; on-failure hooks may not."""
    stage = staged()
    config = options(stage, tmp_path, SOURCE + unit("one") + unit("two")).config
    hooks = [job(when, when) for when in ("pre-apply", "post-apply", "on-failure")]
    commits = [
        stage.origin.commit({"one/a.yaml": documents(TWO, job("other", "pre-apply")),
                             "two/a.yaml": documents(*hooks, changing)})
        for changing in (THING, OTHER)
    ]  # fmt: skip
    catalog = stage.world.catalog
    base, target = (
        read_side(stage.repository, c, config, catalog, GATES) for c in (commits[0], commits[1])
    )
    report = report_of(offline_preview(base, target, catalog, GATES), base, target)
    assert [span.text for span in report.blast][:-1] == [
        f"hook Job shop/{when} runs again ({when}), as for each commit that changes its unit"
        for when in ("pre-apply", "post-apply")
    ]
    report = report_of(offline_preview(target, target, catalog, GATES), target, target)
    assert not any("hook" in span.text for span in report.blast)


@pytest.mark.parametrize(("policy", "runs"), [("Delete", True), ("Orphan", False)])
def test_a_plan_names_the_last_hooks_of_a_unit_that_leaves(
    staged: MakeStage, tmp_path: Path, policy: str, *, runs: bool
) -> None:
    stage = staged()
    more = f", sinkRef: {{{{name: git}}}}, prune: {{{{deletionPolicy: {policy}}}}}"
    before = options(stage, tmp_path, SOURCE + SINK + unit("one") + unit("two", more)).config
    left = stage.origin.commit(
        {"one/a.yaml": documents(TWO), "two/a.yaml": documents(job("bye", "pre-delete"), THING)}
    )
    catalog = stage.world.catalog
    after = options(stage, tmp_path, SOURCE + unit("one")).config
    base = read_side(stage.repository, left, before, catalog, GATES)
    target = read_side(stage.repository, left, after, catalog, GATES)
    report = report_of(offline_preview(base, target, catalog, GATES), base, target)
    notes = [span.text for span in report.blast if "hook" in span.text]
    line = "hook Job shop/bye runs (pre-delete), before objects of unit shop/two are deleted"
    assert notes == [line] * runs


def test_a_plan_names_the_hooks_of_units_that_an_object_leaves_and_joins(
    staged: MakeStage, tmp_path: Path
) -> None:
    """A unit with another name and the same objects has the same content: no hook of it runs."""
    stage = staged()
    config = options(stage, tmp_path, SOURCE + unit("one") + unit("two")).config
    text = SOURCE + unit("one") + unit("new").replace("path: new", "path: two")
    renamed = options(stage, tmp_path, text).config
    first = stage.origin.commit({"one/a.yaml": documents(ONE, job("mine", "pre-apply")),
                                 "two/a.yaml": documents(TWO, job("theirs", "post-apply")),
                                 "two/b.yaml": documents(THING)})  # fmt: skip
    moved = stage.origin.commit({"one/b.yaml": documents(THING), "two/b.yaml": None})
    catalog = stage.world.catalog

    def hooks(commit: str, config: Config) -> list[str]:
        target = read_side(stage.repository, commit, config, catalog, GATES)
        report = report_of(offline_preview(base, target, catalog, GATES), base, target)
        return [span.text.split()[2] for span in report.blast if span.text.startswith("hook ")]

    base = read_side(stage.repository, first, config, catalog, GATES)
    assert hooks(moved, config) == ["shop/mine", "shop/theirs"]
    assert hooks(first, renamed) == []


async def planned(stage: Stage, config: Config, old: str, new: str) -> Preview:
    """Plan a commit from the live objects."""
    catalog = stage.world.catalog
    base, target = (read_side(stage.repository, c, config, catalog, GATES) for c in (old, new))
    target = replace(as_taken(base, target), followed_by=frozenset(target.everyone))
    now = stage.clock.now()
    return await live_preview(base, target, catalog, GATES, transport=stage.wire, now=now)


@pytest.mark.slow
def test_what_its_unit_does_not_own_is_not_deleted(staged: MakeStage, tmp_path: Path) -> None:
    """The controller deletes by the mark, so that the plan does."""
    stage = staged()
    text = SOURCE + unit("one")

    async def script() -> None:
        old = stage.origin.commit(BASE)
        async with controller(options(stage, tmp_path, text), stage.wire, stage.clock):
            await stage.rest(60)
        notes = {**stage.get("ConfigMap", "thing")["metadata"]["annotations"], REF: "shop/third"}
        meta = {"name": "thing", "annotations": notes, "labels": {MARK: "ffffffffffff"}}
        stage.meddle({**THING, "metadata": meta})
        new = stage.origin.commit({"one/a.yaml": documents(ONE)})
        program = options(stage, tmp_path, text)
        preview = await planned(stage, program.config, old, new)
        assert kind_of(preview) == "unchanged"
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(60)
        assert stage.get("ConfigMap", "thing") is not None

    stage.play(script)


@pytest.mark.slow
def test_what_two_units_gave_up_is_deleted_by_its_owner(staged: MakeStage, tmp_path: Path) -> None:
    """The base names the last of them; the live object belongs to the first."""
    stage = staged()
    text = SOURCE + unit("one") + unit("two")

    async def script() -> None:
        old = stage.origin.commit({**BASE, "two/a.yaml": documents(TWO, OTHER)})
        async with controller(options(stage, tmp_path, text), stage.wire, stage.clock):
            await stage.rest(60)
        assert stage.get("ConfigMap", "thing")["metadata"]["annotations"][REF] == "shop/one"
        new = stage.origin.commit({"one/a.yaml": documents(ONE), "two/a.yaml": documents(TWO)})
        program = options(stage, tmp_path, text)
        preview = await planned(stage, program.config, old, new)
        assert kind_of(preview) == "prune"
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(60)
        assert stage.get("ConfigMap", "thing") is None

    stage.play(script)


@pytest.mark.slow
def test_what_belongs_to_a_unit_that_rejects_the_commit_is_not_deleted(
    staged: MakeStage, tmp_path: Path
) -> None:
    """The cluster rejected the commit that gave it up, as no plan from git alone can know."""
    stage = staged()
    text = SOURCE + unit("one") + unit("two")
    lost = {**ONE, "metadata": {"name": "lost", "namespace": "nowhere"}}

    async def script() -> None:
        left = config_map("left", a="b")
        stage.origin.commit(
            {"one/a.yaml": documents(ONE, THING, left), "two/a.yaml": documents(TWO)}
        )
        program = options(stage, tmp_path, text)
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(60)
            given = {"one/a.yaml": documents(ONE, lost), "two/a.yaml": documents(TWO, OTHER)}
            old = stage.origin.commit(given)
            await stage.rest(60)
            new = stage.origin.commit({"one/a.yaml": "{broken", "two/a.yaml": documents(TWO)})
            preview = await planned(stage, program.config, old, new)
            await stage.rest(60)
        assert ChangeKind.PRUNE not in {c.kind for c in preview.changes}
        assert stage.get("ConfigMap", "thing") is not None
        assert stage.get("ConfigMap", "left") is not None

    stage.play(script)


def test_no_kind_is_missed_for_what_a_rejecting_unit_keeps(
    staged: MakeStage, tmp_path: Path
) -> None:
    """The cluster rejected that too: nothing of it is applied."""
    stage = staged()
    config = options(stage, tmp_path, SOURCE + unit("one") + unit("two")).config
    widget = {**OTHER, "apiVersion": "example.com/v1", "kind": "Widget"}
    codes: list[set[str]] = []

    async def script() -> None:
        first = stage.origin.commit({**BASE, "two/a.yaml": documents(TWO)})
        old = stage.origin.commit({"two/a.yaml": documents(TWO, widget)})
        new = stage.origin.commit({"two/a.yaml": "{broken"})
        previews = [await planned(stage, config, *pair) for pair in ((first, old), (old, new))]
        codes.extend({f.code for f in preview.unplayed} for preview in previews)

    stage.play(script)
    assert ["GK4201" in found for found in codes] == [True, False]


@pytest.mark.slow
def test_a_deletion_is_that_of_the_unit_that_owns_the_object(
    staged: MakeStage, tmp_path: Path
) -> None:
    """Unit two contained it at last and never took it: its rejections keep nothing of unit one."""
    stage = staged()
    fixed = {**config_map("fixed", a="b"), "immutable": True}
    lost = {**TWO, "metadata": {"name": "lost", "namespace": "nowhere"}}
    program = options(stage, tmp_path, SOURCE + unit("one") + unit("two"))
    config, catalog = program.config, stage.world.catalog

    async def script() -> None:
        stage.origin.commit({**BASE, "two/a.yaml": documents(TWO, fixed)})
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(60)
            moved = {"one/a.yaml": documents(ONE), "two/a.yaml": documents(TWO, fixed, OTHER, lost)}
            old = stage.origin.commit(moved)
            await stage.rest(60)
            new = stage.origin.commit({"two/a.yaml": documents(TWO, {**fixed, "data": {"a": "c"}})})
            sides = [read_side(stage.repository, c, config, catalog, GATES) for c in (old, new)]
            report = report_of(await planned(stage, config, old, new), *sides)
            await stage.rest(60)
        assert stage.get("ConfigMap", "thing") is None
        assert "1 object DELETED (ConfigMap shop/thing)" in [span.text for span in report.blast]

    stage.play(script)
