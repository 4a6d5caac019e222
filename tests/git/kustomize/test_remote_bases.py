"""Addresses of remote bases are read as kustomize reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.errors import InvalidManifests
from gitkruise.git.kustomize.remote_bases import (
    BaseAddress,
    ListedBase,
    RemoteBases,
    parse_base,
)

# Form, repository, folder, ref: those of kustomize's documentation and of its repospec tests.
HUB, DEV = "https://github.com/org/repo", "https://git.example.com"
AZURE = "https://dev.azure.com/org/team/_git/repo"
FORMS = [
    (f"{HUB}//base?ref=v1", HUB, "base", "v1"),
    (f"{HUB}/base/x?ref=v1", HUB, "base/x", "v1"),
    (f"{HUB}?ref=v1", HUB, "", "v1"),
    (f"{HUB}.git//base?ref=v1", f"{HUB}.git", "base", "v1"),
    (f"{DEV}/a/b/c.git/base?ref=v1", f"{DEV}/a/b/c.git", "base", "v1"),
    (f"{DEV}:8443/a/b/c//base?ref=v1", f"{DEV}:8443/a/b/c", "base", "v1"),
    (f"{AZURE}/base?ref=v1", AZURE, "base", "v1"),
    (f"git::{HUB}//base?ref=v1", HUB, "base", "v1"),
    ("github.com/org/repo//base?ref=v1", HUB, "base", "v1"),
    ("www.github.com/org/repo/base?ref=v1", HUB, "base", "v1"),
    ("git@github.com:org/repo//base?ref=v1", "git@github.com:org/repo", "base", "v1"),
    ("git@github.com:org/repo.git/base?ref=v1", "git@github.com:org/repo.git", "base", "v1"),
    ("ssh://git@host.example/a/b//base?ref=v1", "ssh://git@host.example/a/b", "base", "v1"),
    ("ssh://git@host.example:22/a/b/c?ref=v1", "ssh://git@host.example:22/a/b", "c", "v1"),
    ("file:///srv/git/shop.git//base?ref=v1", "file:///srv/git/shop.git", "base", "v1"),
    (f"{HUB}//base?version=v1", HUB, "base", "v1"),
    (f"{HUB}//base?ref=v2&version=v1", HUB, "base", "v2"),
    (f"{HUB}//base?timeout=90s&ref=a%2Fv5&submodules=false", HUB, "base", "a/v5"),
    (f"{HUB}//base", HUB, "base", ""),
]


@pytest.mark.parametrize(("text", "url", "folder", "ref"), FORMS)
def test_a_form_of_kustomize_has_its_parts(text: str, url: str, folder: str, ref: str) -> None:
    assert parse_base(text) == BaseAddress(url, folder, ref)


REFUSED = [
    ("http", "http://github.com/org/repo//base?ref=v1", "the protocol http is not allowed"),
    ("credentials", "https://dana:pass@github.com/org/repo//base?ref=v1", "carries credentials"),
    ("helper", "git::ext::sh -c id//base?ref=v1", "remote helpers are not allowed"),
    ("parameter", "https://github.com/org/repo//base?ref=v1&sshkey=x", "sshkey is not known"),
    ("option", "ssh://-oProxyCommand=id/org/repo//base?ref=v1", "no proper host"),
    ("shortcut", "gh:org/repo//base?ref=v1", "ambiguous"),
]


@pytest.mark.parametrize(("text", "why"), [row[1:] for row in REFUSED], ids=[r[0] for r in REFUSED])
def test_an_address_that_sources_cannot_have_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidManifests) as caught:
        parse_base(text)
    (finding,) = caught.value.findings
    assert finding.code == "GK3402"
    assert why in finding.message
    assert "pass" not in finding.message


def test_a_listed_repository_is_the_same_by_each_protocol() -> None:
    bases = RemoteBases((ListedBase("https://github.com/org/repo.git"),))
    for text in ("git@github.com:org/repo//base?ref=v1", "github.com/org/repo/base?ref=v1"):
        with pytest.raises(InvalidManifests, match="GK3420"):  # allowed, and nothing brings it
            bases.find(text)
    with pytest.raises(InvalidManifests) as caught:
        bases.find("https://github.com/org/repository//base?ref=v1")
    (finding,) = caught.value.findings
    assert finding.code == "GK3402"
    assert dict(finding.notes)["next"].endswith(
        "add {url: https://github.com/org/repository} to render.kustomize.remoteBases"
    )


@pytest.mark.parametrize("ref", ["", "?ref=", "?ref=a..b", "?ref=-x"])
def test_a_base_without_a_ref_is_refused(ref: str) -> None:
    bases = RemoteBases((ListedBase(HUB),))
    with pytest.raises(InvalidManifests, match="GK3419"):
        bases.find(f"{HUB}//base{ref}")


def test_a_folder_outside_of_the_repository_is_refused() -> None:
    bases = RemoteBases((ListedBase(HUB),))
    for folder in ("/../../x", "/a/../../x", "/..", "/a\\b"):
        with pytest.raises(InvalidManifests, match="GK3010"):
            bases.find(f"{HUB}/{folder}?ref=v1")


PIECES = st.sampled_from(
    ["https://", "git::", HUB, "git@", "//", "?ref=", ".git", "\n", "..", "%00"]
)


@given(text=st.lists(PIECES | st.text(max_size=4), max_size=8).map("".join))
def test_no_text_raises_another_error(text: str) -> None:
    with pytest.raises(InvalidManifests):
        RemoteBases((ListedBase(HUB),)).find(text)
