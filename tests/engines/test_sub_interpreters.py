"""Sub-interpreters with a lock of their own refuse the module, as they do NumPy's, and nothing dies."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from linear_treeshap import _core

#: Before 3.12 no interpreter had a lock of its own.
pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="there are none of their own before 3.12")

SCRIPT = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

inside = '''
import os
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
try:
    spec = spec_from_loader("linear_treeshap._core", ExtensionFileLoader("linear_treeshap._core", %(path)r))
    spec.loader.exec_module(module_from_spec(spec))
except ImportError as error:
    os.write(1, str(error).encode())
else:
    os.write(1, b"imported")
'''
one = interpreters.create()
run = getattr(interpreters, "exec", None) or interpreters.run_string
run(one, inside)
interpreters.destroy(one)
import linear_treeshap
print(" and then", linear_treeshap.explain.__name__)
"""


def test_a_sub_interpreter_refuses_the_module_and_its_parent_goes_on() -> None:
    code = SCRIPT % {"path": os.fspath(_core.__file__)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "does not support loading in subinterpreters" in done.stdout
    assert done.stdout.endswith(" and then explain\n")
