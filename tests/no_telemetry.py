"""Importing this keeps openvino from its telemetry, which writes into the home directory, calls a server and forks a process."""

from __future__ import annotations

import sys

TELEMETRY = "openvino_telemetry"

sys.modules.setdefault(TELEMETRY, None)  # type: ignore[arg-type] # its import fails, and openvino takes its own stub instead
