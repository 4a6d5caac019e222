"""Objects of a cluster for tests: a program that follows them, and somebody with kubectl."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from gitkruise.app import RunOptions, controller
from gitkruise.gitops.resources.declared import ResourceRules
from gitkruise.model.gitops.config import Config
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import APPLY_PATCH, MERGE_PATCH, ApiRequest, ResourceRef
from tests.gitops.stage import Stage, documents

READS = frozenset({"get", "list", "watch"})
GROUP, VERSION = "gitkruise.io", "v1alpha1"


class House:
    """A program without a file, and the hands of somebody with kubectl."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.stage, self.folder = stage, folder
        self.hands = WorldTransport(stage.cluster)

    def program(self, **rules: Any) -> RunOptions:
        return RunOptions(
            config=Config(), cluster="test", state_dir=self.folder / "state", identity="one",
            custom=ResourceRules(**{"local_sources": True, **rules}),
        )  # fmt: skip

    async def ask(self, verb: str, kind: str, name: str, body: Any = None, **more: Any) -> Obj:
        namespace, _, short = name.rpartition("/")
        request = ApiRequest(
            verb=verb,
            resource=ResourceRef(GROUP, VERSION, f"{kind.lower()}s"),
            namespace=namespace or "shop",
            name=short,
            body=body,
            **more,
        )
        return (await self.hands.send(request)).body

    async def apply(self, kind: str, name: str, **spec: Any) -> None:
        namespace, _, short = name.rpartition("/")
        meta = {"name": short, "namespace": namespace or "shop"}
        body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": meta, "spec": spec}
        params = {"fieldManager": "kubectl", "force": "true"}
        await self.ask("patch", kind, name, body, content_type=APPLY_PATCH, params=params)

    async def note(self, name: str, *, kind: str = "Unit", **annotations: str) -> None:
        body = {"metadata": {"annotations": annotations}}
        await self.ask("patch", kind, name, body, content_type=MERGE_PATCH)

    async def source(self, name: str = "src", **more: Any) -> None:
        url = str(self.stage.origin.bare)
        await self.apply("GitSource", name, url=url, ref={"branch": "main"}, **more)

    async def unit(self, name: str, **more: Any) -> None:
        spec = {"sourceRef": {"name": "src"}, "path": name.rpartition("/")[2], **more}
        await self.apply("Unit", name, **spec)

    def push(self, **folders: list[Obj]) -> str:
        files = {f"{folder}/a.yaml": documents(*objects) for folder, objects in folders.items()}
        return self.stage.origin.commit(files, "change")

    def get(self, kind: str, name: str) -> Any:
        return self.stage.world.get(ObjectKey(GROUP, kind, "shop", name))

    def status(self, kind: str, name: str) -> Any:
        return self.get(kind, name).get("status") or {}

    def says(self, kind: str, name: str, condition: str = "Ready") -> tuple[str, str]:
        """(status, reason) of a condition; ("", "") where there is none."""
        found = [c for c in self.status(kind, name).get("conditions", ()) if c["type"] == condition]
        return (found[0]["status"], found[0]["reason"]) if found else ("", "")

    def message(self, kind: str, name: str) -> str:
        return next(
            str(c["message"]) for c in self.status(kind, name)["conditions"] if c["type"] == "Ready"
        )

    def has(self, *names: str) -> list[bool]:
        return [self.stage.get("ConfigMap", name) is not None for name in names]

    async def rest(self, seconds: float = 20) -> None:
        await self.stage.rest(seconds)


Script = Callable[[House], Coroutine[Any, Any, None]]


def play(house: House, script: Script, program: RunOptions | None = None) -> None:
    """Run `script` beside the program."""
    chosen = program or house.program()

    async def main() -> None:
        async with controller(chosen, house.stage.wire, house.stage.clock):
            await script(house)

    house.stage.play(main)
