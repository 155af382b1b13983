"""JSON, and lists of classes or scores in a cell, as services and pipelines write them."""

import json

import numpy as np
import pytest
from tests.unit.io.exports.tables import (
    CLASSES3,
    NAMES3,
    P3,
    TEXT3,
    Y3,
    Z3,
    Export,
    N,
    csv,
    frame3,
    lines,
    parquet,
    pd,
    sorted_after_the_first,
    text,
)

FIRST = np.argsort(-P3[0])
"""The order of the classes in the first row of a pipeline's output."""

EXPORTS = {
    "jsonl": Export(
        "a.jsonl",
        lambda path: frame3(label=TEXT3).to_json(
            path, orient="records", lines=True, double_precision=15
        ),
        P3,
        Y3,
        NAMES3,
    ),
    "jsonl lists": Export(
        "a.jsonl",
        text(
            "".join(
                json.dumps({"id": i, "label": int(Y3[i]), "logits": Z3[i].tolist()}) + "\n"
                for i in range(N)
            )
        ),
        Z3,
        Y3,
    ),
    "jsonl of a pipeline": Export(
        "a.jsonl",
        text(
            "".join(
                json.dumps(
                    {
                        "label": NAMES3[Y3[i]],
                        "scores": [
                            {"label": NAMES3[k], "score": P3[i, k]} for k in np.argsort(-P3[i])
                        ],
                    }
                )
                + "\n"
                for i in range(N)
            )
        ),
        P3[:, FIRST],
        np.argsort(FIRST)[Y3],
        [NAMES3[k] for k in FIRST],
    ),
    "json of pandas": Export(
        "a.json",
        lambda path: frame3(label=TEXT3).to_json(path, double_precision=15),
        P3,
        Y3,
        NAMES3,
    ),
    "a pipeline's output under any name": Export(
        "a.jsonl",
        text(
            "".join(
                json.dumps(
                    {
                        "true": CLASSES3[Y3[i]],
                        "prediction": [
                            {"label": CLASSES3[j], "score": P3[i, j]} for j in range(3)
                        ],
                    }
                )
                + "\n"
                for i in range(N)
            )
        ),
        P3,
        Y3,
        CLASSES3,
    ),
    "BigQuery": Export(
        "a.jsonl",
        lines(
            {
                "predicted_label_probs": [{"label": NAMES3[k], "prob": P3[i, k]} for k in order],
                "label": TEXT3[i],
            }
            for i, order in enumerate(sorted_after_the_first(P3))
        ),
        P3,
        Y3,
        NAMES3,
    ),
    "classes and scores, each row sorted": Export(
        "a.jsonl",
        lines(
            {
                "instance": {"label": TEXT3[i]},
                "prediction": {
                    "classes": [NAMES3[k] for k in order],
                    "scores": P3[i, order].tolist(),
                },
            }
            for i, order in enumerate(sorted_after_the_first(P3))
        ),
        P3,
        Y3,
        NAMES3,
    ),
    "zero-shot pipeline": Export(
        "a.jsonl",
        lines(
            {
                "sequence": "text",
                "labels": [NAMES3[k] for k in order],
                "scores": P3[i, order].tolist(),
                "truth": TEXT3[i],
            }
            for i, order in enumerate(sorted_after_the_first(P3))
        ),
        P3,
        Y3,
        NAMES3,
    ),
    "SageMaker": Export(
        "a.csv",
        csv(
            pd.DataFrame(
                {
                    "label": np.array(["fox", "cat", "dog"])[Y3],
                    "probabilities": [str(row.tolist()) for row in P3],
                    "labels": "['fox', 'cat', 'dog']",
                }
            ),
            index=False,
        ),
        P3,
        Y3,
        ("fox", "cat", "dog"),
    ),
    "lists of np.float64": Export(
        "a.csv", csv(pd.DataFrame({"probs": [list(p) for p in P3], "y": Y3}), index=False), P3, Y3
    ),
    "tensors in cells": Export(
        "a.csv",
        csv(
            pd.DataFrame(
                {
                    "probs": [f"tensor({p.tolist()}, device='cuda:0')" for p in P3],
                    "label": [f"tensor({y})" for y in Y3],
                }
            )
        ),
        P3,
        Y3,
    ),
    "a pipeline's output and nothing else": Export(
        "a.json",
        lambda path: path.write_text(
            json.dumps(
                [
                    [{"label": n, "score": v} for n, v in zip(NAMES3, p, strict=True)]
                    for p in P3.tolist()
                ]
            )
        ),
        P3,
        class_names=NAMES3,
    ),
    "a list of lists": Export(
        "probs.json", lambda path: path.write_text(json.dumps(P3.tolist())), P3
    ),
    "a list per line": Export("probs.jsonl", lines(P3.tolist()), P3),
    "arrays beside single numbers": Export(
        "a.json",
        lambda path: path.write_text(
            json.dumps({"epoch": 3, "probs": P3.tolist(), "labels": Y3.tolist()})
        ),
        P3,
        Y3,
    ),
    "records under one name": Export(
        "a.json",
        lambda path: path.write_text(
            json.dumps(
                {
                    "model": "a",
                    "results": [
                        {"probs": p, "label": y}
                        for p, y in zip(P3.tolist(), Y3.tolist(), strict=True)
                    ],
                }
            )
        ),
        P3,
        Y3,
    ),
    "tuples in cells": Export(
        "a.csv", csv(pd.DataFrame({"probs": [tuple(p) for p in P3.tolist()], "y": Y3})), P3, Y3
    ),
    "Spark's vectors in cells": Export(
        "a.csv",
        csv(pd.DataFrame({"probability": [f"DenseVector({p})" for p in P3.tolist()], "y": Y3})),
        P3,
        Y3,
    ),
    "numbers written as text": Export(
        "a.jsonl",
        lines(
            {**{n: str(v) for n, v in zip(NAMES3, p, strict=True)}, "label": t}
            for p, t in zip(P3, TEXT3, strict=True)
        ),
        P3,
        Y3,
        NAMES3,
    ),
    "list column": Export(
        "a.csv", csv(pd.DataFrame({"probs": P3.tolist(), "label": Y3}), index=False), P3, Y3
    ),
    "parquet list column": Export(
        "a.parquet", parquet(pd.DataFrame({"probabilities": list(P3), "label": Y3})), P3, Y3
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTS)
def test_it_is_read_at_the_first_try(tmp_path, name):
    EXPORTS[name].check(tmp_path)
