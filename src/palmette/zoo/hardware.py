"""The hardware catalogue: predicts layer times on machines that are not at hand to be measured.

A time is predicted by a roofline: a call lasts as long as the slower of computing and moving data, plus a
fixed part. Rates are *sustained* ones, what training really reaches, never the peak of a data sheet.

Sources, by the names used below:

    datasheet     the vendor's data sheet of that product
    pidramble     power of Raspberry Pi boards under four-core load, Raspberry Pi Dramble project
    sci-pi        STREAM on a Raspberry Pi 4, sci-pi.org.uk
    ncnn          benchmark table of the ncnn inference library (float32, four threads)
    flower        training of vision models on Raspberry Pi 4 and 5, Flower blog, December 2023
    lambda        ResNet-50 training in float32, Lambda's RTX 2080 Ti comparison
    nvidia-dle    ResNet-50 training in TF32 on one A100, NVIDIA DeepLearningExamples
    nvidia-tx1    NVIDIA's inference white paper for Jetson TX1 (AlexNet, batch of 128)
    py-videocore6 its own sgemm and summation examples on a Raspberry Pi 4
    hiertrain     "HierTrain", section VI-B: the machines of its testbed
    derived       no measurement was published: worked out as the comment says

ResNet-50 counts as 24.6 GFLOP per image (forward 8.2, backward twice that), ResNet-18 as 3.6 forward.
"""

from __future__ import annotations

from dataclasses import dataclass

from palmette.errors import Fault, InputError, expected_name

GIB = 2**30

# Share of its float32 peak that one x86 core reaches in torch training 3x3 convolutions of 64 to 256
# channels: 68-78 of 179 GFLOP/s measured on a 2.8 GHz server core with AVX-512.
CPU_SHARE = 0.40
# The same for a CUDA card without tensor cores: lambda's 209 images/s on a GTX 1080 Ti of 11.3 TFLOP/s.
CUDA_SHARE = 0.45
# STREAM against the memory's nominal rate, usual for both DDR4 and GDDR5 (derived).
STREAM_SHARE = 0.80

# Gradient with respect to the weights and to the input: two products of the forward one's size.
BACKWARD_PER_FORWARD = 2
# Plain SGD reads the weight and its gradient and writes the weight.
UPDATE_PASSES = 3


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """A machine as training sees it; memory and bandwidth are the GPU's where it trains on one."""

    name: str
    training_flops_per_s: float
    memory_bandwidth_bytes_per_s: float
    memory_bytes: int
    idle_w: float
    busy_w: float
    call_s: float
    """Fixed seconds of one layer call: dispatch and kernel launch. All derived: 27 µs, measured for a tiny
    convolution in torch on a 2.8 GHz server core, stretched by the host's slower single thread."""


def forward_s(hardware: Hardware, flops: float, bytes_moved: float) -> float:
    """Seconds per sample for the forward pass of a layer.

    ``flops`` counts a multiply-add as two; ``bytes_moved`` is input read plus output written, per sample.
    """
    return max(flops / hardware.training_flops_per_s, bytes_moved / hardware.memory_bandwidth_bytes_per_s)


def backward_s(hardware: Hardware, flops: float, bytes_moved: float) -> float:
    """Seconds per sample for the backward pass; both arguments are those of the forward pass."""
    return BACKWARD_PER_FORWARD * forward_s(hardware, flops, bytes_moved)


def forward_call_s(hardware: Hardware, parameter_bytes: float) -> float:
    """Seconds of one forward call, independent of its samples: launching it and reading the weights once."""
    return hardware.call_s + parameter_bytes / hardware.memory_bandwidth_bytes_per_s


def backward_call_s(hardware: Hardware, parameter_bytes: float) -> float:
    """Seconds of one backward call, independent of its samples: weights read, their gradients written."""
    return BACKWARD_PER_FORWARD * forward_call_s(hardware, parameter_bytes)


def update_s(hardware: Hardware, parameter_bytes: float) -> float:
    """Seconds of one weight update; 0 for a layer without weights."""
    if not parameter_bytes:
        return 0.0
    return hardware.call_s + UPDATE_PASSES * parameter_bytes / hardware.memory_bandwidth_bytes_per_s


def hardware(name: str) -> Hardware:
    """The catalogue's entry of that name.

    Raises:
        InputError: there is no such entry; names the nearest one.
    """
    if name not in _CATALOGUE:
        raise InputError(Fault("hardware", name, expected_name(name, "hardware", names())))
    return _CATALOGUE[name]


def names() -> list[str]:
    """The names in the catalogue, in its order: small machines first."""
    return list(_CATALOGUE)


def _nuc(threads: int, flops_per_s: float, bandwidth_bytes_per_s: float, busy_w: float) -> Hardware:
    """HierTrain's edge server with as many threads as its Fig. 11 gives it; the idle machine is the same."""
    return Hardware(
        name=f"nuc-i3-7100u-{threads}",
        training_flops_per_s=flops_per_s,
        memory_bandwidth_bytes_per_s=bandwidth_bytes_per_s,
        memory_bytes=8 * GIB,  # hiertrain
        idle_w=7.0,  # derived: usual for a NUC of the 15 W class at the wall
        busy_w=busy_w,
        call_s=45e-6,
    )


# One i3-7100U core: 2.4 GHz (it has no turbo) x 32 float32 FLOP a cycle with AVX2 and FMA, datasheet.
_NUC_CORE = CPU_SHARE * 2.4e9 * 32
# Two channels of DDR4-2133, datasheet.
_NUC_BANDWIDTH = STREAM_SHARE * 34.1e9

_BOARDS = [
    Hardware(
        name="raspberry-pi-3",
        # ncnn: ResNet-18 in 417 ms on the 3B+ at 1.4 GHz, 8.6 GFLOP/s, scaled to the 3B's 1.2 GHz.
        training_flops_per_s=7.4e9,
        memory_bandwidth_bytes_per_s=2.2e9,  # derived: LPDDR2-900 on 32 bits, 3.6 GB/s, of which 60%
        memory_bytes=1 * GIB,  # hiertrain
        idle_w=1.4,  # pidramble, 3B
        busy_w=3.7,  # pidramble, 3B
        call_s=300e-6,
    ),
    Hardware(
        name="raspberry-pi-4",
        # ncnn: ResNet-18 in 234 ms; flower's training rates come to 20 GFLOP/s for transformers.
        training_flops_per_s=15.4e9,
        memory_bandwidth_bytes_per_s=5.5e9,  # sci-pi, copy
        memory_bytes=4 * GIB,  # datasheet, the middle model
        idle_w=2.7,  # pidramble
        busy_w=6.4,  # pidramble
        call_s=140e-6,
    ),
    Hardware(
        name="videocore-vi",  # the GPU of a Raspberry Pi 4
        training_flops_per_s=3.9e9,  # py-videocore6, sgemm of 1024 (12% of its peak)
        memory_bandwidth_bytes_per_s=7.2e9,  # py-videocore6, summation
        memory_bytes=4 * GIB,  # shared with the CPU
        idle_w=2.7,  # pidramble, the whole board
        busy_w=4.0,  # derived: idle and a third of what four busy cores add
        call_s=300e-6,  # the board's dispatch and a job handed to the kernel driver
    ),
    Hardware(
        name="galaxy-s25",  # a current phone: Snapdragon 8 Elite, training on its CPU
        # derived: 2 cores at 4.47 GHz and 6 at 3.53 GHz, 32 FLOP a cycle, 964 GFLOP/s; CPU_SHARE of it for
        # the third of the time that a case able to shed 6 W leaves to cores that draw 18 W.
        training_flops_per_s=CPU_SHARE * 964e9 / 3,
        memory_bandwidth_bytes_per_s=46e9,  # derived: LPDDR5X, 76.8 GB/s, of which the CPU gets 60%
        memory_bytes=12 * GIB,  # datasheet
        idle_w=0.8,  # derived: awake, screen off
        busy_w=6.0,  # derived: what the case sheds without getting too hot to hold
        call_s=20e-6,
    ),
    Hardware(
        name="jetson-tx1",
        # derived: datasheet 256 cores x 2 x 998 MHz, 511 GFLOP/s, at the 36% of peak that nvidia-tx1's
        # 258 images/s in float16 are.
        training_flops_per_s=0.36 * 511e9,
        memory_bandwidth_bytes_per_s=STREAM_SHARE * 25.6e9,  # datasheet
        memory_bytes=4 * GIB,  # datasheet
        idle_w=2.5,  # derived: the module without display
        busy_w=10.0,  # datasheet, the module's budget
        call_s=150e-6,
    ),
    Hardware(
        name="jetson-tx2",
        training_flops_per_s=0.36 * 665e9,  # as the TX1: 256 cores x 2 x 1.30 GHz
        memory_bandwidth_bytes_per_s=STREAM_SHARE * 59.7e9,  # datasheet
        memory_bytes=8 * GIB,  # datasheet
        idle_w=2.5,  # derived, as the TX1
        busy_w=15.0,  # datasheet, the budget of the fastest mode
        call_s=100e-6,
    ),
]

# The chip has two cores of two threads, and Linux numbers the cores first: the second CPU doubles the rate,
# the third and fourth share busy multiply-add units and add little (5% each, derived), which is how Fig. 11
# of HierTrain falls off. One core cannot fill the memory's channels (derived: 15 GB/s). Busy watts are
# derived: idle and the 15 W of the data sheet, half of them for one core.
_NUCS = [
    _nuc(1, _NUC_CORE, 15e9, 14.5),
    _nuc(2, 2.0 * _NUC_CORE, _NUC_BANDWIDTH, 22.0),
    _nuc(3, 2.1 * _NUC_CORE, _NUC_BANDWIDTH, 22.0),
    _nuc(4, 2.2 * _NUC_CORE, _NUC_BANDWIDTH, 22.0),
]

_GPUS = [
    Hardware(
        name="i7-2600-gtx-1050",
        training_flops_per_s=CUDA_SHARE * 1.86e12,  # datasheet: 640 cores x 2 x 1.455 GHz
        memory_bandwidth_bytes_per_s=STREAM_SHARE * 112e9,  # datasheet
        memory_bytes=2 * GIB,  # datasheet
        idle_w=45.0,  # derived: usual for a desktop of 2011 with a small card
        busy_w=140.0,  # derived: idle, the card's 75 W and one of four 95 W cores that feeds it
        call_s=38e-6,
    ),
    Hardware(
        name="xeon-gtx-1080-ti",
        training_flops_per_s=5.1e12,  # lambda: 209 images/s
        memory_bandwidth_bytes_per_s=STREAM_SHARE * 484e9,  # datasheet
        memory_bytes=11 * GIB,  # datasheet; hiertrain's host has 30 GB besides
        idle_w=90.0,  # derived: usual for a Xeon tower with such a card
        busy_w=350.0,  # derived: idle, the card's 250 W and a core that feeds it
        call_s=27e-6,
    ),
    Hardware(
        name="rtx-a4000",  # the card alone, as PACT counts its silver nodes
        # derived: the A100's rate by the ratio of dense TF32 peaks, 38.3 to 156 TFLOP/s.
        training_flops_per_s=23.1e12 * 38.3 / 156,
        memory_bandwidth_bytes_per_s=STREAM_SHARE * 448e9,  # datasheet
        memory_bytes=16 * GIB,  # datasheet
        idle_w=12.0,  # derived: usual for the card
        busy_w=140.0,  # datasheet
        call_s=27e-6,
    ),
    Hardware(
        name="a100",  # SXM, 80 GB, the card alone, as PACT counts its gold nodes
        training_flops_per_s=23.1e12,  # nvidia-dle: 938 images/s
        memory_bandwidth_bytes_per_s=STREAM_SHARE * 2039e9,  # datasheet
        memory_bytes=80 * GIB,  # datasheet
        idle_w=55.0,  # derived: usual for the card
        busy_w=400.0,  # datasheet
        call_s=27e-6,
    ),
]

_CATALOGUE = {entry.name: entry for entry in [*_BOARDS, *_NUCS, *_GPUS]}
