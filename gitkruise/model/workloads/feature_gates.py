"""Feature gates: named switches with a default, resolved once and passed as a value."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
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
    pod_unavailable_budget_delete_gate: bool = True
    pod_unavailable_budget_update_gate: bool = False
    workload_spread: bool = True
    image_pull_job_gate: bool = False
    sidecar_terminator: bool = False
    enable_sort_sidecar_container_by_name: bool = False
    sidecar_set_patch_pod_metadata_defaults_allowed: bool = False
    stateful_set_start_ordinal: bool = False
    stateful_set_auto_delete_pvc: bool = True
    stateful_set_auto_resize_pvc_gate: bool = False
    pod_index_label: bool = True

    @property
    def budgets_pods(self) -> bool:
        """PodUnavailableBudgets are admitted and protect pods."""
        return self.pod_unavailable_budget_delete_gate or self.pod_unavailable_budget_update_gate

    @property
    def pulls_images(self) -> bool:
        """Pull jobs are admitted and carried out; pre-download rests on them."""
        wanted = self.image_pull_job_gate or self.pre_download_image_for_in_place_update
        return self.kruise_daemon and wanted


_ACRONYMS: Final = {"crd": "CRD", "pvc": "PVC", "vct": "VCT"}


def _wire_name(name: str) -> str:
    """The name of one of our gates as OpenKruise spells it."""
    return "".join(_ACRONYMS.get(word, word.capitalize()) for word in name.split("_"))


_BY_WIRE_NAME: Final = {_wire_name(field.name): field.name for field in fields(Gates)}

# Gates of OpenKruise on which nothing here depends.
WITHOUT_EFFECT: Final = frozenset(
    {
        *("CloneSetEventHandlerOptimization", "ForceDeleteTimeoutExpectationGate"),
        "InPlacePodVerticalScaling",
    }
)
# Maturity since OpenKruise 1.8; every other gate of its own is alpha. The gate of host ports is
# Kubernetes', and deprecated.
_BETA: Final = frozenset(
    {"pod_webhook", "kruise_daemon", "resources_deletion_protection",
     "in_place_update_env_from_metadata", "pod_unavailable_budget_delete_gate",
     "workload_spread", "pod_index_label"}
)  # fmt: skip
_ALPHA: Final = (
    frozenset(_BY_WIRE_NAME.values()) - _BETA - {"default_host_network_host_ports_in_pod_templates"}
)
_GROUPS: Final = {"AllAlpha": _ALPHA, "AllBeta": _BETA}

_BOOLS: Final = {"true": True, "True": True, "1": True, "false": False, "False": False, "0": False}


def parse_gates(text: str) -> Gates:
    """Gates from `Name=true,Name=false`; those that rest on another one go with it.

    `AllAlpha` and `AllBeta` set the gates of that maturity that are not named, wherever they
    stand; the last value of a gate counts. Raises UsageProblem GK7004 naming the bad entry, also
    for a gate that would turn on what gitkruise does not have.
    """
    named: dict[str, bool] = {}
    groups: dict[str, bool] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        wire, _, value = entry.partition("=")
        if wire not in _BY_WIRE_NAME and wire not in _GROUPS and wire not in WITHOUT_EFFECT:
            known = ", ".join(sorted((*_BY_WIRE_NAME, *_GROUPS)))
            raise _bad(f'unknown feature gate "{wire}"', f"known gates: {known}")
        if value not in _BOOLS:
            raise _bad(f'feature gate {wire} wants true or false, not "{value}"', f"{wire}=true")
        if wire in WITHOUT_EFFECT and _BOOLS[value]:
            raise _bad(
                f"feature gate {wire} has no effect: gitkruise does not have what it turns on",
                f"leave {wire} out",
            )
        if wire in _GROUPS:
            groups[wire] = _BOOLS[value]
        elif wire in _BY_WIRE_NAME:
            named[_BY_WIRE_NAME[wire]] = _BOOLS[value]
    grouped = {name: value for group, value in groups.items() for name in _GROUPS[group]}
    return _consistent(Gates(**{**grouped, **named}))


def _consistent(gates: Gates) -> Gates:
    """Gates that rest on another one go with it, as in kruise-manager."""
    if not gates.resources_deletion_protection:
        gates = replace(gates, deletion_protection_for_crd_cascading_gate=False)
    if not gates.pod_webhook:
        gates = replace(
            gates,
            kruise_pod_readiness_gate=False,
            pod_unavailable_budget_delete_gate=False,
            pod_unavailable_budget_update_gate=False,
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
