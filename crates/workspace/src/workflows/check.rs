//! From a graph to a plan that can be carried out, or what is wrong with it:
//! which field of which block.
//!
//! A plan has exactly one `start`, everything in it is reached from there, and
//! nothing comes round to itself. Its blocks are in an order in which each has
//! all it needs; a reference only ever names a block that is carried out before,
//! whatever the order of blocks that do not depend on one another.

mod order;

use std::collections::{HashMap, HashSet};

use super::{
    blocks::{Action, Inputs},
    graph::{BlockKind, Edge, Environment, Graph, is_block_id},
};
use crate::problem::Problem;

/// Most blocks of a workflow.
const MOST_BLOCKS: usize = 200;
/// Most edges.
const MOST_EDGES: usize = 1000;
/// Most variables of its environment.
const MOST_VARIABLES: usize = 200;

/// A workflow that can be carried out.
#[derive(Debug)]
pub(crate) struct Plan {
    /// What its blocks find beside their inputs.
    pub(crate) environment: Environment,
    /// Its blocks, in the order in which they are carried out.
    pub(crate) blocks: Vec<Planned>,
}

/// One block of a plan.
#[derive(Debug)]
pub(crate) struct Planned {
    /// Its id.
    pub(crate) id: String,
    /// Where its inputs are in the graph: `blocks[2].inputs`.
    pub(crate) at: String,
    /// What it does.
    pub(crate) action: Action,
}

/// What is wrong with a graph, and where.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Violation {
    /// The field: `blocks[2].inputs.prompt`.
    pub(crate) field: String,
    /// What is wrong with it.
    pub(crate) message: String,
}

impl Violation {
    /// A violation in `field`.
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Violation {
        Violation { field: field.into(), message: message.into() }
    }
}

impl From<Violation> for Problem {
    fn from(violation: Violation) -> Problem {
        Problem::bad_field(violation.field, violation.message)
    }
}

/// Reads a graph as a plan.
pub(crate) fn check(graph: &Graph) -> Result<Plan, Violation> {
    check_environment(&graph.environment)?;
    let places = places(graph)?;
    let start = only_start(graph)?;
    let edges = edges(&graph.edges, &places, start)?;
    let order = order::of(graph, &edges)?;
    order::all_reached(graph, start, &edges)?;
    let before = order::before(graph, &order, &edges);
    let mut blocks = Vec::with_capacity(order.len());
    for index in order {
        let block = &graph.blocks[index];
        let at = format!("blocks[{index}].inputs");
        let mut inputs = Inputs::new(&at, &block.inputs);
        let action = Action::read(block.kind, &mut inputs)?;
        for (field, reference) in inputs.finish(block.kind)? {
            let known = places.get(reference.block.as_str()).copied();
            let known = known.ok_or_else(|| {
                Violation::new(&field, format!("`{reference}` names no block of this workflow"))
            })?;
            if !before[index].contains(&known) {
                let message = format!(
                    "`{reference}` is not known here: no edge leads from `{}` to `{}`",
                    reference.block, block.id
                );
                return Err(Violation::new(field, message));
            }
            let kind = graph.blocks[known].kind;
            if kind.outputs().is_some_and(|names| !names.contains(&reference.output.as_str())) {
                let message =
                    format!("`{reference}`: a block of type `{}` has no such output", kind.name());
                return Err(Violation::new(field, message));
            }
        }
        blocks.push(Planned { id: block.id.clone(), at, action });
    }
    Ok(Plan { environment: graph.environment.clone(), blocks })
}

fn check_environment(environment: &Environment) -> Result<(), Violation> {
    if environment.variables.len() > MOST_VARIABLES {
        let message = format!("a workflow has at most {MOST_VARIABLES} variables");
        return Err(Violation::new("environment.variables", message));
    }
    for (name, value) in &environment.variables {
        let field = format!("environment.variables.{name}");
        let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if name.is_empty() || !name.bytes().all(inner) || name.as_bytes()[0].is_ascii_digit() {
            let message = "a variable's name is letters, digits and `_`, no digit first";
            return Err(Violation::new(field, message));
        }
        if name == super::SANDBOX_URL {
            super::blocks::check_sandbox_url(value)
                .map_err(|message| Violation::new(field, message))?;
        }
    }
    Ok(())
}

/// Where each block is, by its id.
fn places(graph: &Graph) -> Result<HashMap<&str, usize>, Violation> {
    if graph.blocks.len() > MOST_BLOCKS {
        let message = format!("a workflow has at most {MOST_BLOCKS} blocks");
        return Err(Violation::new("blocks", message));
    }
    let mut places = HashMap::new();
    for (index, block) in graph.blocks.iter().enumerate() {
        let field = format!("blocks[{index}].id");
        if !is_block_id(&block.id) {
            let message = "a block's id is 1 to 40 lowercase letters, digits and `_`";
            return Err(Violation::new(field, message));
        }
        if places.insert(block.id.as_str(), index).is_some() {
            return Err(Violation::new(field, format!("there is another block `{}`", block.id)));
        }
    }
    Ok(places)
}

fn only_start(graph: &Graph) -> Result<usize, Violation> {
    let of_kind = |kind| {
        let blocks = graph.blocks.iter().enumerate();
        blocks.filter(move |(_, block)| block.kind == kind).map(|(index, _)| index)
    };
    let start = of_kind(BlockKind::Start)
        .next()
        .ok_or_else(|| Violation::new("blocks", "a workflow needs a block of type `start`"))?;
    if graph.blocks.len() == 1 {
        return Err(Violation::new("blocks", "a workflow needs a block besides `start`"));
    }
    for kind in [BlockKind::Start, BlockKind::Respond] {
        if let Some(second) = of_kind(kind).nth(1) {
            let message = format!("a workflow has only one block of type `{}`", kind.name());
            return Err(Violation::new(format!("blocks[{second}].type"), message));
        }
    }
    Ok(start)
}

/// The edges, as pairs of places in the list of blocks.
fn edges(
    edges: &[Edge],
    places: &HashMap<&str, usize>,
    start: usize,
) -> Result<Vec<(usize, usize)>, Violation> {
    if edges.len() > MOST_EDGES {
        let message = format!("a workflow has at most {MOST_EDGES} edges");
        return Err(Violation::new("edges", message));
    }
    let mut seen = HashSet::new();
    let mut pairs = Vec::with_capacity(edges.len());
    for (index, edge) in edges.iter().enumerate() {
        let place = |end: &str, id: &str| {
            places.get(id).copied().ok_or_else(|| {
                Violation::new(format!("edges[{index}].{end}"), format!("there is no block `{id}`"))
            })
        };
        let pair = (place("from", &edge.from)?, place("to", &edge.to)?);
        if pair.1 == start {
            let message = "nothing comes before the block of type `start`";
            return Err(Violation::new(format!("edges[{index}].to"), message));
        }
        if !seen.insert(pair) {
            let message = format!("there is another edge from `{}` to `{}`", edge.from, edge.to);
            return Err(Violation::new(format!("edges[{index}]"), message));
        }
        pairs.push(pair);
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests;
