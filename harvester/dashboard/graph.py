"""Selects and places the parts of a graph to draw: groups, ties and a spring layout. The result is deterministic.

With all edges a large graph is a black spot, and an account that is linked to all makes a star. So each node has only a
few lines, to the nodes with the most shared neighbours, and the colour of the node's group.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import hypot
from typing import NamedTuple
from unicodedata import east_asian_width

import networkx

ROUNDS = 200
MIDDLE, MIDDLE_WEIGHT = -1, 0.1
"""An invisible node, and the strength that draws each node to it."""
HUB, FEW = 0.6, 20
"""A node linked to more than this share of all others is a hub, and its edges are left out.

Only for more than FEW nodes.
"""
TIES = 4
"""Maximum number of edges to draw for a node."""
LEAST_GROUP, MOST_GROUPS = 3, 8
"""Minimum number of nodes in a group, and maximum number of groups."""
_LETTER, _LINE = 10.0, 14.0
"""Approximate width and height of a letter of a label."""

Point = tuple[float, float]
Edge = tuple[int, int]


class Ties(NamedTuple):
    """The edges to draw, each once, the smaller position first."""

    lines: list[Edge]
    hubs: list[int]
    """Nodes without lines, because they are linked to nearly all nodes."""


def ties(count: int, edges: Iterable[Edge]) -> Ties:
    """Returns for each node the edges to the nodes with the most shared neighbours; mutual edges first."""
    given = {(one, other) for one, other in edges if one != other}
    near: list[set[int]] = [set() for _ in range(count)]
    for one, other in given:
        near[one].add(other)
        near[other].add(one)
    hubs = [node for node in range(count) if count > FEW and len(near[node]) > HUB * (count - 1)]
    if not any(near[node].difference(hubs) for node in set(range(count)).difference(hubs)):
        hubs = []  # the graph is only a star
    for node in range(count):
        near[node] = set() if node in hubs else near[node].difference(hubs)

    def strength(one: int, other: int) -> tuple[float, bool]:
        shared, either = near[one] & near[other], near[one] | near[other]
        return len(shared) / len(either), (one, other) in given and (other, one) in given

    lines: set[Edge] = set()
    for node in range(count):
        nearest = sorted(near[node], key=lambda other: (strength(node, other), -other), reverse=True)
        lines |= {(min(node, other), max(node, other)) for other in nearest[:TIES]}
    return Ties(sorted(lines), hubs)


def groups(count: int, edges: Iterable[Edge]) -> list[int]:
    """Returns the groups of the nodes by the Louvain method: 0 is the largest group; -1 means no group."""
    graph = networkx.Graph()
    graph.add_nodes_from(range(count))
    for one, other in sorted({(min(edge), max(edge)) for edge in edges if edge[0] != edge[1]}):
        graph.add_edge(one, other)
    found = sorted(networkx.community.louvain_communities(graph, seed=1), key=lambda group: (-len(group), min(group)))
    of: list[int] = [-1] * count
    for number, group in enumerate(found[:MOST_GROUPS]):
        for node in group if len(group) >= LEAST_GROUP else ():
            of[node] = number
    return of


def place(radii: Sequence[float], edges: Sequence[tuple[int, int]], width: float, height: float) -> list[Point]:
    """Places circles with these radii in a frame: linked ones near each other, without overlap.

    Edges are pairs of positions.
    """
    positions = _spring(len(radii), {(min(edge), max(edge)) for edge in edges})
    return _apart(_fitted(positions, radii, width, height), radii, width, height)


def _spring(count: int, edges: set[tuple[int, int]]) -> list[Point]:
    """Places the nodes by networkx's forces (Fruchterman and Reingold), with a centre that holds all together."""
    links = Counter(node for edge in edges for node in edge)
    graph = networkx.Graph()
    graph.add_nodes_from(range(count))
    # Divided by the links of the busier end; otherwise hubs would pull the picture together.
    graph.add_weighted_edges_from((one, other, 4 / max(links[one], links[other])) for one, other in sorted(edges))
    graph.add_weighted_edges_from((MIDDLE, node, MIDDLE_WEIGHT) for node in range(count))
    placed = networkx.spring_layout(graph, iterations=ROUNDS, seed=1)
    return [(float(placed[node][0]), float(placed[node][1])) for node in range(count)]


def _fitted(positions: Sequence[Point], radii: Sequence[float], width: float, height: float) -> list[Point]:
    """Stretches the positions to the frame."""
    if not positions:
        return []
    edge = min(radii)
    left, right = min(x for x, _ in positions), max(x for x, _ in positions)
    top, bottom = min(y for _, y in positions), max(y for _, y in positions)
    across, down = (right - left) or 1.0, (bottom - top) or 1.0
    return [
        (
            edge + (x - left) / across * (width - 2 * edge),
            edge + (y - top) / down * (height - 2 * edge),
        )
        for x, y in positions
    ]


def _apart(points: list[Point], radii: Sequence[float], width: float, height: float) -> list[Point]:
    """Pushes overlapping circles apart, as far as the frame allows."""
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
    """Returns the middle of the texts' base lines, below or above the circles; None without space.

    Earlier texts go first. Only circles with a text are avoided. Texts stay within the width of the frame.
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
