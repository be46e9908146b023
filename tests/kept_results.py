"""Where the kept results are. A checkout has them, the sdist has not."""

from pathlib import Path

import pytest

KEPT = Path(__file__).parents[1] / "results" / "paper"

needs_kept_results = pytest.mark.skipif(not KEPT.exists(), reason="needs results/paper, which only a checkout has")
