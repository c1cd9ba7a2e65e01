"""The examples' folder on the path, as it is for a script that is run from there."""

from __future__ import annotations

import sys

from tests.examples import FOLDER

sys.path.insert(0, str(FOLDER))
