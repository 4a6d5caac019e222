"""Law of outlets: no secret of a repository, a cluster or a Sink leaves by any of them."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from gitkruise.errors import ApiError, Cause, InvalidObject, StatusDetails
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.cli.calls import Caller
from tests.fuzz.canaries import PLACES, Canary, canaries, needles, secret
from tests.fuzz.outlets import Outlets, hits
from tests.fuzz.test_canaries import findings_of
from tests.git.repos import run_git
from tests.gitops.objects import READS
from tests.gitops.stage import STATUS, MakeStage, config_map, documents, web

Files = dict[str, str | None]
WINDOW: Final = 10  # so many characters in a row are a hit: commit ids are hexadecimal, too
FILES: Final = 12  # of a unit in one commit; a record lists twenty findings
UNITS: Final = 3  # of a place
ALONE: Final = "literals"  # a folder has one kustomization
ALONE_UNITS: Final = 34
NAMES: Final = ("name: app\n", "name: forge", '"name":"a"')
CRDS: Final = ResourceRef("apiextensions.k8s.io", "v1", "customresourcedefinitions")
CRD: Final = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "ds.db.io"},
    "spec": {
        "group": "db.io", "scope": "Namespaced", "names": {"kind": "D", "plural": "ds"},
        "versions": [{
            "name": "v1", "served": True, "storage": True,
            "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": True,
                }},
            }},
        }],
    },
}  # fmt: skip


def slots(place: str) -> list[str]:
    """Files of a place; the folder of each is a unit."""
    at, file = list(PLACES).index(place), PLACES[place][0]
    if place == ALONE:
        return [f"u{at}x{unit}/{file}" for unit in range(ALONE_UNITS)]
    ending = file.rpartition(".")[2]
    return [f"u{at}x{u}/{number}.{ending}" for u in range(UNITS) for number in range(FILES)]


SLOTS: Final = {place: slots(place) for place in PLACES}
LONE: Final = {path.partition("/")[0] for path in SLOTS[ALONE]}
FOLDERS: Final = sorted({path.partition("/")[0] for paths in SLOTS.values() for path in paths})


def sorted_out(seed: int) -> tuple[dict[str, list[Canary]], dict[str, list[Canary]]]:
    """By place, the canaries that are good manifests and the others."""
    good: dict[str, list[Canary]] = {place: [] for place in PLACES}
    bad: dict[str, list[Canary]] = {place: [] for place in PLACES}
    for place in PLACES:
        for canary in canaries(seed, place):
            wrong = any(f.is_error for f in findings_of(canary))
            (bad if wrong else good)[place].append(canary)
    return good, bad


def commits(found: Mapping[str, Sequence[Canary]]) -> Iterator[Files]:
    """Files of one commit after the other, until every canary was in one."""
    columns = [_columns(SLOTS[place], some) for place, some in found.items()]
    for row in itertools.zip_longest(*columns, fillvalue={}):
        yield {path: text for part in row for path, text in part.items()}


def _columns(paths: Sequence[str], found: Sequence[Canary]) -> list[Files]:
    return [
        {path: canary.text for path, canary in zip(paths, found[at:], strict=False)}
        for at in range(0, len(found), len(paths))
    ]


def named(found: Mapping[str, Sequence[Canary]]) -> Files:
    """Good canaries as one commit, each object with a name of its own."""
    files: Files = {}
    for place, some in found.items():
        for path, canary in zip(SLOTS[place], some, strict=False):
            name, text = path.replace("/", "-").rpartition(".")[0], canary.text
            for word in NAMES:
                text = text.replace(word, word.replace("app", name).replace("forge", name))
            files[path] = text
    return files


def quoting(request: ApiRequest) -> ApiError | None:
    """The refusal of a server that quotes what it was sent."""
    if request.verb in READS or request.resource.group == "gitkruise.io":
        return None
    if request.resource.plural in {"leases", "events"} or not isinstance(request.body, dict):
        return None
    message = f"Invalid value: {json.dumps(request.body)}"
    causes = tuple(
        Cause(reason="FieldValueInvalid", message=message, field=field)
        for field in ("data.key", "stringData", "spec.password", "metadata.annotations",
                      "spec.containers[0].env[0].value", "data[password]")
    )  # fmt: skip
    return InvalidObject(f"{request.name} is invalid: {message}", StatusDetails(causes=causes))


def crashing(request: ApiRequest) -> ApiError | None:
    """An exception of ours that quotes what was sent."""
    if quoting(request) is not None:
        raise KeyError(json.dumps(request.body))
    return None


def workload(value: str) -> str:
    """A CloneSet with a secret among its variables."""
    obj = web()
    variable = {"name": "DB_PASSWORD", "value": value}
    obj["spec"]["template"]["spec"]["containers"][0]["env"] = [variable]
    return documents(obj)


def settled(found: Mapping[str, Sequence[Canary]], seed: int) -> Files:
    """Good canaries of `seed` as one commit, with something good in every unit."""
    kept = [folder for folder in FOLDERS if folder not in LONE]
    settings: Files = {f"{f}/c.yaml": documents(config_map(f, a=str(seed))) for f in kept}
    return {**settings, f"{kept[0]}/web.yaml": workload(secret(seed)), **named(found)}


async def play(house: Outlets, seed: int) -> None:
    """A secret is applied, changed, drifts, is refused and crashes; then come all the mistakes."""
    stage = house.stage
    (good, bad), (other, _) = sorted_out(seed), sorted_out(seed + 1)
    first, second = settled(good, seed), settled(other, seed + 1)
    await house.commit(first, "first")
    await house.rest()
    await house.pull(1, second)
    await house.commit(second, "second")
    await house.gather()
    for obj in list(drifting(house, secret(seed))):
        stage.meddle(obj)
    await house.rest(60)
    for number, refuse in enumerate((quoting, crashing), 2):
        stage.wire.refuse = refuse
        await house.pull(number, first)
        await house.commit(first, f"refused {number}")
        await house.rest(60)
        await house.gather()
        stage.wire.refuse = lambda _: None
        await house.commit(second, f"after {number}")
    for number, files in enumerate(commits(bad), 10):
        house.forge.chat_fails = number % 3 == 0
        if number % 4 == 0:
            await house.pull(number, files)
            await house.gather()
        await house.commit(files, f"commit {number}")


def drifting(house: Outlets, value: str) -> Iterator[Obj]:
    """Secrets of the cluster with another value."""
    data = base64.b64encode(value.encode() * 2).decode()
    for obj in house.stage.world.objects(GroupKind("", "Secret"), "shop"):
        name, keys = obj["metadata"]["name"], obj.get("data") or {}
        if name.startswith("u"):
            meta = {"name": name}
            changed = dict.fromkeys(keys, data)
            yield {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": changed}


SPANS: Final = ((0, 1), (1, 2), (1, -1))  # commits of main: good to good, good to refused
COMMANDS: Final = (
    ["history", "web"], ["history", "web", "-o", "json"], ["drift"], ["drift", "-o", "json"],
    ["validate", "."], ["validate", ".", "-o", "json"], ["doctor", "git"], ["explain", "GK1101"],
    *(["plan", "{}..{}", "-o", output] for output in ("text", "json", "markdown", "html")),
)  # fmt: skip
SEEN: Final = {  # by outlet, words that show that something was said there
    "metrics": ["gitkruise_unit_condition"], "outbox": ["SQLite format 3", "GK1101"],
    "crashes": ["Traceback"], "cluster": ["Rejected", "GK1101", "GK9000"],
    "forge and chat": ["/statuses/", "/comments", "/deployments", "GK1101", "Secret shop/u0x0-0"],
    "log": ["GK9000"], "git": ["GK1101", "GK9000", "notes"], "commands": ["GK1101", "Secret"],
}  # fmt: skip


def of_commands(house: Outlets, gk: Caller) -> str:
    """What commands print in a checkout of the repository and of its status branch."""
    work = house.stage.origin.work
    run_git(work, "fetch", "--quiet", "origin", f"{STATUS}:{STATUS}")
    outputs = []
    for words in COMMANDS:
        spans = SPANS if words[0] == "plan" else SPANS[:1]
        for span in spans:
            ends = [house.commits[at] for at in span]
            ended = gk(*(word.format(*ends) for word in words), cwd=work, COLUMNS="4000")
            assert ended.code in {0, 1, 3}, (words, ended.err[:400])
            outputs += [ended.out, ended.err]
    return "\n".join(outputs)


@pytest.mark.slow
def test_no_outlet_of_the_program_shows_a_secret(
    staged: MakeStage, tmp_path: Path, fuzz_seed: int, gk: Caller
) -> None:
    house = Outlets(staged(), tmp_path, FOLDERS, secret(fuzz_seed))

    async def script() -> None:
        await house.hands.send(ApiRequest(verb="create", resource=CRDS, body=CRD))
        async with house.open():
            await play(house, fuzz_seed)

    house.stage.play(script)
    house.add("git", house.of_git())
    house.add("commands", of_commands(house, gk))
    seeds = (fuzz_seed, fuzz_seed + 1)
    wanted = frozenset(n.encode() for s in seeds for n in needles(secret(s), WINDOW))
    assert hits(b"a" + secret(fuzz_seed).encode(), wanted), "a secret that is there is found"
    for outlet, words in SEEN.items():
        shown = house.texts[outlet]
        assert [word for word in words if word.encode() not in shown] == [], outlet
    assert {outlet: hits(shown, wanted)[:5] for outlet, shown in house.texts.items()} == {
        outlet: [] for outlet in house.texts
    }
