"""Turns of the Assistant in real sandboxes: the stream, what is stored, how it ends."""

import re

import pytest

from api import Api, shell, steps_of, text_of
from dialects import Turn
from sse import folded
from teams import team
from waiting import wait_until

REPLAYED_TURNS = 20


def test_a_turn_streams_its_steps_and_ends_with_the_stored_message(api):
    stream = api.say(shell("echo hello", "exit 3"))
    assert stream.status == 200
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.headers["cache-control"] in ("no-cache", "no-store")
    done = stream.whole()
    first = stream.seen[0]
    assert first.name == "turn"
    assert re.fullmatch(r"turn_[0-9a-z]{24}", first.data["turnId"])
    assert re.fullmatch(r"chat_[0-9a-z]{24}", first.data["chatId"])
    assert done["status"] == "succeeded", done
    asked, answered = api.messages(first.data["chatId"])
    assert (asked["role"], answered["role"]) == ("user", "assistant")
    assert asked["id"] == first.data["userMessageId"]
    assert asked["turnId"] == answered["turnId"] == first.data["turnId"]
    assert done["message"] == answered
    assert folded(stream.seen) == answered["content"], "live and reloaded are the same"
    steps = steps_of(answered)
    assert [step["name"] for step in steps] == ["shell", "shell"]
    assert steps[0]["result"]["stdout"] == "hello\n"
    assert steps[0]["args"] == {"command": "echo hello\n"}
    assert "scripted" in text_of(answered)


def test_every_step_is_seen_running_before_it_ends(api):
    stream = api.say(shell("echo one", "echo two"))
    stream.whole()
    said = [(event.data["id"], event.data["status"]) for event in stream.seen if event.name == "step"]
    ids = list(dict.fromkeys(id for id, _ in said))
    assert len(ids) == 2
    assert said == [(id, status) for id in ids for status in ("running", "succeeded")]


def test_logs_are_in_the_trace_and_never_in_the_stream(api):
    stream = api.say(shell("echo x"))
    stream.whole()
    trace = api.trace(stream.seen[0].data["turnId"])
    kinds = [event.get("kind", event.get("event")) for event in trace]
    assert "log" in kinds
    sent = [event.id for event in stream.seen]
    stored = {event["seq"]: event for event in trace}
    assert sorted(stored) == list(range(1, len(stored) + 1)), "no number is missing"
    assert [seq for seq in sorted(stored) if seq not in sent] == [
        seq for seq, event in sorted(stored.items()) if event.get("kind", event.get("event")) == "log"
    ]


def test_a_turn_starts_with_json_and_is_followed_at_its_signed_address(api):
    started = api.start(shell("echo followed"))
    assert set(started) >= {"turnId", "conversationId", "messageId", "streamUrl"}
    stream = api.follow(started["streamUrl"])
    assert stream.status == 200
    done = stream.whole()
    assert stream.seen[0].data["turnId"] == started["turnId"]
    assert done["message"]["chatId"] == started["conversationId"]
    assert folded(stream.seen) == done["message"]["content"]


def test_a_reader_that_comes_back_gets_what_it_missed_and_nothing_twice(api):
    """With the last id that it saw, at every place where it could have broken off."""
    started = api.start(shell("echo one", "echo two"))
    whole = api.follow(started["streamUrl"])
    whole.whole()
    for place, event in enumerate(whole.seen[:-1]):
        again = api.follow(started["streamUrl"], last=event.id)
        assert again.rest() == whole.seen[place + 1 :]
    over = api.follow(started["streamUrl"], last=whole.seen[-1].id)
    assert over.status == 204 and over.rest() == []
    late = api.follow(started["streamUrl"])
    assert [event.id for event in late.rest()] == [event.id for event in whole.seen]
    bare = started["streamUrl"].replace("&after=0", "")
    assert api.follow(bare).status == 204, "who names no event is told that the turn is over"


def test_a_reader_that_comes_back_in_the_middle_sees_the_rest_live(api):
    started = api.start(shell("echo one", "sleep 2; echo two"))
    first = api.follow(started["streamUrl"])
    first.until("step", status="succeeded")
    first.hang_up()
    second = api.follow(started["streamUrl"], last=first.seen[-1].id)
    done = second.whole()
    assert done["status"] == "succeeded", done
    assert folded(first.seen + second.seen) == done["message"]["content"]


def test_two_readers_see_the_same(api):
    started = api.start(shell("echo one", "sleep 0.5"))
    streams = [api.follow(started["streamUrl"]) for _ in range(2)]
    ends = [stream.whole() for stream in streams]
    assert ends[0] == ends[1] and streams[0].seen == streams[1].seen


def test_one_turn_at_a_time_in_a_conversation(api):
    chat = api.conversation()
    stream = api.say(shell("sleep 30"), chat)
    turn = stream.until("turn").data["turnId"]
    body = {"conversationId": chat, "message": "me too"}
    problem = api.call("POST", "/api/assistant/chat/stream", body).problem(409, "turn_running")
    assert turn in problem["message"]
    assert len(api.messages(chat)) == 1, "the message that was refused is not there"
    other = api.say(shell("echo elsewhere"))
    assert other.whole()["status"] == "succeeded"
    api.cancel(turn).expect(200, 202, 204)
    stream.whole()


def test_cancelling_ends_the_turn_and_its_sandbox_at_once(api):
    stream = api.say(shell("echo begun", "sleep 60"))
    turn = stream.until("turn").data["turnId"]
    stream.until("step", status="succeeded")
    api.cancel(turn).expect(200, 202, 204)
    done = stream.whole()
    assert (done["status"], done["code"]) == ("failed", "cancelled")
    assert wait_until(lambda: api.sandboxes() == [], 3)
    last = api.messages(stream.seen[0].data["chatId"])[-1]
    assert last == done["message"]
    assert last["content"][-1]["type"] == "error" and last["content"][-1]["code"] == "cancelled"
    assert folded(stream.seen) == last["content"]


def test_hanging_up_cancels_all_the_way_down(api):
    stream = api.say(shell("sleep 60"))
    turn = stream.until("turn").data["turnId"]
    stream.until("step", status="running")
    stream.hang_up()
    assert wait_until(lambda: api.ended(turn), 20)
    assert wait_until(lambda: api.sandboxes() == [], 3)
    message = api.messages(stream.seen[0].data["chatId"])[-1]
    assert message["content"][-1]["code"] == "cancelled"


def test_a_turn_that_is_to_continue_outlives_its_listener(api):
    stream = api.say(shell("sleep 1; echo went on"), onDisconnect="continue")
    turn = stream.until("turn").data["turnId"]
    stream.until("step", status="running")
    stream.hang_up()
    assert wait_until(lambda: api.ended(turn), 20)
    message = api.messages(stream.seen[0].data["chatId"])[-1]
    assert steps_of(message)[0]["result"]["stdout"] == "went on\n"


def test_text_comes_in_pieces_and_is_stored_whole(api, model):
    text = "The answer is 42, as everybody knows; the question is another matter. " * 40
    thinker = model("anthropic", Turn(text, reasoning="Let me think."))
    endpoint = {"provider": "anthropic", "modelName": "test-model", "baseUrl": thinker.url}
    api.make("/api/models", name="default", apiKey=thinker.key, **endpoint)
    stream = api.say("What is it?")
    done = stream.whole()
    pieces = [event.data["delta"] for event in stream.seen if event.name == "text"]
    assert "".join(pieces) == text == text_of(done["message"])
    thoughts = [event.data["delta"] for event in stream.seen if event.name == "reasoning"]
    assert "".join(thoughts) == "Let me think."
    assert thinker.key not in str(done)
    assert any(event.name == "usage" for event in stream.seen)


def test_the_model_hears_the_last_twenty_turns_and_the_question_last(api, model):
    thinker = model("anthropic", *[Turn(f"answer {number}") for number in range(25)])
    endpoint = {"provider": "anthropic", "modelName": "test-model", "baseUrl": thinker.url}
    api.make("/api/models", name="default", apiKey=thinker.key, **endpoint)
    chat = api.conversation()
    for number in range(23):
        assert api.say(f"question {number}", chat).whole()["status"] == "succeeded"
    said = thinker.asked[-1].said
    assert said[-1] == ("user", "question 22")
    expected = []
    for number in range(22 - REPLAYED_TURNS, 22):
        expected += [("user", f"question {number}"), ("assistant", f"answer {number}")]
    assert said[:-1] == expected
    assert thinker.asked[0].said == [("user", "question 0")]


def test_a_failed_turn_is_told_stored_and_can_be_followed_by_another(api):
    chat = api.conversation()
    environment = api.make("/api/environments", name="broken", setupScript="echo oh no >&2; exit 7")
    agent = api.make("/api/agents", name="broken", systemPrompt="", environmentId=environment["id"])
    chat = api.conversation(agentId=agent["id"])
    stream = api.say("Hello", chat)
    done = stream.whole()
    assert (done["status"], done["code"]) == ("failed", "setup_failed")
    assert "oh no" in done["error"]
    assert api.messages(chat)[-1] == done["message"]
    assert folded(stream.seen) == done["message"]["content"]
    path = f"/api/assistant/conversations/{chat}"
    api.call("PUT", path, {"title": "works now", "agentId": None}).expect(200)
    assert api.say(shell("echo fine"), chat).whole()["status"] == "succeeded"
    assert len(api.messages(chat)) == 4


def test_conversations_are_made_listed_renamed_and_deleted(api):
    chats = [api.conversation(title=f"number {number}") for number in range(5)]
    listed = api.every("/api/assistant/conversations", limit=2)
    newest = sorted(listed, key=lambda chat: (chat["updatedAt"], chat["id"]), reverse=True)
    assert listed == newest and {chat["id"] for chat in listed} == set(chats)
    path = f"/api/assistant/conversations/{chats[0]}"
    api.call("PUT", path, {"title": "renamed"}).expect(200)
    assert api.get(path)["title"] == "renamed"
    api.call("DELETE", path).expect(204, 200)
    api.call("GET", path).problem(404)
    api.call("GET", path + "/messages").problem(404)
    body = {"conversationId": chats[0], "message": "anybody there?"}
    api.call("POST", "/api/assistant/chat/stream", body).problem(404)
    assert chats[0] not in [chat["id"] for chat in api.every("/api/assistant/conversations")]


def test_a_conversation_without_a_name_is_named_after_its_first_message(api):
    message = "A very long beginning of a conversation that goes on, and on, and on, " * 3
    stream = api.say(message)
    stream.whole()
    chat = api.get(f"/api/assistant/conversations/{stream.seen[0].data['chatId']}")
    assert chat["title"] == message[:80] or chat["title"] == message[:80].strip()


def test_deleting_a_conversation_ends_its_turn(api):
    stream = api.say(shell("sleep 60"))
    chat = stream.until("turn").data["chatId"]
    stream.until("step", status="running")
    api.call("DELETE", f"/api/assistant/conversations/{chat}").expect(204, 200)
    assert wait_until(lambda: api.sandboxes() == [], 5)
    stream.rest()


def test_other_teams_see_nothing(api, server):
    stream = api.say(shell("echo mine"))
    done = stream.whole()
    turn, chat = stream.seen[0].data["turnId"], stream.seen[0].data["chatId"]
    stranger = team(server)
    assert stranger.every("/api/assistant/conversations") == []
    for path in (
        f"/api/assistant/conversations/{chat}",
        f"/api/assistant/conversations/{chat}/messages",
        f"/api/assistant/conversations/{chat}/files",
        f"/api/assistant/turns/{turn}",
        f"/api/assistant/turns/{turn}/trace",
    ):
        stranger.call("GET", path).problem(404)
    stranger.call("POST", f"/api/assistant/turns/{turn}/cancel").problem(404)
    body = {"conversationId": chat, "message": "let me in"}
    stranger.call("POST", "/api/assistant/chat/stream", body).problem(404)
    assert api.messages(chat)[-1] == done["message"]


BAD_TURNS = [
    ({}, "message"),
    ({"message": ""}, "message"),
    ({"message": 7}, "message"),
    ({"message": "x", "attachmentIds": "file_1"}, "attachmentIds"),
    ({"message": "x", "attachmentIds": ["nonsense"]}, "attachmentIds[0]"),
    ({"message": "x", "onDisconnect": "explode"}, "onDisconnect"),
]


@pytest.mark.parametrize("chat", ["chat_no", "chat_" + "0" * 24])
def test_a_conversation_that_is_not_there_is_named(api, chat):
    body = {"message": "x", "conversationId": chat}
    answer = api.call("POST", "/api/assistant/chat/stream", body)
    answer.problem(404, "not_found", "conversationId")


@pytest.mark.parametrize(("body", "field"), BAD_TURNS, ids=lambda value: str(value)[:40])
def test_a_mistake_in_a_turn_names_its_field(api, body, field):
    problem = api.call("POST", "/api/assistant/chat/stream", body).problem(400)
    assert problem["field"] == field
    assert api.every("/api/assistant/conversations") == [], "nothing was begun"


def test_nobody_comes_in_without_a_key(api):
    stranger = Api(api.url, "e2b_" + "0" * 40)
    for path in ("/api/assistant/conversations", "/api/agents", "/api/workspace/tables"):
        stranger.call("GET", path).problem(401)
