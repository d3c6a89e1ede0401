import numpy as np
import pytest

from mrc_lab.workloads.training.model import Mlp


def test_gradient_agrees_with_finite_differences():
    numbers = np.random.default_rng(3)
    model = Mlp((5, 7, 6, 4))
    parameters = model.initial(1) + 0.1 * numbers.standard_normal(model.parameters)
    inputs, labels = numbers.standard_normal((9, 5)), numbers.integers(0, 4, 9)
    gradient = np.empty(model.parameters)
    model.gradient(parameters, inputs, labels, gradient)
    for index in range(model.parameters):
        moved = np.zeros(model.parameters)
        moved[index] = 1e-6
        up = model.evaluate(parameters + moved, inputs, labels).loss
        down = model.evaluate(parameters - moved, inputs, labels).loss
        assert gradient[index] == pytest.approx((up - down) / 2e-6, rel=1e-4, abs=1e-6)


def test_gradients_and_scores_sum_over_parts_of_a_batch():
    numbers = np.random.default_rng(4)
    model = Mlp((5, 6, 3))
    parameters = model.initial(2)
    inputs, labels = numbers.standard_normal((8, 5)), numbers.integers(0, 3, 8)
    whole, first, second = (np.empty(model.parameters) for _ in range(3))
    score = model.gradient(parameters, inputs, labels, whole)
    a = model.gradient(parameters, inputs[:3], labels[:3], first)
    b = model.gradient(parameters, inputs[3:], labels[3:], second)
    np.testing.assert_allclose(whole, first + second, atol=1e-12)
    assert score.loss == pytest.approx(a.loss + b.loss)
    assert score.correct == a.correct + b.correct


def test_an_empty_part_contributes_nothing():
    model = Mlp((5, 6, 3))
    gradient = np.ones(model.parameters)
    score = model.gradient(model.initial(1), np.empty((0, 5)), np.empty(0, dtype=np.int64), gradient)
    assert (score.loss, score.correct) == (0.0, 0)
    assert not gradient.any()


def test_large_logits_do_not_overflow():
    model = Mlp((2, 2))
    parameters = np.array([1e4, -1e4, 1e4, -1e4, 0, 0])
    with np.errstate(all="raise", under="ignore"):
        score = model.evaluate(parameters, np.ones((1, 2)), np.array([0]))
    assert score.loss == pytest.approx(0.0)


def test_initial_weights_depend_on_the_seed():
    model = Mlp((5, 6, 3))
    np.testing.assert_array_equal(model.initial(1), model.initial(1))
    assert (model.initial(1) != model.initial(2)).any()


@pytest.mark.parametrize("sizes", [(), (4,), (4, 0, 2)])
def test_impossible_networks_are_refused(sizes):
    with pytest.raises(ValueError, match="at least an input and an output"):
        Mlp(sizes)
