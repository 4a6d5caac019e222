"""Feature gates: named switches with a default, resolved once and passed as a value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from gitkruise.errors import Finding, UsageProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """OpenKruise's gates by our spelling; defaults are those of its July 2026 release.

    Source: behaviour of `--feature-gates` of kruise-manager.
    """

    clone_set_short_hash: bool = False
    clone_set_partition_rollback: bool = False
    template_no_defaults: bool = False
    in_place_update_env_from_metadata: bool = True
    preparing_update_as_update: bool = False
    recreate_pod_when_change_vct_in_clone_set_gate: bool = False
    in_place_workload_vertical_scaling: bool = False
    pre_download_image_for_in_place_update: bool = False
    resources_deletion_protection: bool = False
    deletion_protection_for_crd_cascading_gate: bool = False
    default_host_network_host_ports_in_pod_templates: bool = False
    kruise_pod_readiness_gate: bool = False
    kruise_daemon: bool = True
    pod_webhook: bool = True
    image_pull_job_gate: bool = False
    pod_unavailable_budget_update_gate: bool = False
    pod_unavailable_budget_delete_gate: bool = True
    clone_set_event_handler_optimization: bool = False
    force_delete_timeout_expectation_gate: bool = False
    workload_spread: bool = True
    in_place_pod_vertical_scaling: bool = False
    sidecar_terminator: bool = False
    enable_sort_sidecar_container_by_name: bool = False
    sidecar_set_patch_pod_metadata_defaults_allowed: bool = False


_WIRE_NAMES: Final = {
    "clone_set_short_hash": "CloneSetShortHash",
    "clone_set_partition_rollback": "CloneSetPartitionRollback",
    "template_no_defaults": "TemplateNoDefaults",
    "in_place_update_env_from_metadata": "InPlaceUpdateEnvFromMetadata",
    "preparing_update_as_update": "PreparingUpdateAsUpdate",
    "recreate_pod_when_change_vct_in_clone_set_gate": "RecreatePodWhenChangeVCTInCloneSetGate",
    "in_place_workload_vertical_scaling": "InPlaceWorkloadVerticalScaling",
    "pre_download_image_for_in_place_update": "PreDownloadImageForInPlaceUpdate",
    "resources_deletion_protection": "ResourcesDeletionProtection",
    "deletion_protection_for_crd_cascading_gate": "DeletionProtectionForCRDCascadingGate",
    "default_host_network_host_ports_in_pod_templates": "DefaultHostNetworkHostPortsInPodTemplates",
    "kruise_pod_readiness_gate": "KruisePodReadinessGate",
    "kruise_daemon": "KruiseDaemon",
    "pod_webhook": "PodWebhook",
    "image_pull_job_gate": "ImagePullJobGate",
    "pod_unavailable_budget_update_gate": "PodUnavailableBudgetUpdateGate",
    "pod_unavailable_budget_delete_gate": "PodUnavailableBudgetDeleteGate",
    "clone_set_event_handler_optimization": "CloneSetEventHandlerOptimization",
    "force_delete_timeout_expectation_gate": "ForceDeleteTimeoutExpectationGate",
    "workload_spread": "WorkloadSpread",
    "in_place_pod_vertical_scaling": "InPlacePodVerticalScaling",
    "sidecar_terminator": "SidecarTerminator",
    "enable_sort_sidecar_container_by_name": "EnableSortSidecarContainerByName",
    "sidecar_set_patch_pod_metadata_defaults_allowed": "SidecarSetPatchPodMetadataDefaultsAllowed",
}

_BOOLS: Final = {"true": True, "True": True, "1": True, "false": False, "False": False, "0": False}


def parse_gates(text: str) -> Gates:
    """Gates from `Name=true,Name=false`; those that rest on another one go with it.

    Raises UsageProblem GK7004 naming the bad entry.
    """
    by_wire = {wire: name for name, wire in _WIRE_NAMES.items()}
    chosen: dict[str, bool] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        wire, _, value = entry.partition("=")
        if wire not in by_wire:
            raise _bad(
                f'unknown feature gate "{wire}"', f"known gates: {', '.join(sorted(by_wire))}"
            )
        if value not in _BOOLS:
            raise _bad(f'feature gate {wire} wants true or false, not "{value}"', f"{wire}=true")
        chosen[by_wire[wire]] = _BOOLS[value]
    return _consistent(Gates(**chosen))


def _consistent(gates: Gates) -> Gates:
    """Gates that rest on another one go with it, as in kruise-manager."""
    if not gates.resources_deletion_protection:
        gates = replace(gates, deletion_protection_for_crd_cascading_gate=False)
    if not gates.pod_webhook:
        gates = replace(
            gates,
            kruise_pod_readiness_gate=False,
            pod_unavailable_budget_update_gate=False,
            pod_unavailable_budget_delete_gate=False,
            workload_spread=False,
        )
    if not gates.kruise_daemon:
        return replace(
            gates,
            pre_download_image_for_in_place_update=False,
            in_place_update_env_from_metadata=False,
            image_pull_job_gate=False,
        )
    if gates.pre_download_image_for_in_place_update:
        return replace(gates, image_pull_job_gate=True)
    return gates


def _bad(message: str, hint: str) -> UsageProblem:
    return UsageProblem(Finding(code="GK7004", message=message, notes=(("next", hint),)))
