//! What a workspace's owner makes and names: agents, environments, models, MCP
//! servers, skills and tables, all kept by the code of this file.
//!
//! A resource has two halves. What may be shown is its body: it is stored as
//! JSON and answered as it is stored. What may not (keys, values of variables)
//! is sealed, for its own row only, and never answered: the body has the names
//! and a `null` in the place of each value.
//!
//! Every kind says what a caller may send and what is right; see [`Resource`].

mod agents;
mod checks;
mod environments;
mod handlers;
mod masked;
mod mcp_servers;
mod models;

use std::future::Future;

use chrono::{DateTime, Utc};
use serde::{Serialize, de::DeserializeOwned};
use store::{ResourceError, ResourceRow};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use wire::{
    Code,
    workspace::{ResourceId, ResourceKind},
};

use crate::{
    clock,
    page::{Page, PageQuery},
    problem::Problem,
    state::Workspace,
};

pub(crate) use agents::Agent;
pub(crate) use checks::{check_count, check_name, check_text};
pub(crate) use environments::Environment;
pub(crate) use handlers::{Asker, crud};
pub(crate) use mcp_servers::{McpServer, Transport};
pub(crate) use models::Model;

/// Most resources of one kind in a workspace.
const MOST: u64 = 1_000;
/// How many are looked through at once.
const BATCH: u32 = 200;

/// One kind of resource: the half of it that may be shown.
pub(crate) trait Resource: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Which kind.
    const KIND: ResourceKind;
    /// What a caller sends to make or replace one.
    type Input: Send;
    /// The half that is sealed; `()` when there is none.
    type Secrets: Serialize + DeserializeOwned + Default + Send;

    /// Checks what was sent. A replaced resource's secrets are given, so that
    /// those which are not sent again can be kept.
    fn check(input: Self::Input, before: Self::Secrets) -> Result<Checked<Self>, Problem>;

    /// Whether secrets that are kept would go to another address than the one
    /// they were given for. They are not kept then.
    fn moves(_input: &Self::Input, _before: &Self) -> bool {
        false
    }

    /// Whether a sandbox may put it there, in the place of `before` or as a new
    /// one: it may be told so by whoever it talks to.
    fn check_from_sandbox(&self, _before: Option<&Self>) -> Result<(), Problem> {
        Ok(())
    }

    /// Whether everything it names is there.
    fn check_references(
        &self,
        _workspace: &Workspace,
        _owner: &str,
    ) -> impl Future<Output = Result<(), Problem>> + Send {
        async { Ok(()) }
    }

    /// Whether it may take the place of what is there.
    fn check_replaces(
        &self,
        _before: &Self,
        _id: &ResourceId,
        _workspace: &Workspace,
    ) -> impl Future<Output = Result<(), Problem>> + Send {
        async { Ok(()) }
    }
}

/// A resource that was sent and is right. No `Debug`: it would show secrets.
pub(crate) struct Checked<R: Resource> {
    pub(crate) name: String,
    pub(crate) body: R,
    pub(crate) secrets: R::Secrets,
}

/// A resource as it is answered.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Kept<R> {
    /// Its name in addresses and in other resources.
    pub(crate) id: String,
    /// Its name for people, unique among those of its kind.
    pub(crate) name: String,
    /// What it is made of.
    #[serde(flatten)]
    pub(crate) body: R,
    /// When it was made.
    pub(crate) created_at: DateTime<Utc>,
    /// When it was last replaced.
    pub(crate) updated_at: DateTime<Utc>,
}

/// The routes of the kinds that are nothing but what they were sent.
pub(crate) fn routes() -> OpenApiRouter<Workspace> {
    OpenApiRouter::new()
        .merge(agents::routes())
        .merge(environments::routes())
        .merge(models::routes())
        .merge(mcp_servers::routes())
}

/// Makes a resource.
pub(crate) async fn create<R: Resource>(
    workspace: &Workspace,
    asker: &Asker,
    input: R::Input,
) -> Result<Kept<R>, Problem> {
    let owner = &asker.workspace;
    let Checked { name, body, secrets } = R::check(input, R::Secrets::default())?;
    if asker.is_sandbox {
        body.check_from_sandbox(None)?;
    }
    body.check_references(workspace, owner).await?;
    check_room(workspace, owner, R::KIND).await?;
    let id = ResourceId::from_random(R::KIND, rand::random());
    let now = clock::now();
    let row = ResourceRow {
        sealed: seal::<R>(workspace, owner, &id, &secrets)?,
        id,
        workspace: owner.clone(),
        kind: R::KIND,
        name,
        body: to_json(&body)?,
        created_at: now,
        updated_at: now,
    };
    workspace.store.create_resource(&row).await.map_err(|err| problem::<R>(err, &row))?;
    Ok(kept(row, body))
}

/// One page of the resources of a kind, oldest first.
pub(crate) async fn list<R: Resource>(
    workspace: &Workspace,
    owner: &str,
    query: &PageQuery,
) -> Result<Page<Kept<R>>, Problem> {
    let limit = query.limit()?;
    let after = query.cursor.as_deref().map(cursor_of::<R>).transpose()?;
    let after = after.as_ref().map(|(time, id)| (*time, id.as_str()));
    let rows = workspace.store.list_resources(owner, R::KIND, after, limit + 1).await?;
    let page =
        Page::cut(rows, limit, |row| format!("{}.{}", row.created_at.timestamp_millis(), row.id));
    let items = page.items.into_iter().map(|row| from_row(row).map(|(row, body)| kept(row, body)));
    Ok(Page { items: items.collect::<Result<_, _>>()?, next_cursor: page.next_cursor })
}

/// A cursor names a moment too, so that it is good when its resource is gone.
fn cursor_of<R: Resource>(text: &str) -> Result<(DateTime<Utc>, ResourceId), Problem> {
    let parts = text.split_once('.').and_then(|(time, id)| {
        let time = DateTime::from_timestamp_millis(time.parse().ok()?)?;
        Some((time, ResourceId::parse(R::KIND, id).ok()?))
    });
    parts.ok_or_else(|| Problem::bad_field("cursor", "cursor is none that this list gave"))
}

/// One resource.
pub(crate) async fn get<R: Resource>(
    workspace: &Workspace,
    owner: &str,
    id: &str,
) -> Result<Kept<R>, Problem> {
    load(workspace, owner, id).await.map(|(row, body)| kept(row, body))
}

/// Puts something else in the place of a resource, under its id.
pub(crate) async fn replace<R: Resource>(
    workspace: &Workspace,
    asker: &Asker,
    id: &str,
    input: R::Input,
) -> Result<Kept<R>, Problem> {
    let owner = &asker.workspace;
    let (mut row, before) = load::<R>(workspace, owner, id).await?;
    let known = if R::moves(&input, &before) {
        R::Secrets::default()
    } else {
        secrets::<R>(workspace, &row)?
    };
    let Checked { name, body, secrets } = R::check(input, known)?;
    if asker.is_sandbox {
        body.check_from_sandbox(Some(&before))?;
    }
    body.check_references(workspace, owner).await?;
    body.check_replaces(&before, &row.id, workspace).await?;
    row.sealed = seal::<R>(workspace, owner, &row.id, &secrets)?;
    row.name = name;
    row.body = to_json(&body)?;
    row.updated_at = clock::now();
    workspace.store.update_resource(&row).await.map_err(|err| problem::<R>(err, &row))?;
    Ok(kept(row, body))
}

/// Takes a resource away, unless an agent has it.
pub(crate) async fn delete<R: Resource>(
    workspace: &Workspace,
    owner: &str,
    id: &str,
) -> Result<(), Problem> {
    let (row, _) = load::<R>(workspace, owner, id).await?;
    if let Some(agent) = agent_with(workspace, owner, &row.id).await? {
        let message = format!("{} `{}` is used by agent `{agent}`", R::KIND.name(), row.name);
        return Err(Problem::conflict("in_use", message));
    }
    if workspace.store.delete_resource(owner, R::KIND, &row.id).await? {
        Ok(())
    } else {
        Err(Problem::not_found(R::KIND.name(), id))
    }
}

/// The row of a resource, and what is to be shown of it.
pub(crate) async fn load<R: Resource>(
    workspace: &Workspace,
    owner: &str,
    id: &str,
) -> Result<(ResourceRow, R), Problem> {
    let missing = || Problem::not_found(R::KIND.name(), id);
    let parsed = ResourceId::parse(R::KIND, id).map_err(|_| missing())?;
    let row = workspace.store.resource(owner, R::KIND, &parsed).await?.ok_or_else(missing)?;
    from_row(row)
}

/// A row, and what is to be shown of it.
pub(crate) fn from_row<R: Resource>(row: ResourceRow) -> Result<(ResourceRow, R), Problem> {
    match R::deserialize(&row.body) {
        Ok(body) => Ok((row, body)),
        Err(err) => {
            let message = format!("{} `{}` cannot be read", R::KIND.name(), row.id);
            Err(Problem::new(Code::DataLoss, message).caused_by(err))
        }
    }
}

/// Opens what is sealed of a resource.
pub(crate) fn secrets<R: Resource>(
    workspace: &Workspace,
    row: &ResourceRow,
) -> Result<R::Secrets, Problem> {
    let Some(sealed) = &row.sealed else { return Ok(R::Secrets::default()) };
    let failed = || {
        let message = format!("the secrets of {} `{}` cannot be opened", R::KIND.name(), row.name);
        Problem::new(Code::DataLoss, message)
    };
    let purpose = purpose(R::KIND, &row.workspace, &row.id);
    let opened = workspace.keyring.open(&purpose, sealed).map_err(|err| failed().caused_by(err))?;
    // The cause would show a part of the secret.
    serde_json::from_slice(opened.expose()).map_err(|_| failed())
}

fn seal<R: Resource>(
    workspace: &Workspace,
    owner: &str,
    id: &ResourceId,
    secrets: &R::Secrets,
) -> Result<Option<Vec<u8>>, Problem> {
    let plain = to_json(secrets)?;
    if plain.is_null() {
        return Ok(None);
    }
    let sealed = workspace.keyring.seal(&purpose(R::KIND, owner, id), plain.to_string().as_bytes());
    sealed.map(Some).map_err(|err| Problem::new(Code::Internal, err.to_string()))
}

/// What a secret is sealed for: no row opens with another's.
fn purpose(kind: ResourceKind, owner: &str, id: &ResourceId) -> String {
    format!("{} {id} of {owner}", kind.name())
}

fn kept<R>(row: ResourceRow, body: R) -> Kept<R> {
    let ResourceRow { id, name, created_at, updated_at, .. } = row;
    Kept { id: id.to_string(), name, body, created_at, updated_at }
}

fn to_json(value: &impl Serialize) -> Result<serde_json::Value, Problem> {
    serde_json::to_value(value)
        .map_err(|err| Problem::new(Code::Internal, "cannot be written as JSON").caused_by(err))
}

fn problem<R: Resource>(err: ResourceError, row: &ResourceRow) -> Problem {
    match err {
        ResourceError::NameTaken(name) => name_taken(R::KIND, &name),
        ResourceError::NotFound => Problem::not_found(R::KIND.name(), row.id.as_str()),
        ResourceError::Store(err) => err.into(),
    }
}

/// Another one has the name.
pub(crate) fn name_taken(kind: ResourceKind, name: &str) -> Problem {
    let message = format!("another {} is called `{name}`", kind.name());
    Problem::conflict("name_taken", message).in_field("name")
}

async fn check_room(workspace: &Workspace, owner: &str, kind: ResourceKind) -> Result<(), Problem> {
    if workspace.store.count_resources(owner, kind).await? < MOST {
        return Ok(());
    }
    let message = format!("a workspace has at most {MOST} resources of one kind");
    Err(Problem::new(Code::ResourceExhausted, message).with_code("too_many"))
}

/// The name of an agent that has this resource.
async fn agent_with(
    workspace: &Workspace,
    owner: &str,
    id: &ResourceId,
) -> Result<Option<String>, Problem> {
    let mut after = None;
    loop {
        let kind = ResourceKind::Agent;
        let mark = after.as_ref().map(|(time, id): &(_, ResourceId)| (*time, id.as_str()));
        let batch = workspace.store.list_resources(owner, kind, mark, BATCH).await?;
        let Some(last) = batch.last() else { return Ok(None) };
        after = Some((last.created_at, last.id.clone()));
        for row in batch {
            let (row, agent) = from_row::<Agent>(row)?;
            if agent.has(id.as_str()) {
                return Ok(Some(row.name));
            }
        }
    }
}
