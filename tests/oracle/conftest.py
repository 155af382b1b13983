import json
from pathlib import Path

import pytest

FILE = Path(__file__).parents[1] / "vectors" / "oracles.json"


@pytest.fixture(scope="session")
def oracles():
    """Numbers that other programs computed, at high precision."""
    return json.loads(FILE.read_text())
