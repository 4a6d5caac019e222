"""gitkruise wait: until a commit is out, as the status branch tells."""

from __future__ import annotations

from typing import Any

import click

from gitkruise.cli.at_hand import config_instead
from gitkruise.cli.verb import Verb, duration_type


@click.command(cls=Verb, exits=(1, 4, 6, 130), says="it was rejected, or its rollout is stuck")
@click.argument("unit", default="", metavar="[UNIT]")
@click.option("--commit", default="HEAD", show_default=True, metavar="SHA", help="Which commit.")
@click.option(
    "--for",
    "goal",
    type=click.Choice(["applied", "held", "done"]),
    default="held",
    show_default=True,
    help="Sent to the cluster; as it asks, held or not; nothing held back.",
)
@click.option("--timeout", default="5m", show_default=True, callback=duration_type, help="At most.")
@click.option("--repo", default=".", show_default=True, help="The repository with the record.")
@config_instead
@click.option("--cluster", default="", help="Which cluster's record; needed if there are several.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@click.pass_context
def wait(ctx: click.Context, /, **flags: Any) -> None:
    """Wait until a commit is out. Reads the status branch; needs no access to the cluster.

    \b
    Examples:
      gitkruise wait --commit 4f2c9e1
      gitkruise wait shop/web --commit HEAD --for done --timeout 10m
      gitkruise wait --cluster prod --for applied -o json

    All units are waited for, or the one that is named. A commit that changes nothing of a unit is
    out there at once; one that was overtaken is out when the newer one is.
    """
    from gitkruise.cli.waiting import Awaited, wait_for  # noqa: PLC0415  imports the model

    ctx.exit(wait_for(Awaited(**flags)))
