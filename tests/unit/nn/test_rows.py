import numpy as np
import pytest
import torch
from torch.testing import assert_close

from focalibrate.nn._rows import as_rows, reduce_rows


def test_class_axis_goes_last_and_labels_follow():
    logits = torch.randn(2, 3, 4, 5)
    labels = torch.randint(3, (2, 4, 5))
    rows = as_rows(logits, labels)
    assert rows.shape == (2, 4, 5)
    n, i, j = 1, 2, 3
    row = n * 20 + i * 5 + j
    assert_close(rows.logits[row], logits[n, :, i, j])
    assert rows.target[row] == labels[n, i, j]


def test_soft_targets_follow_the_class_axis_too():
    logits, labels = torch.randn(2, 3, 4), torch.rand(2, 3, 4).softmax(1)
    rows = as_rows(logits, labels)
    assert rows.is_soft
    assert_close(rows.target[5], labels[1, :, 1])


def test_two_axes_are_not_copied():
    logits = torch.randn(3, 4)
    assert as_rows(logits, torch.tensor([0, 1, 2])).logits.data_ptr() == logits.data_ptr()


@pytest.mark.parametrize("labels", [[0, 1, 2], [2, 2, 2], [0, 0, 0]])
def test_nothing_is_ignored_unless_the_label_occurs(labels):
    assert as_rows(torch.randn(3, 4), torch.tensor(labels), ignore_index=3).ignored is None
    assert as_rows(torch.randn(3, 4), torch.tensor(labels)).ignored is None


def test_nothing_is_ignored_without_leave():
    with pytest.raises(ValueError, match=r"`labels` must lie in \[0, 3\] .* found \[-100, 1\]"):
        as_rows(torch.randn(2, 4), torch.tensor([1, -100]))


def test_an_ignored_label_between_others_does_no_harm():
    rows = as_rows(torch.randn(3, 4), torch.tensor([0, 3, 2]), ignore_index=1)
    assert not rows.ignored.any()
    assert rows.target.tolist() == [0, 3, 2]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32_and_rounded_once(dtype):
    logits = torch.randn(3, 4).to(dtype)
    rows = as_rows(logits, torch.tensor([0, 1, 2]))
    assert rows.logits.dtype == torch.float32
    answer = reduce_rows(torch.tensor([0.1, 0.2, 0.4]), rows, reduction="mean")
    assert answer.dtype == dtype
    assert answer == torch.tensor(0.7 / 3).to(dtype)


@pytest.mark.parametrize(
    ("logits", "labels", "name"),
    [
        (torch.zeros(3, 4), np.array([0, 1, 2]), "labels"),
        (np.zeros((3, 4)), torch.tensor([0, 1, 2]), "logits"),
        (torch.zeros(3, 4), [0, 1, 2], "labels"),
    ],
)
def test_what_is_no_tensor_is_refused_with_the_line_that_makes_it_one(logits, labels, name):
    with pytest.raises(ValueError, match=rf"`{name}` must be a torch tensor.*as_tensor\({name}\)"):
        as_rows(logits, labels)
