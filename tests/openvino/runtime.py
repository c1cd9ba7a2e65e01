"""The openvino package without its telemetry: a plain `import openvino` writes into the home directory and calls a server.

Everything in the tests that needs openvino imports it from here.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

TELEMETRY = "openvino_telemetry"

sys.modules.setdefault(TELEMETRY, None)  # type: ignore[arg-type] # its import fails, and openvino takes its own stub instead

openvino: Any = import_module("openvino")
