import hashlib

import numpy as np
import pytest

from mrc_lab.workloads.training.data import Dataset, batch_indices, digits, shard


def test_digits_are_scaled_and_split():
    data = digits()
    assert len(data.labels) + len(data.test_labels) == 1797
    assert data.images.shape == (len(data.labels), 64)
    assert data.images.min() == 0.0
    assert data.images.max() == 1.0
    assert set(data.labels) == set(data.test_labels) == set(range(10))


def test_digits_match_the_published_data_set():
    """Digests of what scikit-learn loads, scaled and split; labels as UCI counts them (optdigits.names)."""
    data = digits()
    every = np.concatenate([data.labels, data.test_labels])
    assert np.bincount(every).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    digests = [hashlib.sha256(part.tobytes()).hexdigest()[:16] for part in (data.images, data.labels)]
    assert digests == ["c26b25e500e8e652", "c31c6c9a4b0b3e6a"]


def test_a_data_set_survives_saving_and_loading(tmp_path):
    data = digits()
    data.save(tmp_path / "data.npz")
    again = Dataset.load(tmp_path / "data.npz")
    for name in ("images", "labels", "test_images", "test_labels"):
        np.testing.assert_array_equal(getattr(data, name), getattr(again, name))


def test_an_epoch_visits_each_sample_at_most_once_and_epochs_differ():
    first = np.concatenate([batch_indices(100, 16, 7, step) for step in range(6)])
    assert len(set(first)) == 96
    second = np.concatenate([batch_indices(100, 16, 7, step) for step in range(6, 12)])
    assert len(set(second)) == 96
    assert (first != second).any()
    np.testing.assert_array_equal(first[:16], batch_indices(100, 16, 7, 0))
    assert (first != np.concatenate([batch_indices(100, 16, 8, step) for step in range(6)])).any()


def test_shards_divide_a_batch_in_order():
    batch = batch_indices(100, 30, 1, 0)
    np.testing.assert_array_equal(np.concatenate([shard(batch, r, 4) for r in range(4)]), batch)
    assert {len(shard(batch, r, 4)) for r in range(4)} == {7, 8}


def test_a_batch_larger_than_the_set_is_refused():
    with pytest.raises(ValueError, match="at least as many samples"):
        batch_indices(10, 11, 1, 0)
