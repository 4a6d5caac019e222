"""Run the benchmarks named on the command line, or all of them, and print their figures."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from bench import (
    canary,
    commands,
    configmaps,
    dashboard,
    distant,
    drift,
    idle,
    injection,
    memory,
    node_agent,
    planning,
    polling,
    preview,
    pushes,
    reading,
    removal,
    reviews,
    rollouts,
    serving,
    shards,
    sick,
    sidecars,
    startup,
    strangers,
    takeover,
    templates,
    units,
    watching,
    workers,
    writes,
)
from bench.timing import Row, yard
from gitkruise.cli.root import YOUNG_OBJECTS

BENCHMARKS: Final[Mapping[str, Callable[[], Iterator[Row]]]] = {
    "templates": templates.rows,
    "planning": planning.rows,
    "sidecars": sidecars.rows,
    "preview": preview.rows,
    "writes": writes.rows,
    "memory": memory.rows,
    "startup": startup.rows,
    "commands": commands.rows,
    "pushes": pushes.rows,
    "reading": reading.rows,
    "polling": polling.rows,
    "distant": distant.rows,
    "drift": drift.rows,
    "idle": idle.rows,
    "dashboard": dashboard.rows,
    "shards": shards.rows,
    "audited-shards": shards.audited_rows,
    "units": units.rows,
    "resting": units.rest,
    "removal": removal.rows,
    "configmaps": configmaps.rows,
    "sick": sick.rows,
    "rollouts": rollouts.rows,
    "many-rollouts": rollouts.many,
    "canary": canary.rows,
    "injection": injection.rows,
    "reviews": reviews.rows,
    "serving": serving.rows,
    "watching": watching.rows,
    "strangers": strangers.rows,
    "takeover": takeover.rows,
    "workers": workers.rows,
    "node-agent": node_agent.rows,
}


def main(names: list[str]) -> int:
    if names == ["--list"]:
        sys.stdout.write("".join(f"{name}\n" for name in BENCHMARKS))
        return 0
    strangers = [name for name in names if name not in BENCHMARKS]
    if strangers:
        sys.stderr.write(f"no benchmark {strangers[0]}; there are {', '.join(BENCHMARKS)}\n")
        return 2
    gc.set_threshold(YOUNG_OBJECTS)  # as the program does
    _show(Row(name="yardstick (compare other runs by it)", value=yard() * 1000, unit="ms"))
    for name in names or BENCHMARKS:
        for row in BENCHMARKS[name]():
            _show(row)
    return 0


def _show(row: Row) -> None:
    sys.stdout.write(f"{row}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
