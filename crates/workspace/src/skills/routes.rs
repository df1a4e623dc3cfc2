//! The routes of skills. They take forms instead of JSON; the rest is what
//! every resource has.

use axum::{Json, extract::State, http::StatusCode, response::Response};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use wire::agent::SkillId;

use super::{Skill, Upload, built_in};
use crate::{
    body::{Path, Query},
    member::Owner,
    page::{Page, PageQuery},
    problem::{Problem, ProblemBody},
    resources::{self, Asker, Kept},
    state::Workspace,
};

/// Either `bundle` or at least one `file`.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a form, which is read part by part")]
struct SkillForm {
    /// The skill as one zip.
    #[schema(value_type = Option<String>, format = Binary)]
    bundle: Option<Vec<u8>>,
    /// The files of a folder; the file name of each part is its path.
    #[schema(value_type = Option<Vec<String>>, format = Binary)]
    file: Option<Vec<Vec<u8>>>,
    /// Its name, instead of the one in `SKILL.md`.
    name: Option<String>,
    /// What it is for, instead of what `SKILL.md` says.
    description: Option<String>,
}

/// A skill that every workspace has.
#[derive(Debug, Serialize, ToSchema)]
struct BuiltInSkill {
    /// Its id and its name.
    id: String,
    /// What it is for.
    description: String,
    /// SHA-256 of its zip.
    version: String,
    /// How large the zip is, in bytes.
    size: usize,
    /// How many files are in it.
    files: usize,
}

/// The skills that every workspace has.
#[derive(Debug, Serialize, ToSchema)]
struct BuiltInSkills {
    /// All of them.
    items: Vec<BuiltInSkill>,
}

/// The routes of skills.
pub(crate) fn routes() -> OpenApiRouter<Workspace> {
    OpenApiRouter::new()
        .routes(routes!(list_skills, create_skill))
        .routes(routes!(list_built_in_skills))
        .routes(routes!(get_skill, replace_skill, delete_skill))
        .routes(routes!(get_skill_bundle))
}

/// Make a skill of a zip or of a folder
#[utoipa::path(
    post, path = "/api/skills", tag = "skills",
    request_body(content = SkillForm, content_type = "multipart/form-data"),
    responses(
        (status = 201, description = "It was made.", body = Kept<Skill>),
        (status = 400, description = "It is no skill, or a field is wrong.", body = ProblemBody),
        (status = 401, description = "No valid key.", body = ProblemBody),
        (status = 409, description = "The name is taken.", body = ProblemBody),
        (status = 413, description = "It is too large.", body = ProblemBody),
        (status = 415, description = "The body is not a form.", body = ProblemBody),
        (status = 429, description = "There are too many.", body = ProblemBody),
        (status = 507, description = "The disk is full.", body = ProblemBody),
    ),
)]
async fn create_skill(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    upload: Upload,
) -> Result<(StatusCode, Json<Kept<Skill>>), Problem> {
    let input = workspace.keep_upload(&owner, upload).await?;
    let made = resources::create::<Skill>(&workspace, &Asker::from(Owner(owner)), input).await?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// List skills
#[utoipa::path(
    get, path = "/api/skills", tag = "skills",
    params(PageQuery),
    responses(
        (status = 200, description = "A page, oldest first.", body = Page<Kept<Skill>>),
        (status = 400, description = "The page is wrong.", body = ProblemBody),
        (status = 401, description = "No valid key.", body = ProblemBody),
    ),
)]
async fn list_skills(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Kept<Skill>>>, Problem> {
    Ok(Json(resources::list::<Skill>(&workspace, &owner, &query).await?))
}

/// List the skills that every workspace has
#[utoipa::path(
    get, path = "/api/skills/built-in", tag = "skills",
    responses(
        (status = 200, description = "All of them.", body = BuiltInSkills),
        (status = 401, description = "No valid key.", body = ProblemBody),
    ),
)]
async fn list_built_in_skills(_: Owner) -> Result<Json<BuiltInSkills>, Problem> {
    let items = built_in()?.iter().map(|skill| BuiltInSkill {
        id: skill.id.to_string(),
        description: skill.description.clone(),
        version: skill.version.to_string(),
        size: skill.zip.len(),
        files: skill.files,
    });
    Ok(Json(BuiltInSkills { items: items.collect() }))
}

/// Look at a skill
#[utoipa::path(
    get, path = "/api/skills/{id}", tag = "skills",
    params(("id" = String, Path, description = "Its id.")),
    responses(
        (status = 200, description = "It.", body = Kept<Skill>),
        (status = 401, description = "No valid key.", body = ProblemBody),
        (status = 404, description = "There is none.", body = ProblemBody),
    ),
)]
async fn get_skill(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path(id): Path<String>,
) -> Result<Json<Kept<Skill>>, Problem> {
    Ok(Json(resources::get::<Skill>(&workspace, &owner, &id).await?))
}

/// Replace a skill by a new zip or folder
#[utoipa::path(
    put, path = "/api/skills/{id}", tag = "skills",
    params(("id" = String, Path, description = "Its id.")),
    request_body(content = SkillForm, content_type = "multipart/form-data"),
    responses(
        (status = 200, description = "It was replaced.", body = Kept<Skill>),
        (status = 400, description = "It is no skill, or a field is wrong.", body = ProblemBody),
        (status = 401, description = "No valid key.", body = ProblemBody),
        (status = 404, description = "There is none.", body = ProblemBody),
        (status = 409, description = "The name is taken.", body = ProblemBody),
        (status = 413, description = "It is too large.", body = ProblemBody),
        (status = 415, description = "The body is not a form.", body = ProblemBody),
        (status = 507, description = "The disk is full.", body = ProblemBody),
    ),
)]
async fn replace_skill(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path(id): Path<String>,
    upload: Upload,
) -> Result<Json<Kept<Skill>>, Problem> {
    resources::get::<Skill>(&workspace, &owner, &id).await?;
    let input = workspace.keep_upload(&owner, upload).await?;
    Ok(Json(resources::replace::<Skill>(&workspace, &Asker::from(Owner(owner)), &id, input).await?))
}

/// Take a skill away
#[utoipa::path(
    delete, path = "/api/skills/{id}", tag = "skills",
    params(("id" = String, Path, description = "Its id.")),
    responses(
        (status = 204, description = "It is gone."),
        (status = 401, description = "No valid key.", body = ProblemBody),
        (status = 404, description = "There is none.", body = ProblemBody),
        (status = 409, description = "An agent has it.", body = ProblemBody),
    ),
)]
async fn delete_skill(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    resources::delete::<Skill>(&workspace, &owner, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Fetch the zip of a skill, a built-in one by its name
#[utoipa::path(
    get, path = "/api/skills/{id}/bundle", tag = "skills",
    params(("id" = String, Path, description = "Its id.")),
    responses(
        (status = 200, description = "The zip.", content_type = "application/zip"),
        (status = 401, description = "No valid key.", body = ProblemBody),
        (status = 404, description = "There is none.", body = ProblemBody),
    ),
)]
async fn get_skill_bundle(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let missing = || Problem::not_found("skill", &id);
    let version = if super::is_built_in(&id) {
        workspace.built_in_skill(&id)?.version
    } else {
        resources::load::<Skill>(&workspace, &owner, &id).await?.1.version
    };
    let skill = SkillId::parse(&id).map_err(|_| missing())?;
    Ok(workspace.skill_bundle(&owner, &skill, &version).await?.into_response())
}
