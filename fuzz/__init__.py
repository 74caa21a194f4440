"""Fuzzers: random models, random frames and damaged files, to find what is wrong before a user does.

Reading order: `tally` is what a case comes back with, `campaign` starts the processes that run cases and
adds them up, `worker` is such a process. The fuzzers themselves: `values` compares random models (`cases`)
with the definition (`judge`), `libraries` compares trained models with their own library on messy frames,
`files` reads damaged files (`mutations`). Every case follows from a seed and a number and nothing else.
Others are guided by coverage: `guided` runs native programs and `target`, beginning with what `seeds` wrote.
"""

import sys
from pathlib import Path

# Random ensembles and trained models are the tests': their folder is no package, so its files are found here.
sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
