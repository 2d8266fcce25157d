"""The layout of the follow graph."""

from itertools import combinations
from math import dist

import pytest

from harvester.dashboard.graph import TIES, Point, groups, label, place, ties

CIRCLES = [(i, j) for start in (0, 20, 40) for i, j in combinations(range(start, start + 20), 2) if (i + j) % 3]


def test_all_nodes_lie_in_the_frame_and_none_over_another() -> None:
    radii = [30.0] + [10.0] * 59
    points = place(radii, CIRCLES, 1000, 700)
    for (x, y), radius in zip(points, radii, strict=True):
        assert radius <= x <= 1000 - radius
        assert radius <= y <= 700 - radius
    for one, other in combinations(range(60), 2):
        assert dist(points[one], points[other]) > 0.9 * (radii[one] + radii[other])


def test_circles_of_friends_lie_together() -> None:
    points = place([5.0] * 60, CIRCLES, 1000, 700)

    def mean(pairs: list[tuple[Point, Point]]) -> float:
        return sum(dist(*pair) for pair in pairs) / len(pairs)

    circles = [points[start : start + 20] for start in (0, 20, 40)]
    within = mean([pair for circle in circles for pair in combinations(circle, 2)])
    between = mean([(one, other) for a, b in combinations(circles, 2) for one in a for other in b])
    assert between > 2 * within


def test_the_same_graph_gives_the_same_picture_whatever_the_order_of_its_edges() -> None:
    both_ways = [(j, i) for i, j in reversed(CIRCLES)] + CIRCLES
    assert place([5.0] * 60, CIRCLES, 1000, 700) == place([5.0] * 60, both_ways, 1000, 700)


def test_graphs_without_edges_or_nodes_have_a_picture() -> None:
    assert place([], [], 1000, 700) == []
    assert len(place([10.0], [], 1000, 700)) == 1
    assert len(set(place([10.0] * 5, [], 1000, 700))) == 5


def test_labels_keep_clear_of_each_other_and_of_labelled_nodes() -> None:
    def heights(points: list[Point], *texts: str) -> list[float | None]:
        return [at and at[1] for at in label(points, [20.0] * len(points), texts, 1000)]

    assert heights([(100, 100)], "name") == [134]
    crowded: list[Point] = [(100, 100), (100, 145), (100, 190)]
    assert heights(crowded, "first", "second", "third") == [pytest.approx(75.8), None, 224]
    assert heights(crowded, "first") == [134], "circles without a label may be covered"
    below, above, again = heights([(100, 100), (180, 100), (260, 100)], "a rather long name", "another one", "東京都")
    assert below == again == 134
    assert above == pytest.approx(75.8)


def test_labels_stay_within_the_frame() -> None:
    left, right = label([(10.0, 100.0), (990.0, 100.0)], [10.0, 10.0], ["n" * 20, "n" * 20], 1000)
    assert left
    assert right
    assert left[0] >= 80
    assert right[0] <= 920


def test_each_node_has_lines_to_those_with_whom_it_shares_most() -> None:
    bridges = [(0, 20), (20, 40), (40, 0)]
    shown = ties(60, [*CIRCLES, *bridges])
    assert shown.hubs == []
    assert len(shown.lines) <= 60 * TIES
    assert {node for line in shown.lines for node in line} == set(range(60))
    assert not {(0, 20), (20, 40), (0, 40)}.intersection(shown.lines)
    assert shown == ties(60, [(j, i) for i, j in reversed([*CIRCLES, *bridges])] + CIRCLES)


def test_the_lines_of_a_hub_are_not_drawn_unless_there_are_no_others() -> None:
    star = [(60, node) for node in range(60)]
    shown = ties(61, [*CIRCLES, *star])
    assert shown.hubs == [60]
    assert not [line for line in shown.lines if 60 in line]
    assert ties(61, star).hubs == []
    assert len(ties(61, star).lines) == 60


def test_circles_of_friends_are_groups_the_largest_first() -> None:
    more = [(i, j) for i, j in combinations(range(60, 90), 2) if (i + j) % 2]
    found = groups(93, [*CIRCLES, *more, (0, 20), (90, 91)])
    assert [len({*found[start:end]}) for start, end in ((0, 20), (20, 40), (40, 60), (60, 90))] == [1, 1, 1, 1]
    assert len({*found[:90]}) == 4
    assert found[60] == 0
    assert found[90:] == [-1, -1, -1], "two are no group, and one is none"
    assert groups(0, []) == []
