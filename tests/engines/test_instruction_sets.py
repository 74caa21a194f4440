"""Kernels are offered where all that they need is there."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from linear_treeshap import _core

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="other machines have one kernel, for any of them"
)

#: What x86-64-v3 and x86-64-v4 have, as Linux calls it, which does not name what it does not support itself.
AVX2_FLAGS = set(
    "pni ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm xsave avx avx2 bmi1 bmi2 f16c fma abm movbe".split()  # noqa: SIM905
)
AVX512_FLAGS = AVX2_FLAGS | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="reads what Linux says of the processor")
def test_kernels_are_offered_where_all_they_need_is_there() -> None:
    """As the operating system sees the processor, feature by feature."""
    found = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    assert found is not None
    flags = set(found[1].split())
    offered = {"avx512": flags >= AVX512_FLAGS, "avx2": flags >= AVX2_FLAGS, "baseline": True}
    assert _core.kernels() == [name for name, is_offered in offered.items() if is_offered]
