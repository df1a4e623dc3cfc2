"""A real browser with plain `EventSource` code follows a turn, also over a reload."""

import json

from api import Api, shell
from sse import Event, folded
from waiting import wait_until
from wire import Wire

# All that a page needs. It knows no more than the address of the stream, which outlives it.
PAGE = """<!doctype html>
<meta charset="utf-8">
<title>turn</title>
<script>
const KEY = %(key)s, MESSAGE = %(message)s;
const page = window.page = { events: [], done: null, opened: 0, failed: 0, message: null };
const headers = { "X-API-Key": KEY, "Content-Type": "application/json", "Accept": "application/json" };

async function begin() {
  if (!sessionStorage.stream) {
    const body = JSON.stringify({ message: MESSAGE });
    const answer = await fetch("/api/assistant/chat/stream", { method: "POST", headers, body });
    const turn = await answer.json();
    const stream = new URL(turn.streamUrl, location);
    sessionStorage.stream = stream.pathname + stream.search;
    sessionStorage.chat = turn.conversationId;
  }
  const source = window.source = new EventSource(sessionStorage.stream);
  source.onopen = () => page.opened++;
  source.onerror = () => page.failed++;
  for (const name of ["turn", "step", "text", "reasoning", "files", "file", "usage", "done"]) {
    source.addEventListener(name, (event) => {
      page.events.push({ id: Number(event.lastEventId), name, data: JSON.parse(event.data) });
      if (name === "done") {
        page.done = JSON.parse(event.data);
        if (%(closes)s) source.close();
      }
    });
  }
}
begin();
</script>
"""


def page(api: Api, message: str, closes: bool = True) -> str:
    values = {"key": json.dumps(api.key), "message": json.dumps(message)}
    return PAGE % (values | {"closes": "true" if closes else "false"})


def test_a_browser_follows_a_turn_over_a_reload_and_ends_with_the_same_trace(api, browser):
    commands = ["echo one", "sleep 2; echo two", "mkdir -p assets; echo three > assets/three.txt"]
    browser.open(api.url, page(api, shell(*commands)))
    running = "page.events.some(e => e.name === 'step' && e.data.status === 'succeeded')"
    assert wait_until(lambda: browser.run(f"window.page && {running}"), 20), browser.run("page")
    before = browser.run("page.events")
    assert not browser.run("page.done"), "it is reloaded in the middle"
    browser.reload()
    assert wait_until(lambda: browser.run("window.page && page.done"), 20), browser.run("page")
    after = browser.run("page.events")
    assert after[: len(before)] == before, "the new page sees all that the old one saw"
    assert [event["name"] for event in after][0] == "turn" and after[-1]["name"] == "done"
    chat = browser.run("sessionStorage.chat")
    asked, answered = api.messages(chat)
    assert after[-1]["data"]["message"] == answered
    assert after[-1]["data"]["status"] == "succeeded"
    assert folded([Event(e["id"], e["name"], e["data"]) for e in after]) == answered["content"]
    # What the browser was told is what anybody who asks is told.
    through = f"fetch('/api/assistant/conversations/{chat}/messages', {{ headers }}).then(r => r.json())"
    assert browser.run(through)["items"] == [asked, answered]


def test_a_browser_that_does_not_close_its_stream_is_told_that_it_is_over(api, browser):
    """`EventSource` comes back on its own; 204 is how it learns that it need not."""
    browser.open(api.url, page(api, shell("echo x"), closes=False))
    assert wait_until(lambda: browser.run("window.page && page.done"), 20), browser.run("page")
    closed = "source.readyState === EventSource.CLOSED"
    assert wait_until(lambda: browser.run(closed), 20), browser.run("page")
    assert browser.run("page.events.filter(e => e.name === 'done').length") == 1


def test_a_browser_whose_connection_breaks_comes_back_where_it_was(player, runner, browser):
    """On its own, with the last id that it saw: nothing is missing and nothing comes twice."""
    wire = Wire(player.url)
    try:
        browser.open(wire.url, page(player, "Speak"))
        assert wait_until(lambda: browser.run("window.page && page.events.length > 0"), 20)
        dispatch = runner.latest()
        for number in range(3):
            dispatch.event("text", message_id=f"m{number}", delta=f"{number}")
            assert wait_until(lambda: browser.run("page.events.length") == number + 2, 20)
            assert browser.run("page.opened") == number + 1
            wire.cut()
            assert wait_until(lambda: browser.run("page.opened") == number + 2, 20)
        dispatch.result("2")
        assert wait_until(lambda: browser.run("page.done"), 20)
        deltas = browser.run("page.events.filter(e => e.name === 'text').map(e => e.data.delta)")
        assert deltas == ["0", "1", "2"]
        assert browser.run("page.failed") == 3
    finally:
        wire.stop()
