"""Code that every machine may run uses what every machine has; kernels are offered where theirs is there."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from linear_treeshap import _core

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="other machines have one kernel, for any of them"
)

#: Instructions beyond x86-64 as it began. `tzcnt` is not among them: machines that do not know it run it as
#: `bsf`, and compilers use it where both give the same.
NEEDS = {
    "avx512": re.compile(r".*%(zmm|k[0-7]\b|[xy]mm(1[6-9]|2\d|3[01]))"),
    "avx2": re.compile(
        r"(lock )?(v\w+|andn|bextr|bls(i|r|msk)|bzhi|mulx|pdep|pext|rorx|s[ah][lr]x|lzcnt|popcnt|movbe"
        r"|cmpxchg16b|crc32\w*|h(add|sub)p[sd]|addsubp[sd]|lddqu|mov(sl|sh|d)dup|p(abs|sign)[bwd]|pshufb|palignr"
        r"|ph(add|sub)\w+|pmaddubsw|pmulhrsw|p?blend\w+|dpp[sd]|extractps|insertps|p(ins|ext)r[bdq]|p(max|min)(s[bd]|u[dw])"
        r"|pmov[sz]x\w+|pmul(dq|ld)|ptest|round[sp][sd]|packusdw|pcmp(eq|gt)q|pcmp[ei]str[im]|mpsadbw"
        r"|movntdqa)(\s|$)"
    ),
}
NAMESPACE = re.compile(r"linear_treeshap::(avx2|avx512)::")
MAY = {"any": {"nothing"}, "avx2": {"nothing", "avx2"}, "avx512": {"nothing", "avx2", "avx512"}}

#: What x86-64-v3 and x86-64-v4 have, as Linux calls it, which does not name what it does not support itself.
AVX2_FLAGS = set(
    "pni ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm xsave avx avx2 bmi1 bmi2 f16c fma abm movbe".split()  # noqa: SIM905
)
AVX512_FLAGS = AVX2_FLAGS | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


def objdump(*arguments: str) -> str:
    return subprocess.run(["objdump", *arguments], capture_output=True, text=True, check=True).stdout


def needs_by_function(library: Path) -> dict[str, Counter[str]]:
    """For every function, how many of its instructions need which instruction set."""
    out: dict[str, Counter[str]] = {}
    for line in objdump("--disassemble", "--demangle", "--no-show-raw-insn", str(library)).splitlines():
        if line.endswith(">:"):
            here = out.setdefault(line.partition("<")[2][:-2], Counter())
        elif "\t" in line:
            instruction = line.split("\t", 1)[1].strip()
            needed = (name for name, pattern in NEEDS.items() if pattern.match(instruction))
            here[next(needed, "nothing")] += 1
    return out


@pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump, which comes with compilers")
def test_only_kernels_use_what_not_every_machine_has() -> None:
    """Every function of the library, disassembled: a stray instruction ends the processes of some users."""
    assert _core.__file__ is not None
    if "linear_treeshap" not in objdump("--syms", _core.__file__):
        pytest.skip("the library was stripped of the names of its functions; `make test` keeps them")
    total = {namespace: Counter[str]() for namespace in MAY}
    strays = []
    for function, needs in needs_by_function(Path(_core.__file__)).items():
        inside = NAMESPACE.search(function)
        namespace = inside[1] if inside else "any"
        total[namespace] += needs
        if needs.keys() - MAY[namespace]:
            strays.append(f"{function}: {dict(needs)}")
    assert not strays, "\n".join(strays)
    # That this sees anything: thousands of them, where they belong.
    assert min(total["avx2"]["avx2"], total["avx512"]["avx512"], total["any"]["nothing"]) > 1000


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="reads what Linux says of the processor")
def test_kernels_are_offered_where_all_they_need_is_there() -> None:
    """As the operating system sees the processor, feature by feature."""
    found = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    assert found is not None
    flags = set(found[1].split())
    offered = {"avx512": flags >= AVX512_FLAGS, "avx2": flags >= AVX2_FLAGS, "baseline": True}
    assert _core.kernels() == [name for name, is_offered in offered.items() if is_offered]
