"""A plugin for pytest: what dmlgather asks of the tests' stand-ins for CuPy is held to the real package while the tests run.

python -m pytest -p tests.real_cupy.plugin TESTS
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.kernels import host_driver
from tests.real_cupy.checked import CALLS, Checked
from tests.real_cupy.signatures import package

package()  # before a stand-in takes its name

_installed = host_driver.installed


@contextmanager
def installed(stand_in: Any) -> Iterator[Any]:
    """As in host_driver; what is imported as cupy is checked."""
    with _installed(stand_in), pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cupy", Checked(stand_in, "cupy"))
        yield stand_in


host_driver.installed = installed


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How much was checked."""
    line = f"{CALLS.total()} calls of {len(CALLS)} functions were held to CuPy {package().__version__}"
    terminalreporter.write_line(line)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run that checked nothing has failed."""
    if not CALLS["cupy.cuda.driver.launchKernel"]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
