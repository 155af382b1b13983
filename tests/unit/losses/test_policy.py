from fractions import Fraction

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from focalibrate._array import to_numpy
from focalibrate.losses import (
    ByEpoch,
    BySample,
    focal_loss,
    gamma_policy,
)
from focalibrate.theory import gamma_star


@pytest.mark.parametrize(
    ("name", "p", "want"),
    [
        ("flsd-53", [0.0, 0.19, 0.2, 1.0], [5, 5, 3, 3]),
        ("flsd-532", [0.0, 0.2, 0.49, 0.5, 1.0], [5, 3, 3, 2, 2]),
        ("flsd-53-paper", [0.19, 0.1901, 0.2], [5, 3, 3]),
        ("flsd-532-paper", [0.19, 0.5, 0.51], [5, 3, 2]),
    ],
)
def test_published_sample_wise_cuts(xp, name, p, want):
    got = gamma_policy(name)(xp.asarray(np.array(p)))
    assert_array_equal(to_numpy(got), want)


@pytest.mark.parametrize(
    ("name", "epochs", "want"),
    [
        ("fls-532", [0, 99, 100, 249, 250, 349], [5, 5, 3, 3, 2, 2]),
        ("fls-531", [0, 99, 100, 249, 250, 349], [5, 5, 3, 3, 1, 1]),
    ],
)
def test_published_schedules(name, epochs, want):
    assert [gamma_policy(name).at(epoch, 350) for epoch in epochs] == want


def test_shorter_runs_switch_at_the_same_share():
    policy = gamma_policy("fls-532")
    assert [policy.at(e, 35) for e in (9, 10, 24, 25)] == [5, 3, 3, 2]
    assert [policy.at(e, 7) for e in range(7)] == [5, 5, 3, 3, 3, 2, 2]


def test_own_tables():
    assert_array_equal(BySample((0.3, 0.6), (4, 2, 0))(np.array([0.2, 0.3, 0.9])), [4, 2, 0])
    assert ByEpoch((3, 1), (Fraction(1, 2),)).at(5, 10) == 1.0
    assert ByEpoch((3, 1), (0.5,)).at(4, 10) == 3.0
    assert BySample([0.2], [gamma_star(0.2), 3]).gammas == (gamma_star(0.2), 3.0)


def test_policies_are_values():
    assert gamma_policy("flsd-53") == BySample((0.2,), (5, 3))
    assert len({gamma_policy("flsd-53"), BySample((0.2,), (5, 3))}) == 1
    assert gamma_policy(BySample((0.2,), (5, 3))) == gamma_policy("flsd-53")
    assert gamma_policy("2") == gamma_policy(2) == 2.0


def test_no_gradient_flows_through_the_choice():
    z = torch.tensor([[0.3, 0.0, 0.1]], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0])
    (by_policy,) = torch.autograd.grad(focal_loss(z, y, gamma="flsd-53").sum(), z)
    (by_number,) = torch.autograd.grad(focal_loss(z, y, gamma=3.0).sum(), z)
    assert_array_equal(by_policy, by_number)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gamma_policy("flsd-99"), r"one of flsd-53, .* got 'flsd-99'\. Build your own"),
        (lambda: gamma_policy("-1"), r"got '-1'"),
        (lambda: gamma_policy(-1.0), r"`gamma` must be a finite number >= 0, got -1.0"),
        (lambda: BySample((0.2,), (5.0,)), r"one entry more than `cuts`, got 1 and 1"),
        (lambda: BySample((0.5, 0.2), (5, 3, 2)), r"`cuts` must rise strictly"),
        (lambda: BySample((0.0,), (5, 3)), r"`cuts` must be probabilities in \(0, 1\)"),
        (lambda: BySample((0.2,), (5, -3)), r"`gammas` must be a finite number >= 0, got -3"),
        (lambda: ByEpoch((5.0, 3.0), (Fraction(3, 2),)), r"`until` must be shares"),
        (lambda: gamma_policy("fls-532").at(350, 350), r"`epoch` must lie in .* got 350"),
        (
            lambda: focal_loss(np.zeros((1, 2)), np.array([0]), gamma="fls-532"),
            r"must not be a schedule .* `policy.at\(epoch, n_epochs\)`",
        ),
        (
            lambda: focal_loss(np.zeros((2, 2)), np.array([0, 1]), gamma=np.ones(3)),
            r"one per example, shape \(2,\), got \(3,\)",
        ),
    ],
)
def test_bad_policies_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
