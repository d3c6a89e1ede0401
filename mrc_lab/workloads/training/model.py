"""A multilayer perceptron in plain numpy, its parameters one flat float64 vector.

Hidden layers are tanh, the last is softmax with cross-entropy. Keeping all weights and biases in one vector makes the
gradient one vector too, which is what an all-reduce wants.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Score:
    """Sum of the losses and number of right answers over some samples."""

    loss: float
    correct: int


class Mlp:
    """A network with layers of `sizes` units, inputs first, classes last."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        if len(sizes) < 2 or min(sizes) < 1:
            raise ValueError("a network needs at least an input and an output layer, each of one unit or more")
        self.sizes = sizes
        self._shapes = list(itertools.pairwise(sizes))
        self.parameters = sum(rows * columns + columns for rows, columns in self._shapes)

    def initial(self, seed: int) -> Vector:
        """Starting weights (scaled normal) and zero biases."""
        numbers = np.random.default_rng([seed, 0x5EED])
        parameters = np.zeros(self.parameters)
        for (rows, _), (weights, _bias) in zip(self._shapes, self._layers(parameters), strict=True):
            weights[:] = numbers.standard_normal(weights.shape) / np.sqrt(rows)
        return parameters

    def gradient(self, parameters: Vector, inputs: Vector, labels: NDArray[np.int64], out: Vector) -> Score:
        """Write the gradient of the summed loss over the samples to `out`."""
        layers = self._layers(parameters)
        activations = self._forward(layers, inputs)
        score, delta = _softmax_loss(activations[-1], labels)
        gradients = self._layers(out)
        for index in range(len(layers) - 1, -1, -1):
            weights_out, bias_out = gradients[index]
            np.matmul(activations[index].T, delta, out=weights_out)
            np.sum(delta, axis=0, out=bias_out)
            if index:
                delta = (delta @ layers[index][0].T) * (1.0 - activations[index] ** 2)
        return score

    def evaluate(self, parameters: Vector, inputs: Vector, labels: NDArray[np.int64]) -> Score:
        """Loss and right answers over the samples."""
        score, _ = _softmax_loss(self._forward(self._layers(parameters), inputs)[-1], labels)
        return score

    def _layers(self, flat: Vector) -> list[tuple[Vector, Vector]]:
        """Weights and bias of each layer as views of the flat vector."""
        layers = []
        at = 0
        for rows, columns in self._shapes:
            weights = flat[at : at + rows * columns].reshape(rows, columns)
            at += rows * columns
            layers.append((weights, flat[at : at + columns]))
            at += columns
        return layers

    @staticmethod
    def _forward(layers: list[tuple[Vector, Vector]], inputs: Vector) -> list[Vector]:
        """Inputs, the output of each hidden layer, and the last layer's logits."""
        values = [inputs]
        for index, (weights, bias) in enumerate(layers):
            linear = values[-1] @ weights + bias
            values.append(linear if index == len(layers) - 1 else np.tanh(linear))
        return values


def _softmax_loss(logits: Vector, labels: NDArray[np.int64]) -> tuple[Score, Vector]:
    """Score, and the derivative of the summed loss by the logits."""
    rows = np.arange(len(labels))
    shifted = logits - logits.max(axis=1, keepdims=True, initial=-np.inf)
    exponentials = np.exp(shifted)
    sums = exponentials.sum(axis=1, keepdims=True)
    loss = float(np.sum(np.log(sums[:, 0]) - shifted[rows, labels]))
    correct = int(np.count_nonzero(logits.argmax(axis=1) == labels)) if len(labels) else 0
    delta = exponentials / sums
    delta[rows, labels] -= 1.0
    return Score(loss, correct), delta
