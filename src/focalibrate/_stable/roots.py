"""Root and minimum of a function of one number; SciPy's take a third of a second to import."""

import math
from collections.abc import Callable


def root(
    function: Callable[[float], float], low: float, high: float, *, xtol: float = 1e-12
) -> float:
    """Return where a continuous function of opposite signs at `low` and `high` is 0, to `xtol`.

    References:
        Chandrupatla (1997), *A new hybrid quadratic/bisection algorithm for finding the zero of
        a nonlinear function without using derivatives*.
    """
    x1, f1 = low, function(low)
    x2, f2 = high, function(high)
    if f1 != 0.0 and f2 != 0.0 and (f1 > 0.0) == (f2 > 0.0):
        raise ValueError("`function` must have opposite signs at `low` and `high`.")
    part = 0.5
    while True:
        best, f_best = (x1, f1) if abs(f1) <= abs(f2) else (x2, f2)
        least = (2e-16 * abs(best) + 0.5 * xtol) / abs(x2 - x1)
        if f_best == 0.0 or least > 0.5:
            return best
        x = x1 + min(max(part, least), 1.0 - least) * (x2 - x1)
        f = function(x)
        if (f > 0.0) == (f1 > 0.0):
            x3, f3 = x1, f1
        else:
            x3, f3, x2, f2 = x2, f2, x1, f1
        x1, f1 = x, f
        xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
        part = 0.5
        if phi**2 < xi and (1.0 - phi) ** 2 < 1.0 - xi:  # the inverse parabola is safe
            part = f1 / (f2 - f1) * f3 / (f2 - f3)
            part += (x3 - x1) / (x2 - x1) * f1 / (f3 - f1) * f2 / (f3 - f2)


def minimum(function: Callable[[float], float], low: float, high: float, *, xtol: float) -> float:
    """Return where a function is lowest between `low` and `high`, to about `xtol`.

    Golden sections, and parabolas where they promise more.

    References:
        Brent (1973), *Algorithms for minimization without derivatives*, chapter 5.
    """
    golden = 0.5 * (3.0 - math.sqrt(5.0))
    x = second = third = low + golden * (high - low)
    f = f_second = f_third = function(x)
    step = before = 0.0
    while True:
        middle = 0.5 * (low + high)
        least = 1.5e-8 * abs(x) + xtol / 3.0
        if abs(x - middle) <= 2.0 * least - 0.5 * (high - low):
            return x
        r = (x - second) * (f - f_third)
        q = (x - third) * (f - f_second)
        p, q = (x - third) * q - (x - second) * r, 2.0 * (q - r)
        p, q = (-p, q) if q > 0.0 else (p, -q)
        is_short = abs(p) < abs(0.5 * q * before) and q * (low - x) < p < q * (high - x)
        if abs(before) > least and is_short:
            before, step = step, p / q
            if min(x + step - low, high - x - step) < 2.0 * least:
                step = math.copysign(least, middle - x)
        else:
            before = (low if x >= middle else high) - x
            step = golden * before
        u = x + (step if abs(step) >= least else math.copysign(least, step))
        f_u = function(u)
        if f_u <= f:
            low, high = (x, high) if u >= x else (low, x)
            third, f_third, second, f_second, x, f = second, f_second, x, f, u, f_u
            continue
        low, high = (low, u) if u >= x else (u, high)
        if f_u <= f_second or second == x:
            third, f_third, second, f_second = second, f_second, u, f_u
        elif f_u <= f_third or third in (x, second):
            third, f_third = u, f_u
