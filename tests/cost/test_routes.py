"""Nodes reach one another over the fewest hops, then the larger bottleneck."""

from __future__ import annotations

import pytest

from palmette.cost.routes import Route, Routes
from palmette.spec.cluster import Cluster
from tests.cost.small import cluster, link, node


def nodes(names: str) -> dict[str, dict[str, object]]:
    return {name: node() for name in names.split()}


def joined(found: Cluster, a: str, b: str) -> Route:
    route = Routes(found).between(a, b)
    assert route is not None
    return route


def test_a_link_of_its_own_is_the_route_even_where_another_way_is_wider() -> None:
    ring = cluster(link("a", "b", 1.0), link("b", "c", 99.0), link("c", "a", 99.0), **nodes("a b c"))
    assert joined(ring, "a", "b").resources == (0,)


def test_routes_of_a_star_meet_at_its_centre_and_those_of_a_ring_nowhere() -> None:
    star = Routes(cluster(*(link(name, "hub") for name in "abc"), hub=node(relay=True), **nodes("a b c")))
    assert [star.meeting_node(some) for some in ("abc", "ab")] == ["hub", "hub"]
    ring = Routes(cluster(link("a", "b"), link("b", "c"), link("c", "a"), **nodes("a b c")))
    assert (ring.meeting_node("abc"), ring.meeting_node("ab"), ring.meeting_node("a")) == (None, "a", "a")


def test_a_route_has_the_least_bandwidth_and_the_sums_of_latency_and_energy() -> None:
    line = cluster(
        link("a", "b", 30.0, latency_s=1.0, energy_j_per_bit=0.5),
        link("b", "c", 10.0, latency_s=1.5, jitter_s=0.5, energy_j_per_bit=0.25),
        link("c", "d", 20.0, latency_s=4.0),
        **nodes("a b c d"),
    )
    route = joined(line, "a", "d")
    assert (route.hops, route.bandwidth_bps, route.latency_s, route.energy_j_per_bit) == (3, 10, 7, 0.75)
    assert route.transfer_s(5.0) == 7 + 5 * 8 / 10


def test_fewest_hops_win_over_bandwidth() -> None:
    found = cluster(
        *(link(a, b, 99.0) for a, b in ("ab", "bc", "cd")),
        *(link(a, b, 1.0) for a, b in ("ae", "ed")),
        **nodes("a b c d e"),
    )
    assert joined(found, "a", "d").bandwidth_bps == 1


@pytest.mark.parametrize(("first", "second"), [("b", "c"), ("c", "b")])
def test_among_equally_short_paths_the_larger_bottleneck_wins(first: str, second: str) -> None:
    wide = {"b": (9.0, 2.0), "c": (4.0, 3.0)}  # by way of c the narrowest is wider, though its first link is not
    links = [
        link(a, b, bps) for via in (first, second) for a, b, bps in (("a", via, wide[via][0]), (via, "d", wide[via][1]))
    ]
    found = cluster(*links, **nodes("a b c d"))
    assert joined(found, "a", "d").bandwidth_bps == joined(found, "d", "a").bandwidth_bps == 3


def test_the_way_back_takes_the_other_direction_of_the_same_links() -> None:
    line = cluster(link("a", "b"), link("c", "b"), **nodes("a b c"))
    assert joined(line, "a", "c").resources == (0, 3)
    assert joined(line, "c", "a").resources == (2, 1)


def test_both_directions_of_a_half_duplex_link_are_one_resource() -> None:
    pair = cluster(link("a", "b", duplex="half"), **nodes("a b"))
    assert joined(pair, "a", "b").resources == joined(pair, "b", "a").resources


def test_a_node_reaches_itself_at_once() -> None:
    alone = cluster(**nodes("a"))
    route = joined(alone, "a", "a")
    assert (route.hops, route.transfer_s(1e9)) == (0, 0)


@pytest.mark.parametrize("names", ["a b c", "c a b", "b c a", "a b c d", "d c b a"])
def test_nodes_that_no_links_join_cannot_talk(names: str) -> None:
    # a and b know only each other; c, and d where there is one, are elsewhere.
    links = [link("a", "b"), *([link("c", "d")] if "d" in names else [])]
    routes = Routes(cluster(*links, **nodes(names)))
    for here in "ab":
        for there in set(names.split()) - {"a", "b"}:
            assert routes.between(here, there) is None
            assert routes.between(there, here) is None
            assert routes.hops(here, there) == float("inf")


def test_every_pair_of_an_island_world_has_the_route_that_a_search_finds() -> None:
    pairs = ["ab", "bc", "ca", "cd", "de", "fg"]
    routes = Routes(cluster(*(link(a, b) for a, b in pairs), **nodes("a b c d e f g h")))
    reach = {name: {name} for name in "abcdefgh"}
    hops = {(name, name): 0 for name in "abcdefgh"}
    for distance in range(1, 8):
        for name, seen in reach.items():
            near = {b for a, b in [*pairs, *(p[::-1] for p in pairs)] if a in seen} - seen
            hops |= {(name, other): distance for other in near}
            seen.update(near)
    for a in "abcdefgh":
        for b in "abcdefgh":
            assert routes.hops(a, b) == hops.get((a, b), float("inf"))
