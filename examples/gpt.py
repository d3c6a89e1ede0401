"""Train a small GPT on this project's own pages with DistributedDataParallel, one rank in each emulated host.

    sudo mrc up --name lab
    sudo mrc train --fabric lab examples/gpt.py --steps 20
    sudo mrc train --fabric lab examples/gpt.py --steps 20 --backend gloo    # the same over TCP, to compare

It is an ordinary PyTorch script: the only word of ours in it is the backend's name. Every rank prints a digest of its
weights, which are the same on all ranks, and the same as gloo's but for the order in which gradients are added.
"""

from __future__ import annotations

import argparse
import time
from datetime import timedelta
from pathlib import Path

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--backend", default="mrc")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group(options.backend, timeout=timedelta(minutes=5))
    rank = dist.get_rank()

    alphabet = sorted(set(TEXT))
    numbers = {character: number for number, character in enumerate(alphabet)}
    tokens = torch.tensor([numbers[character] for character in TEXT])
    model = DistributedDataParallel(Gpt(len(alphabet)), bucket_cap_mb=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    choose = torch.Generator().manual_seed(100 + rank)  # every rank reads other parts of the text

    began = time.monotonic()
    for step in range(options.steps):
        starts = torch.randint(len(tokens) - CONTEXT - 1, (BATCH,), generator=choose)
        window = torch.stack([tokens[start : start + CONTEXT + 1] for start in starts])
        loss = functional.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"step {step + 1} loss {loss.item():.4f}", flush=True)
    took = (time.monotonic() - began) / max(1, options.steps)

    weights = torch.cat([value.detach().flatten() for value in model.parameters()]).double()
    digest = (weights * torch.linspace(-1, 1, len(weights), dtype=torch.float64)).sum().item()
    print(f"rank {rank}: {len(weights)} weights, digest {digest:.6f}, {took:.3f} s a step", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
