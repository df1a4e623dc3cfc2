//! `respond`: what the execution answers.

use serde_json::Map;

use super::{Broken, Inputs, Outputs, Scene, unfilled};
use crate::workflows::{check::Violation, values::Pattern};

/// The name under which the engine finds the answer.
pub(crate) const DATA: &str = "data";

/// The inputs of the block.
#[derive(Debug)]
pub(crate) struct Respond {
    data: Pattern,
}

impl Respond {
    pub(super) fn read(inputs: &mut Inputs<'_>) -> Result<Respond, Violation> {
        let data = inputs.pattern(DATA)?.ok_or_else(|| inputs.missing(DATA))?;
        Ok(Respond { data })
    }

    pub(super) fn carry_out(&self, scene: Scene<'_>) -> Result<Outputs, Broken> {
        let data = self.data.value(scene.values).map_err(unfilled(DATA))?;
        Ok(Map::from_iter([(DATA.to_owned(), data)]))
    }
}
