//! `/api/workspace/workflows`: workflows themselves, without what becomes of them.

use super::{NewWorkflow, graph::Graph};
use crate::{member::Member, resources::crud};

crud!(
    Graph,
    NewWorkflow,
    Member,
    "/api/workspace/workflows",
    "workflows",
    "a workflow",
    "workflows",
    create_workflow,
    list_workflows,
    get_workflow,
    replace_workflow,
    delete_workflow
);
