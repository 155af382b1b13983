"""Parquet, Feather, NumPy and torch files, and folders of parts."""

import numpy as np
import pytest
from tests.unit.io.exports.tables import (
    NAMES3,
    P2,
    P3,
    TEXT3,
    Y2,
    Y3,
    Z3,
    Export,
    N,
    csv,
    frame3,
    many,
    npz,
    numbered,
    parquet,
    pd,
    text,
    torch,
)

EXPORTS = {
    "parquet": Export("a.parquet", parquet(frame3(label=TEXT3)), P3, Y3, NAMES3),
    "parquet with a named index": Export(
        "a.parquet",
        parquet(frame3(label=TEXT3).set_index(pd.Index(range(5, 5 + N), name="customer"))),
        P3,
        Y3,
        NAMES3,
    ),
    "parquet with number columns": Export(
        "a.parquet",
        parquet(numbered.rename(columns=str).assign(y_true=Y3, id=[f"r{i}" for i in range(N)])),
        P3,
        Y3,
    ),
    "parquet, categorical labels": Export(
        "a.parquet", parquet(frame3(label=pd.Categorical(TEXT3))), P3, Y3, NAMES3
    ),
    "feather": Export(
        "a.feather", lambda path: frame3(label=TEXT3).to_feather(path), P3, Y3, NAMES3
    ),
    "a wrong suffix": Export(
        "a.csv", lambda path: frame3(label=TEXT3).to_parquet(path), P3, Y3, NAMES3
    ),
    "npz with sklearn's names": Export("a.npz", npz(y_proba=P3, y_true=Y3), P3, Y3),
    "npz with classes_": Export(
        "a.npz",
        npz(probs=P3, y=np.array([2, 5, 9])[Y3], classes=np.array([2, 5, 9])),
        P3,
        Y3,
        ("2", "5", "9"),
    ),
    "npz with one column": Export("a.npz", npz(y_prob=P2[:, 1], y_true=Y2), P2, Y2),
    "npz with N by 1": Export("a.npz", npz(y_prob=P2[:, 1:], y_true=Y2[:, None]), P2, Y2),
    "npz of one split": Export("a.npz", npz(val_logits=Z3, val_labels=Y3), Z3, Y3),
    "npz of the trainer": Export("a.npz", npz(predictions=P3, label_ids=Y3), P3, Y3),
    "npz unnamed": Export("a.npz", lambda path: np.savez(path, P3, Y3), P3),
    "npz one-hot": Export("a.npz", npz(probs=P3, labels=np.eye(3)[Y3]), P3, Y3),
    "labels from 1": Export("a.npz", npz(probs=P3, labels=Y3 + 1), P3, Y3),
    "npy of probabilities": Export("proba.npy", lambda path: np.save(path, P3), P3),
    "npy of the positive class": Export(
        "p.npy", lambda path: np.save(path, P2[:, 1]), P2, options={"input": "probs"}
    ),
    "pt": Export(
        "a.pt",
        lambda path: torch().save(
            {"logits": torch().tensor(Z3), "labels": torch().tensor(Y3)}, path
        ),
        Z3,
        Y3,
    ),
    "a pair of tensors": Export(
        "a.pt", lambda path: torch().save((torch().tensor(P3), torch().tensor(Y3)), path), P3, Y3
    ),
    "batches of tensors": Export(
        "val.pt",
        lambda path: torch().save(
            {
                "logits": list(torch().tensor(Z3).split(16)),
                "labels": list(torch().tensor(Y3).split(16)),
            },
            path,
        ),
        Z3,
        Y3,
    ),
    "a folder of arrays": Export(
        "run",
        many(("logits.npy", lambda p: np.save(p, Z3)), ("labels.npy", lambda p: np.save(p, Y3))),
        Z3,
        Y3,
    ),
    "spark": Export(
        "out",
        many(
            ("_SUCCESS", text("")),
            (".part-00000.csv.crc", text("x")),
            *[
                (
                    f"part-{i:05d}-ab.csv",
                    csv(frame3(label=TEXT3)[10 * i : 10 * i + 10], index=False),
                )
                for i in range(4)
            ],
        ),
        P3,
        Y3,
        NAMES3,
    ),
    "hive": Export(
        "out",
        many(
            *[
                (
                    f"day={d}/part-0.parquet",
                    parquet(frame3(label=TEXT3)[20 * d : 20 * d + 20], index=False),
                )
                for d in range(2)
            ]
        ),
        P3,
        Y3,
        NAMES3,
    ),
    "parts beyond ten": Export(
        "out",
        many(
            *[
                (f"p{i}.parquet", parquet(frame3(label=TEXT3)[2 * i : 2 * i + 2], index=False))
                for i in range(20)
            ]
        ),
        P3,
        Y3,
        NAMES3,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTS)
def test_it_is_read_at_the_first_try(tmp_path, name):
    EXPORTS[name].check(tmp_path)
