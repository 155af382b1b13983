"""Ordinary exports of predictions, read at the first try or after the options of an error."""

import gzip
import json
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate.io import PredictionFileError, read_predictions

pd = pytest.importorskip("pandas")

N = 40
CLASSES3 = ["class_0", "class_1", "class_2"]
NAMES3 = ["alt.atheism", "comp.graphics", "sci.space"]


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


RNG = np.random.default_rng(0)
Z3 = RNG.normal(size=(N, 3)) * 2
P3 = softmax(Z3)
Y3 = (Z3 + RNG.gumbel(size=Z3.shape)).argmax(axis=1)
S2 = RNG.normal(size=N) * 2
P2 = np.stack([1 - 1 / (1 + np.exp(-S2)), 1 / (1 + np.exp(-S2))], axis=1)
Y2 = (RNG.random(N) < P2[:, 1]).astype(int)
TEXT2 = np.array(["benign", "malignant"])[Y2]
TEXT3 = np.array(NAMES3)[Y3]


def frame3(**more):
    return pd.DataFrame(P3, columns=NAMES3).assign(**more)


def csv(frame, **options):
    return lambda path: frame.to_csv(path, **options)


def parquet(frame, **options):
    return lambda path: frame.to_parquet(path, **options)


def text(content):
    return lambda path: path.write_text(content, encoding="utf-8")


def rows(header, cells, sep=",", end="\n"):
    return end.join([header, *(sep.join(map(str, row)) for row in cells)]) + end


def npz(**arrays):
    return lambda path: np.savez(path, **arrays)


def many(*frames_and_names):
    def write(path):
        path.mkdir()
        for name, write_one in frames_and_names:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            write_one(path / name)

    return write


def lines(records):
    content = "".join(json.dumps(record) + "\n" for record in records)
    return lambda path: path.write_text(content, encoding="utf-8")


def sorted_after_the_first(probs):
    """Each row's classes by falling probability, as services give them; the first as they are."""
    return [np.arange(probs.shape[1]), *np.argsort(-probs[1:], axis=1)]


def savetxt(array, **options):
    return lambda path: np.savetxt(path, array, **options)


numbered = pd.DataFrame(P3)
binary = pd.DataFrame({"y_true": Y2, "prob": P2[:, 1]})

# name -> (file, writer, options, expected scores, expected labels, class names)
WORKS = {
    "pandas with its index": ("a.csv", csv(numbered.assign(label=Y3)), {}, P3, Y3, None),
    "pandas without index": ("a.csv", csv(numbered, index=False), {}, P3, None, None),
    "pandas with index, numbers only": ("a.csv", csv(numbered), {}, P3, None, None),
    "binary, headers 0 and 1, no index": (
        "a.csv",
        csv(pd.DataFrame(P2), index=False),
        {},
        P2,
        None,
        None,
    ),
    "classes_ as columns": (
        "a.csv",
        csv(frame3(y_true=TEXT3), index=False),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "classes_ and index": ("a.csv", csv(frame3(y_true=TEXT3)), {}, P3, Y3, tuple(NAMES3)),
    "reset_index": (
        "a.csv",
        csv(frame3(target=TEXT3).reset_index(), index=False),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "reset_index twice": (
        "a.csv",
        csv(frame3(target=TEXT3).reset_index().reset_index(), index=False),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "boolean classes": (
        "a.csv",
        csv(pd.DataFrame(P2, columns=[False, True]).assign(y=Y2 == 1), index=False),
        {},
        P2,
        Y2,
        ("False", "True"),
    ),
    "float classes": (
        "a.csv",
        csv(pd.DataFrame(P3, columns=[1.0, 2.0, 3.0]).assign(y=Y3 + 1.0), index=False),
        {},
        P3,
        Y3,
        ("1.0", "2.0", "3.0"),
    ),
    "classes from 3 to 5": (
        "a.csv",
        csv(pd.DataFrame(P3, columns=[3, 4, 5]).assign(gt=Y3 + 3), index=False),
        {},
        P3,
        Y3,
        ("3", "4", "5"),
    ),
    "ids, predictions and confidence besides": (
        "a.csv",
        csv(
            frame3(
                y_true=TEXT3,
                y_pred=np.array(NAMES3)[P3.argmax(1)],
                confidence=P3.max(1),
                image_id=np.arange(N) + 100,
            ),
            index=False,
        ),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "numbers labelled by position": (
        "a.csv",
        csv(frame3(label=Y3), index=False),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "features beside the classes": (
        "a.csv",
        csv(
            pd.concat(
                [
                    pd.DataFrame({"age": RNG.integers(20, 80, N), "f": RNG.random(N)}),
                    frame3(y=TEXT3),
                ],
                axis=1,
            ),
            index=False,
        ),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "prob_ prefix": (
        "a.csv",
        csv(pd.DataFrame(P3, columns=[f"prob_{n}" for n in NAMES3]).assign(label=TEXT3, note="x")),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "proba_ with numbers": (
        "a.csv",
        csv(pd.DataFrame(P3, columns=[f"proba_{i}" for i in range(3)]).assign(label=Y3)),
        {},
        P3,
        Y3,
        None,
    ),
    "kaggle": (
        "sub.csv",
        csv(pd.DataFrame(P3, columns=[f"prob_{i}" for i in range(3)]).assign(id=range(7, 7 + N))),
        {},
        P3,
        None,
        None,
    ),
    "P(class) headers": (
        "a.csv",
        csv(pd.DataFrame(P3, columns=[f"P({n})" for n in NAMES3]).assign(actual=TEXT3)),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "tidymodels": (
        "a.csv",
        csv(
            pd.DataFrame(P3, columns=[f".pred_{n}" for n in NAMES3]).assign(
                **{".pred_class": np.array(NAMES3)[P3.argmax(1)], "truth": TEXT3}
            ),
            index=False,
        ),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "KNIME": (
        "a.csv",
        csv(
            pd.DataFrame(P3, columns=[f"P (group={n})" for n in NAMES3]).assign(
                **{"Prediction (group)": np.array(NAMES3)[P3.argmax(1)], "class": TEXT3}
            ),
            index=False,
        ),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "H2O": (
        "a.csv",
        csv(
            pd.DataFrame({"predict": P2.argmax(1), "p0": P2[:, 0], "p1": P2[:, 1], "y": Y2}),
            index=False,
        ),
        {},
        P2,
        Y2,
        None,
    ),
    "class_ prefix": (
        "a.csv",
        csv(pd.DataFrame(P3, columns=["class_0", "class_1", "class_2"]).assign(y=Y3)),
        {},
        P3,
        Y3,
        None,
    ),
    "class_ in the names of classes": (
        "a.csv",
        csv(pd.DataFrame(P3, columns=CLASSES3).assign(target=np.array(CLASSES3)[Y3])),
        {},
        P3,
        Y3,
        tuple(CLASSES3),
    ),
    "caret's saved predictions": (
        "a.csv",
        csv(
            pd.DataFrame(P3, columns=CLASSES3).assign(
                pred=np.array(CLASSES3)[P3.argmax(1)], obs=np.array(CLASSES3)[Y3], Resample="Fold1"
            )
        ),
        {},
        P3,
        Y3,
        tuple(CLASSES3),
    ),
    "the label named after the outcome": (
        "a.csv",
        csv(pd.DataFrame({"churn": np.array(["No", "Yes"])[Y2], "churn_probability": P2[:, 1]})),
        {},
        P2,
        Y2,
        ("No", "Yes"),
    ),
    "the score named after the outcome": (
        "a.csv",
        csv(pd.DataFrame({"default": Y2, "prob_default": P2[:, 1]})),
        {},
        P2,
        Y2,
        None,
    ),
    "a pipeline's output under any name": (
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
        {},
        P3,
        Y3,
        tuple(CLASSES3),
    ),
    "columns sorted as text": (
        "a.csv",
        csv(
            pd.DataFrame(
                softmax(RNG.normal(size=(N, 12))), columns=sorted(f"prob_{i}" for i in range(12))
            )
        ),
        {},
        None,
        None,
        None,
    ),
    "one probability column": ("a.csv", csv(binary, index=False), {}, P2, Y2, None),
    "one probability column and the index": ("a.csv", csv(binary), {}, P2, Y2, None),
    "y_score in [0, 1]": (
        "a.csv",
        csv(binary.rename(columns={"prob": "y_score"})),
        {},
        P2,
        Y2,
        None,
    ),
    "p": ("a.csv", csv(binary.rename(columns={"prob": "p"})), {}, P2, Y2, None),
    "prob_1": ("a.csv", csv(binary.rename(columns={"prob": "prob_1"})), {}, P2, Y2, None),
    "prob_0 alone": (
        "a.csv",
        csv(pd.DataFrame({"y": Y2, "prob_0": P2[:, 0]})),
        {},
        P2,
        Y2,
        None,
    ),
    "probability of a named class": (
        "a.csv",
        csv(pd.DataFrame({"y": TEXT2, "prob_malignant": P2[:, 1]})),
        {},
        P2,
        Y2,
        ("benign", "malignant"),
    ),
    "labels -1 and 1": (
        "a.csv",
        csv(pd.DataFrame({"y": 2 * Y2 - 1, "prob": P2[:, 1]})),
        {},
        P2,
        Y2,
        ("-1", "1"),
    ),
    "labels no and yes": (
        "a.csv",
        csv(pd.DataFrame({"y": np.array(["no", "yes"])[Y2], "prob": P2[:, 1]})),
        {},
        P2,
        Y2,
        ("no", "yes"),
    ),
    "margins": (
        "a.csv",
        csv(pd.DataFrame({"label": Y2, "margin": S2})),
        {},
        np.stack([0 * S2, S2], 1),
        Y2,
        None,
    ),
    "R write.csv": (
        "a.csv",
        text(
            rows(
                '"","setosa","versicolor","virginica","truth"',
                [
                    (f'"{i + 1}"', *P3[i], f'"{["setosa", "versicolor", "virginica"][Y3[i]]}"')
                    for i in range(N)
                ],
            )
        ),
        {},
        P3,
        Y3,
        ("setosa", "versicolor", "virginica"),
    ),
    "R write.table": (
        "a.txt",
        text(
            rows(
                '"setosa" "versicolor" "virginica" "truth"',
                [
                    (f'"{i + 1}"', *P3[i], f'"{["setosa", "versicolor", "virginica"][Y3[i]]}"')
                    for i in range(N)
                ],
                sep=" ",
            )
        ),
        {},
        P3,
        Y3,
        ("setosa", "versicolor", "virginica"),
    ),
    "Excel with semicolons and decimal commas": (
        "a.csv",
        text(
            "\ufeff"
            + rows(
                "Label;prob_a;prob_b;prob_c",
                [("abc"[Y3[i]], *[str(v).replace(".", ",") for v in P3[i]]) for i in range(N)],
                sep=";",
                end="\r\n",
            )
        ),
        {},
        P3,
        Y3,
        ("a", "b", "c"),
    ),
    "UTF-16 with tabs": (
        "a.csv",
        lambda path: path.write_text(
            rows("label\tprob_a\tprob_b\tprob_c", [(Y3[i], *P3[i]) for i in range(N)], sep="\t"),
            encoding="utf-16",
        ),
        {},
        P3,
        Y3,
        ("a", "b", "c"),
    ),
    "tsv": ("a.tsv", csv(frame3(label=TEXT3), sep="\t"), {}, P3, Y3, tuple(NAMES3)),
    "csv.gz": ("a.csv.gz", csv(frame3(label=TEXT3)), {}, P3, Y3, tuple(NAMES3)),
    "percent signs": (
        "a.csv",
        text(
            rows(
                "y,a,b,c", [("abc"[Y3[i]], *[f"{v * 100:.12f}%" for v in P3[i]]) for i in range(N)]
            )
        ),
        {},
        P3,
        Y3,
        ("a", "b", "c"),
    ),
    "savetxt": ("p.txt", savetxt(P3), {}, P3, None, None),
    "savetxt with commas": ("p.csv", savetxt(P3, delimiter=","), {}, P3, None, None),
    "savetxt with header": (
        "p.csv",
        savetxt(np.c_[P3, Y3], delimiter=",", header="a,b,c,label", fmt="%.18g"),
        {},
        P3,
        Y3,
        ("a", "b", "c"),
    ),
    "savetxt with labels": (
        "p.csv",
        savetxt(np.c_[P3, Y3], delimiter=","),
        {"label_column": -1},
        P3,
        Y3,
        None,
    ),
    "list column": (
        "a.csv",
        csv(pd.DataFrame({"probs": P3.tolist(), "label": Y3}), index=False),
        {},
        P3,
        Y3,
        None,
    ),
    "parquet": ("a.parquet", parquet(frame3(label=TEXT3)), {}, P3, Y3, tuple(NAMES3)),
    "parquet with a named index": (
        "a.parquet",
        parquet(frame3(label=TEXT3).set_index(pd.Index(range(5, 5 + N), name="customer"))),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "parquet with number columns": (
        "a.parquet",
        parquet(numbered.rename(columns=str).assign(y_true=Y3, id=[f"r{i}" for i in range(N)])),
        {},
        P3,
        Y3,
        None,
    ),
    "parquet list column": (
        "a.parquet",
        parquet(pd.DataFrame({"probabilities": list(P3), "label": Y3})),
        {},
        P3,
        Y3,
        None,
    ),
    "parquet, categorical labels": (
        "a.parquet",
        parquet(frame3(label=pd.Categorical(TEXT3))),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "feather": (
        "a.feather",
        lambda path: frame3(label=TEXT3).to_feather(path),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "jsonl": (
        "a.jsonl",
        lambda path: frame3(label=TEXT3).to_json(
            path, orient="records", lines=True, double_precision=15
        ),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "jsonl lists": (
        "a.jsonl",
        text(
            "".join(
                json.dumps({"id": i, "label": int(Y3[i]), "logits": Z3[i].tolist()}) + "\n"
                for i in range(N)
            )
        ),
        {},
        Z3,
        Y3,
        None,
    ),
    "jsonl of a pipeline": (
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
        {},
        None,
        None,
        None,
    ),
    "json of pandas": (
        "a.json",
        lambda path: frame3(label=TEXT3).to_json(path, double_precision=15),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "npz with sklearn's names": ("a.npz", npz(y_proba=P3, y_true=Y3), {}, P3, Y3, None),
    "npz with classes_": (
        "a.npz",
        npz(probs=P3, y=np.array([2, 5, 9])[Y3], classes=np.array([2, 5, 9])),
        {},
        P3,
        Y3,
        ("2", "5", "9"),
    ),
    "npz with one column": ("a.npz", npz(y_prob=P2[:, 1], y_true=Y2), {}, P2, Y2, None),
    "npz with N by 1": ("a.npz", npz(y_prob=P2[:, 1:], y_true=Y2[:, None]), {}, P2, Y2, None),
    "npz of one split": ("a.npz", npz(val_logits=Z3, val_labels=Y3), {}, Z3, Y3, None),
    "npz of the trainer": ("a.npz", npz(predictions=P3, label_ids=Y3), {}, P3, Y3, None),
    "npz unnamed": ("a.npz", lambda path: np.savez(path, P3, Y3), {}, P3, None, None),
    "npz one-hot": ("a.npz", npz(probs=P3, labels=np.eye(3)[Y3]), {}, P3, Y3, None),
    "npy of probabilities": ("proba.npy", lambda path: np.save(path, P3), {}, P3, None, None),
    "a folder of arrays": (
        "run",
        many(("logits.npy", lambda p: np.save(p, Z3)), ("labels.npy", lambda p: np.save(p, Y3))),
        {},
        Z3,
        Y3,
        None,
    ),
    "spark": (
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
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "hive": (
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
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "parts beyond ten": (
        "out",
        many(
            *[
                (f"p{i}.parquet", parquet(frame3(label=TEXT3)[2 * i : 2 * i + 2], index=False))
                for i in range(20)
            ]
        ),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "pt": (
        "a.pt",
        lambda path: _torch().save(
            {"logits": _torch().tensor(Z3), "labels": _torch().tensor(Y3)}, path
        ),
        {},
        Z3,
        Y3,
        None,
    ),
    "a wrong suffix": (
        "a.csv",
        lambda path: frame3(label=TEXT3).to_parquet(path),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "no suffix": ("export", csv(frame3(label=TEXT3)), {}, P3, Y3, tuple(NAMES3)),
    "a class without a name": (
        "a.csv",
        text(rows("label,a,,c", [(Y3[i], *P3[i]) for i in range(N)])),
        {},
        P3,
        Y3,
        ("a", "Unnamed: 2", "c"),
    ),
    "labels known by their values": (
        "a.csv",
        csv(frame3(group=TEXT3, city="x"), index=False),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "npy of the positive class": (
        "p.npy",
        lambda path: np.save(path, P2[:, 1]),
        {"input": "probs"},
        P2,
        None,
        None,
    ),
    "one row": (
        "a.csv",
        text("label,cat,dog\ndog,0.25,0.75\n"),
        {},
        np.array([[0.25, 0.75]]),
        np.array([1]),
        ("cat", "dog"),
    ),
    "labels from 1": ("a.npz", npz(probs=P3, labels=Y3 + 1), {}, P3, Y3, None),
    "labels from 1 beside named columns": (
        "a.csv",
        csv(frame3(y=Y3 + 1), index=False),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "csv in a zip archive": (
        "a.csv.zip",
        csv(frame3(label=TEXT3), index=False),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "a pair of tensors": (
        "a.pt",
        lambda path: _torch().save((_torch().tensor(P3), _torch().tensor(Y3)), path),
        {},
        P3,
        Y3,
        None,
    ),
    "a column called as one of two labels": (
        "a.csv",
        csv(pd.DataFrame({"truth": TEXT2, "malignant": P2[:, 1]}), index=False),
        {},
        P2,
        Y2,
        ("benign", "malignant"),
    ),
    "abbreviated classes": (
        "a.csv",
        csv(
            pd.DataFrame(P2, columns=["neg", "pos"]).assign(
                label=np.array(["negative", "positive"])[Y2]
            ),
            index=False,
        ),
        {},
        P2,
        Y2,
        ("neg", "pos"),
    ),
    "SAS": (
        "a.csv",
        csv(
            pd.DataFrame(P3, columns=["P_targetcat", "P_targetdog", "P_targetfox"]).assign(
                F_target=np.array(["cat", "dog", "fox"])[Y3]
            ),
            index=False,
        ),
        {},
        P3,
        Y3,
        ("cat", "dog", "fox"),
    ),
    "BigQuery": (
        "a.jsonl",
        lines(
            {
                "predicted_label_probs": [{"label": NAMES3[k], "prob": P3[i, k]} for k in order],
                "label": TEXT3[i],
            }
            for i, order in enumerate(sorted_after_the_first(P3))
        ),
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "classes and scores, each row sorted": (
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
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "zero-shot pipeline": (
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
        {},
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "SageMaker": (
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
        {},
        P3,
        Y3,
        ("fox", "cat", "dog"),
    ),
    "100 classes": (
        "a.csv",
        csv(
            pd.DataFrame(
                np.full((3, 100), 0.01), columns=[f"n{i:03d}" for i in range(100)]
            ).assign(label=["n007", "n099", "n000"])
        ),
        {},
        np.full((3, 100), 0.01),
        np.array([7, 99, 0]),
        tuple(f"n{i:03d}" for i in range(100)),
    ),
}


def _torch():
    return pytest.importorskip("torch")


def check(found, scores, labels, names):
    if scores is not None:
        assert_allclose(found.scores, scores, rtol=0, atol=1e-9)
    if labels is not None:
        assert_array_equal(found.labels, labels)
    if scores is not None:
        assert found.class_names == names


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKS)
def test_works_at_the_first_try(tmp_path, name):
    file, write, options, scores, labels, names = WORKS[name]
    write(tmp_path / file)
    check(read_predictions(tmp_path / file, **options), scores, labels, names)


def percent(frame):
    return frame.mul(100)


ASKS = {
    "logits without a prefix": (
        "a.csv",
        csv(pd.DataFrame(Z3, columns=NAMES3).assign(y=TEXT3), index=False),
        Z3,
        Y3,
        tuple(NAMES3),
    ),
    "logits with an index": (
        "a.csv",
        csv(pd.DataFrame(Z3, columns=NAMES3).assign(y=TEXT3)),
        Z3,
        Y3,
        tuple(NAMES3),
    ),
    "decision function": (
        "a.csv",
        csv(pd.DataFrame({"y_true": Y2, "y_score": S2}), index=False),
        np.stack([0 * S2, S2], 1),
        Y2,
        None,
    ),
    "xgboost margins": (
        "a.csv",
        csv(pd.DataFrame({"y": Y2, "output": S2}), index=False),
        np.stack([0 * S2, S2], 1),
        Y2,
        None,
    ),
    "percent": (
        "a.csv",
        csv(percent(pd.DataFrame(P3, columns=NAMES3)).assign(y=TEXT3), index=False),
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "one percent column": (
        "a.csv",
        csv(pd.DataFrame({"y": Y2, "probability": 100 * P2[:, 1]}), index=False),
        P2,
        Y2,
        None,
    ),
    "text labels, one column": (
        "a.csv",
        csv(pd.DataFrame({"y": TEXT2, "prob": 1 - P2[:, 1]}), index=False),
        P2[:, ::-1],
        1 - Y2,
        ("malignant", "benign"),
    ),
    "a maximum under another name": (
        "a.csv",
        csv(
            pd.DataFrame(P3, columns=[f"prob_{n}" for n in NAMES3]).assign(
                prob_best=P3.max(1), y=TEXT3
            ),
            index=False,
        ),
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "text labels of an npz": (
        "a.npz",
        npz(probs=P3, labels=TEXT3),
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "missing scores": (
        "a.csv",
        csv(
            pd.DataFrame(np.where(np.arange(N)[:, None] == 4, np.nan, P3), columns=NAMES3).assign(
                y=TEXT3
            ),
            index=False,
        ),
        np.delete(P3, 4, 0),
        np.delete(Y3, 4),
        tuple(NAMES3),
    ),
    "two models": (
        "a.csv",
        csv(
            pd.concat(
                [
                    pd.DataFrame(P2, columns=["a no", "a yes"]),
                    pd.DataFrame(P2[:, ::-1], columns=["b no", "b yes"]),
                ],
                axis=1,
            ).assign(y=Y2),
            index=False,
        ),
        P2,
        None,
        ("a no", "a yes"),
    ),
    "two splits": (
        "a.npz",
        npz(val_logits=Z3, val_labels=Y3, test_logits=Z3 + 1, test_labels=Y3),
        Z3,
        Y3,
        None,
    ),
    "an unknown encoding": (
        "a.csv",
        lambda path: path.write_bytes(
            rows(
                "y,prob_café,prob_thé,prob_eau",
                [(["café", "thé", "eau"][Y3[i]], *P3[i]) for i in range(N)],
            ).encode("cp1252")
        ),
        P3,
        Y3,
        ("café", "thé", "eau"),
    ),
    "an array of no known name": ("a.npz", npz(foo=Z3, labels=Y3), Z3, Y3, None),
    "labels of no known name": (
        "a.csv",
        csv(frame3(diagnosis=Y3), index=False),
        P3,
        Y3,
        tuple(NAMES3),
    ),
    "labels without a header": ("a.csv", savetxt(np.c_[P3, Y3], delimiter=","), P3, Y3, None),
    "whole-number features and logits": (
        "a.csv",
        csv(
            pd.DataFrame(Z3, columns=NAMES3).assign(age=RNG.integers(20, 60, N), y=TEXT3),
            index=False,
        ),
        Z3,
        Y3,
        tuple(NAMES3),
    ),
}


@pytest.mark.parametrize("name", ASKS)
def test_ends_in_a_message_whose_options_work(tmp_path, name):
    file, write, scores, labels, names = ASKS[name]
    write(tmp_path / file)
    options = {"need_labels": True}
    with pytest.raises(PredictionFileError) as caught:
        read_predictions(tmp_path / file, **options)
    assert caught.value.fixes, caught.value
    assert "\n" not in str(caught.value)
    options |= caught.value.fixes[0]
    check(read_predictions(tmp_path / file, **options), scores, labels, names)


def test_gzip_without_its_suffix(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(gzip.compress(b"label,prob_a,prob_b\n0,0.5,0.5\n"))
    assert read_predictions(path).n_rows == 1


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            pd.DataFrame(P3, columns=pd.MultiIndex.from_product([["prob"], NAMES3])),
            r"two rows of names .* `df\.columns = ",
        ),
        (
            pd.DataFrame(
                {
                    "id": np.repeat(np.arange(N), 3),
                    "class": np.tile(NAMES3, N),
                    "prob": P3.ravel(),
                    "y_true": np.repeat(TEXT3, 3),
                }
            ),
            r"one row per example and class \(3 rows for each \"id\"\).*df\.pivot\(index='id'",
        ),
        (
            pd.DataFrame(
                {
                    "true_label": TEXT3,
                    "predicted_label": np.array(NAMES3)[P3.argmax(1)],
                    "confidence": P3.max(1),
                }
            ),
            r"only the probability of the predicted class \(\"confidence\"\), but those of all",
        ),
        (
            pd.DataFrame(-np.sort(-P3), columns=["top1_prob", "top2_prob", "top3_prob"]).assign(
                label=TEXT3, top1_class=np.array(NAMES3)[P3.argmax(1)]
            ),
            r"by rank \(\"top1_prob\", \.\.\.\), each row in an order of its own",
        ),
        (
            pd.DataFrame(
                np.c_[P3, np.eye(3)[Y3].astype(int)], columns=[*"abc", "ta", "tb", "tc"]
            ).astype(dict.fromkeys(("ta", "tb", "tc"), int)),
            r"labels in 3 columns of 0 and 1, ta, tb, tc; .*\.to_numpy\(\)\.argmax\(axis=1\)",
        ),
    ],
    ids=[
        "two levels of columns",
        "one row per example and class",
        "the top class alone",
        "by rank",
        "one-hot labels",
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, frame, message):
    frame.to_csv(tmp_path / "a.csv")
    with pytest.raises(PredictionFileError, match=message):
        read_predictions(tmp_path / "a.csv", need_labels=True)


def test_a_folder_of_splits_is_not_one_table(tmp_path):
    for name in ("val.csv", "test.csv"):
        frame3(label=TEXT3).to_csv(tmp_path / name)
    with pytest.raises(PredictionFileError, match=r"holds different splits, .* test\.csv"):
        read_predictions(tmp_path)


def test_an_archive_of_two_files_is_not_one_table(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.csv.zip", "w") as archive:
        archive.writestr("a.csv", "x")
        archive.writestr("b.csv", "x")
    with pytest.raises(PredictionFileError, match=r"holds 2 files, not one\. Unpack it"):
        read_predictions(tmp_path / "a.csv.zip")


def test_a_lone_table_in_an_archive_is_found(tmp_path):
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("val.csv", "label,prob_a,prob_b\n0,0.5,0.5\n")
    assert read_predictions(tmp_path / "export.zip").n_rows == 1
