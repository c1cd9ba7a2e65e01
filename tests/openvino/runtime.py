"""The openvino package without its telemetry. Everything in the tests that needs openvino imports it from here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import tests.no_telemetry  # noqa: F401 - before openvino is imported

openvino: Any = import_module("openvino")
