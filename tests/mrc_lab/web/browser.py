"""Chromium, as Debian has it, without a screen. Tests that need it are skipped where it is not installed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.waiting import until


class Page:
    """An open page, with what tests do to it."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def js(self, script: str, *arguments: Any) -> Any:
        """What a script returns that is run in the page."""
        return self.driver.execute_script(script, *arguments)

    def one(self, selector: str) -> Any:
        """The element of a CSS selector, once it is there."""
        return until(lambda: next(iter(self.driver.find_elements("css selector", selector)), None), selector)

    def press(self, selector: str) -> None:
        """Click a button once it can be clicked: the page may not know yet of what makes it so."""
        until(lambda: self.one(selector).is_enabled(), f"{selector} to be enabled")
        self.one(selector).click()

    def text(self, selector: str) -> str:
        """The text of an element."""
        return str(self.js("return document.querySelector(arguments[0])?.textContent ?? ''", selector))

    def until_text(self, selector: str, wanted: Callable[[str], bool]) -> str:
        """Wait until the text of an element is as `wanted`, and return it."""
        try:
            until(lambda: wanted(self.text(selector)), selector)
        except AssertionError as error:
            raise AssertionError(f"{error}, which has {self.text(selector)!r}") from None
        return self.text(selector)

    def classes(self, selector: str) -> set[str]:
        """The classes of an element."""
        self.one(selector)
        found = self.js("return document.querySelector(arguments[0])?.getAttribute('class') ?? ''", selector)
        return set(str(found).split())

    def click_drawing(self, name: str) -> None:
        """Click a link, switch or host of the drawing."""
        selector = f'[data-name="{name}"]'
        self.one(selector)
        self.js(
            "document.querySelector(arguments[0]).dispatchEvent(new MouseEvent('click', {bubbles: true}))", selector
        )

    def problems(self) -> list[str]:
        """What the browser has complained about."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def resize(self, width: int, height: int) -> None:
        """Another size of the window's inside, as on another device."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def dark(self, on: bool) -> None:
        """Prefer dark colours, or light ones."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


@contextmanager
def chromium(address: str, width: int = 1440, height: int = 1000) -> Iterator[Page]:
    """The page at an address in a browser of its own, for as long as the body runs."""
    program, driver_program = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver_program is None:
        pytest.skip("Chromium is not installed: apt-get install chromium chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver")
    with tempfile.TemporaryDirectory(prefix="mrc-chromium-") as folder:
        options = webdriver.ChromeOptions()
        options.binary_location = program
        for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={folder}"):
            options.add_argument(argument)
        if os.geteuid() == 0:
            options.add_argument("--no-sandbox")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver_program))
        try:
            page = Page(driver)
            page.resize(width, height)
            driver.get(address)
            yield page
        finally:
            driver.quit()
