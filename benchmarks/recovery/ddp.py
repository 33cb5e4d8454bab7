"""What ``torchrun`` runs: LeNet-5 with DistributedDataParallel over gloo, and a checkpoint at every tenth step."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from palmette.zoo.data import load_data
from palmette.zoo.models import load_network


def main(folder: Path, steps: int) -> None:
    """Train; rank 0 writes the time of every step, every rank its process."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    network = load_network("lenet5", seed=0)
    whole = nn.Sequential(*(layer.module for layer in network.layers))
    saved = folder / "checkpoint.pt"
    begin = 0
    if saved.exists():
        kept = torch.load(saved, weights_only=True)
        whole.load_state_dict(kept["model"])
        begin = kept["step"]
    model = DistributedDataParallel(whole)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    part = load_data("digits", network.input_shape).train
    (folder / f"rank{rank}").write_text(str(os.getpid()))
    for step in range(begin, steps):
        inputs, labels = part.batch(torch.arange(4) + 4 * rank)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        if rank == 0:
            with (folder / "steps").open("a") as file:
                file.write(f"{time.time()}\n")
            if step % 10 == 9:
                torch.save({"model": whole.state_dict(), "step": step + 1}, folder / "draft.pt")
                (folder / "draft.pt").replace(saved)
        time.sleep(0.02)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
