"""What tests of engines share."""

from __future__ import annotations

import pytest
from devices import DEVICES

from linear_treeshap.engines.cuda.device import Device


@pytest.fixture(params=list(DEVICES))
def device(request: pytest.FixtureRequest) -> Device:
    """Plain C++, and a GPU where there is one."""
    return DEVICES[request.param]()
