//! The five routes that every kind has. They differ in their words only, so
//! they are written once, as a macro: `utoipa` describes functions, and not
//! generic ones.

use crate::member::{Member, Owner};

/// Who asks, as far as resources care.
pub(crate) struct Asker {
    /// For which workspace.
    pub(crate) workspace: String,
    /// Whether it is a sandbox, which does what others talk it into.
    pub(crate) is_sandbox: bool,
}

impl From<Owner> for Asker {
    fn from(owner: Owner) -> Asker {
        Asker { workspace: owner.0, is_sandbox: false }
    }
}

impl From<Member> for Asker {
    fn from(member: Member) -> Asker {
        Asker { workspace: member.workspace, is_sandbox: member.session.is_some() }
    }
}

/// Makes `routes()` for a kind of resource: its type, what its bodies are, who
/// may ask, the path, the tag, one of it and many of it in words.
macro_rules! crud {
    (
        $kind:ty, $input:ty, $asker:ty, $path:literal, $tag:literal, $one:literal, $many:literal,
        $create:ident, $list:ident, $get:ident, $replace:ident, $delete:ident
    ) => {
        pub(crate) use crud_handlers::routes;

        mod crud_handlers {
            use axum::{Json as Answer, extract::State, http::StatusCode};
            use utoipa_axum::{router::OpenApiRouter, routes};

            use super::*;
            use $crate::{
                body::{Json, Path, Query},
                page::{Page, PageQuery},
                problem::{Problem, ProblemBody},
                resources::{self, Asker, Kept},
                state::Workspace,
            };

            /// The routes of this kind.
            pub(crate) fn routes() -> OpenApiRouter<Workspace> {
                OpenApiRouter::new()
                    .routes(routes!($list, $create))
                    .routes(routes!($get, $replace, $delete))
            }

            #[utoipa::path(
                post, path = $path, tag = $tag, summary = concat!("Make ", $one),
                request_body = $input,
                responses(
                    (status = 201, description = "It was made.", body = Kept<$kind>),
                    (status = 400, description = "A field is wrong.", body = ProblemBody),
                    (status = 401, description = "No valid key.", body = ProblemBody),
                    (status = 403, description = "Not for a sandbox.", body = ProblemBody),
                    (status = 409, description = "The name is taken.", body = ProblemBody),
                    (status = 413, description = "The body is too large.", body = ProblemBody),
                    (status = 415, description = "The body is not JSON.", body = ProblemBody),
                    (status = 429, description = "There are too many.", body = ProblemBody),
                ),
            )]
            async fn $create(
                State(workspace): State<Workspace>,
                asker: $asker,
                Json(input): Json<$input>,
            ) -> Result<(StatusCode, Answer<Kept<$kind>>), Problem> {
                let asker = Asker::from(asker);
                let made = resources::create::<$kind>(&workspace, &asker, input).await?;
                Ok((StatusCode::CREATED, Answer(made)))
            }

            #[utoipa::path(
                get, path = $path, tag = $tag, summary = concat!("List ", $many),
                params(PageQuery),
                responses(
                    (status = 200, description = "A page, oldest first.", body = Page<Kept<$kind>>),
                    (status = 400, description = "The page is wrong.", body = ProblemBody),
                    (status = 401, description = "No valid key.", body = ProblemBody),
                ),
            )]
            async fn $list(
                State(workspace): State<Workspace>,
                asker: $asker,
                Query(query): Query<PageQuery>,
            ) -> Result<Answer<Page<Kept<$kind>>>, Problem> {
                let owner = Asker::from(asker).workspace;
                Ok(Answer(resources::list::<$kind>(&workspace, &owner, &query).await?))
            }

            #[utoipa::path(
                get, path = concat!($path, "/{id}"), tag = $tag,
                summary = concat!("Look at ", $one),
                params(("id" = String, Path, description = "Its id.")),
                responses(
                    (status = 200, description = "It.", body = Kept<$kind>),
                    (status = 401, description = "No valid key.", body = ProblemBody),
                    (status = 404, description = "There is none.", body = ProblemBody),
                ),
            )]
            async fn $get(
                State(workspace): State<Workspace>,
                asker: $asker,
                Path(id): Path<String>,
            ) -> Result<Answer<Kept<$kind>>, Problem> {
                let owner = Asker::from(asker).workspace;
                Ok(Answer(resources::get::<$kind>(&workspace, &owner, &id).await?))
            }

            #[utoipa::path(
                put, path = concat!($path, "/{id}"), tag = $tag,
                summary = concat!("Replace ", $one),
                params(("id" = String, Path, description = "Its id.")),
                request_body = $input,
                responses(
                    (status = 200, description = "It was replaced.", body = Kept<$kind>),
                    (status = 400, description = "A field is wrong.", body = ProblemBody),
                    (status = 401, description = "No valid key.", body = ProblemBody),
                    (status = 403, description = "Not for a sandbox.", body = ProblemBody),
                    (status = 404, description = "There is none.", body = ProblemBody),
                    (status = 409, description = "Taken name, or rows in the way.", body = ProblemBody),
                    (status = 413, description = "The body is too large.", body = ProblemBody),
                    (status = 415, description = "The body is not JSON.", body = ProblemBody),
                ),
            )]
            async fn $replace(
                State(workspace): State<Workspace>,
                asker: $asker,
                Path(id): Path<String>,
                Json(input): Json<$input>,
            ) -> Result<Answer<Kept<$kind>>, Problem> {
                let asker = Asker::from(asker);
                Ok(Answer(resources::replace::<$kind>(&workspace, &asker, &id, input).await?))
            }

            #[utoipa::path(
                delete, path = concat!($path, "/{id}"), tag = $tag,
                summary = concat!("Take away ", $one),
                params(("id" = String, Path, description = "Its id.")),
                responses(
                    (status = 204, description = "It is gone."),
                    (status = 401, description = "No valid key.", body = ProblemBody),
                    (status = 404, description = "There is none.", body = ProblemBody),
                    (status = 409, description = "An agent has it.", body = ProblemBody),
                ),
            )]
            async fn $delete(
                State(workspace): State<Workspace>,
                asker: $asker,
                Path(id): Path<String>,
            ) -> Result<StatusCode, Problem> {
                let owner = Asker::from(asker).workspace;
                resources::delete::<$kind>(&workspace, &owner, &id).await?;
                Ok(StatusCode::NO_CONTENT)
            }
        }
    };
}

pub(crate) use crud;
