"""The data set and the order in which it is used.

1,797 handwritten digits (8 x 8 pixels, ten classes) lie in ``digits/``, with a note on their origin. A
fifth is held out to measure accuracy. Each epoch visits the training part once, in an order that follows from the seed
and the epoch alone; every process therefore knows, without communication, which samples a global batch has and which of
them are its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_HELD_OUT = 5  # one sample in so many
_DIGITS = Path(__file__).parent / "digits" / "digits.npz"


@dataclass(frozen=True, slots=True)
class Dataset:
    """Training and held-out samples; pixels scaled to 0..1, labels 0..9."""

    images: NDArray[np.float64]
    labels: NDArray[np.int64]
    test_images: NDArray[np.float64]
    test_labels: NDArray[np.int64]

    def save(self, path: Path) -> None:
        """Write everything to one .npz file."""
        np.savez(
            path,
            images=self.images,
            labels=self.labels,
            test_images=self.test_images,
            test_labels=self.test_labels,
        )

    @staticmethod
    def load(path: Path) -> Dataset:
        """Read what :meth:`save` wrote."""
        with np.load(path) as arrays:
            return Dataset(arrays["images"], arrays["labels"], arrays["test_images"], arrays["test_labels"])


def digits() -> Dataset:
    """The handwritten digits."""
    with np.load(_DIGITS) as arrays:
        images = arrays["images"].reshape(-1, 64).astype(np.float64) / 16.0
        labels = arrays["labels"].astype(np.int64)
    held_out = np.arange(len(labels)) % _HELD_OUT == 0
    return Dataset(images[~held_out], labels[~held_out], images[held_out], labels[held_out])


def batch_indices(samples: int, batch: int, seed: int, step: int) -> NDArray[np.int64]:
    """Sample numbers of global batch `step`; an epoch's incomplete last batch is left out."""
    per_epoch = samples // batch
    if per_epoch < 1:
        raise ValueError(f"a batch of {batch} needs at least as many samples, not {samples}")
    epoch, position = divmod(step, per_epoch)
    order = np.random.default_rng([seed, epoch]).permutation(samples)
    return order[position * batch : (position + 1) * batch]


def shard(indices: NDArray[np.int64], rank: int, world: int) -> NDArray[np.int64]:
    """The part of a global batch that belongs to `rank`: contiguous, sizes differing by at most one."""
    return indices[rank * len(indices) // world : (rank + 1) * len(indices) // world]
