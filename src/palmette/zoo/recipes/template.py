"""A recipe file to start from, as ``palmette init --recipe`` writes it."""

TEMPLATE = '''\
"""A training for Palmette: palmette run plan.json --recipe {module}:recipe"""

import torch
from torch import nn

import palmette as pt


class Data(torch.utils.data.Dataset):
    """Your data: any map-style data set of (input, target); here random numbers and their squares."""

    def __init__(self, samples, seed):
        generator = torch.Generator().manual_seed(seed)
        self.inputs = torch.randn(samples, 8, generator=generator)
        self.targets = self.inputs[:, :2].square()

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, i):
        return self.inputs[i], self.targets[i]


def model():
    """Your network: any nn.Module; it is cut into layers that can run on different nodes."""
    return nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))


recipe = pt.Recipe(
    model=model,
    # What to train on, and what is held out; a single data set loses every tenth sample to the held-out ones.
    data=(Data(2000, seed=0), Data(200, seed=1)),
    # Where samples vary in length: collate=..., a collate_fn as PyTorch's DataLoader takes it.
    # A loss of torch, or a function of outputs and targets that returns one value per sample, or (sum, count).
    loss=nn.MSELoss(),
    # Measured on held-out data beside the loss.
    metrics={{"mae": nn.L1Loss()}},
    # How to train; options of the command line of the same names, such as --lr, are used instead.
    optimizer="adamw",
    lr=3e-3,
    schedule="cosine",
    clip_norm=1.0,
)
'''


def render_recipe(module: str) -> str:
    """The text of a recipe file that is imported as ``module``."""
    return TEMPLATE.format(module=module)
