"""Importing this module disables openvino's telemetry, which writes to the home directory, calls a server and forks."""

from __future__ import annotations

import sys

TELEMETRY = "openvino_telemetry"

sys.modules.setdefault(TELEMETRY, None)  # type: ignore[arg-type] # its import fails, so openvino uses a stub
