"""`--feature-gates`: groups of gates, precedence, and gates that nothing here depends on."""

from __future__ import annotations

from dataclasses import fields

import pytest

from gitkruise.errors import UsageProblem
from gitkruise.model.workloads.feature_gates import WITHOUT_EFFECT, Gates, parse_gates

ALPHA = "clone_set_short_hash"
BETA = "resources_deletion_protection"


@pytest.mark.parametrize(
    ("text", "alpha", "beta"),
    [
        ("", False, False),
        ("AllAlpha=true", True, False),
        ("AllBeta=true", False, True),
        ("AllAlpha=true,AllBeta=true", True, True),
        ("AllAlpha=true,CloneSetShortHash=false", False, False),
        ("CloneSetShortHash=false,AllAlpha=true", False, False),
        ("AllAlpha=false,CloneSetShortHash=true", True, False),
        ("AllAlpha=true,AllAlpha=false", False, False),
        ("CloneSetShortHash=true,CloneSetShortHash=false", False, False),
    ],
)
def test_a_named_gate_goes_before_a_group(text: str, alpha: bool, beta: bool) -> None:
    gates = parse_gates(text)
    assert (getattr(gates, ALPHA), getattr(gates, BETA)) == (alpha, beta)


def test_dependencies_come_after_groups() -> None:
    gates = parse_gates("AllAlpha=true,PodWebhook=false,KruiseDaemon=false")
    assert not gates.kruise_pod_readiness_gate
    assert not gates.pre_download_image_for_in_place_update
    assert not parse_gates("AllBeta=false,AllAlpha=true").pre_download_image_for_in_place_update


def test_a_deprecated_gate_is_in_no_group() -> None:
    gates = parse_gates("AllAlpha=true,AllBeta=true")
    off = [field.name for field in fields(Gates) if not getattr(gates, field.name)]
    assert off == ["default_host_network_host_ports_in_pod_templates"]


@pytest.mark.parametrize("wire", sorted(WITHOUT_EFFECT))
def test_a_gate_without_effect_is_refused_by_name(wire: str) -> None:
    assert parse_gates(f"{wire}=false") == Gates()
    with pytest.raises(UsageProblem, match=wire) as refused:
        parse_gates(f"{wire}=true")
    assert refused.value.findings[0].code == "GK7004"
