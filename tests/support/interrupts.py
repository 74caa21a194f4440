"""Ctrl-C, as a user presses it: a process of its own, in the middle of a long call."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

# A job in the background of a shell ignores Ctrl-C, and so would this.
_PROGRAM = """
import signal, sys, numpy as np
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {tests!r})
{prepare}
print("ready", flush=True)
try:
    {call}
    print("finished")
except KeyboardInterrupt:
    print("interrupted", flush=True)
    {again}
    print("usable")
"""


def interrupt(prepare: str, call: str, again: str = "pass") -> None:
    """Run ``prepare``; ``call`` takes long, and is interrupted; ``again`` works after that."""
    code = _PROGRAM.format(tests=str(Path(__file__).parent), prepare=prepare, call=call, again=again)
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
        assert child.stdout.read() == "usable\n"
