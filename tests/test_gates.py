"""Which tests show what users were promised of the command line and of the answers on forges."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
# Each promise, and the tests that hold it, as `file::test` below tests/.
GATES = {
    "leftovers: after the demo no process, port or folder remains": (
        "e2e/test_demo.py::test_the_whole_demo",
        "e2e/test_demo.py::test_interrupted_in_the_middle",
    ),
    "streams: data parses, stderr may be closed, no escape byte where none belongs": (
        "cli/console/test_streams.py::test_json_is_a_versioned_document",
        "cli/console/test_streams.py::test_who_reads_the_data_may_close_the_rest",
        "cli/console/test_streams.py::test_a_pipe_gets_no_escape_byte",
        "cli/console/test_streams.py::test_a_terminal_gets_colours_unless_it_says_no",
    ),
    "exit codes: every row of the table is provoked": (
        "cli/console/test_exit_codes.py::test_no_error_says_the_answer_is_no",
        "cli/console/test_exit_codes.py::test_0_a_plan_with_changes",
        "cli/console/test_exit_codes.py::test_1_a_plan_asked_whether_there_are_changes",
        "cli/console/test_exit_codes.py::test_2_wrong_usage",
        "cli/console/test_exit_codes.py::test_3_invalid_manifests",
        "cli/console/test_exit_codes.py::test_4_no_repository",
        "cli/console/test_exit_codes.py::test_5_an_unreachable_cluster",
        "cli/console/test_exit_codes.py::test_130_interrupted",
        "cli/commands/test_get.py::test_watching_a_rollout_to_its_end_off_a_terminal",
        "cli/commands/test_get.py::test_a_stuck_rollout_is_a_no",
        "cli/commands/test_get.py::test_patience_ends",
        "cli/commands/test_sync.py::test_what_cannot_be_applied_has_its_code",
        "cli/commands/test_wait.py::test_how_a_wait_ends",
        "gitops/runtime/test_progress.py::test_7_what_is_applied_in_part_names_what_is_not",
    ),
    "errors: twelve of them in every form, each provoked, each says what stayed unchanged": (
        "gitops/build/test_findings.py::test_rejections",
        "gitops/build/test_findings.py::test_a_rewritten_branch",
        "gitops/build/test_findings.py::test_a_missing_right",
        "gitops/build/test_findings.py::test_a_webhook_whose_certificate_is_refused",
        "gitops/source/test_verification.py::test_the_last_good_commit_goes_on_being_healed",
        "cli/console/test_errors.py::test_a_remote_and_a_cluster_out_of_reach",
        "cli/console/test_errors.py::test_forms_of_a_manifest_error",
    ),
    "watch: 500 pods on 24 × 80, resized, ending with 0, 1 or 6": (
        "cli/commands/test_watch_gate.py::test_500_pods_fit_are_drawn_again_after_a_resize_and_end_with_0",
        "cli/commands/test_watch_gate.py::test_on_a_terminal_it_ends_with_its_code",
        "cli/commands/test_get.py::test_500_pods_fit_a_small_window",
    ),
    "comment: bounded, in balance, no secret, no live mention, edited and not added": (
        "laws/test_comment_laws.py::test_a_comment_is_bounded_and_in_balance",
        "laws/test_secret_sinks.py::test_no_value_leaves_the_process",
        "gitops/forges/test_clients.py::test_one_comment_is_made_and_edited_in_place_among_hundreds",
    ),
    "status: words fit, held and superseded are success, at most 50 writes": (
        "gitops/notify/test_commit_statuses.py::test_any_words_fit_what_forges_take",
        "gitops/notify/test_commit_statuses.py::test_a_state_is_reported_in_words",
        "gitops/notify/test_commit_statuses.py::test_overtaken_commits_get_a_last_status_and_merged_branches_share_the_merge",
        "gitops/notify/test_commit_statuses.py::test_no_commit_and_context_is_written_more_than_fifty_times",
    ),
    "write-back: idle rounds write nothing, concurrent writers lose nothing": (
        "gitops/status/test_quiet.py::test_a_thousand_idle_rounds_write_nothing",
        "git/push/test_status_branch.py::test_concurrent_pushers_lose_nothing",
        "laws/test_many_writers.py::test_each_piece_of_news_is_published_once_and_nothing_is_forced",
    ),
}
TWELVE = (
    "GK1101", "GK1203", "GK1301", "GK2104", "GK2201", "GK3101", "GK3204", "GK3301", "GK4101",
    "GK4201", "GK4301", "GK5101",
)  # fmt: skip


@pytest.mark.parametrize("promise", GATES, ids=lambda p: p.partition(":")[0])
def test_each_promise_is_held_by_tests_that_are_there(promise: str) -> None:
    for name in GATES[promise]:
        file, _, test = name.partition("::")
        tree = ast.parse((ROOT / file).read_text())
        assert any(isinstance(node, ast.FunctionDef) and node.name == test for node in tree.body)


@pytest.mark.parametrize("code", TWELVE)
def test_each_of_the_twelve_errors_has_all_its_forms(code: str) -> None:
    (golden,) = [p for folder in ("gitops", "cli-errors") for p in
                 (ROOT / "golden" / folder).glob(f"{code}-*.txt")][:1]  # fmt: skip
    text = golden.read_text()
    for form in ("80 columns", "120 columns", "colour", "json", "github", "sarif"):
        assert f"## {form}\n" in text
    assert "unchanged" in text or golden.parent.name == "cli-errors"
