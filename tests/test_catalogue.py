"""Every row of bad input, and every pain with other tools, is tried or says why not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent
ROWS: Final = {"Y": 40, "M": 38, "G": 34}
NAMED: Final = re.compile(r"B-[YMG]\d\d")
# Rows without a test under their name, and what stands in for it.
ELSEWHERE: Final = {
    "B-M22": "durations of our own documents: tests/gitops/test_config.py, GK7005",
    "B-M28": "an optional policy; there is no setting for it",
    "B-M29": "rights are the cluster's: it lets nobody give what he does not have",
    "B-M30": "no source is marked as our own; what it may write is a matter of rights",
    "B-M33": "likewise",
    "B-M34": "tests/gitops/test_trouble.py: a refusal is held, told and tried again",
    "B-M35": "tests/gitops/test_bad_commits.py: selector moved; others by the cluster's dry run",
    "B-M38": "tests/gitops/test_trouble.py: a refusal is not repeated until time has passed",
    "B-G05": "addresses of repositories come from whoever runs gitkruise, never from a repository",
    "B-G26": "tests/git/test_signatures.py",
    "B-G27": "tests/git/test_signatures.py",
}


def test_every_row_is_tried_or_says_why_not() -> None:
    rows = {f"B-{family}{n:02}" for family, count in ROWS.items() for n in range(1, count + 1)}
    here = Path(__file__).name
    texts = (path.read_text() for path in TESTS.rglob("*.py") if path.name != here)
    tried = {row for text in texts for row in NAMED.findall(text)}
    assert rows - tried - ELSEWHERE.keys() == set()
    assert tried <= rows, "a row the catalogue does not have"


# What people suffer from with other GitOps tools, by number, and the test that it is not so here.
PAINS: Final = {
    2: ("gitops/test_waits.py", "test_a_unit_waits_until_the_other_is_ready_and_held_is_ready"),
    3: ("gitops/test_rollback.py",
        "test_a_plain_revert_strands_pods_and_the_computed_one_does_not"),
    4: ("gitops/test_pains.py", "test_a_sync_that_is_retried_does_not_block_its_fix"),
    5: ("gitops/test_plan_report.py", "test_blast_radius"),
    6: ("gitops/test_pains.py",
        "test_in_a_monorepo_each_unit_names_the_commit_that_changed_it_and_only_that_one_works"),
    8: ("gitops/test_bad_commits.py", "test_an_emptied_source_deletes_nothing"),
    9: ("gitops/test_autoscaling.py",
        "test_its_size_is_left_alone_and_everything_else_is_not"),
    10: ("gitops/test_pains.py", "test_what_the_server_fills_in_is_never_out_of_sync"),
    11: ("gitops/test_drift.py", "test_detected_drift_names_who_and_when"),
    15: ("gitops/test_assembly.py",
         "test_a_unit_waits_for_another_and_for_kinds_that_it_brings"),
    16: ("gitops/test_story.py",
         "test_commits_pushed_together_are_told_though_only_the_last_is_applied"),
    17: ("gitops/test_replacing.py", "test_another_mistake_beside_it_deletes_nothing"),
    18: ("gitops/test_prune.py",
         "test_an_object_moves_to_another_unit_by_one_commit_without_being_deleted"),
    19: ("gitops/test_pains.py", "test_one_object_rests_while_the_others_are_kept_in_order"),
    21: ("gitops/test_quiet.py", "test_counts_wait_for_company_and_a_broken_sink_stops_nothing"),
    22: ("gitops/test_ingredients.py",
         "test_encrypted_secrets_reach_the_cluster_and_nothing_else"),
    25: ("gitops/test_trouble.py", "test_a_start_without_the_remote_heals_what_is_live"),
}  # fmt: skip


@pytest.mark.parametrize("number", PAINS)
def test_a_pain_has_its_test(number: int) -> None:
    file, name = PAINS[number]
    assert f"def {name}(" in (TESTS / file).read_text()
