"""Addresses of one repository are the same for each protocol and spelling."""

from __future__ import annotations

import pytest

from gitkruise.git.plumbing.refs import repository_place

SAME = [
    "https://git.example.com/team/shop.git", "https://GIT.example.com/team/shop",
    "ssh://git@git.example.com/team/shop.git", "git@git.example.com:team/shop.git",
    "git@git.example.com:team/shop/",
]  # fmt: skip
OTHER = [
    "https://git.example.com/team/shop2.git", "https://git.example.org/team/shop.git",
    "git@git.example.com:shop.git", "/srv/team/shop.git",
]  # fmt: skip


@pytest.mark.parametrize("url", SAME)
def test_one_repository_has_one_place(url: str) -> None:
    assert repository_place(url) == repository_place(SAME[0]) is not None


@pytest.mark.parametrize("url", OTHER)
def test_another_repository_has_another_place(url: str) -> None:
    assert repository_place(url) not in {repository_place(SAME[0]), None}


def test_a_refused_url_has_none() -> None:
    assert repository_place("ext::sh -c true") is None
