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

from fuzz.seeds import NAMES, SEEDS

TOKENS = [
    *b"nan inf -1 1e308 -1e-320 True () [] None label prob_cat 1_000 0x10 % ../.. descr".split(),
    *(
        b"\x00",
        b"\xff\xfe",
        b'"',
        b"'",
        b",",
        b"\n",
        b"\r",
        b"{",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
    ),
    *(
        b"9" * 5000,
        b"0" * 300,
        b"[" * 100_000,
        b"A" * 200_000,
        b"\x1b[2J",
        b"shape",
        b"(True, 21)",
    ),
    *(b"18446744073709551616", b"-9223372036854775809", b"PK\x03\x04"),
]
"""Bytes to put anywhere."""
WORDS = """
label labels y y_true target class true y_pred pred id index prob probs prob_ p p_1 prob_cat
prob_dog prob_ox logit_a logit_b logits score 0 1 2 1.0 cat dog ox weight confidence True False
class_names classes a,b q" é nan prob_1e400
"""
NAME_POOL = [
    *WORDS.split(),
    *("", "Unnamed: 0", "Prediction (x)", "label ", " label", "x\x1b[31m", "a" * 70_000),
    *("\u0660", "prob_\ud7ff"),
]
"""Names of columns."""


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
        descrs = (
            "'<f8'; (); '<f8', 3; [('a','<f8')]; '|O'; '<U9'; ''; '<M8[s]'; None; '>f4'; '|V8'"
        )
        shapes = "(4, 2); (True, 21); (4,); (); (-1, 2); (0,); 4; (4.0,); (10**99, 2); ('a',)"
        descr = rng.choice(descrs.split("; "))
        shape = rng.choice([*shapes.split("; "), "(4, 2, 1, 1)", f"({'9' * 4500},)"])
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


def make_safetensors(rng: random.Random) -> bytes:
    """Return a file whose header has other values: tensors that overlap or are too long."""
    seed = SEEDS["safetensors"][1]()
    n = int.from_bytes(seed[:8], "little")
    header = mutate_document(seed[8 : 8 + n], rng)
    return len(header).to_bytes(8, "little") + header + seed[8 + n :]


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
    "npz": make_npz,
    "npy": _npy_member,
    "parquet": make_parquet,
    "feather": make_feather,
    "safetensors": make_safetensors,
    "pt": make_torch,
    "xlsx": make_excel,
    "labels": make_csv,
    "recipe": make_recipe,
}
"""Functions that make a well-formed but unusual file of each format."""


def mutated(name: str, seed: bytes, rng: random.Random) -> bytes:
    """Return one file: the seed with its bytes or its content mutated, or a new unusual one."""
    draw = rng.random()
    if draw < 0.4 and name in MAKERS:
        made = MAKERS[name](rng)
        return mutate_bytes(made, rng) if rng.random() < 0.2 else made
    if draw < 0.6 and name in ("npz", "pt", "xlsx", "csv.gz", "inspect-eval"):
        return mutate_inside(seed, rng)
    if draw < 0.8 and seed[:1] in (b"{", b"["):
        return mutate_document(seed, rng)
    return mutate_bytes(seed, rng)
