"""Test images with the confidence of two published networks, as in paper 002's Figure 8.

::

    python -m focalibrate_papers.examples --images DIR ... --out SVG

With ``--numbers-only`` the position of each image in the test set is shown instead of the image:
the authors of CIFAR-10 state no licence, so the repository has no file with its images. The images
are the first of the CIFAR-10 test set that both networks classify correctly and the first that
both classify wrongly: none is hand-picked. Both sets of outputs are in the order of the test set.
"""

import argparse
import base64
import html
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from focalibrate._atomic import atomic_path
from focalibrate.calibrate import Identity, fit_temperature
from focalibrate_papers.datasets import load
from focalibrate_papers.published_logits import LogitSet, read_set

NETWORKS = {"cifar10_resnet50_psrcal": "A", "cifar10_resnet50_focalrepo_aigen": "B"}
"""Published outputs of two ResNet-50; A overfits, as networks trained with cross-entropy do, B has
the numbers of sample-wise focal loss. Neither source states the loss."""
EACH = 4
"""Number of images that both classify correctly, and of those that both classify wrongly."""
WIDTH, HEIGHT, SIZE = 190, 150, 72


def draw(images: Path, logits: Path, *, numbers_only: bool = False) -> str:
    """Return the picture as SVG, with the images or only their positions."""
    test = load("cifar10", data=images, seed=0)
    found = [read_set(name, logits) for name in NETWORKS]
    for one in found:
        if not np.array_equal(one.test_labels, test.test.labels):
            raise ValueError(
                f"{one.name}: its rows must be in the order of the CIFAR-10 test set."
            )
    scores = [_confidences(one) for one in found]
    hits = np.array([s.argmax(axis=1) == test.test.labels for s, _ in scores])
    shown = [*np.flatnonzero(hits.all(axis=0))[:EACH], *np.flatnonzero(~hits.any(axis=0))[:EACH]]
    pixels = np.asarray(test.test.inputs)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {EACH * WIDTH} {2 * HEIGHT}" '
        'font-family="system-ui, sans-serif" font-size="11.5">',
        f'<rect width="{EACH * WIDTH}" height="{2 * HEIGHT}" fill="#fff"/>',
    ]
    for place, row in enumerate(shown):
        left, top = WIDTH * (place % EACH), HEIGHT * (place // EACH)
        box = f'x="{left + 8}" y="{top + 8}" width="{SIZE}" height="{SIZE}"'
        if numbers_only:
            parts.append(f'<rect {box} fill="#eceef2"/>')
            parts += _text(["test image", f"{row:,}"], left + 14, top + 8 + SIZE / 2)
        else:
            png = f"data:image/png;base64,{_png(pixels[row])}"
            parts.append(f'<image {box} style="image-rendering:pixelated" href="{png}"/>')
        label = test.class_names[int(test.test.labels[row])]
        lines = [f"label: {label}"]
        for name, (before, after) in zip(NETWORKS.values(), scores, strict=True):
            said = test.class_names[int(before[row].argmax())]
            lines.append(f"{name}: {said} {before[row].max():.3f} → {after[row].max():.3f}")
        parts += _text(lines, left + 8, top + SIZE + 22)
    return "\n".join([*parts, "</svg>\n"])


def _confidences(one: LogitSet) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the probabilities of the test rows before and after temperature scaling."""
    fitted = fit_temperature(one.fit_logits, one.fit_labels)
    logits = np.asarray(one.test_logits, dtype=np.float64)
    return np.asarray(Identity().probs(logits)), np.asarray(fitted.probs(logits))


def _text(lines: list[str], x: float, y: float) -> Iterator[str]:
    for i, line in enumerate(lines):
        yield f'<text x="{x}" y="{y + 14 * i}" fill="#1b1b1f">{html.escape(line)}</text>'


def _png(image: NDArray[np.uint8]) -> str:
    """Return an image ``[H, W, 3]`` or ``[3, H, W]`` as base64 of a PNG file."""
    rgb = image if image.shape[-1] == 3 else np.moveaxis(image, 0, -1)
    height, width, _ = rgb.shape
    raw = b"".join(b"\0" + row.astype(np.uint8).tobytes() for row in rgb)

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    file = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
    file += chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")
    return base64.b64encode(file).decode()


def main() -> None:
    """Draw the picture from the command line."""
    parser = argparse.ArgumentParser(description="Test images with two networks' confidences.")
    parser.add_argument("--images", type=Path, required=True, help="folder of CIFAR-10")
    parser.add_argument("--logits", type=Path, required=True, help="folder that holds logits/")
    parser.add_argument("--out", type=Path, required=True, help="SVG file to write")
    parser.add_argument(
        "--numbers-only",
        action="store_true",
        help="show the position of each image instead of the image",
    )
    given = parser.parse_args()
    text = draw(given.images, given.logits, numbers_only=given.numbers_only)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(given.out, force=True) as path:
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
