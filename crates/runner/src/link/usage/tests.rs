//! Counts out of recorded streams of the three providers, cut anywhere.

use super::{Basis, Reader, Usage};

const ANTHROPIC: &str = "event: message_start\n\
data: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"usage\":{\"input_tokens\":25,\"cache_creation_input_tokens\":7,\"cache_read_input_tokens\":100,\"output_tokens\":1}}}\n\n\
event: ping\ndata: {\"type\": \"ping\"}\n\n\
event: content_block_delta\n\
data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"{\\\"usage\\\":{\\\"output_tokens\\\":9999}}\"}}\n\n\
event: message_delta\n\
data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":15}}\n\n\
event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

const CHAT: &str = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}],\"usage\":null}\r\n\r\n\
data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":{\"prompt_tokens\":40,\"completion_tokens\":9,\"total_tokens\":49,\"prompt_tokens_details\":{\"cached_tokens\":30}}}\r\n\r\n\
data: [DONE]\r\n\r\n";

const RESPONSES: &str = "event: response.created\n\
data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"status\":\"in_progress\",\"usage\":null}}\n\n\
event: response.output_text.delta\n\
data: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi\"}\n\n\
event: response.completed\n\
data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"status\":\"completed\",\"usage\":{\"input_tokens\":36,\"input_tokens_details\":{\"cached_tokens\":6},\"output_tokens\":87,\"output_tokens_details\":{\"reasoning_tokens\":2},\"total_tokens\":123}}}\n\n";

fn usage(input: u64, output: u64, read: u64, write: u64) -> Usage {
    Usage {
        input_tokens: input,
        output_tokens: output,
        cache_read_tokens: read,
        cache_write_tokens: write,
        basis: Basis::Reported,
    }
}

#[track_caller]
fn check_cut_anywhere(stream: &str, expected: Usage) {
    let stream = stream.as_bytes();
    for cut in 0..=stream.len() {
        let mut reader = Reader::new("text/event-stream; charset=utf-8");
        reader.push(&stream[..cut]);
        reader.push(&stream[cut..]);
        assert_eq!(reader.finish(0), expected, "cut at {cut}");
    }
    let mut reader = Reader::new("text/event-stream");
    stream.chunks(1).for_each(|byte| reader.push(byte));
    assert_eq!(reader.finish(0), expected);
}

#[test]
fn anthropics_counts_are_read_wherever_the_stream_is_cut() {
    check_cut_anywhere(ANTHROPIC, usage(25, 15, 100, 7));
}

#[test]
fn chat_completions_counts_are_read_wherever_the_stream_is_cut() {
    check_cut_anywhere(CHAT, usage(10, 9, 30, 0));
}

#[test]
fn responses_counts_are_read_wherever_the_stream_is_cut() {
    check_cut_anywhere(RESPONSES, usage(30, 87, 6, 0));
}

#[test]
fn whole_documents_are_read_too() {
    for (document, expected) in [
        (r#"{"type":"message","usage":{"input_tokens":3,"output_tokens":4}}"#, usage(3, 4, 0, 0)),
        (r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#, usage(3, 4, 0, 0)),
    ] {
        let mut reader = Reader::new("application/json");
        document.as_bytes().chunks(3).for_each(|piece| reader.push(piece));
        assert_eq!(reader.finish(0), expected);
    }
}

#[test]
fn a_stream_that_breaks_off_keeps_what_it_said() {
    let mut reader = Reader::new("text/event-stream");
    reader.push(ANTHROPIC.split("event: ping").next().unwrap().as_bytes());
    assert_eq!(reader.finish(0), usage(25, 1, 100, 7));
}

#[test]
fn an_answer_without_counts_is_estimated() {
    let mut reader = Reader::new("text/event-stream");
    for _ in 0..10 {
        reader.push(b"data: {\"choices\":[{\"delta\":{\"content\":\"word\"}}]}\n\n");
    }
    let estimated = reader.finish(400);
    assert_eq!((estimated.input_tokens, estimated.output_tokens), (100, 10));
    assert_eq!(estimated.basis, Basis::Estimated);

    let mut reader = Reader::new("text/plain");
    reader.push(&[b'a'; 4000]);
    assert_eq!(reader.finish(0).output_tokens, 1000);
}

#[test]
fn nonsense_neither_panics_nor_counts() {
    let huge = format!("data: {}\n\n", "a".repeat(5 << 20));
    for stream in [
        "data: {\"usage\":7}\n\n",
        "data: {\"usage\":{\"prompt_tokens\":-1}}\n\n",
        "data: {\"usage\"\n\n",
        "\u{feff}data\n\n\n\n:\n\n",
        huge.as_str(),
    ] {
        let mut reader = Reader::new("text/event-stream");
        reader.push(stream.as_bytes());
        assert_eq!(reader.finish(0).basis, Basis::Estimated);
    }
}
