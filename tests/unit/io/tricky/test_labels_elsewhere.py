"""Labels in another file: by a key that both have, never by position without a word."""

import numpy as np
import pytest
from tests.unit.io.tricky.cases import (
    NAMES,
    ORDER,
    WORDS,
    Case,
    N,
    P,
    Truth,
    Y,
    pd,
    probs,
    with_index,
)

TEXT = np.array([f"x{i}" for i in range(N)])
NUMBERS = 1000 + 7 * np.arange(N)
LONG = np.array([str(9007199254740993 + i) for i in range(N)])
PATHS = np.array([f"img/{i:03d}.png" for i in range(N)])
ZEROS = np.array([f"{i:05d}" for i in range(N)])
FRACTIONS = np.round(np.arange(N) / 7 + 0.001, 3)
ELSE = {"labels_path": "y.csv"}
MATCHED, BY_ORDER = "matched to the rows by", "in the order of the rows"


def labels(order=ORDER, **keys):
    return pd.DataFrame({**{k: np.asarray(v)[order] for k, v in keys.items()}, "y": WORDS[order]})


def pair(ours, theirs, **more):
    return Case({"p.csv": probs(**ours), "y.csv": labels(**theirs)}, options=ELSE, **more)


def index(values, name=None):
    return pd.Index(values, name=name)


DAYS = pd.date_range("2026-01-01", periods=N).strftime("%Y-%m-%d")
HOURS = pd.date_range("2026-01-01", periods=N, freq="h")
TIMES = labels(when=HOURS)
KEPT = np.array([i for i in range(N) if i != 7])
SHIFTED = pd.DataFrame({"y": [*WORDS[KEPT], "cat"]})
CASES = {
    # one key
    **{
        f"{name} of {kind}": pair({name: ids}, {name: ids}, said=MATCHED)
        for name in ("image", "customer", "url", "PassengerId", "image_id", "Name", "isbn")
        for kind, ids in (("text", TEXT), ("numbers", NUMBERS), ("paths", PATHS))
    },
    "fractions": pair({"amount": FRACTIONS}, {"amount": FRACTIONS}, said=MATCHED),
    "fractions in parquet": Case(
        {"p.parquet": probs(amount=FRACTIONS), "y.csv": labels(amount=FRACTIONS)},
        options=ELSE,
        said=MATCHED,
    ),
    "fractions that are others": Case(
        {
            "p.csv": probs(amount=FRACTIONS),
            "y.csv": labels(order=slice(None), amount=FRACTIONS + 0.05),
        },
        options=ELSE,
        said=BY_ORDER,
    ),
    "times in parquet": Case(
        {
            "p.parquet": probs(when=pd.date_range("2026-01-01", periods=N, freq="h")),
            "y.csv": TIMES,
        },
        options=ELSE,
        said=MATCHED,
    ),
    "times with a T": pair(
        {"when": HOURS.strftime("%Y-%m-%dT%H:%M:%S")}, {"when": HOURS.astype(str)}, said=MATCHED
    ),
    "days and their midnights": pair(
        {"day": DAYS}, {"day": [f"{day} 00:00:00" for day in DAYS]}, said=MATCHED
    ),
    "ID and id": pair({"ID": TEXT}, {"id": TEXT}, said=MATCHED),
    "other case and spaces": pair({" Image ": TEXT}, {"image": TEXT}, said=MATCHED),
    "other name": pair({"sample": TEXT}, {"document": TEXT}, said=MATCHED),
    "other name, numbers": pair({"sample": NUMBERS}, {"document": NUMBERS}, said=MATCHED),
    "row numbers under other names": pair(
        {"id": np.arange(N)}, {"idx": np.arange(N)}, said=MATCHED
    ),
    "row numbers from 1": pair({"row": np.arange(N) + 1}, {"row": np.arange(N) + 1}, said=MATCHED),
    "long numbers": pair({"id": LONG}, {"id": LONG}, said=MATCHED),
    "long numbers as integers": Case(
        {
            "p.parquet": probs(id=LONG.astype(np.int64)),
            "y.csv": labels(id=LONG),
        },
        options=ELSE,
        said=MATCHED,
    ),
    "long numbers in json": Case(
        {"p.jsonl": probs(id=LONG.astype(np.int64)), "y.csv": labels(id=LONG)},
        options=ELSE,
        said=MATCHED,
    ),
    "whole floats": pair({"id": NUMBERS.astype(float)}, {"id": NUMBERS}, said=MATCHED),
    "leading zeros in one": pair({"id": ZEROS}, {"id": np.arange(N)}, said=MATCHED),
    "text with spaces around": pair({"id": [f" {t}" for t in TEXT]}, {"id": TEXT}, said=MATCHED),
    "labels of more rows": Case(
        {
            "p.csv": probs(image=TEXT),
            "y.csv": pd.DataFrame(
                {"image": [*TEXT[ORDER], "z1", "z2"], "y": [*WORDS[ORDER], "ox", "ox"]}
            ),
        },
        options=ELSE,
        said="belong to no row: 2",
    ),
    "two rows of scores per label": Case(
        {
            "p.csv": probs(image=[f"x{i // 2}" for i in range(N)]).assign(
                **{f"prob_{n}": np.repeat(P[::2, i], 2) for i, n in enumerate(NAMES)}
            ),
            "y.csv": pd.DataFrame({"image": TEXT[: N // 2][::-1], "y": WORDS[::2][::-1]}),
        },
        truth=Truth(np.repeat(P[::2], 2, axis=0), np.repeat(Y[::2], 2), NAMES),
        options=ELSE,
        said=MATCHED,
    ),
    # the index of pandas
    "unnamed index of text": Case(
        {
            "p.csv": with_index(probs().set_index(index(TEXT))),
            "y.csv": with_index(pd.DataFrame({"y": WORDS}, index=TEXT).iloc[ORDER]),
        },
        options=ELSE,
        said=MATCHED,
    ),
    "unnamed index of numbers": Case(
        {
            "p.csv": with_index(probs()),
            "y.csv": with_index(pd.DataFrame({"y": WORDS}).iloc[ORDER]),
        },
        options=ELSE,
        said=MATCHED,
    ),
    "index in parquet": Case(
        {
            "p.parquet": probs().set_index(index(TEXT, "image")),
            "y.csv": labels(image=TEXT),
        },
        options=ELSE,
        said=MATCHED,
    ),
    "index in parquet, both": Case(
        {
            "p.parquet": probs().set_index(index(TEXT)),
            "y.parquet": pd.DataFrame({"y": WORDS}, index=TEXT).iloc[ORDER],
        },
        options={"labels_path": "y.parquet"},
        said=MATCHED,
    ),
    "index of a split": Case(
        {
            "p.csv": with_index(probs().set_index(index(NUMBERS[ORDER]))),
            "y.csv": with_index(pd.DataFrame({"y": WORDS}, index=NUMBERS[ORDER])),
        },
        options=ELSE,
    ),
    # not by position
    "a label missing, another at the end": Case(
        {"p.csv": probs(image=TEXT), "y.csv": SHIFTED.assign(image=[*TEXT[KEPT], "x999"])},
        options=ELSE,
        refused=True,
        said="no label for row 7",
    ),
    "a number missing, another at the end": Case(
        {"p.csv": probs(id=np.arange(N)), "y.csv": SHIFTED.assign(id=[*KEPT, N])},
        options=ELSE,
        refused=True,
        said="no label for row 7",
    ),
    "a number missing, under other names": Case(
        {"p.csv": probs(sample=NUMBERS), "y.csv": SHIFTED.assign(nr=[*NUMBERS[KEPT], 5])},
        options=ELSE,
        refused=True,
        said="sample|no label",
    ),
    "an index value missing": Case(
        {
            "p.csv": with_index(probs()),
            "y.csv": with_index(SHIFTED.set_index(index([*KEPT, N]))),
        },
        options=ELSE,
        refused=True,
        said="no label for row 7",
    ),
    "other paths of the same files": pair(
        {"image": PATHS},
        {"image": [p.split("/")[1] for p in PATHS]},
        said="without folders",
    ),
    "names in capitals": pair(
        {"image": TEXT}, {"image": [t.upper() for t in TEXT]}, said="and case"
    ),
    "names that repeat": pair(
        {"image": [f"x{i // 2}" for i in range(N)]},
        {"image": [f"x{i // 2}" for i in range(N)]},
        refused=True,
        said="not unique",
    ),
    "a name twice, another missing": Case(
        {"p.csv": probs(image=TEXT), "y.csv": labels(np.r_[ORDER[1:], ORDER[1]], image=TEXT)},
        options=ELSE,
        refused=True,
        said='"image" differs, .* no label for row',
    ),
    "few names in common, under other names": Case(
        {
            "p.csv": probs(image=TEXT),
            "y.csv": labels(picture=[t if i % 5 else f"z{i}" for i, t in enumerate(TEXT)][::-1]),
        },
        options=ELSE,
        refused=True,
        said="no label for",
    ),
    # written otherwise, or of other rows
    "other paths under other names": pair(
        {"path": [f"img/{t}.png" for t in TEXT]},
        {"file": [t.upper() for t in TEXT]},
        truth=None,
        warned=True,
        said='names in "path" in another order',
    ),
    "other paths under other names, in order": Case(
        {
            "p.csv": probs(path=[f"img/{t}.png" for t in TEXT]),
            "y.csv": labels(np.arange(N), file=TEXT),
        },
        options=ELSE,
        said=r"labels in y.csv are taken in the order of the rows$",
    ),
    "a rounded column of other rows": pair(
        {"age": FRACTIONS},
        {"age": FRACTIONS.round(1)},
        truth=None,
        warned=True,
        said='column "age" differs from that of p.csv',
    ),
    "names that repeat without their folders": pair(
        {"image": [f"{'ab'[i % 2]}/{i // 2}.png" for i in range(N)]},
        {"image": [f"{i // 2}.png" for i in range(N)]},
        truth=None,
        warned=True,
        said='column "image" has the values of that of p.csv in another order',
    ),
    "parts of every second row, labels by order": Case(
        {
            "parts/rank0.csv": probs(idx=np.arange(N)).iloc[::2],
            "parts/rank1.csv": probs(idx=np.arange(N)).iloc[1::2],
            "y.csv": pd.DataFrame({"y": WORDS}),
        },
        truth=None,
        options=ELSE,
        warned=True,
        said='"idx" of rank0.csv numbers its rows in another order',
    ),
    "the last part first, labels by order": Case(
        {
            "parts/a.csv": probs(idx=np.arange(N)).iloc[30:],
            "parts/b.csv": probs(idx=np.arange(N)).iloc[:30],
            "y.csv": pd.DataFrame({"y": WORDS}),
        },
        truth=None,
        options=ELSE,
        warned=True,
        said='"idx" of a.csv numbers its rows in another order',
    ),
    "the index of a parquet file in another order": Case(
        {"p.parquet": probs().iloc[ORDER], "y.csv": pd.DataFrame({"y": WORDS})},
        truth=None,
        options=ELSE,
        warned=True,
        said="numbers its rows in another order",
    ),
    "rows numbered from part to part": Case(
        {
            "parts/a.csv": with_index(probs().iloc[30:]),
            "parts/b.csv": with_index(probs().iloc[:30]),
            "y.csv": with_index(pd.DataFrame({"y": WORDS})),
        },
        Truth(P[np.r_[30:N, :30]], Y[np.r_[30:N, :30]], NAMES),
        options=ELSE,
        said=MATCHED,
    ),
    **{
        f"rows numbered anew in each part, {name}": Case(
            {
                "parts/a.csv": probs(**{name: np.arange(N)}).iloc[:30],
                "parts/b.csv": probs(**{name: np.arange(N) % 30}).iloc[30:],
                "y.csv": pd.DataFrame({name: np.arange(N), "y": WORDS}),
            },
            options=ELSE,
            refused=True,
            said="numbers its rows as those of a.csv",
        )
        for name in ("id", "Unnamed: 0", "row")
    },
    "a flag in another order": pair(
        {"flag": np.arange(N) % 2 == 0},
        {"flag": np.arange(N) % 2 == 0},
        truth=None,
        warned=True,
        said='column "flag" has the values of that of p.csv in another order',
    ),
    "a flag in the same order": Case(
        {
            "p.csv": probs(flag=np.arange(N) % 2),
            "y.csv": labels(np.arange(N), flag=np.arange(N) % 2),
        },
        options=ELSE,
        said=r"labels in y.csv are taken in the order of the rows, which \"flag\" confirms$",
    ),
    "a rounded column of the same rows": Case(
        {"p.csv": probs(age=FRACTIONS), "y.csv": labels(np.arange(N), age=FRACTIONS.round(1))},
        options=ELSE,
        said=r"labels in y.csv are taken in the order of the rows$",
    ),
    "given id in one file only": Case(
        {"p.csv": probs(image=TEXT), "y.csv": labels(picture=PATHS)},
        options={**ELSE, "id_column": "image"},
        refused=True,
        said="must have the column image",
    ),
    "given id beside a wrong one": Case(
        {"p.csv": probs(image=TEXT, url=PATHS), "y.csv": labels(image=TEXT).assign(url=PATHS)},
        options={**ELSE, "id_column": "image"},
        said='matched to the rows by "image"',
    ),
    "given id with other case": Case(
        {"p.csv": probs(Image=TEXT), "y.csv": labels(image=TEXT)},
        options={**ELSE, "id_column": "Image"},
        said=MATCHED,
    ),
    "two keys that agree": pair(
        {"image": TEXT, "url": PATHS}, {"image": TEXT, "url": PATHS}, said=MATCHED
    ),
    "two keys that do not": Case(
        {"p.csv": probs(image=TEXT, url=PATHS), "y.csv": labels(image=TEXT).assign(url=PATHS)},
        options=ELSE,
        refused=True,
        said="Say which names the rows.*--id-column image",
    ),
    "two keys together": Case(
        {
            "p.csv": probs(customer=np.arange(N) // 2, date=np.where(np.arange(N) % 2, "b", "a")),
            "y.csv": labels(customer=np.arange(N) // 2, date=np.where(np.arange(N) % 2, "b", "a")),
        },
        options=ELSE,
        said="matched to the rows by",
    ),
    "constant split": Case(
        {"p.csv": probs(split="val"), "y.csv": labels(np.arange(N)).assign(split="val")},
        options=ELSE,
        said=BY_ORDER,
    ),
    "constant date": Case(
        {
            "p.csv": probs(date="2026-01-02"),
            "y.csv": labels(np.arange(N)).assign(date="2026-01-02"),
        },
        options=ELSE,
        said=BY_ORDER,
    ),
    "constant split beside a key": Case(
        {
            "p.csv": probs(split="val", image=TEXT),
            "y.csv": labels(image=TEXT).assign(split="val"),
        },
        options=ELSE,
        said='by "image"',
    ),
    "constant number": Case(
        {"p.csv": probs(fold=3), "y.csv": labels(np.arange(N)).assign(fold=3)},
        options=ELSE,
        said=BY_ORDER,
    ),
    "no key at all": Case(
        {"p.csv": probs(), "y.csv": labels(np.arange(N))}, options=ELSE, said=BY_ORDER
    ),
    "labels without names": Case(
        {"p.csv": probs(), "y.csv": "\n".join(WORDS) + "\n"}, options=ELSE, said=BY_ORDER
    ),
    "labels in parts": Case(
        {
            "p.csv": probs(),
            "y/b.csv": labels(np.arange(30, N)),
            "y/a.csv": labels(np.arange(30)),
        },
        options={"labels_path": "y"},
        said="order of their parts: a.csv, b.csv",
    ),
    "an array of labels": Case(
        {"p.csv": probs(image=TEXT), "y.npy": Y},
        options={"labels_path": "y.npy"},
        said=BY_ORDER,
    ),
    "shuffled row numbers in the labels only": Case(
        {"p.csv": probs(), "y.csv": labels(id=np.arange(N))},
        options=ELSE,
        warned=True,
        truth=None,
        said="id",
    ),
    "shuffled index in the labels only": Case(
        {
            "p.csv": probs(),
            "y.csv": with_index(pd.DataFrame({"y": WORDS}).iloc[ORDER]),
        },
        options=ELSE,
        warned=True,
        truth=None,
        said="order",
    ),
    "names in arrays": Case(
        {
            "p.npz": {"probs": P, "ids": TEXT, "class_names": np.array(NAMES)},
            "y.npz": {"ids": TEXT[ORDER], "labels": Y[ORDER]},
        },
        options={"labels_path": "y.npz"},
        said=MATCHED,
    ),
    "numbers in arrays": Case(
        {
            "p.npz": {"probs": P, "ids": NUMBERS, "class_names": np.array(NAMES)},
            "y.npz": {"ids": NUMBERS[ORDER], "labels": Y[ORDER]},
        },
        options={"labels_path": "y.npz"},
        said=MATCHED,
    ),
    "names in arrays, labels in a table": Case(
        {
            "p.npz": {"probs": P, "filenames": PATHS, "class_names": np.array(NAMES)},
            "y.csv": labels(filename=PATHS),
        },
        options=ELSE,
        said=MATCHED,
    ),
    "labels in both files that differ": Case(
        {"p.csv": probs(image=TEXT, y=np.roll(WORDS, 1)), "y.csv": labels(image=TEXT)},
        options=ELSE,
        said="not used|differ",
    ),
    "two columns of labels": Case(
        {"p.csv": probs(image=TEXT), "y.csv": labels(image=TEXT).assign(target=np.roll(WORDS, 1))},
        options=ELSE,
        refused=True,
        said="one column of labels",
        never=("image",),
    ),
    "a predicted class beside the label": Case(
        {"p.csv": probs(image=TEXT), "y.csv": labels(image=TEXT).assign(pred=np.roll(WORDS, 1))},
        options=ELSE,
        said=MATCHED,
    ),
    "labels called otherwise": Case(
        {
            "p.csv": probs(image=TEXT),
            "y.csv": labels(image=TEXT).rename(columns={"y": "species"}),
        },
        options=ELSE,
        said=MATCHED,
    ),
    "labels called otherwise, a key called otherwise": Case(
        {
            "p.csv": probs(picture=TEXT),
            "y.csv": labels(picture=TEXT).rename(columns={"y": "species"}),
        },
        options=ELSE,
        said=MATCHED,
    ),
    # names written in two ways, and labels per patient
    "paths of two systems": pair(
        {"path": [f"val\\{t}.jpg" for t in TEXT]}, {"path": [f"/data/{t}.jpg" for t in TEXT]}
    ),
    "folders that names need": pair(
        {"path": [f"{i % 2}/{i // 2}.jpg" for i in range(N)]},
        {"path": [f"val/{i % 2}/{i // 2}.jpg" for i in range(N)]},
        refused=True,
        said="It has 'val/.*write them alike",
    ),
    "a label per row, some twice": Case(
        {"p.csv": probs(id=NUMBERS), "y.csv": labels(np.r_[ORDER, ORDER[:9]], id=NUMBERS)},
        options=ELSE,
        said=MATCHED,
    ),
    "two keys under other names": Case(
        {
            "p.csv": probs(q=np.arange(N) // 4, a=np.arange(N) % 4),
            "y.csv": labels(question=np.arange(N) // 4, attempt=np.arange(N) % 4),
        },
        truth=None,
        options=ELSE,
        warned=True,
        said='the values of "q" in another order',
    ),
    "rows that are numbered in another order": Case(
        {"p.csv": probs(id=np.arange(N)).iloc[ORDER], "y.csv": labels(np.arange(N))},
        truth=None,
        options=ELSE,
        warned=True,
        said='"id" of p.csv numbers its rows in another order',
    ),
    # forms of a file of labels
    "a list of images": Case(
        {
            "p.csv": probs(image=[f"{t}.jpg" for t in TEXT]),
            "y.txt": "\n".join(f"{TEXT[i]}.jpg {Y[i]}" for i in ORDER),
        },
        options={"labels_path": "y.txt"},
        said='matched to the rows by "image"',
    ),
    **{
        f"to_json, {orient}": Case(
            {
                "p.csv": with_index(probs()),
                "y.json": labels(row=np.arange(N)).set_index("row").to_json(orient=orient),
            },
            options={"labels_path": "y.json"},
            said=MATCHED,
        )
        for orient in ("columns", "index", "split", "table")
    },
    "one column per class": Case(
        {
            "p.csv": probs(id=NUMBERS),
            "y.csv": pd.get_dummies(labels(id=NUMBERS), columns=["y"]),
        },
        options=ELSE,
        refused=True,
        said=r"needed. With pandas: .*idxmax\(axis=1\).str.removeprefix\('y_'\)",
    ),
    "no header, said of the labels alone": Case(
        {"p.csv": probs(), "y.csv": "\n".join(["x0,0", *(f"y{i},{i % 2}" for i in range(1, N))])},
        truth=None,
        options={**ELSE, "header": False, "label_column": 1},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_labels_of_another_file(tmp_path, name):
    CASES[name].check(tmp_path)
