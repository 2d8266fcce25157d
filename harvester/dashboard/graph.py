"""Where the nodes of a picture of a graph lie: a spring layout, the same for the same graph."""

from cmath import exp
from collections.abc import Sequence
from math import hypot, pi, sqrt
from unicodedata import east_asian_width

_ROUNDS = 200
_LETTER, _LINE = 10.0, 14.0
"""About the width and height of a letter of a label."""

_TURN = pi * (3 - sqrt(5))
"""The golden angle: points on a spiral with this step are spread evenly."""

Point = tuple[float, float]


def place(radii: Sequence[float], edges: Sequence[tuple[int, int]], width: float, height: float) -> list[Point]:
    """Centres of circles with these radii in a frame: linked ones near each other, none over another.

    Edges are pairs of positions. 150 circles take about two seconds.
    """
    positions = _spring(len(radii), {(min(edge), max(edge)) for edge in edges})
    return _apart(_fitted(positions, radii, width, height), radii, width, height)


def _spring(count: int, edges: set[tuple[int, int]]) -> list[complex]:
    """Fruchterman and Reingold's forces: all push each other away, linked ones pull, the middle holds them together."""
    positions = [sqrt((i + 0.5) / count) * exp(1j * _TURN * i) for i in range(count)]
    ideal = 1 / sqrt(max(count, 1))
    links = [0] * count
    for one, other in edges:
        links[one] += 1
        links[other] += 1
    ordered = sorted(edges)
    for step in range(_ROUNDS):
        forces = [-0.6 * ideal * position for position in positions]
        for i in range(count):
            here, push = positions[i], 0j
            for j in range(i):
                apart = here - positions[j]
                force = ideal * ideal / (abs(apart) ** 2 + 1e-9) * apart
                push += force
                forces[j] -= force
            forces[i] += push
        for one, other in ordered:
            apart = positions[one] - positions[other]
            # Divided by the links of the busier end, so that hubs do not swallow the picture.
            pull = apart * abs(apart) / ideal * 4 / max(links[one], links[other])
            forces[one] -= pull
            forces[other] += pull
        longest = 0.1 * (1 - step / _ROUNDS)
        for i, force in enumerate(forces):
            positions[i] += force * min(1.0, longest / (abs(force) + 1e-9))
    return positions


def _fitted(positions: Sequence[complex], radii: Sequence[float], width: float, height: float) -> list[Point]:
    """Stretched to the frame."""
    if not positions:
        return []
    edge = min(radii)
    left, right = min(p.real for p in positions), max(p.real for p in positions)
    top, bottom = min(p.imag for p in positions), max(p.imag for p in positions)
    across, down = (right - left) or 1.0, (bottom - top) or 1.0
    return [
        (
            edge + (p.real - left) / across * (width - 2 * edge),
            edge + (p.imag - top) / down * (height - 2 * edge),
        )
        for p in positions
    ]


def _apart(points: list[Point], radii: Sequence[float], width: float, height: float) -> list[Point]:
    """Pushes overlapping circles from each other, as far as the frame allows."""
    points = list(points)
    for _ in range(60):
        moved = False
        for i in range(len(points)):
            for j in range(i):
                dx, dy = points[i][0] - points[j][0], points[i][1] - points[j][1]
                distance = hypot(dx, dy) or 0.01
                overlap = radii[i] + radii[j] + 2 - distance
                if overlap > 0:
                    moved = True
                    x, y = dx / distance * overlap / 2 or 0.01, dy / distance * overlap / 2
                    points[i] = (points[i][0] + x, points[i][1] + y)
                    points[j] = (points[j][0] - x, points[j][1] - y)
        points = [
            (min(max(x, radius), width - radius), min(max(y, radius), height - radius))
            for (x, y), radius in zip(points, radii, strict=True)
        ]
        if not moved:
            break
    return points


def label(points: Sequence[Point], radii: Sequence[float], texts: Sequence[str], width: float) -> list[Point | None]:
    """Middle of the base line of each text, below or above its circle; None where there is no room.

    Earlier texts go first. Only circles that have a text are kept free. Texts stay within the width of the frame.
    """
    circles = [(x - r, y - r, x + r, y + r) for (x, y), r in zip(points, radii, strict=True)][: len(texts)]
    boxes = list(circles)
    middles: list[Point | None] = []
    for text, (x, y), radius, own in zip(texts, points, radii, circles, strict=False):
        half = _LETTER * sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text) / 2
        middle = min(max(x, half), width - half)
        middles.append(None)
        for base in (y + radius + _LINE, y - radius - 0.3 * _LINE):
            box = (middle - half, base - 0.8 * _LINE, middle + half, base + 0.3 * _LINE)
            if not any(_overlap(box, other) for other in boxes if other != own):
                middles[-1] = (middle, base)
                boxes.append(box)
                break
    return middles


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
