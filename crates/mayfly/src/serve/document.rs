//! `GET /api/openapi.json`: one document for every route of ours, and
//! `GET /api/docs`: the same for people.
//!
//! Each part describes its routes where it makes them: a route that is not
//! described cannot be added. Here the parts' documents become one, and what
//! holds for all of them is said once: which keys there are, and how a server
//! fails.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderName, header},
    response::{Html, IntoResponse},
};
use utoipa::openapi::{
    Components, InfoBuilder, OpenApi, OpenApiBuilder, Ref, ResponseBuilder,
    content::ContentBuilder,
    path::{Operation, PathItem},
    security::{
        ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
    },
    tag::TagBuilder,
};
use utoipa_axum::{router::OpenApiRouter, routes};

/// What a page of ours may do: be itself, and ask this server.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

const DESCRIPTION: &str = "Sandboxes for AI agents: commands, runs, and a workspace.\n\n\
    E2B's routes (`/sandboxes…`, `/templates…`) are served too, for E2B's SDKs. E2B's own \
    specification describes them, so they are not in here.\n\n\
    Routes below `/api` refuse with `{code, message, field?}`, where `code` is a word; the others \
    with `{code, message}`, where `code` is the status.";

/// Where sandboxes may use their bearers, unless a route says otherwise.
const OPEN_TO_SANDBOXES: &str = "/api/workspace/";

/// The parts of the API, in the order of reading.
const TAGS: [(&str, &str); 14] = [
    ("server", "The server itself."),
    ("commands", "Commands in sandboxes, with nothing but curl."),
    ("runs", "An agent in a fresh sandbox, and the log of what it does."),
    ("assistant", "Conversations, turns and their streams."),
    ("bags", "The files of one conversation or execution."),
    ("agents", "What an agent is told and may use."),
    ("environments", "Variables and a setup script, under a name."),
    ("models", "Where models are, and their keys."),
    ("skills", "Bundles of instructions and recipes."),
    ("mcp servers", "Servers of tools."),
    ("tables", "Rows that agents and people share."),
    ("files", "Files of the workspace."),
    ("workflows", "Graphs of blocks, and their executions."),
    ("callbacks", "What a sandbox asks its workspace for."),
];

/// The routes of the document that is made of `parts`, and of itself.
pub(super) fn routes(parts: impl IntoIterator<Item = OpenApi>) -> Router {
    let (router, mut document) = OpenApiRouter::with_openapi(frame())
        .routes(routes!(document))
        .routes(routes!(page))
        .split_for_parts();
    for mut part in parts {
        complete(&mut part);
        document.merge(part);
    }
    router.with_state(Arc::new(document))
}

/// The API as an OpenAPI document.
#[utoipa::path(
    get,
    path = "/api/openapi.json",
    operation_id = "document",
    tag = "server",
    security(()),
    responses((status = 200, description = "This document.", content_type = "application/json")),
)]
async fn document(State(document): State<Arc<OpenApi>>) -> Json<OpenApi> {
    Json(OpenApi::clone(&document))
}

/// The API document as a page.
#[utoipa::path(
    get,
    path = "/api/docs",
    operation_id = "document_page",
    tag = "server",
    security(()),
    responses((status = 200, description = "The page.", content_type = "text/html")),
)]
async fn page() -> impl IntoResponse {
    let headers: [(HeaderName, &str); 2] =
        [(header::CONTENT_SECURITY_POLICY, POLICY), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (headers, Html(include_str!("document/page.html")))
}

/// A document without routes.
fn frame() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Mayfly")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(DESCRIPTION));
    let tags =
        TAGS.map(|(name, about)| TagBuilder::new().name(name).description(Some(about)).build());
    let mut components = Components::new();
    for (name, scheme) in schemes() {
        components.add_security_scheme(name, scheme);
    }
    OpenApiBuilder::new().info(info.build()).tags(Some(tags)).components(Some(components)).build()
}

fn schemes() -> [(&'static str, SecurityScheme); 5] {
    let bearer = |about: &str| {
        let http = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(about));
        SecurityScheme::Http(http.build())
    };
    let key = ApiKeyValue::with_description("X-API-Key", "An API key of a team.");
    let signature = "Part of an address that the server signed; it ends with the address's time.";
    let signature = ApiKeyValue::with_description("sig", signature);
    [
        ("api_key", SecurityScheme::ApiKey(ApiKey::Header(key))),
        ("bearer", bearer("The same API key.")),
        ("sandbox_bearer", bearer("What a sandbox's `config` gives it: `asbx_…`.")),
        (
            "otp",
            bearer("A one-time token of the session, `otp_…`; the word Bearer may be missing."),
        ),
        ("signature", SecurityScheme::ApiKey(ApiKey::Query(signature))),
    ]
}

/// Whether an operation only looks, or changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Looks,
    Changes,
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (Effect, &mut Operation)> {
    let PathItem { get, put, post, delete, patch, .. } = item;
    let changing = [put, post, delete, patch].map(|operation| (Effect::Changes, operation));
    let all = [(Effect::Looks, get)].into_iter().chain(changing);
    all.filter_map(|(effect, operation)| Some((effect, operation.as_mut()?)))
}

/// Says what holds for every operation of a part that does not say otherwise.
fn complete(part: &mut OpenApi) {
    for (path, item) in &mut part.paths.paths {
        for (effect, operation) in operations(item) {
            shorten(operation);
            complete_operation(path, effect, operation);
        }
    }
}

/// Leaves one sentence in the summary, and puts the others where they are read.
fn shorten(operation: &mut Operation) {
    let Some(summary) = &operation.summary else { return };
    let summary = summary.replace('\n', " ");
    let (first, rest) = match summary.split_once(". ") {
        Some((first, rest)) => (format!("{first}."), Some(rest.to_owned())),
        None => (summary, None),
    };
    operation.summary = Some(first);
    let parts = rest.into_iter().chain(operation.description.take());
    operation.description = parts.reduce(|text, more| format!("{text}\n\n{more}"));
}

fn complete_operation(path: &str, effect: Effect, operation: &mut Operation) {
    let needed = operation.security.get_or_insert_with(|| {
        let mut names = vec!["api_key", "bearer"];
        if path.starts_with(OPEN_TO_SANDBOXES) {
            names.push("sandbox_bearer");
        }
        names.into_iter().map(needs).collect()
    });
    // The other parts say themselves how they fail.
    if path.starts_with("/api/") {
        let mut refusals = vec![
            ("500", "It failed inside; the server's log says why."),
            ("503", "The database is busy; try again."),
        ];
        if effect == Effect::Changes {
            refusals.push(("507", "The disk is full."));
        }
        if needed.contains(&needs("api_key")) {
            refusals.push(("401", "No key, or none that is known."));
            if !needed.contains(&needs("sandbox_bearer")) {
                refusals.push(("403", "A sandbox's bearer does not open this."));
            }
        }
        for (status, meaning) in refusals {
            let problem = Ref::from_schema_name("ProblemBody");
            let content = ContentBuilder::new().schema(Some(problem)).build();
            let response = ResponseBuilder::new().description(meaning);
            let response = response.content("application/json", content).build();
            let responses = &mut operation.responses.responses;
            responses.entry(status.to_owned()).or_insert_with(|| response.into());
        }
    }
}

fn needs(scheme: &str) -> SecurityRequirement {
    SecurityRequirement::new(scheme, [""; 0])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use utoipa_axum::{router::OpenApiRouter, routes};

    use super::{complete, frame};

    /// Lists things. They are
    /// many.
    #[utoipa::path(
        get,
        path = "/api/workspace/things",
        responses((status = 401, description = "Mine.")),
    )]
    async fn things() {}

    #[utoipa::path(
        get,
        path = "/health",
        security(()),
        responses((status = 200, description = "Well.")),
    )]
    async fn health() {}

    fn completed() -> Value {
        let router: OpenApiRouter =
            OpenApiRouter::with_openapi(frame()).routes(routes!(things)).routes(routes!(health));
        let mut document = router.into_openapi();
        complete(&mut document);
        serde_json::to_value(document).unwrap()
    }

    #[test]
    fn an_operation_says_which_keys_it_takes() {
        let document = completed();
        let things = &document["paths"]["/api/workspace/things"]["get"];
        let expected = json!([{"api_key": []}, {"bearer": []}, {"sandbox_bearer": []}]);
        assert_eq!(things["security"], expected);
        assert_eq!(document["paths"]["/health"]["get"]["security"], json!([{}]));
    }

    #[test]
    fn what_an_operation_says_itself_is_kept() {
        let document = completed();
        let answers = &document["paths"]["/api/workspace/things"]["get"]["responses"];
        assert_eq!(answers["401"]["description"], "Mine.");
        assert_eq!(answers["503"]["description"], "The database is busy; try again.");
        assert_eq!(document["paths"]["/health"]["get"]["responses"].as_object().unwrap().len(), 1);
    }

    #[test]
    fn a_summary_is_one_sentence() {
        let document = completed();
        let things = &document["paths"]["/api/workspace/things"]["get"];
        assert_eq!(things["summary"], "Lists things.");
        assert_eq!(things["description"], "They are many.");
    }

    #[test]
    fn the_page_asks_nobody_else() {
        let page = include_str!("document/page.html");
        assert!(!page.contains("://"), "the page names another address");
    }
}
