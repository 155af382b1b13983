"""Mutations of files: of their bytes, of members of archives, and of their structure."""

import copy
import gzip
import importlib
import io
import json
import random
import struct
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from fuzz.seeds import NAMES, safetensors

TOKENS = [
    b"nan",
    b"inf",
    b"-1",
    b"1e308",
    b"-1e-320",
    b"9" * 5000,
    b"0" * 300,
    b"True",
    b"()",
    b"[]",
    b"None",
    b"\x00",
    b"\xff\xfe",
    b'"',
    b"'",
    b",",
    b"\n",
    b"\r",
    b"{",
    b"[" * 100_000,
    b"\xef\xbb\xbf",
    b"label",
    b"prob_cat",
    b"1_000",
    b"0x10",
    b"%",
    b"\x1b[2J",
    b"../..",
    b"A" * 200_000,
    b"\xed\xa0\x80",
    b"descr",
    b"shape",
    b"(True, 21)",
    b"18446744073709551616",
    b"-9223372036854775809",
    b"PK\x03\x04",
]
NAME_POOL = [
    "label",
    "labels",
    "y",
    "y_true",
    "target",
    "class",
    "true",
    "y_pred",
    "pred",
    "id",
    "index",
    "",
    "Unnamed: 0",
    "prob",
    "probs",
    "prob_cat",
    "prob_dog",
    "prob_ox",
    "p",
    "p_1",
    "logit_a",
    "logit_b",
    "logits",
    "score",
    "0",
    "1",
    "2",
    "1.0",
    "cat",
    "dog",
    "ox",
    "weight",
    "confidence",
    "True",
    "False",
    "class_names",
    "classes",
    "prob_",
    "a" * 70_000,
    "x\x1b[31m",
    "a,b",
    'q"',
    "é",
    "nan",
    "Prediction (x)",
    "prob_1e400",
    "\u0660",
    "prob_\ud7ff",
    "label ",
    " label",
]


def mutate_bytes(raw: bytes, rng: random.Random) -> bytes:
    """Return the bytes with a few places changed, cut, repeated or replaced."""
    data = bytearray(raw)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        if not data:
            break
        at = rng.randrange(len(data))
        end = min(len(data), at + rng.choice([1, 1, 2, 4, 8, 64, 1000]))
        match rng.randrange(8):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at] = rng.randrange(256)
            case 2:
                del data[at:end]
            case 3:
                data[at:at] = data[at:end]
            case 4:
                data[at:at] = rng.choice(TOKENS)
            case 5:
                data[at:end] = rng.choice(TOKENS)
            case 6:
                del data[at:]
            case 7:
                data[at:end] = bytes(rng.randrange(256) for _ in range(end - at))
    return bytes(data)


ODD: list[Any] = [None, True, False, "", "x", " (B).", "nan", "-1.5", -1, 0, 1, 2.5, 1e308, -1e308,
                  float("nan"), float("-inf"), 1 << 80, 10**400, [], {}, [[]], [None], "\ud800",
                  [1, "a"], {"a": {}}, "A" * 100_000]  # fmt: skip
"""Values in the place of others in a document."""


def mutate_document(raw: bytes, rng: random.Random) -> bytes:
    """Return JSON, or lines of it, with a few values replaced, removed, repeated or exchanged."""
    lines = raw.splitlines() if raw.count(b"\n") > 1 else [raw]
    document: list[Any] = [json.loads(line) for line in lines]
    for _ in range(rng.choice([1, 1, 2, 3, 8])):
        spots: list[tuple[Any, Any]] = []
        places: list[Any] = [document]
        while places:
            place = places.pop()
            keys = place.keys() if isinstance(place, dict) else range(len(place))
            spots += [(place, key) for key in keys]
            places += [place[key] for key in keys if isinstance(place[key], (dict, list))]
        if not spots:
            break
        (place, key), (other, at) = rng.choice(spots), rng.choice(spots)
        match rng.randrange(5):
            case 0:
                del place[key]
            case 1:
                place[key] = json.loads(json.dumps(other[at]))
            case 2:
                place[key] = [place[key]] * rng.choice([1, 2, 30])
            case _:
                place[key] = copy.deepcopy(rng.choice(ODD))
    return b"\n".join(json.dumps(line).encode() for line in document)


def mutate_inside(raw: bytes, rng: random.Random) -> bytes:
    """Return an archive with the content of one member mutated, so that its checksum fits."""
    if raw.startswith(b"\x1f\x8b"):
        return gzip.compress(mutate_bytes(gzip.decompress(raw), rng), mtime=0)
    source, buffer = zipfile.ZipFile(io.BytesIO(raw)), io.BytesIO()
    names = source.namelist()
    chosen = rng.choice(names)
    with zipfile.ZipFile(buffer, "w") as target:
        for name in names:
            content = source.read(name)
            if name == chosen:
                mutate = mutate_document if name.endswith(".json") else mutate_bytes
                content = rng.choice([mutate, mutate_bytes])(content, rng)
                if rng.random() < 0.1:
                    name = rng.choice(["labels.npy", "logits.npy", "x", "../x", "é.npy"])
            target.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def _cell(rng: random.Random) -> str:
    match rng.randrange(12):
        case 0:
            return rng.choice(
                ["", "nan", "NA", "None", "inf", "-inf", "1e400", "?", "true", "False"]
            )
        case 1:
            return rng.choice(NAMES)
        case 2:
            return str(rng.randrange(-2, 5))
        case 3:
            return rng.choice(
                ["[0.5, 0.5]", "[0.1 0.9]", "[]", "[[1]]", "[" * 500, "{}", '"a""b"']
            )
        case 4:
            return f"{rng.random() * 100:.1f}%"
        case 5:
            return f"{rng.random():.3f}".replace(".", ",")
        case 6:
            return rng.choice(["1_0", "0x1", "\u0661", "9" * 400, "--1", "1e", "x" * 1000])
        case _:
            return repr(rng.random())


def make_csv(rng: random.Random) -> bytes:
    """Return a table of random names and cells."""
    width = rng.choice([1, 2, 2, 3, 4, 5, 8, 40])
    names = [rng.choice(NAME_POOL) for _ in range(width)]
    separator = rng.choice([",", ",", ",", ";", "\t", "|", " "])
    rows = []
    kinds = [rng.random() for _ in range(width)]
    for _ in range(rng.choice([0, 1, 2, 10, 30])):
        row = [repr(rng.random()) if k < 0.7 else _cell(rng) for k in kinds]
        if width > 1 and rng.random() < 0.7:
            rest = rng.random()
            row[-2:] = [repr(rest), repr(1 - rest)]
        if rng.random() < 0.02:
            row = row[: rng.randrange(width + 1)]
        rows.append(row)
    lines = [separator.join(row) for row in ([names, *rows] if rng.random() < 0.8 else rows)]
    text = rng.choice(["\n", "\r\n", "\r"]).join(lines)
    return text.encode(rng.choice(["utf-8", "utf-8", "utf-16", "utf-8-sig"]), "surrogatepass")


def _npy_member(rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        descr = rng.choice(
            [
                "'<f8'",
                "()",
                "'<f8', 3",
                "[('a','<f8')]",
                "'|O'",
                "'<U9'",
                "''",
                "'<M8[s]'",
                "None",
                "'>f4'",
                "'<c16'",
                "'|V8'",
            ]
        )
        shape = rng.choice(
            [
                "(4, 2)",
                "(True, 21)",
                "(4,)",
                "()",
                f"({'9' * 4500},)",
                "(-1, 2)",
                "(0,)",
                "4",
                "(4.0,)",
                "(10**99, 2)",
                "(4, 2, 1, 1)",
                "('a',)",
            ]
        )
        order = rng.choice(["False", "True", "1"])
        header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"
        if rng.random() < 0.1:
            header = "(" * 3000 + header
        raw = header.encode() + b"\n"
        return (
            b"\x93NUMPY"
            + bytes([rng.choice([1, 1, 2, 3]), 0])
            + struct.pack("<H", len(raw) & 0xFFFF)
            + raw
            + bytes(64)
        )
    dtype = rng.choice(
        ["f8", "f4", "f2", ">f8", "i8", "u8", "?", "U3", "S3", "O", "c16", "M8[s]", "V3", "f16"]
    )
    shape = rng.choice([(6, 3), (6, 2), (6,), (6, 1), (), (0, 3), (3,), (6, 3, 2), (1, 1), (2,)])
    array = np.random.default_rng(rng.randrange(1 << 30)).normal(size=shape) * rng.choice(
        [1, 1e5, 1e300]
    )
    with np.errstate(all="ignore"):
        array = array.astype(dtype) if dtype not in ("M8[s]", "V3") else np.zeros(shape, dtype)
    buffer = io.BytesIO()
    npy_format.write_array(buffer, np.asarray(array), allow_pickle=True)
    return buffer.getvalue()


def make_npz(rng: random.Random) -> bytes:
    """Return an archive of random arrays, some with impossible headers."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(
        buffer, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    ) as archive:
        for _ in range(rng.randrange(1, 5)):
            name = rng.choice(NAME_POOL)[:1000]
            archive.writestr(
                zipfile.ZipInfo(f"{name}.npy" if rng.random() < 0.9 else name), _npy_member(rng)
            )
    return buffer.getvalue()


def _arrow_column(rng: random.Random, n: int, pa: Any) -> Any:
    match rng.randrange(14):
        case 0:
            return pa.array([rng.choice([None, 0.5]) for _ in range(n)], pa.float64())
        case 1:
            return pa.array([[0.5] * rng.choice([2, 2, 2, 3]) for _ in range(n)])
        case 2:
            return pa.array([{"a": 0.5, "b": 0.5}] * n)
        case 3:
            return pa.array([rng.choice([*NAMES, None]) for _ in range(n)]).dictionary_encode()
        case 4:
            return pa.nulls(n)
        case 5:
            return pa.array([b"x\xff"] * n)
        case 6:
            return pa.array([rng.random() < 0.5 for _ in range(n)])
        case 7:
            return pa.array([1 << 62] * n, pa.uint64())
        case 8:
            return pa.array([1] * n, pa.timestamp("s"))
        case 9:
            return pa.array([[[0.5]]] * n)
        case 10:
            return pa.array([1] * n, pa.decimal128(10, 2))
        case 11:
            return pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int64()))
        case _:
            return pa.array(
                [rng.random() for _ in range(n)], rng.choice([pa.float64(), pa.float32()])
            )


def _arrow_table(rng: random.Random) -> Any:
    pa = importlib.import_module("pyarrow")
    n = rng.choice([0, 1, 5, 20])
    width = rng.randrange(1, 7)
    columns = [_arrow_column(rng, n, pa) for _ in range(width)]
    names = [rng.choice(NAME_POOL) for _ in range(width)]
    metadata = rng.choice(
        [
            {},
            {"class_names": "[" * 100_000},
            {"class_names": '["a","b"]'},
            {"pandas": "{"},
            {"pandas": '{"index_columns": 7}'},
        ]
    )
    return pa.table(columns, names=names).replace_schema_metadata(metadata)


def make_parquet(rng: random.Random) -> bytes:
    """Return a parquet file of random columns, some with the same name."""
    buffer = io.BytesIO()
    parquet = importlib.import_module("pyarrow.parquet")
    try:
        parquet.write_table(_arrow_table(rng), buffer, row_group_size=rng.choice([1, 7, 1000]))
    except Exception:  # pyarrow cannot write every type
        return b"PAR1"
    return buffer.getvalue()


def make_feather(rng: random.Random) -> bytes:
    """Return an Arrow file of random columns."""
    buffer = io.BytesIO()
    ipc = importlib.import_module("pyarrow.ipc")
    table = _arrow_table(rng)
    new = rng.choice([ipc.new_file, ipc.new_stream])
    with new(buffer, table.schema) as writer:
        writer.write_table(table)
    return buffer.getvalue()


def _json_value(rng: random.Random, depth: int = 0) -> Any:
    match rng.randrange(10):
        case 0:
            return rng.choice([None, True, False, "", "cat", 1e308, -1, 1 << 80, 10**400])
        case 1 if depth < 3:
            return [_json_value(rng, depth + 1) for _ in range(rng.randrange(4))]
        case 2 if depth < 3:
            return {
                rng.choice(NAME_POOL): _json_value(rng, depth + 1) for _ in range(rng.randrange(3))
            }
        case 3:
            return [rng.random(), rng.random()]
        case 4:
            return [{"label": name, "score": rng.random()} for name in NAMES]
        case _:
            return rng.random()


def make_jsonl(rng: random.Random) -> bytes:
    """Return lines of random objects."""
    names = [rng.choice(NAME_POOL) for _ in range(rng.randrange(1, 5))]
    lines = []
    for _ in range(rng.choice([0, 1, 5, 20])):
        line = json.dumps({name: _json_value(rng) for name in names})
        if rng.random() < 0.01:
            line = rng.choice(
                ["[" * 100_000, "[1]", '{"a":' * 50_000, "1", "NaN", '{"a": Infinity}']
            )
        lines.append(line)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def make_json(rng: random.Random) -> bytes:
    """Return a random document in one of the forms of pandas."""
    names = list(dict.fromkeys(rng.choice(NAME_POOL) for _ in range(3)))
    rows = [[_json_value(rng) for _ in names] for _ in range(rng.choice([0, 1, 4]))]
    columns = {n: [r[i] for r in rows] for i, n in enumerate(names)}
    document: Any = rng.choice(
        [
            [dict(zip(names, r, strict=True)) for r in rows],
            columns,
            {n: {str(i): v for i, v in enumerate(c)} for n, c in columns.items()},
            {"columns": names, "data": rows},
            {"schema": {}, "data": [dict(zip(names, r, strict=True)) for r in rows]},
            _json_value(rng),
        ]
    )
    return json.dumps(document).encode("utf-8", "surrogatepass")


def make_safetensors(rng: random.Random) -> bytes:
    """Return a file whose tensors overlap, leave gaps or declare a wrong size."""
    header: dict[str, Any] = {}
    for name in rng.sample(NAME_POOL, rng.randrange(1, 4)):
        start = rng.choice([0, 0, 8, 16, 48, -1, 1 << 70])
        header[name] = {
            "dtype": rng.choice(["F32", "F64", "BF16", "I64", "F16", "BOOL", "Q8", 7]),
            "shape": rng.choice(
                [[6, 2], [6], [6, 1], [True, 21], [0, 9**30], [10**400], [], "x", [2] * 60]
            ),
            "data_offsets": rng.choice(
                [[start, start + 48], [start, start + 24], [0, 0], [0], None, [48, 0]]
            ),
        }
    if rng.random() < 0.3:
        header["__metadata__"] = rng.choice(
            [{"class_names": "[" * 100_000}, {"class_names": 7}, [], "x"]
        )
    return safetensors(header, bytes(rng.choice([0, 24, 48, 96])))


def make_torch(rng: random.Random) -> bytes:
    """Return what `torch.save` writes for unusual tensors and other objects."""
    torch = importlib.import_module("torch")
    buffer = io.BytesIO()
    pool = [
        torch.zeros(6, 3),
        torch.zeros(6),
        torch.zeros(0, 3),
        torch.zeros(6, 3, dtype=torch.bfloat16),
        torch.zeros(6, 3, dtype=torch.complex64),
        torch.zeros(6, 3).to_sparse(),
        torch.tensor(1.0),
        ["a", "b"],
        [1, 2, 3],
        "x",
        7,
        None,
        {"a": 1},
        torch.zeros(6, dtype=torch.bool),
        [],
        [1, "a"],
        torch.zeros(6, 3, requires_grad=True),
        torch.zeros(2, 3, 4),
    ]
    stored: Any = {
        rng.choice([*NAME_POOL[:40], 7]): rng.choice(pool) for _ in range(rng.randrange(1, 4))
    }
    if rng.random() < 0.2:
        stored = rng.choice(pool)
    torch.save(stored, buffer)
    return buffer.getvalue()


def make_excel(rng: random.Random) -> bytes:
    """Return a sheet of random cells."""
    book = importlib.import_module("openpyxl").Workbook()
    width = rng.randrange(1, 5)
    pool: list[Any] = [None, "", "cat", 1, 0.5, True, "nan", 1e308, "x" * 1000]
    names = [
        rng.choice([n for n in NAME_POOL if "\x1b" not in n and len(n) < 100])
        for _ in range(width)
    ]
    book.active.append([rng.choice([n, n, n, None, 7]) for n in names])
    for _ in range(rng.choice([0, 1, 6])):
        book.active.append([rng.choice(pool) for _ in range(width)])
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def make_calibrator(rng: random.Random) -> bytes:
    """Return a calibrator file with impossible values."""
    number: list[Any] = [
        1e308,
        -1,
        0,
        1,
        2.0,
        "1",
        None,
        True,
        [],
        [1.0] * 3,
        [[1.0]],
        10**400,
        1e-320,
        {},
        "x" * 100_000,
    ]
    kinds = [
        "focal_temperature",
        "temperature",
        "temperature_scaling",
        "vector",
        "identity",
        "posterior_recovery",
        "focal_temperature_scaling",
        "structured_matrix",
        7,
        "é" * 50_000,
    ]
    names = ["gamma", "temperature", "weights", "bias", "scale", "matrix", "x" * 100_000]
    document: dict[str, Any] = {
        "format": rng.choice(["focalibrate.calibrator"] * 5 + ["x", 7]),
        "version": rng.choice([1, 1, 1, True, 1.0, 2, "1", None]),
        "kind": rng.choice(kinds),
        "parameters": {rng.choice(names): rng.choice(number) for _ in range(rng.randrange(3))},
    }
    for key in ("class_names", "zero_mix", "n_classes", "extra"):
        if rng.random() < 0.2:
            document[key] = rng.choice([*number, ["a", "b"], ["a"] * 20_000, 0.5, ["a", 7]])
    text = json.dumps(document)
    if rng.random() < 0.1:
        text = text.replace("1e+308", rng.choice(["NaN", "1e999", "-Infinity"]))
    if rng.random() < 0.05:
        text = "[" * 100_000 + text
    return text.encode()


def make_baseline(rng: random.Random) -> bytes:
    """Return a file of results with values of any kind."""
    odd = [10**400, -1, 0.5, "0.5", None, True, [], [[1]], {}, {"nll": 1}, "x" * 9999, 1e308]

    def some(value: Any) -> Any:
        return rng.choice(odd) if rng.random() < 0.3 else value

    loss = {key: some(0.5) for key in ("estimate", "standard_error", "third", "low", "high")}
    outer = rng.choice(["held_out", "scores", "log_loss"])
    inner = some(loss) if outer == "log_loss" else some({"nll": some(loss)})
    more = {"rows": some(12), "comparison": some({"n_judged": some(12)}), "assessment": some({})}
    mark = {"focalibrate_check": some(1)} if outer == "log_loss" else {}
    return json.dumps({outer: inner, **more, **mark}).encode()


def make_recipe(rng: random.Random) -> bytes:
    """Return a recipe with values of any kind."""
    names = ["dataset", "model", "epochs", "size", "lr", "batch_size", "seed", "loss", "x"]
    values = ["1" + "0" * 400, "-1", "nan", "[[1]]", "{ a = { b = 1 } }", '"x"', "true", "1e308"]
    lines = [f"{rng.choice(names)} = {rng.choice(values)}" for _ in range(rng.randrange(1, 6))]
    return "\n".join(['dataset = "digits"'] * (rng.random() < 0.5) + lines).encode()


MAKERS: Mapping[str, Callable[[random.Random], bytes]] = {
    "csv": make_csv,
    "csv-plain": make_csv,
    "tsv": make_csv,
    "txt": make_csv,
    "csv.gz": lambda rng: gzip.compress(make_csv(rng), mtime=0),
    "jsonl": make_jsonl,
    "json": make_json,
    "npz": make_npz,
    "npy": _npy_member,
    "parquet": make_parquet,
    "feather": make_feather,
    "safetensors": make_safetensors,
    "pt": make_torch,
    "xlsx": make_excel,
    "labels": make_csv,
    "baseline": make_baseline,
    "recipe": make_recipe,
    "calibrator": make_calibrator,
    "calibrator-vector": make_calibrator,
}
"""Functions that make a well-formed but unusual file of each format."""


DOCUMENTS = (
    *("lm-eval", "inspect", "helm", "helm-stats", "chat"),
    *("coco", "coco-boxes", "coco-truth"),
)
"""Seeds that are JSON, or lines of it, with a structure that the readers look into."""


def mutated(name: str, seed: bytes, rng: random.Random) -> bytes:
    """Return one file: the seed with its bytes or its content mutated, or a new unusual one."""
    draw = rng.random()
    if draw < 0.4 and name in MAKERS:
        made = MAKERS[name](rng)
        return mutate_bytes(made, rng) if rng.random() < 0.2 else made
    if draw < 0.6 and name in ("npz", "pt", "xlsx", "csv.gz", "inspect-eval"):
        return mutate_inside(seed, rng)
    if draw < 0.7 and name in DOCUMENTS:
        return mutate_document(seed, rng)
    return mutate_bytes(seed, rng)
