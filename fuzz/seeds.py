"""Valid files of every format, made in memory."""

import bz2
import gzip
import importlib
import io
import json
import lzma
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from focalibrate.calibrate import PosteriorRecovery, fit
from focalibrate.io import SketchFile, write_sketch
from focalibrate.metrics import Sketch

N, K = 12, 3
RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(N, K))
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
LABELS = RNG.integers(K, size=N)
NAMES = ["cat", "dog", "ox"]


def _zipped(content: bytes) -> bytes:
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(zipfile.ZipInfo("val.csv"), content)
        return file.getvalue()


def _csv(separator: str = ",", header: str = "id,label,prob_cat,prob_dog,prob_ox") -> bytes:
    lines = [header.replace(",", separator)]
    for i in range(N):
        cells = [str(i), NAMES[LABELS[i]], *map(repr, PROBS[i].tolist())]
        lines.append(separator.join(cells))
    return ("\n".join(lines) + "\n").encode()


def _npz() -> bytes:
    buffer = io.BytesIO()
    names = np.array(NAMES)
    np.savez(buffer, logits=LOGITS.astype(np.float32), labels=LABELS, class_names=names)
    return buffer.getvalue()


def _npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, LOGITS)
    return buffer.getvalue()


def arrow_table() -> Any:
    """Return the predictions as an Arrow table."""
    pa = importlib.import_module("pyarrow")
    columns = {f"prob_{name}": PROBS[:, i] for i, name in enumerate(NAMES)}
    return pa.table({"label": [NAMES[y] for y in LABELS], "id": list(range(N)), **columns})


def _parquet() -> bytes:
    buffer = io.BytesIO()
    importlib.import_module("pyarrow.parquet").write_table(arrow_table(), buffer)
    return buffer.getvalue()


def _feather() -> bytes:
    buffer = io.BytesIO()
    importlib.import_module("pyarrow.feather").write_feather(
        arrow_table(), buffer, compression="uncompressed"
    )
    return buffer.getvalue()


def _jsonl() -> bytes:
    rows = [
        {"id": i, "label": NAMES[LABELS[i]], **dict(zip(NAMES, PROBS[i].tolist(), strict=True))}
        for i in range(N)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _json(form: str) -> bytes:
    """Return a document in one of the forms of pandas."""
    rows = [json.loads(line) for line in _jsonl().splitlines()]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    documents = {
        "arrays": {"label": LABELS.tolist(), "probs": PROBS.tolist()},
        "records": rows,
        "columns": {name: {str(i): v for i, v in enumerate(c)} for name, c in columns.items()},
        "split": {"columns": [*columns], "data": [[*row.values()] for row in rows]},
        "table": {"schema": {}, "data": rows},
        "pipeline": [[{"label": name, "score": row[name]} for name in NAMES] for row in rows],
    }
    return json.dumps(documents[form]).encode()


def _safetensors() -> bytes:
    scores = LOGITS.astype("<f4").tobytes()
    labels = LABELS.astype("<i8").tobytes()
    end = len(scores) + len(labels)
    header = {
        "logits": {"dtype": "F32", "shape": [N, K], "data_offsets": [0, len(scores)]},
        "labels": {"dtype": "I64", "shape": [N], "data_offsets": [len(scores), end]},
        "__metadata__": {"class_names": json.dumps(NAMES)},
    }
    raw = json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + scores + labels


def _torch() -> bytes:
    torch = importlib.import_module("torch")
    buffer = io.BytesIO()
    torch.save({"logits": torch.tensor(LOGITS), "labels": torch.tensor(LABELS)}, buffer)
    return buffer.getvalue()


def _excel() -> bytes:
    book = importlib.import_module("openpyxl").Workbook()
    book.active.append(["label", *NAMES])
    for i in range(N):
        book.active.append([NAMES[LABELS[i]], *PROBS[i].tolist()])
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def _sketch() -> bytes:
    groups = {"pet": np.array(NAMES)[LABELS]}
    sketch = Sketch.of(logits=LOGITS[:, :2], labels=LABELS % 2, groups=groups, n_bins=3)
    found = SketchFile(sketch=sketch, class_names=("cat", "dog"), start="2026-01-01")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "day.sketch")
        write_sketch(found, path)
        return path.read_bytes()


def scores_csv() -> bytes:
    """Return the probabilities without labels, for files of labels alone."""
    lines = [",".join(["id", *(f"prob_{name}" for name in NAMES)])]
    lines += [",".join([str(i), *map(repr, PROBS[i].tolist())]) for i in range(N)]
    return ("\n".join(lines) + "\n").encode()


def _labels() -> bytes:
    return "".join(["id,label\n", *(f"{i},{NAMES[y]}\n" for i, y in enumerate(LABELS))]).encode()


def _baseline() -> bytes:
    loss = {"estimate": 0.9, "standard_error": 0.01, "low": 0.8, "high": 1.0}
    return json.dumps({"held_out": {"nll": loss}, "comparison": {"n_judged": N}}).encode()


def _calibrator(calibrator: Any) -> bytes:
    return json.dumps(calibrator.to_dict()).encode()


FITTED = """
temperature focal_temperature platt quadratic beta ensemble_temperature vector structured_matrix
dirichlet spline isotonic venn_abers histogram average
"""


def _fitted(method: str) -> bytes:
    """Return a fitted calibrator, of two classes where the method has only these."""
    n = 2 if method in ("platt", "quadratic", "beta", "spline") else K
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _calibrator(fit(LOGITS[:, :n], LABELS % n, method=method))


def _lines(records: list[Any]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def _lm_eval() -> bytes:
    return _lines(
        [
            {
                "doc_id": i,
                "target": str(LABELS[i]),
                "arguments": {
                    f"gen_args_{k}": {"arg_0": "Q", "arg_1": f" {NAMES[k]}"} for k in range(K)
                },
                "filtered_resps": [[repr(z), "False"] for z in LOGITS[i].tolist()],
                "filter": "none",
                "acc": float(LOGITS[i].argmax() == LABELS[i]),
            }
            for i in range(N)
        ]
    )


def _tokens(i: int) -> dict[str, Any]:
    top = [{"token": f" {'ABC'[k]}", "logprob": float(np.log(PROBS[i, k]))} for k in range(K)]
    return {"content": [top[int(PROBS[i].argmax())] | {"top_logprobs": top}]}


def _inspect_samples() -> list[dict[str, Any]]:
    said = ["ABC"[k] for k in PROBS.argmax(axis=1)]
    return [
        {
            "id": i // 2,
            "epoch": 1 + i % 2,
            "choices": NAMES,
            "target": "ABC"[LABELS[i]],
            "output": {"choices": [{"logprobs": _tokens(i)}]},
            "scores": {
                "choice": {"value": "CI"[int(said[i] != "ABC"[LABELS[i]])], "answer": said[i]}
            },
            "metadata": {},
        }
        for i in range(N)
    ]


def _inspect() -> bytes:
    log = {"version": 2, "eval": {"task": "toy"}, "samples": _inspect_samples()}
    return json.dumps(log).encode()


def _eval() -> bytes:
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            header = {"version": 2, "eval": {"task": "toy"}}
            archive.writestr(zipfile.ZipInfo("header.json"), json.dumps(header))
            for sample in _inspect_samples():
                name = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
                archive.writestr(zipfile.ZipInfo(name), json.dumps(sample))
        return file.getvalue()


def _helm() -> bytes:
    states = [
        {
            "instance": {
                "id": f"id{i}",
                "references": [
                    {"output": {"text": n}, "tags": ["correct"] * int(k == LABELS[i])}
                    for k, n in enumerate(NAMES)
                ],
            },
            "output_mapping": dict(zip("ABC", NAMES, strict=True)),
            "result": {"completions": [{"text": " A", "logprob": float(np.log(PROBS[i, 0]))}]},
        }
        for i in range(N)
    ]
    return json.dumps({"adapter_spec": {"method": "x"}, "request_states": states}).encode()


def _helm_stats() -> bytes:
    pairs = [("max_prob", PROBS.max(axis=1)), ("exact_match", LABELS % 2)]
    return json.dumps(
        [
            {
                "instance_id": f"id{i}",
                "stats": [{"name": {"name": name}, "mean": float(v[i])} for name, v in pairs],
            }
            for i in range(N)
        ]
    ).encode()


def _chat() -> bytes:
    said = ["ABC"[k] for k in PROBS.argmax(axis=1)]
    return _lines(
        [
            {
                "label": "ABC"[LABELS[i]],
                "choices": [{"message": {"content": said[i]}, "logprobs": _tokens(i)}],
            }
            for i in range(N)
        ]
    )


def boxes() -> bytes:
    """Return COCO's results, on the images of `truth`."""
    found = [
        {"image_id": i, "category_id": 1 + i % 2, "bbox": [1.0, 2.0, 9.0 + i, 10.0], "score": p}
        for i, p in enumerate(PROBS[:, 0].tolist())
    ]
    return json.dumps(found).encode()


def truth() -> bytes:
    """Return a COCO file of the objects that `boxes` should find."""
    images = [{"id": i, "file_name": f"{i}.jpg", "width": 50, "height": 40} for i in range(N)]
    objects = [
        {"id": i + 1, "image_id": i, "category_id": 1 + i % 2, "bbox": [1, 2, 10, 10],
         "area": 100, "iscrowd": int(i == 3)}
        for i in range(N)
    ]  # fmt: skip
    names = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
    return json.dumps({"images": images, "annotations": objects, "categories": names}).encode()


SEEDS: Mapping[str, tuple[str, Callable[[], bytes]]] = {
    "csv": (".csv", _csv),
    "csv-plain": (".csv", lambda: _csv(header="id,label,cat,dog,ox")),
    "tsv": (".tsv", lambda: _csv("\t")),
    "csv.gz": (".csv.gz", lambda: gzip.compress(_csv(), mtime=0)),
    "csv.bz2": (".csv.bz2", lambda: bz2.compress(_csv())),
    "csv.xz": (".csv.xz", lambda: lzma.compress(_csv())),
    "csv.zip": (".csv.zip", lambda: _zipped(_csv())),
    "txt": (".txt", lambda: _csv(" ", header="id,label,cat,dog,ox")),
    "jsonl": (".jsonl", _jsonl),
    "json": (".json", lambda: _json("arrays")),
    **{
        f"json-{form}": (".json", partial(_json, form))
        for form in ("records", "columns", "split", "table", "pipeline")
    },
    "npz": (".npz", _npz),
    "npy": (".npy", _npy),
    "parquet": (".parquet", _parquet),
    "feather": (".feather", _feather),
    "safetensors": (".safetensors", _safetensors),
    "pt": (".pt", _torch),
    "xlsx": (".xlsx", _excel),
    "lm-eval": (".jsonl", _lm_eval),
    "inspect": (".json", _inspect),
    "inspect-eval": (".eval", _eval),
    "helm": (".json", _helm),
    "helm-stats": (".json", _helm_stats),
    "chat": (".jsonl", _chat),
    "coco": (".json", boxes),
    "coco-boxes": (".boxes.json", boxes),
    "coco-truth": (".truth.json", truth),
    "sketch": (".sketch", _sketch),
    "labels": (".labels.csv", _labels),
    "baseline": (".baseline.json", _baseline),
    "recipe": (
        ".toml",
        lambda: b'dataset = "digits"\nmodel = "mlp"\nepochs = 3\nsize = { width = 2 }\n',
    ),
    **{f"calibrator-{name}": (".calibrator", partial(_fitted, name)) for name in FITTED.split()},
    "calibrator-recovery": (".calibrator", lambda: _calibrator(PosteriorRecovery(gamma=2.0))),
}
"""Name of each seed: its suffix and its bytes."""
