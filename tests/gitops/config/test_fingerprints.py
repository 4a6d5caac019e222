"""Names on a forge that two Sinks would write in turn."""

from __future__ import annotations

from typing import Final

import pytest

from gitkruise.gitops.config.fingerprints import shared_names
from gitkruise.model.gitops.config import (
    CommitStatus,
    Config,
    Deployment,
    ForgeSink,
    PullRequests,
    Reference,
    Sink,
    SinkSpec,
)

SECRET: Final = Reference(name="forge")
DEPLOYED: Final = Deployment(environment="prod")
OWN: Final = ForgeSink(type="github", repo="shop/fleet", secret_ref=SECRET, deployment=DEPLOYED)
ROWS: Final = [
    ("no forge", None, set[str]()),
    (
        "the same",
        ForgeSink(type="github", repo="Shop/Fleet", secret_ref=SECRET, deployment=DEPLOYED),
        {"comment", "check", "status", "deployment"},
    ),
    ("another repository", ForgeSink(type="github", repo="shop/x", secret_ref=SECRET), set[str]()),
    (
        "another forge",
        ForgeSink(type="github", repo="shop/fleet", secret_ref=SECRET, url="https://ghe.example"),
        set[str](),
    ),
    (
        "a check of its own",
        ForgeSink(
            type="github", repo="shop/fleet", secret_ref=SECRET,
            pull_request=PullRequests(check="own"),
        ),
        {"comment", "status"},
    ),
    (
        "statuses alone",
        ForgeSink(
            type="github", repo="shop/fleet", secret_ref=SECRET,
            pull_request=PullRequests(comment="none", check=""),
            commit_status=CommitStatus(context="gitkruise/{cluster}"),
        ),
        {"status"},
    ),
    (
        "statuses of its own",
        ForgeSink(
            type="github", repo="shop/fleet", secret_ref=SECRET,
            commit_status=CommitStatus(context="own/{unit}"),
        ),
        {"comment", "check"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("other", "shared"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS])
def test_a_name_is_shared_where_another_sink_has_it_for_the_repository(
    other: ForgeSink | None, shared: set[str]
) -> None:
    sinks = {
        f"shop/{name}": Sink("shop", name, SinkSpec(forge=forge))
        for name, forge in (("a", OWN), ("b", other))
    }
    config = Config(sinks=sinks)
    assert shared_names(config, "shop/a") == shared_names(config, "shop/b") == shared
