//! Which upstream a request from inside is for.
//!
//! The path decides, and it is hostile: what is passed on below an upstream's
//! address must stay below it however the upstream reads it.

use http::Method;
use percent_encoding::percent_decode_str;
use wire::agent::{Harness, SkillId, SkillVersion};

use super::sessions::SessionId;

/// What is there, for the answer to a request for something else.
pub(super) const PATHS: [&str; 14] = [
    "GET /agent/env",
    "GET /agent/config",
    "POST /agent/results",
    "GET /assets",
    "GET /skills/{id}/{version}",
    "POST /model/v1/messages",
    "POST /model/v1/chat/completions",
    "POST /model/v1/responses",
    "GET /model/v1/models",
    "POST /tools",
    "GET /sessions/{harness}/{id}",
    "PUT /sessions/{harness}/{id}",
    "/workspace/*",
    "/mcp/{n}",
];

/// One way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    Env,
    Config,
    Results,
    Assets,
    Skill(SkillId, SkillVersion),
    Model(ModelPath),
    /// With the rest of the path: empty, or a slash and more.
    Workspace(&'a str),
    Mcp(usize),
    Tools,
    Session(Harness, SessionId),
}

/// A call that a model's provider offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelPath {
    Messages,
    ChatCompletions,
    Responses,
    Models,
}

/// The request is for no upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoute {
    /// Nothing is there.
    Unknown,
    /// The path could leave its upstream.
    Unsafe,
}

/// Finds the upstream of a request.
pub(super) fn route<'a>(method: &Method, path: &'a str) -> Result<Route<'a>, NoRoute> {
    if let Some(rest) = path.strip_prefix("/workspace")
        && (rest.is_empty() || rest.starts_with('/'))
        && method != Method::CONNECT
        && method != Method::TRACE
    {
        return if stays_below(rest) { Ok(Route::Workspace(rest)) } else { Err(NoRoute::Unsafe) };
    }
    if let Some(rest) = path.strip_prefix("/skills/")
        && method == Method::GET
    {
        let (id, version) = rest.split_once('/').ok_or(NoRoute::Unknown)?;
        // Ids have no character that would be written with a percent sign.
        return match (SkillId::parse(id), SkillVersion::parse(version)) {
            (Ok(id), Ok(version)) => Ok(Route::Skill(id, version)),
            (Err(_), _) | (_, Err(_)) => Err(NoRoute::Unsafe),
        };
    }
    if let Some(number) = path.strip_prefix("/mcp/")
        && [Method::GET, Method::POST, Method::DELETE].contains(method)
    {
        return number.parse().map(Route::Mcp).map_err(|_| NoRoute::Unknown);
    }
    if let Some(rest) = path.strip_prefix("/sessions/")
        && [Method::GET, Method::PUT].contains(method)
    {
        let (harness, id) = rest.split_once('/').ok_or(NoRoute::Unknown)?;
        let harness = Harness::parse(harness).ok_or(NoRoute::Unknown)?;
        let id = SessionId::parse(id).ok_or(NoRoute::Unsafe)?;
        return Ok(Route::Session(harness, id));
    }
    if let Some(call) = path.strip_prefix("/model/") {
        // Clients put the version into their base address, or they do not.
        let call = call.strip_prefix("v1/").unwrap_or(call);
        return match (method, call) {
            (&Method::POST, "messages") => Ok(Route::Model(ModelPath::Messages)),
            (&Method::POST, "chat/completions") => Ok(Route::Model(ModelPath::ChatCompletions)),
            (&Method::POST, "responses") => Ok(Route::Model(ModelPath::Responses)),
            (&Method::GET, "models") => Ok(Route::Model(ModelPath::Models)),
            (_, _) => Err(NoRoute::Unknown),
        };
    }
    match (method, path) {
        (_, "/tools") => Ok(Route::Tools),
        (&Method::GET, "/agent/env") => Ok(Route::Env),
        (&Method::GET, "/agent/config") => Ok(Route::Config),
        (&Method::POST, "/agent/results") => Ok(Route::Results),
        (&Method::GET, "/assets") => Ok(Route::Assets),
        (_, _) => Err(NoRoute::Unknown),
    }
}

/// Whether a path cannot climb: no empty part, no part that is or becomes a
/// dot or two, and no slash in disguise, also for a reader that decodes twice.
fn stays_below(rest: &str) -> bool {
    let Some(parts) = rest.strip_prefix('/') else { return true };
    // One slash at the end is how directories are written.
    let parts = parts.strip_suffix('/').unwrap_or(parts);
    parts.is_empty() && rest.len() == 1 || parts.split('/').all(is_plain)
}

fn is_plain(part: &str) -> bool {
    let Ok(once) = percent_decode_str(part).decode_utf8() else { return false };
    let Ok(twice) = percent_decode_str(&once).decode_utf8() else { return false };
    let climbs = |text: &str| {
        // Some servers cut parameters off: `..;a` is `..` to them.
        let name = text.split(';').next().unwrap_or_default();
        name.is_empty() || name == "." || name == ".."
    };
    let disguised = |text: &str| {
        text.bytes().any(|byte| matches!(byte, b'/' | b'\\') || byte.is_ascii_control())
    };
    ![part, &once, &twice].into_iter().any(|text| climbs(text) || disguised(text))
}

#[cfg(test)]
mod tests {
    use http::Method;
    use wire::agent::Harness;

    use super::{ModelPath, NoRoute, Route, SessionId, route};

    #[track_caller]
    fn check(method: &str, path: &str, expected: Result<Route<'_>, NoRoute>) {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        assert_eq!(route(&method, path), expected, "{method} {path}");
    }

    #[test]
    fn each_upstream_has_its_path() {
        check("GET", "/agent/env", Ok(Route::Env));
        check("GET", "/agent/config", Ok(Route::Config));
        check("POST", "/agent/results", Ok(Route::Results));
        check("GET", "/assets", Ok(Route::Assets));
        for version in ["", "v1/"] {
            let path = |call: &str| format!("/model/{version}{call}");
            let model = |call| Ok(Route::Model(call));
            check("POST", &path("messages"), model(ModelPath::Messages));
            check("POST", &path("chat/completions"), model(ModelPath::ChatCompletions));
            check("POST", &path("responses"), model(ModelPath::Responses));
            check("GET", &path("models"), model(ModelPath::Models));
        }
        for method in ["GET", "POST", "DELETE"] {
            check(method, "/tools", Ok(Route::Tools));
        }
        let id = SessionId::parse("0a-B_c.1").unwrap();
        for method in ["GET", "PUT"] {
            let session = Ok(Route::Session(Harness::Codex, id.clone()));
            check(method, "/sessions/codex/0a-B_c.1", session);
        }
        check("DELETE", "/mcp/3", Ok(Route::Mcp(3)));
        for rest in ["", "/", "/a", "/a/b/", "/a%20b", "/%C3%A4", "/a..b", "/...", "/a;v=1"] {
            check("PATCH", &format!("/workspace{rest}"), Ok(Route::Workspace(rest)));
        }
    }

    #[test]
    fn nothing_else_is_there() {
        for (method, path) in [
            ("GET", "/"),
            ("GET", "/agent"),
            ("GET", "/agent/results"),
            ("POST", "/agent/env"),
            ("GET", "/agent/../agent/env"),
            ("GET", "/agent/env/"),
            ("GET", "//agent/env"),
            ("POST", "/model/v1/files"),
            ("POST", "/model/v1/messages/../files"),
            ("POST", "/model/models"),
            ("POST", "/model/v1/v1/messages"),
            ("GET", "/model/v1/messages"),
            ("GET", "/model"),
            ("HEAD", "/model/"),
            ("HEAD", "/"),
            ("DELETE", "/sessions/codex/a"),
            ("GET", "/sessions/codex"),
            ("GET", "/sessions/vim/a"),
            ("GET", "/tools/"),
            ("GET", "/tools/list"),
            ("GET", "/mcp/"),
            ("GET", "/mcp/1/x"),
            ("GET", "/mcp/-1"),
            ("GET", "/mcp/99999999999999999999999"),
            ("GET", "/workspaces"),
            ("TRACE", "/workspace/x"),
            ("POST", "/skills/a/b"),
            ("GET", "/skills/a"),
            ("GET", ""),
        ] {
            check(method, path, Err(NoRoute::Unknown));
        }
    }

    #[test]
    fn a_path_that_could_climb_is_refused() {
        for rest in [
            "/..",
            "/../x",
            "/a/../..",
            "/./x",
            "/.",
            "//x",
            "/a//b",
            "/a//",
            "/%2e%2e/x",
            "/%2E./x",
            "/.%2e",
            "/%252e%252e/x",
            "/a%2fb",
            "/a%2F..%2Fb",
            "/a%5cb",
            "/a\\b",
            "/..;/x",
            "/%2e%2e;a=1/x",
            "/;/x",
            "/a%00b",
            "/a%0ab",
            "/%ff",
            "/a%252fb",
        ] {
            check("GET", &format!("/workspace{rest}"), Err(NoRoute::Unsafe));
        }
        let version = "0".repeat(64);
        for id in ["..", "%2e%2e", "a%2fb", ".", ""] {
            check("GET", &format!("/skills/{id}/{version}"), Err(NoRoute::Unsafe));
        }
        check("GET", "/skills/a/..", Err(NoRoute::Unsafe));
        for id in ["..", ".", "", "a/b", "%2e", "a%2fb", "a b", &"a".repeat(129)] {
            check("PUT", &format!("/sessions/codex/{id}"), Err(NoRoute::Unsafe));
        }
        check("GET", &format!("/skills/a/{version}/x"), Err(NoRoute::Unsafe));
    }
}
