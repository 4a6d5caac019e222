"""Deployments to an environment on a forge, from the records of a Sink's units."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.notify.channel import Channel
from gitkruise.gitops.notify.commit_statuses import CommitStatusWriter, StatusForm, UnitBranch
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import CommitStatus, Deployment
from gitkruise.planner.notify.commit_statuses import deployment


def deployments(
    channel: Channel,
    spec: Deployment,
    branches: Mapping[str, UnitBranch],
    clock: Clock,
    *,
    cluster: str,
    ref: str,
    containment: Containment = UNREPORTED,
) -> CommitStatusWriter:
    """Return the writer of one deployment per commit, with the state of all units that run it.

    `ref` is the branch that is followed ("" for none). The channel should be of its own: a token
    that may not deploy holds up all of its items.
    """
    form = StatusForm(partial(deployment, ref=ref), "deployment", behind=False)
    over_all = CommitStatus(context=spec.environment)
    return CommitStatusWriter(
        channel, over_all, branches, clock, cluster=cluster, form=form, containment=containment
    )
