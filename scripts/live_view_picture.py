"""The picture of the live view in README.md: ``sudo python -m scripts.live_view_picture``.

It runs ``mrc demo --web`` with its page open in Chromium without a screen, and takes the picture while the T0-T1 link
is down in MRC's run, as soon as the page says what the same cut has cost both transports. The picture has few colours,
so that the file is small. Needs selenium, and Debian's packages chromium and chromium-driver.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from mrc_common import children

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "live-view.png"
LARGEST = 200_000  # bytes
_SIZE = (1360, 1035)
_COLORS = 96
_LONGEST_S = 300.0
_SEEN_S = 1.0  # after that, for curves and link to be drawn
_READY = """
const down = document.querySelector('.link.down[data-name^="t0-"]');
if (!down || !document.querySelector('#training .result')) return false;
down.dispatchEvent(new MouseEvent('click', {bubbles: true}));
return true;
"""


def main() -> int:
    """Take the picture; returns the exit status."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            print(f"{program} is missing: apt-get install chromium chromium-driver", file=sys.stderr)
            return 3
    with tempfile.TemporaryDirectory() as folder:
        command = children.python("mrc_lab", "demo", "lab", "--web", "--results", folder)
        with children.popen(command, stdout=subprocess.PIPE, text=True) as demo:
            assert demo.stdout is not None
            try:
                address = next((line.strip() for line in demo.stdout if line.startswith("http")), "")
                if not address:
                    print("The demo has not come up.", file=sys.stderr)
                    return 3
                png = _picture(address, folder)
            finally:
                demo.terminate()
                demo.stdout.read()
    PICTURE.write_bytes(png)
    print(f"{PICTURE}: {len(png)} bytes")
    return 0 if len(png) <= LARGEST else 1


def small(png: bytes) -> bytes:
    """A picture with few colours."""
    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(_COLORS, dither=Image.Dither.NONE).save(
        out, "PNG", optimize=True
    )
    return out.getvalue()


def _picture(address: str, folder: str) -> bytes:
    with _chromium(folder) as driver:
        driver.get(address)
        deadline = time.monotonic() + _LONGEST_S
        while not driver.execute_script(_READY):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no link went down during MRC's run within {_LONGEST_S:g} s")
            time.sleep(0.1)
        time.sleep(_SEEN_S)
        png: bytes = driver.get_screenshot_as_png()
        return small(png)


@contextmanager
def _chromium(folder: str) -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/chromium"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        size = {"width": _SIZE[0], "height": _SIZE[1], "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        yield driver
    finally:
        driver.quit()


if __name__ == "__main__":
    sys.exit(main())
