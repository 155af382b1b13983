"""Write inference.json: what MAPIE and model-diagnostics say about a few small samples.

Both are peers, not dependencies (MAPIE pins scikit-learn, model-diagnostics brings polars), so
their numbers are committed with the versions that gave them::

    pip install mapie==1.6.0 model-diagnostics==1.5.0
    python tests/vectors/make_inference.py
"""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from mapie.metrics import calibration as mapie
from model_diagnostics import scoring

N = 200


def case(number: int) -> dict[str, Any]:
    """Return one sample: calibrated, too low or too high, and what the peers say of it."""
    rng = np.random.default_rng(number)
    p = rng.uniform(0.01, 0.99, size=N).round(6)
    truth = (p, p**1.3, np.clip(1.2 * p - 0.1, 0, 1))[number]
    y = (rng.random(N) < truth).astype(int)
    w = rng.gamma(1.0, size=N).round(4) + 1e-4
    scores = {"brier": scoring.SquaredError(), "log_loss": scoring.LogLoss()}
    return {
        "probability": p.tolist(),
        "outcome": y.tolist(),
        "weight": w.round(4).tolist(),
        "mapie": {
            name: float(getattr(mapie, name)(y, p))
            for name in (
                "kuiper_statistic",
                "kuiper_p_value",
                "kolmogorov_smirnov_statistic",
                "kolmogorov_smirnov_p_value",
                "spiegelhalter_statistic",
                "spiegelhalter_p_value",
            )
        },
        "model_diagnostics": {
            f"{name}{' weighted' * (weights is not None)}": scoring.decompose(
                y_obs=y, y_pred=p, weights=weights, scoring_function=function
            ).row(0, named=True)
            for name, function in scores.items()
            for weights in (None, w.round(4))
        },
    }


def main() -> None:
    """Write the file beside this one."""
    packages = ("mapie", "model-diagnostics", "scikit-learn", "numpy")
    document = {
        "made_by": {name: version(name) for name in packages},
        "cases": [case(number) for number in range(3)],
    }
    path = Path(__file__).parent / "inference.json"
    path.write_text(json.dumps(document) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
