"""Which commits of a repository hold a promotion: two clusters have an object of one name there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.hold import held_by
from tests.git.repos import make_origin, run_git
from tests.gitops.stage import WEB, documents, web

HOLD: Final = f"web: hold\n\nGitkruise-Action: hold\nGitkruise-Object: {WEB}\n"
OURS, THEIRS = "Gitkruise-File: eu/app.yaml\n", "Gitkruise-File: us/app.yaml\n"
# message of the newest commit, the file that it changes, and if it holds eu
ROWS: Final = {
    "ours": (HOLD, "eu/app.yaml", True),
    "theirs": (HOLD, "us/app.yaml", False),
    "ours, said": (HOLD + OURS, "", True),
    "theirs, said": (HOLD + THEIRS, "", False),
    "said by an earlier version": (HOLD, "", True),
    "theirs resumes": (HOLD.replace("Action: hold", "Action: resume"), "us/app.yaml", False),
    "words": ("words", "eu/app.yaml", False),
}
BLOCK: Final = f"Gitkruise-Action: hold\nGitkruise-Object: {WEB}"
RESUMED: Final = BLOCK.replace("hold", "resume")
AUTHOR: Final = "Co-authored-by: Dana <dana@example.com>"
SQUASHED: Final = {  # the messages that forges propose for a squash
    "GitHub, one commit": (f"web: hold (#12)\n\nwhy\n\n{BLOCK}", "eu/app.yaml", True),
    "GitHub, several": (
        (f"web: hold (#12)\n\n* web: hold\n\nwhy\n\n{BLOCK}\n\n* Merge branch 'main' into x\n\n"
        f"---------\n\n{AUTHOR}"), "eu/app.yaml", True
    ),
    "GitHub, written in a browser": (
        f"web: hold (#12)\n\n* web: hold\n\n{BLOCK}\n\n* words".replace("\n", "\r\n"),
        "eu/app.yaml", True,
    ),
    "GitHub, resumed by a later one": (
        f"web (#12)\n\n* web: hold\n\n{BLOCK}\n\n* web: resume\n\n{RESUMED}", "eu/app.yaml", False
    ),
    "GitHub, next to other files": (
        f"web (#12)\n\n* web: hold\n\n{BLOCK}\n{OURS.strip()}\n\n* read me", "README", True
    ),
    "GitHub, another cluster's next to other files": (
        f"web (#12)\n\n* web: hold\n\n{BLOCK}\n{THEIRS.strip()}\n\n* read me", "README", False
    ),
    "GitLab, title and description": (f"web: hold\n\nwhy\n\n{BLOCK}", "eu/app.yaml", True),
    "Gitea, title and description": (
        f"web: hold (#12)\n\nwhy\n\n{BLOCK}\n\n{AUTHOR}", "eu/app.yaml", True
    ),
    "Gitea, reviewed": (
        f"web: hold (#12)\n\nwhy\n\n{BLOCK}\n\nReviewed-on: https://git.example/x/pulls/12\n{AUTHOR}",
        "eu/app.yaml", True,
    ),
    "quoted in prose": (f"web (#12)\n\nit says\n\n{BLOCK}\n\nwhich is old", "eu/app.yaml", False),
    "quoted in a sentence": (f"web (#12)\n\n* a\n\nit says {BLOCK}\n\n* b", "eu/app.yaml", False),
    "quoted in a list that is no squash": (
        f"web\n\n* it says\n\n{BLOCK}\n\n* which is old", "eu/app.yaml", False
    ),
}  # fmt: skip


@pytest.mark.parametrize(("message", "file", "holds"), SQUASHED.values(), ids=SQUASHED)
def test_a_squashed_hold_counts_where_its_message_has_the_trailers(
    tmp_path: Path, message: str, file: str, *, holds: bool
) -> None:
    test_a_hold_in_the_files_of_another_cluster_holds_nothing_here(
        tmp_path, message, file, holds=holds
    )


@pytest.mark.parametrize(("message", "file", "holds"), ROWS.values(), ids=ROWS)
def test_a_hold_in_the_files_of_another_cluster_holds_nothing_here(
    tmp_path: Path, message: str, file: str, *, holds: bool
) -> None:
    origin = make_origin(tmp_path)
    text = documents(web("app:v2", partition=3))
    origin.commit({f"{cluster}/app.yaml": text for cluster in ("eu", "us")}, "canary")
    commit = origin.commit({file: f"{text}# held\n"} if file else {}, message)
    with Repository.open(str(origin.bare)) as repository:
        held = held_by(repository, commit, WEB, "eu/app.yaml", None)
    assert (held is not None) is holds


def test_a_resume_of_another_cluster_lets_no_hold_go(tmp_path: Path) -> None:
    origin = make_origin(tmp_path)
    text = documents(web("app:v2", partition=3))
    origin.commit({f"{cluster}/app.yaml": text for cluster in ("eu", "us")}, "canary")
    held = origin.commit({}, HOLD + OURS)
    resume = HOLD.replace("Action: hold", "Action: resume")
    commit = origin.commit({}, resume + THEIRS)
    with Repository.open(str(origin.bare)) as repository:
        found = held_by(repository, commit, WEB, "eu/app.yaml", None)
    assert found is not None
    assert found.id == held


@pytest.mark.parametrize("trailer", ["", OURS], ids=["edited", "said"])
def test_a_hold_stays_where_its_file_is_moved(tmp_path: Path, trailer: str) -> None:
    origin = make_origin(tmp_path)
    text = documents(web("app:v2", partition=3))
    origin.commit({f"{cluster}/app.yaml": text for cluster in ("eu", "us")}, "canary")
    held = origin.commit({} if trailer else {"eu/app.yaml": f"{text}# held\n"}, HOLD + trailer)
    run_git(origin.work, "rm", "-q", "eu/app.yaml")
    commit = origin.commit({"europe/web.yaml": text}, "move")
    with Repository.open(str(origin.bare)) as repository:
        found = held_by(repository, commit, WEB, "europe/web.yaml", None)
        theirs = held_by(repository, commit, WEB, "us/app.yaml", None)
    assert (found and found.id, theirs) == (held, None)
