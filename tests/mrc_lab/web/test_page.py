"""The page in a real browser, on a fabric that is only values."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mrc_lab.fabric.live_view import TrainingState
from mrc_lab.web.records import JobState, StateSection
from tests.mrc_lab.web.browser import Page, chromium
from tests.mrc_lab.web.fake_fabric import TOKEN, Served, served
from tests.waiting import until
from topologies.clos import multi_plane_clos

LINK = "t0-0:t1-1@p0"
DRAWN = f'[data-name="{LINK}"]'
_TEXTS = """
const small = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walk.nextNode(); node; node = walk.nextNode()) {
  const at = node.parentElement;
  if (!node.textContent.trim() || !at.getClientRects().length || at.closest("script, noscript")) continue;
  const size = parseFloat(getComputedStyle(at).fontSize);
  if (size < 11) small.push(`${node.textContent.trim()}: ${size}`);
}
return small;
"""


@pytest.fixture(scope="module")
def small() -> Iterator[tuple[Served, Page]]:
    with served() as running, chromium(running.page) as page:
        page.until_text("#status", lambda text: "live" in text)
        page.one(DRAWN)
        yield running, page


def test_page_shows_every_link_switch_host_and_path(small: tuple[Served, Page]) -> None:
    running, page = small
    drawn = page.js("return [...document.querySelectorAll('#planes .link')].map((link) => link.dataset.name)")
    assert sorted(drawn) == sorted(link.name for link in running.fake.fabric.links)
    assert page.js("return document.querySelectorAll('.node.switch').length") == 12
    assert page.js("return document.querySelectorAll('.node.host').length") == 8
    assert page.js("return document.querySelectorAll('.pair .ev').length") == 8
    assert page.text("#fabric-name") == "lab"


def test_token_leaves_the_address_and_a_reload_works(small: tuple[Served, Page]) -> None:
    _, page = small
    assert TOKEN not in page.js("return location.href")
    assert page.js("return document.cookie") == ""
    page.driver.refresh()
    page.until_text("#status", lambda text: "live" in text)
    page.one(DRAWN)


def test_stop_button_stays_where_it_is_while_progress_arrives(small: tuple[Served, Page]) -> None:
    running, page = small

    def publish(job: str, state: JobState | None) -> None:
        running.call(lambda: running.fake.feed.put(StateSection.JOBS, job, state))

    publish("job7", JobState("all-reduce", False, "done", 1.0))
    publish("job8", JobState("write h1 to h2", True, share=0.25))
    button = page.one("#jobs .running button")
    for share in (0.5, 0.75):
        publish("job8", JobState("write h1 to h2", True, share=share))
        until(lambda share=share: page.js("return document.querySelector('#jobs progress').value") == share, "progress")
    button.click()
    until(lambda: {"do": "stop", "job": "job8"} in running.fake.requests, "the request to stop")
    publish("job8", JobState("write h1 to h2", False, "stopped", 1.0))
    page.until_text("#jobs", lambda text: "write h1 to h2: stopped" in text)
    publish("job7", None)
    publish("job8", None)
    until(lambda: page.text("#jobs") == "", "the jobs to be gone")


def test_link_is_clicked_down_its_paths_go_and_come_back(small: tuple[Served, Page]) -> None:
    running, page = small
    page.click_drawing(LINK)
    assert page.text("#selected h3") == f"link {LINK}"
    page.press("#take-down")
    until(lambda: "down" in page.classes(DRAWN), "the link to be drawn down")
    assert page.text(f"{DRAWN} .mark") == "✕"
    until(lambda: page.js("return document.querySelectorAll('.pair .ev-b').length") == 1, "a path to be out of use")
    page.until_text("#done-command", lambda text: text == f"sudo mrc fault add lab {LINK} down")
    page.until_text("#figures", lambda text: "1 of 24" in text)
    until(lambda: not page.one("#take-down").is_enabled(), "a link that is down not to be offered to take down")
    page.until_text("#events", lambda text: f"link down {LINK}" in text)
    page.press("#bring-back")
    until(lambda: "down" not in page.classes(DRAWN), "the link to be drawn up")
    until(lambda: page.one("#take-down").is_enabled() and not page.one("#bring-back").is_enabled(), "what makes sense")
    until(lambda: page.js("return document.querySelectorAll('.pair .ev-b').length") == 0, "the path to be back")
    assert [request["words"] for request in running.fake.requests[-2:]] == [[LINK, "down"], [LINK, "up"]]


def test_curves_are_interrupted_where_nobody_watched(small: tuple[Served, Page]) -> None:
    _, page = small
    script = """
    const [points, done] = arguments;
    import("/static/plots.js").then((plots) => done(plots.withGaps(points)), (error) => done(String(error)));
    """
    points = [[10, 5, 1], [10.5, 5, 1], [25, 9, 2], [25.5, 9, 2]]
    drawn = page.driver.execute_async_script(script, points)
    assert drawn == [*points[:2], [10.501, None, None], *points[2:]]
    assert page.driver.execute_async_script(script, []) == []


def test_labels_of_an_idle_axis_differ(small: tuple[Served, Page]) -> None:
    _, page = small
    script = """
    const done = arguments[0];
    import("/static/plots.js").then(({ WHOLE }) => done(WHOLE.slice(0, 5)), (error) => done(String(error)));
    """
    assert page.driver.execute_async_script(script) == [1, 2, 5, 10, 20]


def test_link_taken_down_behind_the_page_is_shown_and_undone(small: tuple[Served, Page]) -> None:
    running, page = small
    running.call(lambda: running.fake.set_link(LINK, up=False))
    until(lambda: "down" in page.classes(DRAWN), "the link to be drawn down")
    page.click_drawing("t0-1:t1-0@p0")
    page.press("#take-down")
    until(lambda: page.js("return document.querySelectorAll('.link.down').length") == 2, "both to be down")
    until(lambda: page.one("#undo").is_enabled(), "something to undo")
    for name in (LINK, "t0-1:t1-0@p0"):
        running.call(lambda name=name: running.fake.set_link(name, up=True))  # type: ignore[misc]
    until(lambda: page.js("return document.querySelectorAll('.link.down').length") == 0, "all to be up")


def test_keyboard_alone_selects_a_link_and_takes_it_down(small: tuple[Served, Page]) -> None:
    running, page = small
    from selenium.webdriver.common.keys import Keys

    page.js("document.querySelector('#planes [tabindex=\"0\"]').focus()")
    first = page.js("return document.activeElement.dataset.name")
    page.driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert page.js("return document.activeElement.dataset.name") not in (None, first)
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert page.js("return document.activeElement.id") == "inspector-heading"
    page.one("#find").send_keys(LINK + Keys.ENTER)
    assert page.text("#selected h3") == f"link {LINK}"
    page.one("#take-down").send_keys(Keys.ENTER)
    until(lambda: "down" in page.classes(DRAWN), "the link to be drawn down")
    running.call(lambda: running.fake.set_link(LINK, up=True))


def test_refused_action_is_shown_as_a_sentence(small: tuple[Served, Page]) -> None:
    _, page = small
    page.click_drawing("t1-0@p1")
    page.js("document.querySelector('#selected .actions button').click()")
    page.until_text("#done-text", lambda text: text == "this fabric cannot do that")


def test_action_that_takes_long_is_shown_to_be_waited_for(small: tuple[Served, Page]) -> None:
    running, page = small
    running.fake.delay_s = 2.0
    page.click_drawing(LINK)
    page.press("#take-down")
    page.until_text("#done-text", lambda text: "Waiting for the controller" in text)
    page.until_text("#done-text", lambda text: text == f"{LINK} down")
    running.fake.delay_s = 0.0
    running.call(lambda: running.fake.set_link(LINK, up=True))


def test_names_from_the_fabric_are_never_markup(small: tuple[Served, Page]) -> None:
    running, page = small
    running.call(lambda: running.fake.feed.event("crash", "x", "<img src=x onerror=alert(1)><b>bold</b>"))
    page.until_text("#events", lambda text: "<img src=x" in text)
    assert page.js("return document.querySelectorAll('#events img, #events b').length") == 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1440, 900, 360])
def test_nothing_is_cut_off_or_too_small_to_read_at_any_width(
    small: tuple[Served, Page], width: int, dark: bool
) -> None:
    _, page = small
    page.dark(dark)
    page.resize(width, 900)
    until(lambda: page.js("return innerWidth") == width, "the window to have its size")
    until(lambda: page.js("return document.documentElement.scrollWidth <= innerWidth"), "the page to fit")
    assert page.js(_TEXTS) == []
    page.resize(1440, 1000)


def train(running: Served, page: Page, transport: str, step: int, step_ms: float) -> None:
    """A step is done, and the page knows it."""
    state = TrainingState(step, 40, 1.25, step_ms)
    running.call(lambda: running.fake.feed.put(StateSection.TRAINING, transport, state))
    page.until_text("#training", lambda text: f"step {step} of 40" in text)


def test_training_is_told_in_words_and_what_the_same_cut_cost_each_transport(small: tuple[Served, Page]) -> None:
    running, page = small
    for step in (1, 2, 3):
        train(running, page, "roce", step, 180.0)
    page.until_text("#training", lambda text: "step 3 of 40, loss 1.250, usually 180 ms a step" in text)
    assert "the same job, and the same cuts, when RoCE is done" in page.text("#training")
    assert "4 hosts train one network together" in page.text("#training")
    page.one("#steps canvas")
    for up in (False, True):
        running.call(lambda up=up: running.fake.set_link(LINK, up=up))  # type: ignore[misc]
    page.until_text("#training", lambda text: "was cut: training has stood still for" in text)

    def all_at_once() -> None:
        for step, step_ms in ((4, 9300.0), (5, 180.0), (6, 180.0)):
            running.fake.feed.put(StateSection.TRAINING, "roce", TrainingState(step, 40, 1.25, step_ms))

    running.call(all_at_once)
    was = "The link t0-0 to t1-1 in plane 0 was cut"
    page.until_text("#training .bad", lambda text: text == f"✕ {was}: training stood still for 9.3 s")
    train(running, page, "roce", 40, 180.0)
    for step in (1, 2, 3):
        train(running, page, "mrc", step, 100.0)
    for up in (False, True):
        running.call(lambda up=up: running.fake.set_link(LINK, up=up))  # type: ignore[misc]
    train(running, page, "mrc", 4, 133.0)
    page.until_text("#training .effect", lambda text: text == f"✓ {was}: training went on, a step took at most 133 ms")
    result = "Cutting the link t0-0 to t1-1 in plane 0 cost RoCE 9.1 s and MRC 33 ms."
    page.until_text("#training .result", lambda text: text == result)
    looks = "return [...document.querySelectorAll('#training .curve')].map((one) => one.className)"
    assert page.js(looks) == ["curve series-1", "curve series-0"], "each transport has its own curve whichever is first"


def test_reloaded_page_still_knows_the_training(small: tuple[Served, Page]) -> None:
    running, page = small
    for step in (5, 6, 40):
        train(running, page, "mrc", step, 100.0)
    before = page.until_text("#training", lambda text: text.count("step 40 of 40") == 2)
    assert "Cutting the link t0-0 to t1-1 in plane 0 cost RoCE 9.1 s and MRC 33 ms." in before
    page.driver.refresh()
    page.until_text("#training", lambda text: text == before)
    page.one("#steps canvas")


def test_browser_has_nothing_to_complain_about(small: tuple[Served, Page]) -> None:
    _, page = small
    complaints = [text for text in page.problems() if "status of 400" not in text]  # the action that was refused
    assert complaints == []


def test_page_whose_server_has_ended_says_why_and_keeps_its_last_state() -> None:
    with served() as running, chromium(running.page) as page:
        train(running, page, "mrc", 1, 100.0)
        page.one(DRAWN)
        running.stop("Fabric lab was taken down.")
        status = "○ not connected. Fabric lab was taken down. This was its last state."
        page.until_text("#status", lambda text: text == status)
        assert "step 1 of 40" in page.text("#training")
        assert page.js("return getComputedStyle(document.querySelector('#fabric')).opacity") == "1"


def test_eight_planes_of_24_switches_fit_and_are_labelled() -> None:
    fabric = multi_plane_clos("wide", hosts=32, planes=8, t0=8, t1=16, rate_bps=10**9)
    with served(fabric, (("h1", "h32"),)) as running, chromium(running.page) as page:
        page.until_text("#status", lambda text: "live" in text)
        until(lambda: page.js("return document.querySelectorAll('.link').length") == 8 * (128 + 32), "all links")
        unlabelled = (
            "return [...document.querySelectorAll('.node.switch')].filter((n) => !n.querySelector('text')).length"
        )
        assert page.js(unlabelled) == 0
        assert page.js(_TEXTS) == []
        assert page.js("return document.documentElement.scrollWidth <= innerWidth")


def test_plane_of_thousands_of_links_is_a_heat_map_whose_cells_can_be_clicked() -> None:
    fabric = multi_plane_clos("huge", hosts=128, planes=1, t0=32, t1=32, rate_bps=10**9)
    with served(fabric, (("h1", "h128"),)) as running, chromium(running.page) as page:
        page.until_text("#status", lambda text: "live" in text)
        page.one("canvas")
        running.call(lambda: running.fake.set_link("t0-2:t1-3@p0", up=False))
        page.until_text("#figures", lambda text: f"1 of {len(fabric.links)}" in text)
        cell = """
            const canvas = [...document.querySelectorAll('.heat canvas')].at(-2);
            const size = canvas.width / 32, box = canvas.getBoundingClientRect();
            canvas.dispatchEvent(new MouseEvent('click', {clientX: box.x + 3.5 * size, clientY: box.y + 2.5 * size}));
        """
        page.js(cell)
        assert page.text("#selected h3") == "link t0-2:t1-3@p0"
        page.until_text("#selected .facts", lambda text: "down" in text)


def test_tier_with_more_links_than_can_be_told_apart_has_a_cell_for_each_switch() -> None:
    from selenium.webdriver.common.keys import Keys

    fabric = multi_plane_clos("giant", hosts=128, planes=1, t0=64, t1=64, rate_bps=10**9)
    with served(fabric, (("h1", "h128"),)) as running, chromium(running.page) as page:
        page.until_text("#status", lambda text: "live" in text)
        running.call(lambda: running.fake.set_link("t0-2:t1-3@p0", up=False))
        page.until_text("#figures", lambda text: f"1 of {len(fabric.links)}" in text)
        map_of_switches = page.one(".heat canvas")
        map_of_switches.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)  # the third cell
        page.until_text("#tip", lambda text: text.startswith("64 links, 1 down · most: t0-2:"))
        map_of_switches.send_keys(Keys.ENTER)
        assert page.text("#selected h3") == "switch t0-2@p0"
        links = page.one(".heat .heat canvas")
        links.send_keys(*[Keys.ARROW_RIGHT] * 4, Keys.ENTER)
        assert page.text("#selected h3") == "link t0-2:t1-3@p0"
        page.until_text("#selected .facts", lambda text: "down" in text)
        assert page.problems() == []
