"""Boxes from the files of COCO, Ultralytics, detectron2 and YOLO."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats

MAX_BYTES = 2 << 30
"""Largest file that is read: JSON of this size takes about ten times the memory."""
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp")


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes of many images, one row each; of detections or of the truth."""

    image: NDArray[np.int64]
    """position in `images`, ``[N]``"""
    category: NDArray[np.int64]
    """position in `categories`, ``[N]``"""
    box: Floats
    """left, top, width, height, ``[N, 4]``"""
    images: Mapping[Any, str]
    """name of each image by its id: the file name without its suffix, or the id"""
    categories: Mapping[Any, str]
    """name of each category by its id"""
    score: Floats | None = None
    """``[N]``, of detections only"""
    is_crowd: NDArray[np.bool_] | None = None
    """``[N]``, of the truth only: a box around many objects, which detections may match often"""

    def __len__(self) -> int:
        return len(self.image)


def read_truth(path: str | Path) -> Boxes:
    """Return the boxes of a COCO annotation file, or of a folder of YOLO labels.

    Args:
        path: ``instances.json`` with images, annotations and categories; or a folder of YOLO
            labels (``class cx cy w h`` relative to the image, a text file per image), with the
            names of the classes in ``data.yaml`` or ``classes.txt``.

    Raises:
        ValueError: where a field is missing or a number is not finite, with its place.
    """
    path = Path(path)
    if path.is_dir():
        boxes, _ = _read_yolo(path, None)
        return boxes
    document = _json(path)
    if not isinstance(document, dict) or not {"images", "annotations"} <= set(document):
        raise ValueError(
            f"{path.name}: the truth must be a COCO file with `images`, `annotations` and "
            f"`categories`, found {_kind(document)}. A list of detections is the other argument."
        )
    images, categories, rows = (
        _list(document.get(name, []), path, name)
        for name in ("images", "categories", "annotations")
    )
    image_names = {_id(image, path, "images"): _image_name(image) for image in images}
    category_names = {
        _id(entry, path, "categories"): str(entry.get("name", entry["id"])) for entry in categories
    }
    return Boxes(
        _positions(rows, "image_id", _order(image_names), path),
        _positions(rows, "category_id", _order(category_names), path),
        _boxes(rows, path),
        image_names,
        category_names,
        is_crowd=np.array([bool(row.get("iscrowd", 0)) for row in rows], dtype=bool),
    )


def read_detections(path: str | Path, truth: Boxes, *, first_category: int | None = None) -> Boxes:
    """Return the boxes of a file of results, with the images and categories of `truth`.

    Args:
        path: a list of ``{image_id, category_id, bbox, score}``, as COCO, detectron2 and
            Ultralytics write it, or a folder of YOLO labels with the score in a sixth column.
            Images are matched by their id, or by their file name without suffix.
        truth: boxes of the same images.
        first_category: the `category_id` of the first class where the truth is a folder of YOLO
            labels: 1 as Ultralytics writes it now, 0 in older versions. None: told by the ids, if
            they contain 0 or the number of classes.

    Raises:
        ValueError: where an image or category is not in the truth, or a field is missing.
    """
    path = Path(path)
    if path.is_dir():
        boxes, score = _read_yolo(path, truth)
        return replace(boxes, score=score, is_crowd=None)
    document = _json(path)
    if isinstance(document, dict):
        raise ValueError(
            f"{path.name}: detections must be a list of `image_id`, `category_id`, `bbox` and "
            f"`score`, found {_kind(document)}."
        )
    rows = _list(document, path, "the file")
    image_at: dict[Any, int] = {name: k for k, name in enumerate(truth.images.values())}
    image_at |= {int(name): k for name, k in image_at.items() if name.isdecimal()}
    image_at |= _order(truth.images)
    category_at = _order(truth.categories)
    is_yolo = list(truth.categories) == list(range(len(truth.categories))) and _is_relative(truth)
    if is_yolo:
        first = _first_category(rows, len(category_at), first_category, path)
        category_at = {k + first: k for k in range(len(category_at))}
    box = _boxes(rows, path)
    if _is_relative(truth) and len(box) and box.max() > 2.0:
        raise ValueError(
            f"{path.name}: the boxes are in pixels and those of the truth relative to the image. "
            "Pass the truth as a COCO file, which has the sizes of the images, or the detections "
            "as YOLO labels (`yolo val save_txt=True save_conf=True`)."
        )
    return Boxes(
        _positions(rows, "image_id", image_at, path),
        _positions(rows, "category_id", category_at, path),
        box,
        truth.images,
        truth.categories,
        score=np.array([_score(row.get("score"), path, k) for k, row in enumerate(rows)], float),
    )


def _order(names: Mapping[Any, str]) -> dict[Any, int]:
    return {key: k for k, key in enumerate(names)}


def _is_relative(truth: Boxes) -> bool:
    return bool(len(truth)) and float(np.abs(truth.box).max()) <= 1.5


def _first_category(
    rows: list[dict[str, Any]], n_categories: int, given: int | None, path: Path
) -> int:
    if given is not None:
        return given
    seen = {row.get("category_id") for row in rows}
    if 0 in seen or n_categories in seen:
        return 0 if 0 in seen else 1
    raise ValueError(
        f"{path.name}: `category_id` of the first class is 0 or 1, and the file does not tell: it "
        "has neither 0 nor the last class. Pass `first_category=1` (Ultralytics today) or 0."
    )


def _read_yolo(folder: Path, truth: Boxes | None) -> tuple[Boxes, Floats]:
    """Return the boxes of the label files in `folder`, and the sixth column, which is a score."""
    files = sorted(
        file for file in folder.rglob("*.txt") if file.name not in ("classes.txt", "labels.txt")
    )
    if not files:
        raise ValueError(f"{folder.name}: there are no label files (.txt) in this folder.")
    images = {file.stem: file.stem for file in files} if truth is None else dict(truth.images)
    image_at = {name: k for k, name in enumerate(images.values())}
    width = 5 if truth is None else 6
    image, category, box, score = [], [], [], []
    for file in files:
        if file.stem not in image_at:
            raise ValueError(f"{file.name}: the truth has no image of this name.")
        for n, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            if not line.strip():
                continue
            numbers = _numbers(line, width)
            if numbers is None:
                columns = "class cx cy w h" + (" score" if width == 6 else "")
                raise ValueError(
                    f"{file.name}, line {n}: a label must be `{columns}`, found {line[:60]!r}."
                )
            k, cx, cy, w, h = numbers[:5]
            image.append(image_at[file.stem])
            category.append(int(k))
            box.append((cx - w / 2, cy - h / 2, w, h))
            score.append(_score(numbers[-1], file, n) if width == 6 else math.nan)
    if truth is None:
        names = _yolo_names(folder, max(category, default=-1) + 1)
        categories: Mapping[Any, str] = dict(enumerate(names))
    else:
        categories = truth.categories
    if category and max(category) >= len(categories):
        raise ValueError(
            f"{folder.name}: class {max(category)} has no name; there are {len(categories)}."
        )
    boxes = Boxes(
        np.array(image, dtype=np.int64),
        np.array(category, dtype=np.int64),
        np.array(box, dtype=float).reshape(-1, 4),
        images,
        categories,
        is_crowd=np.zeros(len(image), dtype=bool),
    )
    return boxes, np.array(score, dtype=float)


def _numbers(line: str, width: int) -> list[float] | None:
    try:
        found = [float(cell) for cell in line.split()]
    except ValueError:
        return None
    return found if len(found) == width and all(map(math.isfinite, found)) else None


def _yolo_names(folder: Path, least: int) -> tuple[str, ...]:
    """Return the names in data.yaml or classes.txt, in this folder or one above it."""
    for place in (folder, folder.parent, folder.parent.parent):
        if (place / "classes.txt").is_file():
            lines = (place / "classes.txt").read_text(encoding="utf-8").splitlines()
            return tuple(line.strip() for line in lines if line.strip())
        for name in ("data.yaml", "data.yml"):
            if (place / name).is_file():
                found = _names_of_yaml((place / name).read_text(encoding="utf-8"))
                if len(found) >= least:
                    return found
    return tuple(str(k) for k in range(least))


def _names_of_yaml(text: str) -> tuple[str, ...]:
    """Return the value of `names`: a list in brackets, a list of dashes, or a map of numbers."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if not line.startswith("names:"):
            continue
        rest = line.removeprefix("names:").strip()
        if rest.startswith(("[", "{")):
            inner = rest.strip("[]{}").split(",")
            return tuple(cell.split(":")[-1].strip().strip("'\"") for cell in inner)
        found = []
        for entry in lines[at + 1 :]:
            if entry.strip() and not entry.startswith((" ", "-", "\t")):
                break
            if entry.strip():
                found.append(entry.strip().lstrip("- ").split(": ")[-1].strip().strip("'\""))
        return tuple(found)
    return ()


def _json(path: Path) -> Any:
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path.name}: the file is larger than {MAX_BYTES >> 30} GB.")
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name}: this is no JSON file ({error}).") from error


def _kind(document: Any) -> str:
    return "a list" if isinstance(document, list) else f"the fields {sorted(document)[:6]}"


def _list(rows: Any, path: Path, name: str) -> list[dict[str, Any]]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{path.name}: {name} must be a list of objects.")
    return rows


def _id(entry: dict[str, Any], path: Path, name: str) -> Any:
    if not isinstance(entry.get("id"), (int, str)):
        raise ValueError(f"{path.name}: every entry of `{name}` must have an `id`.")
    return entry["id"]


def _image_name(image: dict[str, Any]) -> str:
    name = str(image.get("file_name", image["id"]))
    return Path(name).stem if name.lower().endswith(IMAGE_SUFFIXES) else name


def _positions(
    rows: list[dict[str, Any]], field: str, at: dict[Any, int], path: Path
) -> NDArray[np.int64]:
    found = np.empty(len(rows), dtype=np.int64)
    for k, row in enumerate(rows):
        value = row.get(field)
        position = at.get(value) if isinstance(value, (int, str)) else None
        if position is None:
            raise ValueError(
                f"{path.name}, entry {k}: `{field}` {value!r} is not in the truth. Are the two "
                "files of the same data set?"
            )
        found[k] = position
    return found


def _boxes(rows: list[dict[str, Any]], path: Path) -> Floats:
    found = np.empty((len(rows), 4))
    for k, row in enumerate(rows):
        box = row.get("bbox")
        cells = box if isinstance(box, list) and len(box) == 4 else [None]
        if not all(isinstance(x, (int, float)) and math.isfinite(x) for x in cells):
            raise ValueError(
                f"{path.name}, entry {k}: `bbox` must be [left, top, width, height], found "
                f"{str(box)[:60]}."
            )
        found[k] = box
    return found


def _score(value: Any, path: Path, k: int) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0.0 <= value <= 1.0:
        raise ValueError(
            f"{path.name}, entry {k}: the score must be a number in [0, 1], found {value!r}."
        )
    return float(value)
