"""What every test may use: goldens that rewrite themselves, and suites that skip with a reason."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

GOLDEN = Path(__file__).parent / "golden"
REQUIRED = set(filter(None, os.environ.get("GITKRUISE_REQUIRE", "").split(",")))  # noqa: TID251  the test run's own switch

# A red run must mean the change, not the dice: only the night explores.
settings.register_profile(
    "default", max_examples=50, deadline=None, print_blob=True, derandomize=True
)
settings.register_profile("laws", settings.get_profile("default"), max_examples=200)
settings.register_profile("long", settings.get_profile("default"), max_examples=400)
settings.register_profile(
    "night",
    max_examples=2000,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
gc.set_threshold(50_000, 20, 50)  # a tenth of the time went into looking for rubbish
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as jobs in the background of a shell have it
    signal.signal(signal.SIGINT, signal.default_int_handler)  # programs we start would inherit it
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")  # noqa: TID251
settings.load_profile(_PROFILE)
NIGHT = _PROFILE == "night"  # there is time for all cases, and for new ones


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write goldens instead of comparing"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare `text` with tests/golden/NAME, or write it under --update-golden."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"no golden {name}: run with --update-golden"
        assert text == path.read_text()

    return check


def need(what: str, *, present: bool, how: str) -> None:
    """Skip with the line that would enable it; under GITKRUISE_REQUIRE a skip is a failure."""
    if present:
        return
    if what in REQUIRED:
        pytest.fail(f"{what} is required here and missing: {how}")
    pytest.skip(f"no {what}: {how}")


@pytest.fixture(scope="session")
def kubectl() -> str:
    """Path of a stock kubectl."""
    found = shutil.which("kubectl")
    need("kubectl", present=bool(found), how="apt-get install kubernetes-client")
    assert found
    return found
