"""Train a small GPT on this project's own pages with DistributedDataParallel, one rank in each emulated host.

    sudo mrc up --name lab
    sudo mrc train --fabric lab examples/gpt.py --steps 20
    sudo mrc train --fabric lab examples/gpt.py --steps 20 --backend gloo    # the same over TCP, to compare

It is an ordinary PyTorch script: the only word of ours in it is the backend's name. Every rank prints a digest of its
weights, which are the same on all ranks, and the same as gloo's but for the order in which gradients are added. With
``--weights FOLDER`` every rank leaves them there as numbers.

With ``--checkpoint FILE`` rank 0 saves the training every few steps, and a run that finds the file goes on from there,
be it with other ranks: under an elastic torchrun a job outlives its hosts (docs/pytorch.md).
"""

from __future__ import annotations

import argparse
import os
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 32, 64, 4, 2, 8
TEXT = "\n".join(page.read_text() for page in sorted(Path(__file__).parents[1].joinpath("docs").glob("*.md")))


class Block(nn.Module):  # type: ignore[misc]
    """Attention to what came before, then a perceptron, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.perceptron = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])

    def forward(self, x: Tensor) -> Tensor:
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        normed = self.norms[0](x)
        x = x + self.attention(normed, normed, normed, attn_mask=later, need_weights=False)[0]
        return x + self.perceptron(self.norms[1](x))


class Gpt(nn.Module):  # type: ignore[misc]
    """From the last characters to the next one's probabilities (logits)."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, characters)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.blocks(self.token(tokens) + self.place(torch.arange(tokens.shape[1]))))


class Training:
    """A model of the text, and how far its training is; `distribute` puts it on all ranks."""

    def __init__(self, checkpoint: Path | None) -> None:
        alphabet = sorted(set(TEXT))
        numbers = {character: number for number, character in enumerate(alphabet)}
        self.tokens = torch.tensor([numbers[character] for character in TEXT])
        self.model: nn.Module = Gpt(len(alphabet))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        self.step = 0
        self.checkpoint = checkpoint
        if checkpoint is not None and checkpoint.exists():
            saved = torch.load(checkpoint)
            self.model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.step = saved["step"]

    def distribute(self) -> None:
        """Average gradients over the ranks of the default group, as it is now."""
        self.release()
        self.model = DistributedDataParallel(self.model, bucket_cap_mb=1)

    def release(self) -> None:
        """Undo :meth:`distribute`, as when the group is to be another."""
        if isinstance(self.model, DistributedDataParallel):
            self.model = self.model.module

    def save(self) -> None:
        """Leave a checkpoint: the one before it stays until this one is complete."""
        assert self.checkpoint is not None
        state = {"model": self.model.module.state_dict(), "optimizer": self.optimizer.state_dict(), "step": self.step}
        half = self.checkpoint.with_suffix(".part")
        torch.save(state, half)
        os.replace(half, self.checkpoint)

    def loss(self, choose: torch.Generator) -> Tensor:
        """That of a batch that `choose` takes from the text."""
        starts = torch.randint(len(self.tokens) - CONTEXT - 1, (BATCH,), generator=choose)
        window = torch.stack([self.tokens[start : start + CONTEXT + 1] for start in starts])
        return functional.cross_entropy(self.model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())

    def take_step(self, choose: torch.Generator) -> float:
        """One step on a batch that `choose` takes from the text; returns this rank's loss."""
        loss = self.loss(choose)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.step += 1
        return float(loss.item())

    def weights(self) -> Tensor:
        """All of them in one row."""
        return torch.cat([value.detach().flatten() for value in self.model.parameters()]).double()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--backend", default="mrc")
    parser.add_argument("--timeout", type=float, default=300, help="seconds an operation may take")
    parser.add_argument("--float64", action="store_true", help="to compare weights to the last digits")
    parser.add_argument("--weights", type=Path, metavar="FOLDER")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE")
    parser.add_argument("--every", type=int, default=5, metavar="STEPS", help="between checkpoints")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if options.float64:
        torch.set_default_dtype(torch.float64)
    dist.init_process_group(options.backend, timeout=timedelta(seconds=options.timeout))
    rank = dist.get_rank()
    training = Training(options.checkpoint)
    training.distribute()
    if rank == 0 and training.step:
        print(f"{dist.get_world_size()} ranks go on from step {training.step}", flush=True)
    # Every rank reads other parts of the text, and after a restart others than before it.
    choose = torch.Generator().manual_seed(100 + rank + 1000 * training.step)

    first, began = training.step, time.monotonic()
    while training.step < options.steps:
        at = time.monotonic()
        loss = training.take_step(choose)
        if rank == 0:
            print(f"step {training.step} loss {loss:.4f} in {time.monotonic() - at:.3f} s", flush=True)
            if options.checkpoint and training.step % options.every == 0:
                training.save()
    took = (time.monotonic() - began) / max(1, training.step - first)

    weights = training.weights()
    digest = (weights * torch.linspace(-1, 1, len(weights), dtype=torch.float64)).sum().item()
    print(f"rank {rank}: {len(weights)} weights, digest {digest:.6f}, {took:.3f} s a step", flush=True)
    if options.weights:
        np.save(options.weights / f"weights-{rank}.npy", weights.numpy())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
