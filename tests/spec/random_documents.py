"""Random documents of every kind, as the plain content of their files in SI."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

texts = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=8)
names = texts | st.sampled_from(["null", "1", "true", "<<", "=", "~", "2020-01-01", "1e5", "- a"])
numbers = st.floats(0, 1e18) | st.integers(0, 10**6).map(float)
positive = st.floats(1e-9, 1e18)
shares = st.floats(1e-6, 1)
counts = st.integers(1, 10**12)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(-1e300, 1e300) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Mappings with some of the fields; those whose names begin with ``_`` are always there."""
    always = {name[1:]: value for name, value in fields.items() if name.startswith("_")}
    optional = {name: value for name, value in fields.items() if not name.startswith("_")}
    return st.fixed_dictionaries(always, optional=optional)


@st.composite
def powers(draw: st.DrawFn) -> dict[str, Any]:
    idle, busy = sorted((draw(numbers), draw(numbers)))
    return {"idle_w": idle, "busy_w": busy} | draw(some(exponent=positive))


nodes = some(
    _tier=st.sampled_from(["device", "edge", "cloud"]),
    memory_bytes=positive,
    storage_bytes=positive,
    power=powers(),
    price=some(_per_hour=numbers, _currency=st.just("EUR")),
    carbon_g_per_kwh=st.none() | numbers,
    source=some(_samples=counts, private=st.booleans(), data=names, sample_bytes=positive, stream=st.booleans()),
    limits=some(cpu_share=shares, energy_j=positive),
    host=names,
    hardware=names,
    device=st.sampled_from(["cpu", "cuda", "mps"]),
    threads=st.none() | st.integers(1, 4096),
)


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Any]:
    content = {"nodes": draw(st.dictionaries(names, nodes, min_size=1, max_size=4))}
    known = sorted(content["nodes"])
    pairs = [(a, b) for k, a in enumerate(known) for b in known[k + 1 :]]
    joined = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=4)) if pairs else []
    rates, either = st.floats(1, 1e18), st.sampled_from(["full", "half"])
    links = some(_bandwidth_bps=rates, latency_s=numbers, jitter_s=numbers, energy_j_per_bit=numbers, duplex=either)
    links |= some(_up_bps=rates, _down_bps=rates, latency_s=numbers, energy_j_per_bit=numbers)
    content["links"] = [draw(links) | {"between": list(pair)} for pair in joined]
    content["sets"] = draw(st.dictionaries(names, st.lists(st.sampled_from(known), max_size=3), max_size=2))
    return content | draw(some(carbon_g_per_kwh=st.none() | numbers))


@st.composite
def tables(draw: st.DrawFn, least: int = 0) -> dict[str, Any]:
    layer = some(_name=names, _parameter_bytes=numbers, _output_bytes=numbers, flops=numbers, activation_bytes=numbers)
    layers = draw(st.lists(layer, min_size=least, max_size=3))
    array = st.lists(numbers, min_size=len(layers), max_size=len(layers))
    times = some(
        _forward_s=array,
        _backward_s=array,
        _update_s=array,
        forward_call_s=array,
        backward_call_s=array,
        decode_s=numbers,
        source=st.sampled_from(["measured", "modelled"]),
    )
    return {"layers": layers, "nodes": draw(st.dictionaries(names, times, max_size=3))}


@st.composite
def profiles(draw: st.DrawFn) -> dict[str, Any]:
    variants = st.dictionaries(st.floats(0, 1, exclude_max=True).map(repr), tables(), max_size=2)
    head = draw(
        some(
            _model=names,
            _input_bytes=positive,
            sample_bytes=positive,
            variants=variants,
            noted_by_a_newer_version=plain,
        )
    )
    return {"format": "palmette.profile/1"} | head | draw(tables(least=1))


operations = some(
    _node=names,
    _instance=names,
    _op=st.sampled_from(["receive", "forward", "send", "backward", "average", "update"]),
    _start_s=numbers,
    _end_s=numbers,
    iteration=st.integers(0, 10**9),
    bytes=numbers,
    noted_by_a_newer_version=plain,
)
parts = some(
    _busy_s=numbers,
    _energy_j=st.none() | numbers,
    _sent_bytes=numbers,
    _received_bytes=numbers,
    _peak_memory_bytes=numbers,
)
estimates = some(
    _iteration_s=numbers | st.floats(1e18, 1e300),
    iteration_j=st.none() | numbers,
    epoch_s=numbers,
    first_epoch_s=numbers,
    first_epoch_bytes=numbers,
    epochs=numbers,
    total_s=numbers,
    total_j=numbers,
    currency=st.just("EUR"),
    iteration_cost=st.none() | numbers,
    total_carbon_g=numbers,
    energy_source=st.text(max_size=5),
    nodes=st.dictionaries(names, parts, max_size=2),
    timeline=st.lists(operations, max_size=3),
)


@st.composite
def phases(draw: st.DrawFn) -> dict[str, Any]:
    """A few chains over the same layers; the first may have a second branch."""
    cuts = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))  # layers of each instance of a chain
    instances, sources = [], []
    for chain in range(draw(st.integers(1, 3))):
        first = 1
        for k, size in enumerate(cuts):
            into = None if k == len(cuts) - 1 else f"i{chain}.{k + 1}"
            head = {"id": f"i{chain}.{k}", "layers": [first, first + size - 1], "into": into}
            instances.append(
                head
                | draw(
                    some(
                        _node=names, cpu_share=shares, codec=st.sampled_from(["none", "int8"]), recompute=st.booleans()
                    )
                )
            )
            first += size
        more = some(
            _node=names,
            _samples=st.integers(1, 9),
            epoch_samples=st.none() | counts,
            delivery=st.sampled_from(["each", "once"]),
        )
        sources += [draw(more) | {"into": f"i{chain}.0"} for _ in range(draw(st.integers(1, 2)))]
    options = some(
        _sync=st.sampled_from(["epoch", "async"]),
        pruning=st.floats(0, 1, exclude_max=True),
        compress=st.sampled_from(["prune", "distill"]),
        epochs=st.none() | counts,
        server=names,
        local_epochs=counts,
        input_as=st.sampled_from(["stored", "tensor"]),
        ahead=st.booleans(),
        ahead_iterations=st.integers(1, 64),
        noted_by_a_newer_version=plain,
    )
    found = draw(options) | {"sources": sources, "instances": draw(st.permutations(instances))}
    if draw(st.booleans()):
        outer = st.fixed_dictionaries({"lr": st.floats(0.1, 2.0), "nesterov": st.booleans()})
        found |= {"sync": "epoch", "outer": draw(st.none() | outer)}
    return found


plans = some(
    _format=st.just("palmette.plan/1"),
    _model=names,
    _batch=counts,
    _phases=st.lists(phases(), min_size=1, max_size=2),
    strategy=names,
    decision=st.dictionaries(st.text(max_size=5), plain, max_size=3),
    estimate=st.none() | estimates,
    plan_s=numbers,
    inputs=st.none() | some(cluster=st.none() | clusters(), profile=st.none() | profiles()),
)
