"""Boxes from the files of COCO, Ultralytics, detectron2 and YOLO."""

import json
import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats

MAX_BYTES = 2 << 30
"""Largest file that is read: JSON of this size takes about ten times the memory."""
MAX_CLASSES = 100_000
RELATIVE = 2.0
"""Boxes that reach further are in pixels."""
QUOTED = r"'[^'\n]*'|\"[^\"\n]*\""
"""Text in quotation marks in a line of YAML."""
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
    sizes: Floats | None = None
    """width and height of the images in pixels, ``[images, 2]``, where they are known"""
    is_relative: bool = False
    """whether boxes are parts of the image's width and height, as YOLO writes them, not pixels"""

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
    if path.suffix.lower() in (".yaml", ".yml"):
        raise ValueError(
            f"{path.name}: name the folder of the labels that it describes, such as "
            f"{path.parent / 'labels' / 'val'}; the names of the classes are then read from it."
        )
    document = _yolo_truth(path) if path.is_dir() else _json(path)
    if not isinstance(document, dict) or not {"images", "annotations"} <= set(document):
        raise ValueError(
            f"{path.name}: the truth must be a COCO file with `images`, `annotations` and "
            f"`categories`, found {_kind(document)}. A list of detections is the other argument."
        )
    images, categories, rows = (
        _list(document.get(name, []), path, name)
        for name in ("images", "categories", "annotations")
    )
    by_id = _by_id(images, path, "images")
    if len({type(key) for key in by_id}) == 1:
        by_id = dict(sorted(by_id.items()))  # as pycocotools does: the order of equal scores
    image_names = {key: _image_name(image) for key, image in by_id.items()}
    category_names = {
        key: str(entry.get("name", key))
        for key, entry in _by_id(categories, path, "categories").items()
    }
    return Boxes(
        _positions(rows, "image_id", _order(image_names), path),
        _positions(rows, "category_id", _order(category_names), path),
        _boxes(rows, path),
        image_names,
        category_names,
        is_crowd=np.array(_column(rows, "iscrowd", _crowd, "0 or 1", path), dtype=bool),
        sizes=_sizes(by_id.values()),
        is_relative=path.is_dir(),
    )


def read_detections(path: str | Path, truth: Boxes, *, first_category: int | None = None) -> Boxes:
    """Return the boxes of a file of results, with the images and categories of `truth`.

    Categories keep the ids that this file gives them.

    Args:
        path: a list of ``{image_id, category_id, bbox, score}``, as COCO, detectron2 and
            Ultralytics write it, or a folder of YOLO labels with the score in a sixth column.
            Images are matched by their id, or by their file name without suffix.
        truth: boxes of the same images. Where one file is in pixels and the other relative to
            the image, it must have the sizes of the images: in COCO's `width` and `height`, or
            images beside the YOLO labels.
        first_category: the `category_id` of the first class where the truth is a folder of YOLO
            labels: 1 as Ultralytics writes it now, 0 in older versions. None: 0 if it occurs.

    Raises:
        ValueError: where an image or category is not in the truth, or a field is missing.
    """
    path = Path(path)
    is_folder = path.is_dir()
    images = truth.images
    if is_folder:
        files = _label_files(path)
        images = {**images, **_without_objects(files, truth)}
        document: Any = _label_rows(files, len(truth.categories), has_score=True)
    else:
        document = _json(path)
    if not isinstance(document, list):
        raise ValueError(
            f"{path.name}: detections must be a list of `image_id`, `category_id`, `bbox` and "
            f"`score`, found {_kind(document)}."
        )
    rows = _list(document, path, "the file")
    category_at = _order(truth.categories)
    if is_folder or truth.is_relative:  # classes have no ids of their own
        has_zero = is_folder or any(row.get("category_id") == 0 for row in rows)
        first = int(not has_zero) if first_category is None else first_category
        category_at = {k + first: k for k in range(len(category_at))}
    image = _positions(rows, "image_id", _image_places(images, rows), path)
    box = _boxes(rows, path)
    if is_folder and not truth.is_relative:
        box = box * _scale(image, truth, path)
    elif truth.is_relative and len(box) and box.max() > RELATIVE:
        box = box / _scale(image, truth, path)
    return Boxes(
        image,
        _positions(rows, "category_id", category_at, path),
        box,
        images,
        dict(zip(category_at, truth.categories.values(), strict=True)),
        score=np.array(_column(rows, "score", _score, "a number in [0, 1]", path), dtype=float),
        is_relative=truth.is_relative,
    )


def _image_places(images: Mapping[Any, str], rows: Iterable[Mapping[str, Any]]) -> dict[Any, int]:
    """Return the position of each image by what all rows call it: its id, or its unique name.

    Names that are numbers may have lost their zeros: Ultralytics writes 7 for 007.jpg.
    """
    times = Counter(images.values())
    names = {name: k for k, name in enumerate(images.values()) if times[name] == 1}
    numbers = {int(name): k for name, k in names.items() if _is_number(name)}
    ids = _order(images)
    ways = (ids, names | numbers, {str(key): k for key, k in ids.items()})
    said = {row.get("image_id") for row in rows if isinstance(row.get("image_id"), (int, str))}
    return next((way for way in ways if said <= way.keys()), ids)


def _scale(image: NDArray[np.int64], truth: Boxes, path: Path) -> Floats:
    """Return width, height, width, height of the image of each box."""
    if truth.sizes is None:
        raise ValueError(
            f"{path.name}: its boxes or those of the truth are in pixels, the others relative to "
            "the image, and the sizes of the images are not known. Put the images beside the "
            "labels (images/ beside labels/), or pass the truth as a COCO file with `width` and "
            "`height`."
        )
    return np.tile(truth.sizes[image], 2)


def _sizes(images: Iterable[Mapping[str, Any]]) -> Floats | None:
    found = [[_finite(image.get(side)) for side in ("width", "height")] for image in images]
    if not found or any(side is None or side <= 0 for pair in found for side in pair):
        return None
    return np.array(found, dtype=np.float64)


def _is_number(name: Any) -> bool:
    return isinstance(name, str) and name.isascii() and name.isdecimal() and len(name) < 19


def _finite(value: Any) -> float | None:
    try:
        return float(value) if type(value) in (int, float) and math.isfinite(value) else None
    except OverflowError:
        return None


def _order(names: Mapping[Any, str]) -> dict[Any, int]:
    return {key: k for k, key in enumerate(names)}


def _yolo_truth(folder: Path) -> dict[str, Any]:
    """Return a folder of YOLO labels as the COCO file that it would be, with relative boxes."""
    files, pictures = _label_files(folder), _pictures(folder)
    names = _yolo_names(folder)
    rows = _label_rows(files, len(names) or MAX_CLASSES, has_score=False)
    if not names:
        names = tuple(str(k) for k in range(max((r["category_id"] for r in rows), default=-1) + 1))
    return {
        "images": [
            {"id": name, **_picture_size(pictures.get(name))} for name in {**pictures, **files}
        ],
        "categories": [{"id": k, "name": name} for k, name in enumerate(names)],
        "annotations": rows,
    }


def _label_files(folder: Path) -> dict[str, Path]:
    """Return the label files of a folder by the name of their image."""
    found: dict[str, Path] = {}
    for file in sorted(folder.rglob("*.txt")):
        if file.name in ("classes.txt", "labels.txt"):
            continue
        if found.setdefault(file.stem, file) != file:
            raise ValueError(
                f"{found[file.stem].relative_to(folder)} and {file.relative_to(folder)} are "
                "labels of two images of one name. Name one of their folders, not the one above "
                "both."
            )
    if not found:
        results = sorted(file.name for file in folder.glob("*.json"))
        step = f" Name the file of results: {', '.join(results[:3])}." if results else ""
        raise ValueError(f"{folder.name}: there are no label files (.txt) in this folder.{step}")
    return found


def _without_objects(files: Mapping[str, Path], truth: Boxes) -> dict[str, str]:
    """Return the images of label files that the truth does not have: those without objects."""
    known = set(truth.images.values())
    found = {name: name for name in files if name not in known}
    if found and (not truth.is_relative or 2 * len(found) > len(files)):
        raise ValueError(
            f"{next(iter(found))}.txt: the truth has no image of this name. Are the two of the "
            "same data set?"
        )
    return found


def _label_rows(
    files: Mapping[str, Path], n_classes: int, *, has_score: bool
) -> list[dict[str, Any]]:
    """Return the lines of label files as entries of a COCO file."""
    rows = []
    for name, file in files.items():
        for n, line in enumerate(_text(file).splitlines(), start=1):
            if not line.strip():
                continue
            row = _label(line, has_score=has_score)
            if row is None:
                columns = "class cx cy w h" + (" score" if has_score else "")
                raise ValueError(
                    f"{file.name}, line {n}: a label must be `{columns}`, relative to the image, "
                    f"found {line[:60]!r}."
                )
            if row["category_id"] >= n_classes:
                raise ValueError(
                    f"{file.name}, line {n}: class {row['category_id']} has no name; there are "
                    f"{n_classes:,}. Name all classes in data.yaml beside the labels, "
                    "such as `names: [cat, dog]`."
                )
            rows.append({"image_id": name, **row})
    return rows


def _label(line: str, *, has_score: bool) -> dict[str, Any] | None:
    """Return class, box and score of a line: of a box, or of the corners of a polygon."""
    try:
        numbers = [float(cell) for cell in line.split()]
    except ValueError:
        return None
    if not all(map(math.isfinite, numbers)) or len(numbers) < 5 + has_score:
        return None
    row = {"score": numbers.pop()} if has_score else {}
    k, *rest = numbers
    if k != int(k) or k < 0 or len(rest) % 2 or max(rest) > RELATIVE:
        return None
    if len(rest) == 4:
        cx, cy, w, h = rest
        left, top = cx - w / 2, cy - h / 2
    else:
        left, top = min(rest[::2]), min(rest[1::2])
        w, h = max(rest[::2]) - left, max(rest[1::2]) - top
    return {"category_id": int(k), "bbox": [left, top, w, h], **row}


def _pictures(folder: Path) -> dict[str, Path]:
    """Return the pictures of a folder of labels by name: beside them, or in images/."""
    parts = ["images" if part == "labels" else part for part in folder.parts]
    places = dict.fromkeys((Path(*parts), folder, folder.parent / "images"))
    found: dict[str, Path] = {}
    for place in places:
        if place.is_dir() and not found:
            files = sorted(f for f in place.rglob("*") if f.suffix.lower() in IMAGE_SUFFIXES)
            found = {file.stem: file for file in files}
    return found


def _picture_size(path: Path | None) -> dict[str, int]:
    """Return width and height of a PNG or JPEG from its first bytes; nothing for other files."""
    if path is None:
        return {}
    with path.open("rb") as file:
        start = file.read(24)
        if start.startswith(b"\x89PNG") and len(start) == 24:
            width, height = struct.unpack(">II", start[16:24])
            return {"width": width, "height": height}
        if not start.startswith(b"\xff\xd8"):
            return {}
        file.seek(2)
        while len(head := file.read(4)) == 4 and head[0] == 0xFF:
            length = int.from_bytes(head[2:], "big")
            if 0xC0 <= head[1] <= 0xCF and head[1] not in (0xC4, 0xC8, 0xCC):  # a frame
                height, width = struct.unpack(">HH", file.read(5)[1:].ljust(4, b"\0"))
                return {"width": width, "height": height}
            file.seek(length - 2, 1)
    return {}


def _yolo_names(folder: Path) -> tuple[str, ...]:
    """Return the names in data.yaml or classes.txt, in this folder or one above it, or none."""
    for place in (folder, folder.parent, folder.parent.parent):
        if (place / "classes.txt").is_file():
            lines = _text(place / "classes.txt").splitlines()
            return tuple(line.strip() for line in lines if line.strip())
        for name in ("data.yaml", "data.yml"):
            if (place / name).is_file() and (found := _names_of_yaml(_text(place / name))):
                return found
    return ()


def _names_of_yaml(text: str) -> tuple[str, ...]:
    """Return the value of `names`: a list in brackets, a list of dashes, or a map of numbers.

    A number that the map leaves out is the name of its class.
    """
    _, _, rest = f"\n{text}".partition("\nnames:")
    inline = re.match(rf"\s*[\[{{](?:{QUOTED}|[^\]}}])*", rest)  # perhaps over several lines
    found: list[tuple[str, str]] = []
    if inline:
        cell = rf"[\[{{,]\s*(?:(\d+)\s*:\s*)?({QUOTED}|[^,\[\]{{}}]*[^,\[\]{{}}\s])"
        found = re.findall(cell, inline[0])
    else:
        for line in rest.splitlines()[1:]:
            if line.strip() and not line.startswith((" ", "-", "\t", "#")):
                break
            entry = re.fullmatch(rf"\s*(?:-|(\w+)\s*:)\s+({QUOTED}|.*?)\s*(?:\s#.*)?", line)
            if entry:
                found.append((entry[1] or "", entry[2]))
    names = {
        int(key) if _is_number(key) else k: name.strip("'\"")
        for k, (key, name) in enumerate(found)
    }
    n_classes = min(max(names, default=-1) + 1, MAX_CLASSES)
    return tuple(names.get(k, str(k)) for k in range(n_classes))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name}: this is no text in UTF-8 ({error}).") from error


def _json(path: Path) -> Any:
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path.name}: the file is larger than {MAX_BYTES >> 30} GB.")
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name}: this is no JSON file ({error}).") from error


def _kind(document: Any) -> str:
    if isinstance(document, dict):
        return f"the fields {sorted(document)[:6]}"
    return "a list" if isinstance(document, list) else "a single value"


def _list(rows: Any, path: Path, name: str) -> list[dict[str, Any]]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{path.name}: {name} must be a list of objects.")
    return rows


def _by_id(rows: list[dict[str, Any]], path: Path, name: str) -> dict[Any, dict[str, Any]]:
    found: dict[Any, dict[str, Any]] = {}
    for row in rows:
        if not isinstance(row.get("id"), (int, str)):
            raise ValueError(f"{path.name}: every entry of `{name}` must have an `id`.")
        if found.setdefault(row["id"], row) != row:
            raise ValueError(
                f"{path.name}: two entries of `{name}` have the `id` {row['id']!r}. Number them "
                "anew: nothing says which of them is meant."
            )
    return found


def _image_name(image: dict[str, Any]) -> str:
    name = str(image.get("file_name", image["id"]))
    return Path(name).stem if name.lower().endswith(IMAGE_SUFFIXES) else name


def _column(
    rows: list[dict[str, Any]], field: str, parse: Callable[[Any], Any], rule: str, path: Path
) -> list[Any]:
    """Return a field of every entry; `parse` returns None for a value that breaks the rule."""
    found = [parse(row.get(field)) for row in rows]
    if None in found:
        k = found.index(None)
        value = repr(rows[k].get(field))[:60]
        raise ValueError(f"{path.name}, entry {k}: `{field}` must be {rule}, found {value}.")
    return found


def _positions(
    rows: list[dict[str, Any]], field: str, at: dict[Any, int], path: Path
) -> NDArray[np.int64]:
    def position(value: Any) -> int | None:
        return at.get(value) if isinstance(value, (int, str)) else None

    rule = "one in the truth (are both files of the same data set?)"
    return np.array(_column(rows, field, position, rule, path), dtype=np.int64)


def _boxes(rows: list[dict[str, Any]], path: Path) -> Floats:
    def sides(box: Any) -> list[float | None] | None:
        is_box = isinstance(box, list) and len(box) == 4
        cells: list[float | None] = [*map(_finite, box)] if is_box else [None]
        return None if None in cells else cells

    found = _column(rows, "bbox", sides, "[left, top, width, height]", path)
    return np.array(found, dtype=np.float64).reshape(-1, 4)


def _score(value: Any) -> float | None:
    score = _finite(value)
    return score if score is not None and 0.0 <= score <= 1.0 else None


def _crowd(value: Any) -> bool | None:
    return bool(value) if value in (None, 0, 1) else None
