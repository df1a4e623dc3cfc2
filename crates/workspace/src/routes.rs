//! Every route, in one list, and the document that describes them.

use axum::Router;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    bag, callbacks, chat, conversations, files, resources, skills, state::Workspace, tables, turn,
    workflows,
};

/// The workspace's routes, and what describes them.
pub fn router(workspace: Workspace) -> (Router, OpenApi) {
    let routes: OpenApiRouter<Workspace> = OpenApiRouter::new()
        .merge(conversations::routes())
        .merge(chat::routes())
        .merge(turn::routes())
        .merge(callbacks::routes())
        .merge(bag::routes())
        .merge(files::routes())
        .merge(resources::routes())
        .merge(skills::routes())
        .merge(tables::routes())
        .merge(workflows::routes());
    let (router, document) = routes.split_for_parts();
    (router.with_state(workspace), document)
}
