"""What every test shares: seeded randomness, and no time limits for single examples (machines differ in speed)."""

import sys

import pytest
from hypothesis import settings

settings.register_profile("suite", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("suite")


@pytest.fixture(autouse=True)
def _seeded():
    # Only where a test's own imports have loaded torch: light tests stay light.
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
