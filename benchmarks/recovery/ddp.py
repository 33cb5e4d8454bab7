"""What ``torchrun`` runs: LeNet-5 with DistributedDataParallel over gloo, and a checkpoint at every tenth step."""

from __future__ import annotations

import datetime as dt
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

_PATIENCE = dt.timedelta(seconds=30)


def _fresh_store() -> dist.Store:
    """The agent's store, without what the ranks before a restart have left there: their addresses, where nobody is."""
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    shared = dist.TCPStore(host, port, is_master=False, timeout=_PATIENCE)
    return dist.PrefixStore(os.environ["TORCHELASTIC_RESTART_COUNT"], shared)


def main(folder: Path, steps: int) -> None:
    """Train; rank 0 writes the time of every step, every rank its process."""
    torch.set_num_threads(1)
    rank, ranks = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
    dist.init_process_group("gloo", store=_fresh_store(), rank=rank, world_size=ranks, timeout=_PATIENCE)
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
