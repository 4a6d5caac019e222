"""gitkruise images: the tags in git and in the registry, and the commit of newer ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.calls import Caller, Ended
from tests.cli.shop import cloneset
from tests.git.repos import ENV, Origin, make_origin, run_git
from tests.gitops.charts.hosts import Host, serving

FILE = "apps/checkout.yaml"
WHO = {name: value for name, value in ENV.items() if name.startswith("GIT_")}
CONFIG = """\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {name: src, namespace: shop}
spec: {url: ., ref: {branch: main}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {name: web, namespace: shop}
spec:
  sourceRef: {name: src}
  path: apps
  images:
  - {repository: HOST/shop/checkout, policy: {semver: {range: 1.x}}, write: none}
  - {repository: HOST/shop/gone, policy: {numerical: {}}, write: none}
"""
Images = Callable[..., Ended]


@pytest.fixture
def host() -> Iterator[Host]:
    with serving() as found:
        offer(found, "1.0.0", "1.1.0", "2.0.0")
        yield found


def offer(host: Host, *tags: str) -> None:
    host.has("/v2/shop/checkout/tags/list?n=1000", json.dumps({"tags": tags}).encode())


@pytest.fixture
def origin(host: Host, tmp_path: Path) -> Origin:
    made = make_origin(tmp_path)
    address = host.url.removeprefix("http://")
    manifest = cloneset("1.0.0").replace("registry.example.com", f"{address}/shop")
    made.commit({FILE: manifest, "gitkruise.yaml": CONFIG.replace("HOST", address)})
    run_git(made.work, "fetch", "-q")
    return made


@pytest.fixture
def images(gk: Caller, origin: Origin) -> Images:
    def run(*words: str) -> Ended:
        return gk("images", *words, cwd=origin.work, COLUMNS="140", **WHO)

    return run


def test_each_image_is_listed_with_its_tag_and_the_newest(images: Images, host: Host) -> None:
    ended = images()
    host_name = host.url.removeprefix("http://")
    rows = [line.split() for line in ended.out.splitlines()]
    assert rows[0] == ["UNIT", "IMAGE", "GIT", "NEWEST", "POLICY", "TAGS", "SEEN", "NOTE"]
    assert rows[1][:7] == ["shop/web", f"{host_name}/shop/checkout", "1.0.0", "1.1.0", "semver",
                           "1.x", "3"]  # fmt: skip
    assert rows[2][1:4] == [f"{host_name}/shop/gone", "-", "-"]
    assert (ended.code, "the registry does not have it" in ended.err) == (4, True)
    first, second = images("web", "-n", "shop", "-o", "json").obj["items"]
    assert (first["newest"], first["newer"], first["tags"]) == ("1.1.0", True, 3)
    assert first["references"][0]["object"] == "CloneSet shop/checkout"
    assert second["findings"][0]["code"] == "GK3507"


def test_a_newer_tag_is_committed_with_its_plan(images: Images, origin: Origin) -> None:
    before = run_git(origin.bare, "show-ref")
    shown = images("--update", "--print")
    assert shown.code == 0
    assert "-        image:" not in shown.out
    assert "image  1.0.0 → 1.1.0" in shown.out
    assert "warning[GK3507]" in shown.err
    assert run_git(origin.bare, "show-ref") == before
    assert images("--update", "--yes").code == 0
    assert run_git(origin.bare, "diff", "--stat", "main~1", "main").startswith(FILE)
    assert (origin.work / FILE).read_text().count("shop/checkout:1.1.0") == 1
    message = run_git(origin.bare, "log", "-1", "--format=%s|%(trailers:separator=%x2C)", "main")
    assert message == (
        "web: checkout 1.1.0|Gitkruise-Action: update-images,Gitkruise-Unit: shop/web"
    )


def test_what_is_newest_already_is_no_error(images: Images, origin: Origin, host: Host) -> None:
    host.has("/v2/shop/gone/tags/list?n=1000", b'{"tags": ["1"]}')
    offer(host, "1.0.0", "0.9.0")
    ended = images("--update", "-o", "json")
    assert (ended.code, ended.obj["pushed"], ended.obj["verb"]) == (0, False, "update-images")
    assert "git has the tags that the policies choose" in ended.obj["message"]
    assert images().code == 0


def test_a_pull_request_is_updated_by_a_newer_tag(
    images: Images, origin: Origin, host: Host
) -> None:
    branch = f"gitkruise/update-images-web-{run_git(origin.bare, 'rev-parse', 'main')[:7]}"
    assert images("--update", "--pr").code == 0
    assert images("--update", "--pr").code == 0
    first = run_git(origin.bare, "rev-parse", branch)
    offer(host, "1.2.0")
    ended = images("--update", "--pr", "-o", "json")
    assert (ended.code, ended.obj["branch"]) == (0, branch)
    assert ended.obj["images"][0]["after"] == "1.2.0"
    assert run_git(origin.bare, "rev-parse", f"{branch}~1") == first


REFUSED = [
    (("nope",), "GK7040", "there is no unit nope that follows a branch and has images"),
    (("--print",), "GK7010", "--print applies to images --update"),
    (("--update", "--commit", "--pr"), "GK7010", "--commit excludes --pr and --branch"),
]


@pytest.mark.parametrize(("words", "code", "message"), REFUSED)
def test_refused_as_wrong_usage(
    images: Images, words: tuple[str, ...], code: str, message: str
) -> None:
    ended = images(*words)
    assert ended.code == 2
    assert code in ended.err
    assert message in ended.err


def test_without_any_known_tag_there_is_no_update(images: Images, host: Host) -> None:
    host.replies.clear()
    ended = images("--update")
    assert (ended.code, ended.err.count("error[GK3507]")) == (4, 2)
