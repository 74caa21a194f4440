"""Ctrl-C, as a user presses it: a process of its own, in the middle of a long call."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path


def interrupt(long_call: str, *, n_jobs: int) -> str:
    """Run Python that says "ready", works long, and says "interrupted"; what it says after that.

    ``{tests!r}`` and ``{n_jobs}`` in it are filled in.
    """
    code = long_call.format(tests=str(Path(__file__).parent), n_jobs=n_jobs)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        threading.Event().wait(0.3)  # let the long call begin
        child.send_signal(signal.SIGINT)
        sent = time.monotonic()
        answer = child.stdout.readline()
        waited = time.monotonic() - sent
        assert answer == "interrupted\n"
        assert waited < 3  # half a second at most when idle; generous to a busy machine
        return child.stdout.read()
