"""What a monitor takes from a batch: its sums, and the rows that may be kept for fits."""

from dataclasses import dataclass

from torch import Tensor

from focalibrate._array import Floats
from focalibrate.metrics import Sketch
from focalibrate.nn._image import PIXELS_KEPT, image_sketch, one_image, some_pixels
from focalibrate.nn._rows import counted_rows, row_weights
from focalibrate.nn._seen import sums_by_class


@dataclass(frozen=True, eq=False)
class Batch:
    """What was taken from a batch."""

    sketch: Sketch | None
    """None where every label is to be ignored"""
    predicted: Floats | None
    """sums by predicted class"""
    logits: Tensor
    """``[M, K]``, of rows that may be kept"""
    labels: Tensor
    """``[M]``, of the same rows"""
    weights: Floats | None

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return self.logits.shape[1]


@dataclass(frozen=True)
class BatchTaker:
    """Takes sums and rows from batches; the settings are those of `CalibrationMonitor`."""

    n_bins: int
    classwise: bool
    by_class: bool
    ignore_index: int
    seed: int

    def of_rows(self, logits: Tensor, labels: Tensor, weights: Tensor | None) -> Batch:
        """Return the sums of a batch, and its rows that count."""
        z, y = counted_rows(logits, labels, ignore_index=self.ignore_index)
        w = None
        if weights is not None:
            share = row_weights(weights, labels, ignore_index=self.ignore_index)
            z, y, w = z[share > 0], y[share > 0], share[share > 0].cpu().numpy()
        if len(z) == 0:
            return Batch(None, None, z, y, w)
        scores, targets = z.cpu().double().numpy(), y.cpu().numpy()
        sketch = Sketch.of_rows(
            scores,
            targets,
            given="logits",
            weights=w,
            n_bins=self.n_bins,
            classwise=self.classwise,
        )
        predicted = None
        if self.by_class:
            top = scores.argmax(axis=1)
            confidence = z.cpu().double().softmax(-1).amax(-1).numpy()
            k, n_bins = z.shape[1], self.n_bins
            predicted = sums_by_class(
                confidence, top == targets, top, w, n_classes=k, n_bins=n_bins
            )
        return Batch(sketch, predicted, z, y, w)

    def of_large_image(self, logits: Tensor, labels: Tensor, *, max_rows: int) -> Batch:
        """Return the sums of one image, and some of its pixels, at most `max_rows`."""
        ignored = self.ignore_index
        z, y = one_image(logits, labels, ignore_index=ignored)
        seen = image_sketch(z, y, ignore_index=ignored, n_bins=self.n_bins, by_class=self.by_class)
        n = min(PIXELS_KEPT, max_rows)
        sketch, predicted = seen or (None, None)
        some, labels = some_pixels(z, y, ignore_index=ignored, n=n, seed=self.seed)
        return Batch(sketch, predicted, some, labels, None)
