"""Draws docs/images/trailing-medians.svg: two series of noise, as they are and smoothed.

`python -m simulations.expecto_picture > docs/images/trailing-medians.svg`
"""

from __future__ import annotations

import numpy as np

from pgdrag.findings.expecto.analysis import correlation
from pgdrag.findings.expecto.published import smoothed_correlation, trailing_medians
from simulations.expecto import Values, noise

# Of the first sixty seeds one near the middle by the size of its smoothed r.
_SEED, _LENGTH, _WINDOW = 48, 180, 60
_WIDTH, _HEIGHT, _LEFT, _GAP = 720, 110, 12, 44
_COLOURS = ("#1f6feb", "#c2410c")


def picture() -> str:
    """Return the finished SVG, readable on light and dark pages."""
    rng = np.random.default_rng(_SEED)
    raw = [noise(rng, _LENGTH, 0.0) for _ in range(2)]
    smoothed = [trailing_medians(one, _WINDOW) for one in raw]
    sound, published = correlation(*raw), smoothed_correlation(*smoothed)
    assert sound is not None
    assert published is not None
    panels = (
        (
            raw,
            0,
            f"As they are: r = {sound.r:+.2f}, 95 % interval {sound.low:+.2f} to {sound.high:+.2f}",
        ),
        (
            smoothed,
            _WINDOW - 1,
            f"Medians over the last {_WINDOW} of {_LENGTH} values: r = {published.r:+.2f}, "
            f"“p = {published.p:.0e}”",
        ),
    )
    height = len(panels) * (_HEIGHT + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        "<title>Two series of independent noise, as they are and as trailing medians</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for at, (pair, begin, words) in enumerate(panels):
        top = at * (_HEIGHT + _GAP)
        parts.append(
            f'<text x="{_LEFT}" y="{top + 24}" font-family="sans-serif" font-size="15" '
            f'fill="#1f2328">{words}</text>'
        )
        parts += [
            _line(values, begin, top + _GAP - 10, colour)
            for values, colour in zip(pair, _COLOURS, strict=True)
        ]
    return "\n".join((*parts, "</svg>", ""))


def _line(values: Values, begin: int, top: int, colour: str) -> str:
    low, span = float(values.min()), float(np.ptp(values))
    points = " ".join(
        f"{_LEFT + (_WIDTH - 2 * _LEFT) * (begin + at) / (_LENGTH - 1):.1f},"
        f"{top + _HEIGHT * (1 - (value - low) / span):.1f}"
        for at, value in enumerate(values)
    )
    return (
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6" '
        'stroke-linejoin="round"/>'
    )


if __name__ == "__main__":
    print(picture(), end="")
