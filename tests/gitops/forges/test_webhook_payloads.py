"""A delivery of a forge is believed by its signature alone, and read as the forge writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from gitkruise.gitops.forges.webhook_payloads import (
    FORGES,
    FORM,
    Push,
    authentic,
    delivery_of,
    is_pull,
    is_push,
    read_pull,
    read_push,
    signature,
)
from gitkruise.gitops.receiver.dispatch import Debounce, Followed, concerns, place_of
from gitkruise.model.gitops.config import GitRef, GitSource, GitSourceSpec
from tests.clock import ManualClock
from tests.gitops.deliveries import (
    BODIES,
    DATA_CENTER,
    GITEA,
    GITHUB,
    GITLAB,
    KEY,
    NAMES,
    TOKEN,
    signed,
    signed_by_token,
    text,
)
from tests.worlds import START

NOW: Final = int(START.timestamp())


def believed(kind: str, headers: Any, body: bytes, *keys: str) -> bool:
    return authentic(kind, keys or (KEY,), CIMultiDict(headers), body, START)


def test_the_signature_github_publishes() -> None:
    right = b"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert signature("sha256=", "It's a Secret to Everybody", b"Hello, World!") == right
    headers = {"x-hub-signature-256": right.decode()}
    assert believed("github", headers, b"Hello, World!", "It's a Secret to Everybody")


@pytest.mark.parametrize("kind", sorted(FORGES))
def test_each_forge_proves_itself_in_its_way(kind: str) -> None:
    body = text(BODIES[kind])
    headers = signed(kind, body)
    assert believed(kind, headers, body)
    assert believed(kind, headers, body, "another key", KEY)  # while keys are changed
    assert not believed(kind, headers, body, "another key")
    assert not believed(kind, {}, body)
    if kind != "gitlab":  # its secret token signs nothing
        assert not believed(kind, headers, body + b" ")
    assert is_push(kind, CIMultiDict(headers))
    assert delivery_of(kind, CIMultiDict(headers)) == "one"


SPOILT: Final[Mapping[str, Callable[[str], str]]] = {
    "empty": lambda s: "",
    "truncated": lambda s: s[:-1],
    "upper case": str.upper,
    "sha1": lambda s: s.replace("sha256=", "sha1="),
    "no prefix": lambda s: s.removeprefix("sha256="),
    "not hex": lambda s: s[:-1] + "g",
    "not ASCII": lambda s: s[:-1] + "é\udcff",
    "twice in one": lambda s: f"{s}, {s}",
    "longer": lambda s: s + "0",
}


@pytest.mark.parametrize("how", sorted(SPOILT))
@pytest.mark.parametrize("kind", ["github", "bitbucket", "generic-hmac", "gitea", "gitlab"])
def test_a_spoilt_signature_is_none(kind: str, how: str) -> None:
    body = text(BODIES[kind])
    headers, name = signed(kind, body), NAMES[kind][0]
    spoilt = SPOILT[how](headers[name])
    if spoilt != headers[name]:
        assert not believed(kind, {**headers, name: spoilt}, body)


def test_a_header_given_twice_is_none() -> None:
    body = text(BODIES["github"])
    headers = CIMultiDict(signed("github", body))
    headers.add("X-Hub-Signature-256", headers["X-Hub-Signature-256"])
    assert not believed("github", headers, body)


def test_the_path_fixes_the_forge_and_other_headers_do_not_count() -> None:
    body = text(BODIES["github"])
    for kind in set(FORGES) - {"github", "gitlab"}:
        assert not believed("github", signed(kind, body), body), kind
    sha1 = {"X-Hub-Signature": "sha1=" + "0" * 40}
    assert not believed("github", sha1, body)
    assert not believed("bitbucket", {"X-Hook-UUID": KEY}, body)


def test_forgejos_own_header_decides_where_there_are_two() -> None:
    body = text(BODIES["forgejo"])
    gitea = signed("gitea", body)
    assert believed("forgejo", gitea, body)
    assert not believed("forgejo", {**gitea, "X-Forgejo-Signature": "0" * 64}, body)
    assert not believed("forgejo", {**gitea, "X-Forgejo-Signature": ""}, body)


@pytest.mark.parametrize(
    ("change", "good"),
    [
        ({}, True),
        ({"webhook-signature": "v1,AAAA {right}"}, True),
        ({"webhook-signature": "v2,{digest}"}, False),
        ({"webhook-signature": ""}, False),
        ({"webhook-id": "msg_2"}, False),
        ({"webhook-id": ""}, False),
        ({"webhook-timestamp": str(NOW + 1)}, False),
        ({"webhook-timestamp": "soon"}, False),
        ({"webhook-timestamp": "9" * 400}, False),
    ],
)
def test_gitlabs_signing_tokens(change: dict[str, str], good: bool) -> None:
    body = text(BODIES["gitlab"])
    headers = signed_by_token(body, NOW)
    right = headers["webhook-signature"]
    filled = {k: v.format(right=right, digest=right[3:]) for k, v in change.items()}
    assert believed("gitlab", {**headers, **filled}, body, TOKEN) is good
    assert not believed("gitlab", {"X-Gitlab-Token": TOKEN}, body, TOKEN)


@pytest.mark.parametrize(("late", "good"), [(300, True), (-300, True), (360, False), (-360, False)])
def test_gitlabs_signatures_grow_old(late: int, good: bool) -> None:
    body = text(BODIES["gitlab"])
    assert believed("gitlab", signed_by_token(body, NOW - late), body, TOKEN) is good


READ: Final = [
    ("github", BODIES["github"], "github.com/codertocat/hello-world", ("refs/heads/main",)),
    ("gitea", BODIES["gitea"], "localhost/gitea/webhooks", ("refs/heads/develop",)),
    ("forgejo", BODIES["forgejo"], "localhost/gitea/webhooks", ("refs/heads/develop",)),
    ("gitlab", BODIES["gitlab"], "example.com/mike/diaspora", ("refs/heads/master",)),
    ("bitbucket", BODIES["bitbucket"], "bitbucket.org/team/repo",
     ("refs/heads/main", "refs/tags/v1")),
    ("generic-hmac", BODIES["generic-hmac"], "/srv/git/fleet", ("refs/tags/v2",)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "body", "place", "refs"), READ)
def test_a_push_says_which_repository_and_which_refs(
    kind: str, body: Any, place: str, refs: tuple[str, ...]
) -> None:
    push = read_push(kind, "application/json", text(body))
    assert {place_of(url) for url in push.urls} == {place}
    assert push.refs == refs


def test_bitbuckets_data_center_says_it_in_its_way() -> None:
    push = read_push("bitbucket", "application/json", text(DATA_CENTER))
    assert place_of(push.urls[0]) == "bitbucket.example.com/proj/repository"
    assert push.refs == ("refs/heads/master",)


def test_github_and_gitea_may_send_forms_and_others_may_not() -> None:
    body = urlencode({"payload": text(BODIES["github"]).decode()}).encode()
    assert read_push("github", FORM, body).refs == ("refs/heads/main",)
    with pytest.raises(ValueError, match="malformed"):
        read_push("gitlab", FORM, body)


ODD: Final[list[bytes]] = [
    b"", b"[]", b"null", b"{}", b"not JSON", b'{"ref": 7}', b'{"ref": "x", "repository": null}',
    text(BODIES["github"]).decode().encode("utf-16"), b'{"ref":' * 5_000,
    b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'{"ref": "\xff"}',
    b'{"repository": {"links": 7}, "changes": [7], "refs": 7, "project": []}',
]  # fmt: skip


@pytest.mark.parametrize("kind", sorted(FORGES))
@pytest.mark.parametrize("body", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("content_type", ["application/json", FORM])
def test_an_odd_body_is_an_error_or_nothing(kind: str, body: bytes, content_type: str) -> None:
    try:
        push = read_push(kind, content_type, body)
    except ValueError:
        return
    assert (kind, push) == ("generic-hmac", Push((), ()))


@given(st.sampled_from(sorted(FORGES)), st.sampled_from(["application/json", FORM]), st.binary())
def test_no_body_breaks_a_reader(kind: str, content_type: str, body: bytes) -> None:
    with suppress(ValueError):
        read_push(kind, content_type, body)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://git.example.com:8443/Shop/Fleet.git", "git.example.com/shop/fleet"),
        ("ssh://git@git.example.com:2222/shop/fleet.git/", "git.example.com/shop/fleet"),
        ("git@git.example.com:shop/fleet.git", "git.example.com/shop/fleet"),
        ("git.example.com:/shop/fleet", "git.example.com/shop/fleet"),
        ("file:///srv/git/Fleet.git", "/srv/git/Fleet"),
        ("/srv/git/Fleet.git/", "/srv/git/Fleet"),
        ("https://[broken/x", ""),
        ("nonsense", ""),
    ],
)
def test_one_repository_has_one_place(url: str, place: str) -> None:
    assert place_of(url) == place


@pytest.mark.parametrize(
    ("ref", "moved", "looks"),
    [
        (GitRef(branch="main"), "refs/heads/main", True),
        (GitRef(branch="main"), "refs/heads/gitkruise/status/test", False),
        (GitRef(branch="main"), "refs/tags/main", False),
        (GitRef(), "refs/heads/any", True),
        (GitRef(), "refs/notes/x", False),
        (GitRef(tag="v1"), "refs/tags/v1", True),
        (GitRef(tag="v1"), "refs/tags/v2", False),
        (GitRef(semver="^1"), "refs/tags/v9", True),
        (GitRef(semver="^1"), "refs/heads/v9", False),
        (GitRef(name="refs/pull/1/head"), "refs/pull/1/head", True),
        (GitRef(commit="0" * 40), "refs/heads/any", True),
    ],
)
def test_only_a_ref_that_is_followed_matters(ref: GitRef, moved: str, looks: bool) -> None:
    assert concerns(Push((), (moved,)), ref) is looks
    assert concerns(Push((), ()), ref)


PULLS: Final = {
    "github": ("pull_request", {"action": "opened", "repository": GITHUB["repository"]}),
    "gitea": ("pull_request", {"action": "opened", "repository": GITEA["repository"]}),
    "forgejo": ("pull_request_sync", {"repository": GITEA["repository"]}),
    "gitlab": ("Merge Request Hook", {"object_kind": "merge_request", **GITLAB}),
}


def test_news_of_a_merge_queue_are_those_of_pull_requests() -> None:
    assert is_pull("github", CIMultiDict({"X-GitHub-Event": "merge_group"}))


@pytest.mark.parametrize("kind", sorted(PULLS))
def test_news_of_a_pull_request_name_the_repository_alone(kind: str) -> None:
    event, body = PULLS[kind]
    headers = CIMultiDict({NAMES[kind][3]: event})
    assert is_pull(kind, headers)
    assert not is_push(kind, headers)
    found = read_pull(kind, "application/json", text(body))
    assert set(found.urls) == set(read_push(kind, "application/json", text(BODIES[kind])).urls)
    assert found.refs == ()
    with pytest.raises(ValueError, match=r".+"):
        read_pull(kind, "application/json", b"[]")


@pytest.mark.parametrize(
    ("refs", "looks"),
    [
        (("refs/heads/canary",), 1), ((), 1), (("refs/tags/v1",), 0),
        (("refs/heads/gitkruise/status/prod",), 0), (("refs/notes/gitkruise/prod",), 0),
    ],
)  # fmt: skip
def test_whoever_follows_pull_requests_hears_of_every_branch_but_ours(
    refs: tuple[str, ...], looks: int
) -> None:
    url = "https://git.example/shop/fleet.git"
    rung: list[int] = []

    class Counted(Debounce):
        def trigger(self) -> None:
            rung.append(1)

    one = GitSource("shop", "src", GitSourceSpec(url=url, ref=GitRef(branch="main")))
    bell = Counted(lambda: None, ManualClock(START))
    Followed(one, bell, any_ref=True).receive(Push((url,), refs), named=False)
    Followed(one, bell, any_ref=True).receive(Push(("https://elsewhere/x",), refs), named=False)
    assert len(rung) == looks
