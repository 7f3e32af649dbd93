"""Bessel functions against scipy. Recipes: ``scipy.special.jv(m, z)`` and ``scipy.special.spherical_jn(l, z)``."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

from steerable.algebra.bessel_functions import bessel_functions


@pytest.mark.parametrize(("axes", "oracle"), [(2, scipy.special.jv), (3, scipy.special.spherical_jn)])
@pytest.mark.parametrize("longest", [0.1, 5, 60])
def test_they_are_those_of_scipy(axes: int, oracle, longest: float) -> None:
    z = np.linspace(0, longest, 60).reshape(3, 20)
    found = bessel_functions(axes, 40, z)
    expected = np.stack([oracle(k, z) for k in range(41)])
    assert found.shape == (41, 3, 20)
    assert np.abs(found - expected).max() < 1e-14
    np.testing.assert_array_equal(bessel_functions(axes, 0, z).shape, (1, 3, 20))
