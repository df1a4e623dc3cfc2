//! The rules of a dispatch, read field by field so that a rule that is misspelt
//! is refused by its name: a rule nobody follows is worse than none.

use std::collections::BTreeMap;

use wire::agent::{Approval, Capabilities, CommandRules, Policy, Ruling};

use super::TEXT_LIMIT;
use crate::fields::{BadBody, Fields};

/// Most patterns of one kind, and most answers.
const RULES: usize = 1000;

/// Takes the policy out. One without rules is one all the same: everything asks.
pub(super) fn take(fields: &mut Fields) -> Result<Option<Policy>, BadBody> {
    let Some(given) = fields.take("policy")? else { return Ok(None) };
    let mut fields = Fields::of_value(&fields.named("policy"), given)?;
    let policy = Policy {
        commands: commands(fields.inside("commands")?)?,
        capabilities: capabilities(fields.inside("capabilities")?)?,
        default: ruling(&mut fields, "default")?.unwrap_or_default(),
        approvals: approvals(fields.inside("approvals")?)?,
    };
    fields.nothing_else()?;
    Ok(Some(policy))
}

fn commands(mut fields: Fields) -> Result<CommandRules, BadBody> {
    let rules = CommandRules {
        allow: patterns(&mut fields, "allow")?,
        ask: patterns(&mut fields, "ask")?,
        deny: patterns(&mut fields, "deny")?,
    };
    fields.nothing_else()?;
    Ok(rules)
}

fn capabilities(mut fields: Fields) -> Result<Capabilities, BadBody> {
    let capabilities = Capabilities {
        file_write: ruling(&mut fields, "file_write")?,
        network: ruling(&mut fields, "network")?,
    };
    fields.nothing_else()?;
    Ok(capabilities)
}

fn patterns(fields: &mut Fields, name: &str) -> Result<Vec<String>, BadBody> {
    let items = fields.list(name, RULES)?;
    let patterns = items.into_iter().map(|(field, item)| {
        let text = item.as_str().filter(|text| (1..=TEXT_LIMIT).contains(&text.len()));
        let must = || format!("must be a pattern of at most {TEXT_LIMIT} bytes");
        text.map(str::to_owned).ok_or_else(|| BadBody::Wrong { field, must: must() })
    });
    patterns.collect()
}

fn ruling(fields: &mut Fields, name: &str) -> Result<Option<Ruling>, BadBody> {
    match fields.text(name, TEXT_LIMIT)?.as_deref() {
        None => Ok(None),
        Some("allow") => Ok(Some(Ruling::Allow)),
        Some("ask") => Ok(Some(Ruling::Ask)),
        Some("deny") => Ok(Some(Ruling::Deny)),
        Some(_) => Err(fields.wrong(name, "must be `allow`, `ask` or `deny`")),
    }
}

fn approvals(fields: Fields) -> Result<BTreeMap<String, Approval>, BadBody> {
    let path = fields.path().to_owned();
    let given = fields.texts()?;
    if given.len() > RULES {
        let must = format!("must have at most {RULES} items");
        return Err(BadBody::Wrong { field: path, must });
    }
    let answers = given.into_iter().map(|(id, answer)| match answer.as_str() {
        "allow" => Ok((id, Approval::Allow)),
        "deny" => Ok((id, Approval::Deny)),
        _ => {
            let must = "must be `allow` or `deny`".to_owned();
            Err(BadBody::Wrong { field: format!("{path}.{id}"), must })
        }
    });
    answers.collect()
}
