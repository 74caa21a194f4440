"""Cases that end as no case should, for the tests of what watches over the fuzzers."""

from __future__ import annotations

import os
import time

import numpy as np

from fuzz.tally import Tally
from fuzz.worker import input_path

#: What a case has read when it dies.
INPUT = b"the last words"


def quiet(rng: np.random.Generator) -> Tally:
    """One number, of which the process that runs it has no part."""
    tally = Tally()
    tally.done("quiet", 1, float(rng.random()))
    return tally


def now_and_then(rng: np.random.Generator) -> Tally:
    """One case in three is wrong, one in three kills its process."""
    kind = rng.integers(3)
    if kind == 0:
        input_path().write_bytes(INPUT)
        os.abort()
    tally = quiet(rng)
    if kind == 1:
        tally.same_bits("wrong", np.zeros(2), np.array([0.0, 1.0]))
    return tally


def hanging(rng: np.random.Generator) -> Tally:
    time.sleep(60)
    return quiet(rng)


def hungry(rng: np.random.Generator) -> Tally:
    """Twice as much memory as a process may have."""
    np.ones(1 << 30)
    return quiet(rng)
