"""A request without an object is refused, in words, by every rule that reads one."""

from __future__ import annotations

import pytest

from gitkruise.admission.rules.request import CREATE, AdmissionRequest
from gitkruise.errors import BadRequest
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.wire.primitives.names import ObjectKey
from tests.worlds import empty_world


def test_a_request_without_an_object_is_a_bad_request() -> None:
    kind = load_catalog().by_kind("", "v1", "Pod")
    assert kind is not None
    key = ObjectKey("", "Pod", "shop", "web")
    request = AdmissionRequest(
        operation=CREATE, kind=kind, key=key, obj=None, view=empty_world().state
    )
    with pytest.raises(BadRequest, match="CREATE Pod shop/web brings no object"):
        _ = request.new
