"""Who drives the pods: wishes of units against the Lease of OpenKruise's manager."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from gitkruise.errors import ClusterFailed, Forbidden
from gitkruise.gitops.engine import choose_engine
from gitkruise.kube.lease import LEASES
from gitkruise.sandbox.cluster import Cluster
from gitkruise.sandbox.inprocess import WorldTransport
from gitkruise.wire.request import ApiRequest
from gitkruise.wire.times import format_micro_time
from tests.gitops.engines import NOW, Refusing, cluster_at_rest

ALIVE: dict[str, Any] = {"holderIdentity": "manager-1", "leaseDurationSeconds": 15}
