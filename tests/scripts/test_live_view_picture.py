"""The picture of the live view: in the pages, small, and made small."""

from __future__ import annotations

import io

from PIL import Image

from scripts.live_view_picture import LARGEST, PICTURE, small


def test_picture_in_the_pages_is_small_and_can_be_read() -> None:
    assert PICTURE.stat().st_size <= LARGEST
    assert Image.open(PICTURE).width > 1000


def test_picture_is_made_small_without_another_size() -> None:
    out = io.BytesIO()
    Image.effect_noise((300, 200), 80).convert("RGB").save(out, "PNG")
    made = small(out.getvalue())
    assert len(made) < len(out.getvalue())
    assert Image.open(io.BytesIO(made)).size == (300, 200)
