"""Under ``epoch`` and ``async`` every source owns a shard of the run's data, or the data of its node."""

from __future__ import annotations

import numpy as np
import pytest

from palmette.control.run.data import RunData, refuse_few
from palmette.errors import InputError
from palmette.runtime.data.batches import shard_sizes, shards
from palmette.runtime.data.shards import data_shards, own_data, row_of
from palmette.spec.plan import Phase
from palmette.zoo.data import load_data
from tests.cost.small import cluster, instance, link, node, phase, source
from tests.runtime.trees import DATA

KNOWN = cluster(
    link("a", "b"),
    a=node(200),
    b=node(100),
    c={"tier": "device", "source": {"samples": 7, "data": "elsewhere"}},
)


@pytest.mark.parametrize("proportions", [(1,), (1, 1, 1), (2, 1), (5, 0.1, 3)])
def test_shards_share_out_all_samples(proportions: tuple[float, ...]) -> None:
    cut = shards(101, proportions, seed=3)
    assert sorted(np.concatenate(cut)) == list(range(101))
    assert [len(each) for each in cut] == shard_sizes(101, proportions)
    for size, part in zip(shard_sizes(101, proportions), proportions, strict=True):
        assert abs(size - 101 * part / sum(proportions)) <= 1


def test_another_seed_cuts_otherwise() -> None:
    assert shards(50, (1, 1), 1)[0].tolist() != shards(50, (1, 1), 2)[0].tolist()
    assert shards(50, (1, 1), 1)[0].tolist() == shards(50, (1, 1), 1)[0].tolist()


def whole_networks(names: str) -> Phase:
    feeds = [source(name, 4, name.upper()) for name in names]
    return phase(*feeds, *(instance(name.upper(), 1, 2, name) for name in names), sync="epoch")


def test_nodes_share_in_proportion_to_what_they_own() -> None:
    found = data_shards(whole_networks("ab"), KNOWN, "digits")
    assert [share.size(90) for share in found] == [60, 30]
    assert [share.data for share in found] == ["digits", "digits"]
    assert own_data("ab", KNOWN) == {}


def test_a_node_that_names_data_has_all_of_it() -> None:
    (found,) = data_shards(whole_networks("c"), KNOWN, "digits")
    assert (found.data, found.size(90)) == ("elsewhere", 90)
    assert own_data("c", KNOWN) == {"c": "elsewhere"}


def test_sources_of_which_only_some_name_data_are_refused() -> None:
    expected = "source.data: a and b: no data, unlike c; expected data for every source of the plan, or for none"
    for refused in (lambda: own_data("abc", KNOWN), lambda: data_shards(whole_networks("abc"), KNOWN, "digits")):
        with pytest.raises(InputError) as error:
            refused()
        assert str(error.value) == expected


def test_nodes_that_name_the_same_data_have_rows_of_their_own() -> None:
    named = {"tier": "device", "source": {"samples": 7, "data": "x"}}
    known = cluster(a=node(5), b=named, c={"tier": "device", "source": {"samples": 7, "data": "y"}}, d=named)
    assert [row_of(name, known) for name in "bcd"] == [0, 0, 1]


def test_a_node_owns_the_same_samples_whichever_others_a_plan_uses() -> None:
    def owned(*names: str) -> dict[str, list[int]]:
        found = zip(names, data_shards(whole_networks("".join(names)), KNOWN, "digits"), strict=True)
        return {name: share.indices(90, seed=5).tolist() for name, share in found}

    both = owned("a", "b")
    assert sorted(both["a"] + both["b"]) == list(range(90))
    assert owned("b", "a") == both
    assert owned("b") == {"b": both["b"]}


def test_sources_on_one_node_share_by_batch_or_by_what_an_epoch_takes() -> None:
    both = [instance("X", 1, 2, "a"), instance("Y", 1, 2, "a")]
    by_batch = phase(source("a", 3, "X"), source("a", 1, "Y"), *both, sync="epoch")
    assert [share.size(60) for share in data_shards(by_batch, KNOWN, "digits")] == [30, 10]
    limited = phase(source("a", 3, "X", epoch_samples=50), source("a", 1, "Y", epoch_samples=50), *both, sync="epoch")
    found = data_shards(limited, KNOWN, "digits")
    assert [share.size(60) for share in found] == [20, 20]
    assert [share.fraction for share in found] == [0.5, 0.5]  # 50 of 100 each


def test_a_source_that_would_own_nothing_is_refused() -> None:
    feeds = [source("a", 1, f"I{k}") for k in range(60)]
    instances = [instance(f"I{k}", 1, 2, "a") for k in range(60)]
    with pytest.raises(InputError, match=r"none of the 54 samples is left for this source"):
        refuse_few([phase(*feeds, *instances, sync="async")], KNOWN, RunData(load_data(DATA, (5,))))
