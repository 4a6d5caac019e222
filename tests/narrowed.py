"""Asserts of the core: each narrows a type, and no data from outside makes it false."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NARROWED: Final[Mapping[str, tuple[str, ...]]] = {
    "wire/schema/nodes.py": ("children: child is not None",),
    "wire/schema/structural.py": ("_unknown: items is not None",),
    "wire/patch/strategic_merge.py": ("strategic_diff: child is not None",),
    "model/planning/preconditions.py": ("__init__: action.seen is not None",),
    "planner/builtin/deployment_status.py": (
        "_begun: counts.new is not None",
        "_timed: counts.new is not None",
    ),
    "planner/pod_updates/start.py": ("_write: isinstance(spec, UpdateSpec)",),
    "planner/report/blast_radius.py": ("footprint: change.before is not None",),
    "admission/injection/expression.py": (
        "_add: not isinstance(left, Amount)",
        "_add: not isinstance(right, Amount)",
        "_chosen: not isinstance(left, Amount)",
        "_chosen: not isinstance(right, Amount)",
        "_tokens: match.lastgroup is not None",
    ),
    "admission/kruise/pod_webhook.py": ("injected: request.now is not None",),
    "admission/builtin/webhook_configurations.py": ("_url: found is not None",),
    "world/write/admission.py": ("admit_object: result is not None",),
    "world/store/commit.py": ("_finish_definition: of is not None",),
    "world/api/delete.py": (
        "_delete_instances: kind is not None",
        "_last_seen: record.before is not None",
    ),
    "world/controllers/endpoints.py": ("_disturbed: obj is not None",),
    "world/simulation/executor.py": ("_kind: kind is not None",),
    "world/controllers/garbage_collector.py": ("_touched: before is not None",),
    "world/kubelet/kubelet.py": ("_on_change: pod is not None",),
    "world/controllers/namespace.py": ("_pods: kind is not None",),
    "world/simulation/run.py": ("after: found is not None",),
    "world/node_agent/recreate.py": ("run: pod is not None",),
    "world/api/binding_eviction.py": ("_spend_budget: kind is not None",),
    "world/write/webhook_pipeline.py": (
        "_decoded: read is not None",
        "_write: some is not None",
        "changed_object: made is not None",
        "new_object: made is not None",
        "reviewed_part: made is not None",
    ),
    "world/controllers/scheduler.py": ("_count: obj is not None", "_place: bound is not None"),
    "world/kubelet/stages.py": (
        "_post_started: spec is not None",
        "_pulled: spec is not None",
        "_started: spec is not None",
    ),
    "world/apply/typed.py": (
        "_compare_lists: node is not None",
        "_merge_lists: node is not None",
        "duplicate: node is not None",
        "elements: node is not None",
        "remove: node is not None",
    ),
    "world/api/watch.py": (
        "_seen: after is not None",
        "_seen: before is not None",
    ),
    "world/write/webhooks.py": (
        "_conditions_hold: call.reviews is not None",
        "_patched: reviews is not None",
    ),
}
