//! Graphs, as a table: each with the field that is wrong with it.

use serde_json::{Value, json};

use super::check;
use crate::{
    body,
    workflows::{NewWorkflow, graph::Graph},
};

/// start → one → two → end, with something of everything.
fn whole() -> Value {
    json!({
        "name": "Digest",
        "environment": { "variables": { "SANDBOX_URL": "http://127.0.0.1:1" } },
        "blocks": [
            { "id": "start", "type": "start", "inputs": {} },
            { "id": "end", "type": "respond", "inputs": { "data": { "a": ["{{two.response}}"] } } },
            { "id": "two", "type": "agents",
              "inputs": { "agent": "Writer", "prompt": "{{one.response}} {{start.topic}}" } },
            { "id": "one", "type": "agents",
              "inputs": { "agent": "Writer", "prompt": "{{start.input}}",
                          "sandboxUrl": "{{start.where}}" } },
            { "id": "keep", "type": "save_file", "inputs": { "files": "{{one.files}}" } },
            { "id": "note", "type": "save_file",
              "inputs": { "name": "a.txt", "content": "{{one.response}}" } },
        ],
        "edges": [
            { "from": "start", "to": "one" },
            { "from": "one", "to": "two" },
            { "from": "two", "to": "end" },
            { "from": "one", "to": "keep" },
            { "from": "one", "to": "note" },
        ],
    })
}

fn with(pointer: &str, value: Value) -> Value {
    let mut graph = whole();
    *graph.pointer_mut(pointer).unwrap() = value;
    graph
}

fn with_more(list: &str, value: Value) -> Value {
    let mut graph = whole();
    graph[list].as_array_mut().unwrap().push(value);
    graph
}

#[track_caller]
fn refused(graph: &Value, field: &str, message: &str) {
    let graph: Graph = serde_json::from_value(graph.clone()).unwrap();
    let violation = check(&graph).unwrap_err();
    assert_eq!(violation.field, field, "{violation}");
    assert!(violation.message.contains(message), "{violation}");
}

#[test]
fn a_whole_graph_is_a_plan_in_the_order_of_its_edges() {
    let graph: Graph = serde_json::from_value(whole()).unwrap();
    let plan = check(&graph).unwrap();
    let ids: Vec<&str> = plan.blocks.iter().map(|block| block.id.as_str()).collect();
    assert_eq!(ids, ["start", "one", "two", "end", "keep", "note"]);
    assert_eq!(plan.blocks[2].at, "blocks[2].inputs");
}

#[test]
fn the_shape_is_told_by_its_path() {
    for (body, field) in [
        (with("/blocks/2/type", json!("agent")), "blocks[2].type"),
        (with("/blocks/2", json!({ "id": "x", "type": "start", "input": {} })), "blocks[2].input"),
        (with("/blocks/2/inputs", json!([])), "blocks[2].inputs"),
        (with("/edges/1", json!({ "from": "start" })), "edges[1].to"),
        (with("/environment/variables", json!({ "A": 1 })), "environment.variables.A"),
    ] {
        let problem = body::parse::<NewWorkflow>(body.to_string().as_bytes()).unwrap_err();
        assert!(format!("{problem:?}").contains(&format!("{field:?}")), "{problem:?}");
    }
}

#[test]
fn there_is_one_start_and_something_to_do() {
    refused(&with("/blocks", json!([])), "blocks", "`start`");
    let mut lonely = with("/blocks", json!([{ "id": "start", "type": "start" }]));
    lonely["edges"] = json!([]);
    refused(&lonely, "blocks", "besides");
    refused(&with("/blocks/4/type", json!("start")), "blocks[4].type", "only one");
    refused(&with("/blocks/4/type", json!("respond")), "blocks[4].type", "only one");
}

#[test]
fn ids_are_plain_and_each_is_there_once() {
    for bad in ["", "A", "a-b", "a.b", "ä", &"a".repeat(41)] {
        refused(&with("/blocks/2/id", json!(bad)), "blocks[2].id", "1 to 40");
    }
    refused(&with("/blocks/5/id", json!("keep")), "blocks[5].id", "another block `keep`");
}

#[test]
fn edges_join_blocks_that_are_there_and_never_go_round() {
    refused(&with("/edges/1/from", json!("nobody")), "edges[1].from", "no block `nobody`");
    refused(&with("/edges/1/to", json!("nobody")), "edges[1].to", "no block `nobody`");
    refused(&with_more("edges", json!({ "from": "one", "to": "two" })), "edges[5]", "another edge");
    refused(&with_more("edges", json!({ "from": "two", "to": "start" })), "edges[5].to", "before");
    let round = with_more("edges", json!({ "from": "end", "to": "one" }));
    refused(&round, "edges[5]", "circle: one → two → end → one");
    let own = with_more("edges", json!({ "from": "two", "to": "two" }));
    refused(&own, "edges[5]", "circle: two → two");
    let loose = with_more("blocks", json!({ "id": "loose", "type": "save_file" }));
    refused(&loose, "blocks[6]", "block `loose`");
}

#[test]
fn references_name_outputs_that_are_there_by_then() {
    let prompt = |text: &str| with("/blocks/2/inputs/prompt", json!(text));
    let field = "blocks[2].inputs.prompt";
    refused(&prompt("{{nobody.response}}"), field, "no block of this workflow");
    refused(&prompt("{{two.response}}"), field, "no edge leads from `two` to `two`");
    refused(&prompt("{{end.data}}"), field, "no edge leads");
    refused(&prompt("{{keep.files}}"), field, "no edge leads from `keep` to `two`");
    refused(&prompt("{{one.answer}}"), field, "a block of type `agents` has no such output");
    refused(&prompt("{{one"), field, "`}}`");
    refused(&prompt("{{one}}"), field, "`{{block.output}}`");
    let data = with("/blocks/1/inputs/data", json!({ "a": [1, { "b": "{{one.file}}" }] }));
    refused(&data, "blocks[1].inputs.data.a[1].b", "no such output");
}

#[test]
fn every_block_is_given_what_it_needs_and_nothing_else() {
    let inputs = |place: usize, inputs| with(&format!("/blocks/{place}/inputs"), inputs);
    for (graph, field, message) in [
        (inputs(0, json!({ "x": 1 })), "blocks[0].inputs.x", "not an input"),
        (inputs(2, json!({ "prompt": "x" })), "blocks[2].inputs.agent", "is missing"),
        (inputs(2, json!({ "agent": "x" })), "blocks[2].inputs.prompt", "is missing"),
        (inputs(2, json!({ "agent": "x", "prompt": " " })), "blocks[2].inputs.prompt", "empty"),
        (inputs(2, json!({ "agent": 1, "prompt": "x" })), "blocks[2].inputs.agent", "string"),
        (
            inputs(2, json!({ "agent": "x", "prompt": "x", "promt": "x" })),
            "blocks[2].inputs.promt",
            "not an input of a block of type `agents`: agent, prompt, sandboxUrl",
        ),
        (
            inputs(2, json!({ "agent": "x", "prompt": "x", "sandboxUrl": "ftp://x" })),
            "blocks[2].inputs.sandboxUrl",
            "http",
        ),
        (inputs(4, json!({})), "blocks[4].inputs.files", "missing"),
        (inputs(4, json!({ "files": "a {{one.files}}" })), "blocks[4].inputs.files", "reference"),
        (inputs(4, json!({ "files": ["x"] })), "blocks[4].inputs.files", "reference"),
        (
            inputs(4, json!({ "files": "{{one.files}}", "name": "x" })),
            "blocks[4].inputs.name",
            "either",
        ),
        (inputs(5, json!({ "name": "x" })), "blocks[5].inputs.content", "missing"),
        (inputs(5, json!({ "content": "x" })), "blocks[5].inputs.name", "missing"),
        (inputs(1, json!({})), "blocks[1].inputs.data", "missing"),
        (
            with("/environment/variables", json!({ "SANDBOX_URL": "nowhere" })),
            "environment.variables.SANDBOX_URL",
            "http",
        ),
        (with("/environment/variables", json!({ "1A": "x" })), "environment.variables.1A", "name"),
    ] {
        refused(&graph, field, message);
    }
}
