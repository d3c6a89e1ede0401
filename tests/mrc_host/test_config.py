"""Settings of the transport: ranges."""

from dataclasses import fields

import pytest

from mrc_host.config import _RANGES, TransportSettings
from mrc_host.errors import InvalidArgumentError


def test_every_integer_setting_has_a_range_containing_its_default() -> None:
    numbers = {f.name for f in fields(TransportSettings) if type(f.default) is int}
    assert numbers == set(_RANGES)
    TransportSettings()


@pytest.mark.parametrize("name", sorted(_RANGES))
def test_values_out_of_range_are_refused(name: str) -> None:
    least, most = _RANGES[name]
    for good in (least, most):
        assert getattr(TransportSettings(**{name: good}), name) == good  # type: ignore[arg-type]
    for bad in (least - 1, most + 1):
        with pytest.raises(InvalidArgumentError, match=rf"^Transport setting {name} must be between .* not {bad}\.$"):
            TransportSettings(**{name: bad})  # type: ignore[arg-type]
