"""Student's t: how far from the mean of a few runs the truth may be, at 95 percent."""

from typing import Final

# t for 0.975, by degrees of freedom from 1; beyond, the series below is exact to four digits.
_FEW: Final = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)
_Z: Final = 1.959963984540054


def t_95(freedom: int) -> float:
    """The half-width of the interval in standard errors; of many values by Cornish and Fisher."""
    assert freedom >= 1
    if freedom <= len(_FEW):
        return _FEW[freedom - 1]
    z, n = _Z, freedom
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )
