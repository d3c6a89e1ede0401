"""The picture of the live view in README.md: ``sudo python -m scripts.live_view_picture [RECORDING]``.

It runs ``mrc demo --web`` with its page open in Chromium without a screen, and takes the picture while the T0-T1 link
is down in MRC's run, when the page says what the same cut has cost both transports. Of a recording that the demo has
kept (results/demo/latest/live-view.html) it takes the picture of that time, without root. The picture has few colours,
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
_SIZE = (1360, 1180)
_COLORS = 96
_LONGEST_S = 300.0
_SEEN_S = 1.5  # after that, for curves and link to be drawn
_READY = """
const down = document.querySelector('.link.down[data-name^="t0-"]');
if (!down || !document.querySelector('#training .result')) return false;
down.dispatchEvent(new MouseEvent('click', {bubbles: true}));
return true;
"""
_MOVE = """
const time = document.querySelector('#time');
time.value = arguments[0];
time.dispatchEvent(new Event('input'));
"""
_STEP_MS = 250


def main(recording: str = "") -> int:
    """Take the picture; returns the exit status."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            print(f"{program} is missing: apt-get install chromium chromium-driver", file=sys.stderr)
            return 3
    with tempfile.TemporaryDirectory() as folder:
        png = _of_recording(Path(recording), folder) if recording else _of_demo(folder)
    if not png:
        print("The demo has not come up.", file=sys.stderr)
        return 3
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


def _of_demo(folder: str) -> bytes:
    """Run a demo, and take the picture of its page; empty if it does not come up."""
    command = children.python("mrc_lab", "demo", "lab", "--web", "--results", folder)
    with children.popen(command, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        try:
            address = next((line.strip() for line in demo.stdout if line.startswith("http")), "")
            if not address:
                return b""
            with _chromium(folder) as driver:
                driver.get(address)
                deadline = time.monotonic() + _LONGEST_S
                while not driver.execute_script(_READY):
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"no link went down during MRC's run within {_LONGEST_S:g} s")
                    time.sleep(0.1)
                time.sleep(_SEEN_S)
                return small(driver.get_screenshot_as_png())
        finally:
            demo.terminate()
            demo.stdout.read()


def _of_recording(recording: Path, folder: str) -> bytes:
    """The picture of the same time in a recording of the demo; ValueError if it has no such time."""
    with _chromium(folder) as driver:
        driver.get(recording.resolve().as_uri())
        end = int(float(driver.execute_script("return document.querySelector('#time').max")))
        for at in range(0, end, _STEP_MS):
            driver.execute_script(_MOVE, at)
            if driver.execute_script(_READY):
                driver.execute_script(_MOVE, at + 1000 * _SEEN_S)
                time.sleep(_SEEN_S)
                return small(driver.get_screenshot_as_png())
    raise ValueError(f"{recording}: no link goes down during MRC's run")


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
    sys.exit(main(*sys.argv[1:]))
