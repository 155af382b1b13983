"""Write psi.json: posterior recovery in high-precision arithmetic (needs mpmath).

    python tests/vectors/make.py

Every writing of the map (Python, the kernels under the fits, torch, ONNX, TypeScript) is tested
against this one table. A row lists its distinct logits with the number of classes at each, so
that 1000 classes take one line; null is an impossible class (-inf). For each exponent it has, per
distinct logit, the logarithms of

    v = softmax(z),  1 - v,  phi(v) = (1-v)^gamma - gamma (1-v)^(gamma-1) v log v,
    psi = (v / phi(v)) / sum(v / phi(v))

Logits are multiples of 1/8: exact in float32 and float16.
"""

import json
from pathlib import Path

from mpmath import mp, mpf

GAMMAS = (-1.0, -0.999, -0.5, 0.0, 0.05, 0.5, 1.0, 2.0, 5.0, 10.0)
ROWS = {
    "two classes": ([0.5, 0.0], [1, 1]),
    "two classes, a hair apart": ([0.125, 0.0], [1, 1]),
    "two classes, saturated": ([40.0, 0.0], [1, 1]),
    "two classes, beyond every float": ([800.0, 0.0], [1, 1]),
    "two classes, equal": ([0.0], [2]),
    "three classes": ([1.0, 0.25, -0.75], [1, 1, 1]),
    "three classes, two on top": ([2.0, -3.0], [2, 1]),
    "three classes, saturated": ([0.0, -120.0, -300.0], [1, 1, 1]),
    "three classes, one impossible": ([1.5, 0.0, None], [1, 1, 1]),
    "three classes, one certain": ([3.0, None], [1, 2]),
    "ten classes, one ahead": ([4.0, 1.0, -2.0], [1, 2, 7]),
    "ten classes, spread": ([4.0, 3.5, 2.0, 1.0, 0.5, 0.0, -0.5, -1.0, -6.0, -20.0], [1] * 10),
    "ten classes, far from zero": ([1000.0, 999.0, 990.0], [1, 3, 6]),
    "1000 classes, flat": ([0.25, 0.0], [1, 999]),
    "1000 classes, sparse": ([12.0, 9.0, 0.0, -30.0], [1, 1, 98, 900]),
    "1000 classes, saturated": ([60.0, 0.0], [1, 999]),
    "1000 classes, mostly impossible": ([1.0, 0.0, None], [1, 2, 997]),
}


def exact(logits: list[float | None], counts: list[int], gamma: float) -> dict[str, list]:
    """Return the four logarithms per distinct logit; None is -inf."""
    possible = [x for x in logits if x is not None]
    # As many digits as the smallest of all numbers has zeros, and 60 more.
    digits = 60 + int((2 + abs(gamma)) * (max(possible) - min(possible)))
    with mp.workdps(digits):
        g, top = mpf(gamma), mpf(max(possible))
        e = [mpf(0) if x is None else mp.exp(mpf(x) - top) for x in logits]
        total = mp.fsum(n * x for n, x in zip(counts, e, strict=True))
        v = [x / total for x in e]
        rest = [
            mp.fsum((n - (i == j)) * x for j, (n, x) in enumerate(zip(counts, v, strict=True)))
            for i in range(len(v))
        ]
        is_certain = [r == 0 for r in rest]
        phi = [
            mpf(1) if p == 0 or c else r**g - g * r ** (g - 1) * p * mp.log(p)
            for p, r, c in zip(v, rest, is_certain, strict=True)
        ]
        h = [p / f for p, f in zip(v, phi, strict=True)]
        whole = mp.fsum(n * x for n, x in zip(counts, h, strict=True))

        def log(x: mpf) -> float | None:
            return None if x == 0 else float(mp.log(x))

        return {
            "log_v": [log(x) for x in v],
            "log_rest": [log(x) for x in rest],
            # phi of a certain class is 0 or infinite: no logarithm to compare.
            "log_phi": [None if c else log(x) for x, c in zip(phi, is_certain, strict=True)],
            "log_psi": [log(x / whole) for x in h],
        }


def main() -> None:
    """Write the table beside this file."""
    rows = [
        {
            "name": name,
            "logits": logits,
            "counts": counts,
            "cases": [{"gamma": gamma, **exact(logits, counts, gamma)} for gamma in GAMMAS],
        }
        for name, (logits, counts) in ROWS.items()
    ]
    lines = ",\n".join(json.dumps(row) for row in rows)
    text = f'{{"made_by": "tests/vectors/make.py", "rows": [\n{lines}\n]}}\n'
    Path(__file__).with_name("psi.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
