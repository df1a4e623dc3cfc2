//! What comes before what in a graph whose edges are pairs of places.

use std::collections::{BTreeSet, HashSet};

use super::Violation;
use crate::workflows::graph::Graph;

/// An order in which no block comes before one that it depends on. Where the
/// edges leave a choice, blocks come as they are listed, so that the order is
/// the same in every execution.
pub(super) fn of(graph: &Graph, edges: &[(usize, usize)]) -> Result<Vec<usize>, Violation> {
    let mut waits_for = vec![0usize; graph.blocks.len()];
    for (_, to) in edges {
        waits_for[*to] += 1;
    }
    let mut ready: BTreeSet<usize> =
        (0..graph.blocks.len()).filter(|place| waits_for[*place] == 0).collect();
    let mut order = Vec::with_capacity(graph.blocks.len());
    while let Some(place) = ready.pop_first() {
        order.push(place);
        for (_, to) in edges.iter().filter(|(from, _)| *from == place) {
            waits_for[*to] -= 1;
            if waits_for[*to] == 0 {
                ready.insert(*to);
            }
        }
    }
    if order.len() == graph.blocks.len() { Ok(order) } else { Err(circle(graph, &order, edges)) }
}

/// Fails for the first block that no path leads to from `start`.
pub(super) fn all_reached(
    graph: &Graph,
    start: usize,
    edges: &[(usize, usize)],
) -> Result<(), Violation> {
    let mut reached = HashSet::from([start]);
    let mut next = vec![start];
    while let Some(place) = next.pop() {
        for (_, to) in edges.iter().filter(|(from, _)| *from == place) {
            if reached.insert(*to) {
                next.push(*to);
            }
        }
    }
    match (0..graph.blocks.len()).find(|place| !reached.contains(place)) {
        None => Ok(()),
        Some(place) => {
            let id = &graph.blocks[place].id;
            let message = format!("no edges lead from the start to block `{id}`");
            Err(Violation::new(format!("blocks[{place}]"), message))
        }
    }
}

/// For each block, all that are carried out before it in every order.
pub(super) fn before(
    graph: &Graph,
    order: &[usize],
    edges: &[(usize, usize)],
) -> Vec<HashSet<usize>> {
    let mut before = vec![HashSet::new(); graph.blocks.len()];
    for place in order {
        let mut all = HashSet::new();
        for (from, _) in edges.iter().filter(|(_, to)| to == place) {
            all.insert(*from);
            all.extend(before[*from].iter().copied());
        }
        before[*place] = all;
    }
    before
}

/// What keeps the blocks that are not in `order` out of it: among them, every
/// one waits for another, so going back from any of them ends in a circle.
fn circle(graph: &Graph, order: &[usize], edges: &[(usize, usize)]) -> Violation {
    let left: HashSet<usize> =
        (0..graph.blocks.len()).filter(|place| !order.contains(place)).collect();
    let within = |(from, to): &(usize, usize)| left.contains(from) && left.contains(to);
    let mut place = left.iter().copied().min().unwrap_or_default();
    let mut path = Vec::new();
    while !path.contains(&place) {
        path.push(place);
        let back = edges.iter().find(|edge| within(edge) && edge.1 == place);
        place = back.map_or(place, |(from, _)| *from);
    }
    // The path went backwards; whatever led into the circle is left out.
    let mut round: Vec<usize> = path.into_iter().skip_while(|one| *one != place).collect();
    round.reverse();
    // Of its edges, the one that is listed last is taken for the mistake.
    let place_of = |at: usize| {
        let edge = (round[at], round[(at + 1) % round.len()]);
        edges.iter().position(|one| *one == edge).unwrap_or_default()
    };
    let last = (0..round.len()).max_by_key(|at| place_of(*at)).unwrap_or_default();
    let field = format!("edges[{}]", place_of(last));
    let ids = (1..=round.len() + 1).map(|step| round[(last + step) % round.len()]);
    let ids: Vec<&str> = ids.map(|place| graph.blocks[place].id.as_str()).collect();
    Violation::new(field, format!("goes in a circle: {}", ids.join(" → ")))
}
