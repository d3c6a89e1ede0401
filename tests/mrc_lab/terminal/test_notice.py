"""A notice appears above the line being typed, on a real pseudo-terminal with readline."""

import os
import pty
import select
import sys

import pytest

from mrc_lab.terminal.notice import clear_from, folded

pytest.importorskip("readline")
# Types for itself: waits for a byte on a pipe, prints the notice from another thread, says so, and shows the line read.
CHILD = """
import os, readline, sys, threading
from mrc_lab.terminal.notice import print_above
def notify():
    os.read(3, 1)
    print_above(sys.stdout, "mrc> ", "*** a switch has crashed")
    os.write(4, b"x")
threading.Thread(target=notify, daemon=True).start()
line = input("mrc> ")
print("READ", repr(line))
"""


class Session:
    def __init__(self, columns):
        go, self.go = os.pipe()
        self.done, done = os.pipe()
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            go, done = os.dup(go), os.dup(done)
            high = [os.dup2(go, 103), os.dup2(done, 104)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)
            environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "INPUTRC": "/dev/null"}
            os.execve(sys.executable, [sys.executable, "-c", CHILD], environment)
        self.seen = ""

    def until(self, text):
        while text not in self.seen:
            ready, _, _ = select.select([self.terminal], [], [], 60)
            assert ready, f"{text!r} does not come: {self.seen!r}"
            self.seen += os.read(self.terminal, 4096).decode()

    def type(self, text):
        os.write(self.terminal, text.encode())

    def notice(self):
        os.write(self.go, b"x")
        assert os.read(self.done, 1) == b"x"


@pytest.fixture
def session():
    found = Session(80)
    yield found
    os.close(found.terminal)
    os.waitpid(found.pid, 0)


def test_what_is_typed_stays_with_its_cursor_and_the_notice_is_above(session):
    session.until("mrc> ")
    session.type("write h3")
    session.until("write h3")
    session.type("\x1b[D\x1b[D")  # back to before h3
    session.until("\b\b")
    session.seen = ""
    session.notice()
    session.until("mrc> write h3")
    above, _, below = session.seen.partition("*** a switch has crashed")
    assert "\r\x1b[J" in above, "the old line is cleared first"
    assert below.replace("\r", "").startswith("\nmrc> write h3")
    session.type("h1 \n")
    session.until("READ 'write h1 h3'")


@pytest.mark.parametrize(
    ("cursor", "codes"),
    [(5, "\r\x1b[J"), (19, "\r\x1b[J"), (20, "\x1b[1A\r\x1b[J"), (59, "\x1b[2A\r\x1b[J")],
)
def test_a_line_of_several_rows_is_cleared_from_its_first_row_on(cursor, codes):
    assert clear_from(cursor, 20) == codes


def test_a_notice_on_an_empty_line_draws_the_prompt_again(session):
    session.until("mrc> ")
    session.seen = ""
    session.notice()
    session.until("*** a switch has crashed")
    session.until("mrc> ")
    session.type("x\n")
    session.until("READ 'x'")


def test_long_notice_is_folded_between_words_and_paths_stay_whole():
    path = "/run/mrc/a-fabric-with-a-long-name/logs/the-agent-of-h2-of-this-fabric.log"
    lines = folded(f"*** the agent of h2 has crashed; see {path} for why\nit was restarted", 40).splitlines()
    assert lines == ["*** the agent of h2 has crashed; see", path, "for why", "it was restarted"]
