"""Law: the waves that a plan foretells of a Deployment keep its budget and end where it ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.world.simulation.test_forecast_deployment import forecast, image, running, waves, web

pytestmark = pytest.mark.slow
CANARIES = st.one_of(
    st.none(), st.integers(0, 9).map(str), st.integers(0, 100).map(lambda p: f"{p}%")
)


@given(
    replicas=st.integers(1, 8),
    surge=st.integers(0, 3),
    unavailable=st.integers(0, 3),
    canary=CANARIES,
    version=st.sampled_from(["app:v2", "app:bad"]),
)
def test_the_forecast_is_what_then_happens(
    replicas: int, surge: int, unavailable: int, canary: str | None, version: str
) -> None:
    unavailable = unavailable if surge else max(unavailable, 1)
    lab = running(web(canary, surge=surge, unavailable=unavailable, replicas=replicas))
    found = forecast(lab, None, **image(version))
    for new, old, available in waves(found):
        assert new + old <= replicas + surge
        assert available >= replicas - unavailable
    lab.patch(web(), {"spec": image(version)})
    lab.run(1800)
    images = [pod["spec"]["containers"][0]["image"] for pod in lab.pods()]
    assert found.updated_after == images.count(version)
    if waves(found):
        assert waves(found)[-1][:2] == (images.count(version), images.count("app:v1"))
    if version == "app:v2":
        assert found.hold == ("CanaryReached" if images.count("app:v1") else "")
