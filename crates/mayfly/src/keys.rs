//! `mayfly keys`: works on the store itself, beside a running server or not.

use std::process::ExitCode;

use anyhow::bail;
use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use store::{ApiKey, NewKey, Store};
use wire::Secret;

use crate::cli::{KeysArguments, KeysCommand};
use crate::output;
use crate::place::Place;

/// A key as JSON. The secret is there only right after it was made.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KeyView<'a> {
    id: &'a str,
    team: &'a str,
    name: &'a str,
    hint: &'a str,
    created_at: DateTime<Utc>,
    revoked_at: Option<DateTime<Utc>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

/// How the answer is written.
#[derive(Clone, Copy)]
enum Format {
    Text,
    Json,
}

/// Does what was asked.
pub(crate) fn command(arguments: KeysArguments) -> anyhow::Result<ExitCode> {
    let place = arguments.place.place()?;
    let format = if arguments.place.json { Format::Json } else { Format::Text };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = open(&place, &arguments.command).await?;
        let done = change(&store, arguments.command, format).await;
        store.close().await;
        done
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Only `create` may make a store: for the others an empty one would hide a
/// mistyped directory.
async fn open(place: &Place, command: &KeysCommand) -> anyhow::Result<Store> {
    match command {
        KeysCommand::Create { .. } => {}
        KeysCommand::List | KeysCommand::Revoke { .. } | KeysCommand::Rotate { .. } => {
            if !place.is_there() {
                bail!(
                    "there is no Mayfly data in `{}`; name the server's directory with --data",
                    place.data.display()
                );
            }
        }
    }
    Ok(place.open().await?)
}

async fn change(store: &Store, command: KeysCommand, format: Format) -> anyhow::Result<()> {
    match command {
        KeysCommand::Create { team, name } => {
            let (key, secret) = store.create_key(NewKey { team, name }).await?;
            show_secret(&key, &secret, format)
        }
        KeysCommand::List => {
            let keys = store.list_keys().await?;
            match format {
                Format::Json => output::print_json(&keys.iter().map(view).collect::<Vec<_>>()),
                Format::Text => output::print(&list(&keys)),
            }
        }
        KeysCommand::Revoke { id } => {
            let key = store.revoke_key(&id).await?;
            match format {
                Format::Json => output::print_json(&view(&key)),
                Format::Text => {
                    output::print(&format!("Revoked {} ({}, {}).\n", key.id, key.team, key.name))
                }
            }
        }
        KeysCommand::Rotate { id } => {
            let (key, secret) = store.rotate_key(&id).await?;
            show_secret(&key, &secret, format)
        }
    }
}

fn show_secret(key: &ApiKey, secret: &Secret<String>, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Json => output::print_json(&KeyView { key: Some(secret.expose()), ..view(key) }),
        Format::Text => output::print(&format!(
            "Made {} for team {}.\n\n  {}\n\n\
             It is not shown again: store it now, for example as E2B_API_KEY.\n",
            key.id,
            key.team,
            secret.expose()
        )),
    }
}

fn list(keys: &[ApiKey]) -> String {
    if keys.is_empty() {
        return "There are no keys. `mayfly keys create` makes one.\n".to_owned();
    }
    let head = ["ID", "TEAM", "NAME", "KEY", "CREATED", "REVOKED"].map(str::to_owned);
    let rows = keys.iter().map(|key| {
        [
            key.id.clone(),
            key.team.clone(),
            key.name.clone(),
            key.hint.clone(),
            day_and_time(key.created_at),
            key.revoked_at.map_or_else(|| "-".to_owned(), day_and_time),
        ]
    });
    output::table(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
}

fn view(key: &ApiKey) -> KeyView<'_> {
    KeyView {
        id: &key.id,
        team: &key.team,
        name: &key.name,
        hint: &key.hint,
        created_at: key.created_at,
        revoked_at: key.revoked_at,
        key: None,
    }
}

fn day_and_time(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}
