"""Deployments to an environment on a forge, from the records of a Sink's units."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from gitkruise.gitops.telling.outlet import Outlet
from gitkruise.gitops.telling.standings import Form, Ground, Standings
from gitkruise.kube.clock import Clock
from gitkruise.model.config import CommitStatus, Deployment
from gitkruise.planner.telling.statuses import deployment


def deployments(
    outlet: Outlet,
    rule: tuple[Deployment, str, str],
    grounds: Mapping[str, Ground],
    clock: Clock,
) -> Standings:
    """One deployment a commit, with the state of all units that stand on it.

    `rule` is what the Sink says, the cluster's name, and the branch that is followed ("" for
    none). The outlet should be of its own: a token that may not deploy holds up its channel.
    """
    spec, cluster, ref = rule
    form = Form(partial(deployment, ref=ref), "deployment", behind=False)
    over_all = CommitStatus(context=spec.environment)
    return Standings(outlet, (over_all, cluster), grounds, clock, form=form)
