"""How racks reach one another in a plane: the sum, over all paths between two of them, of the products of their links.

Each direction of an uplink has a weight: with 1 for links that are in use and 0 for others the sums are numbers of
paths; `sharing` has weights by which load is spread. A path within a pod is the product of two, one of each rack. A
path between pods goes through one T1 of the same number in each, so that its T2s count beforehand, all of them: as one
weight for two pods and a T1.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mrc_lab.scale.network import Integers

_Float = TypeVar("_Float", np.float64, np.float32)


def over_t2s(up: NDArray[_Float], down: NDArray[_Float], pods: int) -> NDArray[_Float]:
    """Weights of what lies between T1s, by the two pods and the T1: 1 in one pod, else the sum over all T2s above.

    `up` and `down` are weights of the uplinks of T1s [..., T1, T2], of all pods; the result is [..., pod, pod, T1].
    """
    switches, group = up.shape[-2:]
    if pods == 1:
        return np.ones((*up.shape[:-2], 1, 1, switches), dtype=up.dtype)
    shape = (*up.shape[:-2], pods, switches // pods, group)
    by_t1 = np.matmul(np.moveaxis(up.reshape(shape), -2, -3), np.moveaxis(down.reshape(shape), -3, -1))
    found: NDArray[_Float] = np.moveaxis(by_t1, -3, -1).copy()
    found[..., np.arange(pods), np.arange(pods), :] = 1
    return found


def joined(up: NDArray[_Float], down: NDArray[_Float], above: NDArray[_Float], pod: Integers) -> NDArray[_Float]:
    """The sums, by the two racks [..., rack, rack].

    `up` and `down` are weights of the uplinks of T0s [..., rack, T1], `above` those of `over_t2s`, `pod` is by rack.
    """
    found = [
        np.matmul(up[..., racks, :], np.swapaxes(above[..., number, pod, :] * down, -1, -2))
        for number, racks in enumerate(pod_slices(pod))
    ]
    return found[0] if len(found) == 1 else np.concatenate(found, axis=-2)


def pod_slices(pod: Integers) -> list[slice]:
    """The racks of each pod; they fill the pods one after the other."""
    edges = np.searchsorted(pod, np.arange(int(pod[-1]) + 2))
    return [slice(first, last) for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]
