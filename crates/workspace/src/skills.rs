//! Skills: folders with `SKILL.md` and recipes, which agents have unpacked
//! beside them.
//!
//! However a skill was sent, it is kept as one zip that depends on its files
//! alone, under its SHA-256, which is its version. Zips of earlier versions
//! stay: a sandbox that was told of one may still fetch it.

mod built_in;
mod bundle;
mod folder;
mod routes;
mod unpack;
mod upload;

use axum::{
    body::Body,
    http::{
        HeaderValue,
        header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG},
    },
    response::Response,
};
use bytes::Bytes;
use futures_util::{StreamExt, stream, stream::BoxStream};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use store::{GetError, PutError};
use tokio_util::io::ReaderStream;
use utoipa::ToSchema;
use wire::{
    Code,
    agent::{SkillId, SkillVersion},
    workspace::ResourceKind,
};

use crate::{
    problem::Problem,
    resources::{Checked, Resource, check_name, check_text, name_taken},
    state::Workspace,
};

use bundle::{Bundle, BundleError};
use upload::Upload;

pub(crate) use built_in::{BUILT_IN, is_built_in};
pub(crate) use routes::routes;

/// What every skill has at its top.
const INSTRUCTIONS: &str = "SKILL.md";
/// Largest description.
const DESCRIPTION: usize = 4 << 10;
/// Everything but the unreserved characters of RFC 3986, as keys of files have it.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A skill.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Skill {
    /// What it is for, in words for the model.
    pub(crate) description: String,
    /// SHA-256 of its zip.
    #[schema(value_type = String)]
    pub(crate) version: SkillVersion,
    /// How large the zip is, in bytes.
    size: u64,
    /// How many files are in it.
    files: usize,
}

/// A skill whose zip is stored already.
pub(crate) struct NewSkill {
    name: String,
    body: Skill,
}

impl Resource for Skill {
    const KIND: ResourceKind = ResourceKind::Skill;
    type Input = NewSkill;
    type Secrets = ();

    fn check(input: NewSkill, (): ()) -> Result<Checked<Skill>, Problem> {
        let NewSkill { name, body } = input;
        check_name("name", &name)?;
        check_text("description", &body.description, DESCRIPTION)?;
        // Agents find skills by name, and ours by their ids.
        if is_built_in(&name) {
            return Err(name_taken(ResourceKind::Skill, &name));
        }
        Ok(Checked { name, body, secrets: () })
    }
}

/// The zip of a skill, to be sent.
pub(crate) struct SkillBundle {
    version: SkillVersion,
    size: u64,
    bytes: BoxStream<'static, Result<Bytes, std::io::Error>>,
}

/// An id, a name and a version: what an agent is told of a skill.
#[derive(Clone, Debug)]
pub(crate) struct SkillName {
    pub(crate) id: SkillId,
    pub(crate) name: String,
    pub(crate) version: SkillVersion,
}

impl SkillBundle {
    /// The zip as an answer.
    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from_stream(self.bytes));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/zip"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(self.size));
        // Hexadecimal digits are always good in a header.
        if let Ok(tag) = HeaderValue::try_from(format!("\"{}\"", self.version)) {
            headers.insert(ETAG, tag);
        }
        response
    }
}

impl Workspace {
    /// The zip of a skill in one version, ours or the workspace's own.
    pub(crate) async fn skill_bundle(
        &self,
        workspace: &str,
        id: &SkillId,
        version: &SkillVersion,
    ) -> Result<SkillBundle, Problem> {
        let missing = || Problem::not_found("skill", &format!("{id}/{version}"));
        if is_built_in(id.as_str()) {
            let skills = built_in()?.iter();
            let mut found = skills.filter(|skill| skill.id == *id && skill.version == *version);
            let zip = found.next().ok_or_else(missing)?.zip.clone();
            let size = zip.len() as u64;
            let bytes = stream::iter([Ok(zip)]).boxed();
            return Ok(SkillBundle { version: version.clone(), size, bytes });
        }
        match self.blobs.get(&storage_key(workspace, version)).await {
            Ok(blob) => {
                Ok(SkillBundle { version: version.clone(), size: blob.size, bytes: blob.bytes })
            }
            Err(GetError::NotFound) => Err(missing()),
            Err(GetError::Store(err)) => {
                Err(Problem::new(Code::Unavailable, "the skill cannot be read now").caused_by(err))
            }
        }
    }

    /// What an agent is told of a skill of ours.
    pub(crate) fn built_in_skill(&self, id: &str) -> Result<SkillName, Problem> {
        let skill = built_in()?.iter().find(|skill| skill.id.as_str() == id);
        let skill = skill.ok_or_else(|| Problem::not_found("skill", id))?;
        let (id, version) = (skill.id.clone(), skill.version.clone());
        Ok(SkillName { name: id.to_string(), id, version })
    }

    /// Stores the zip of an upload and says what is to be kept of it. The row
    /// comes after it, so that no row is without its zip.
    async fn keep_upload(&self, owner: &str, upload: Upload) -> Result<NewSkill, Problem> {
        let Upload { bundle, name, description } = upload;
        let Bundle { zip, size, version, files, name: own_name, description: own } = bundle;
        let name = name.filter(|name| !name.is_empty()).or(own_name);
        let name = name.ok_or_else(|| {
            Problem::bad_field("name", format!("{INSTRUCTIONS} has no name: give one"))
        })?;
        let description = description.or(own).unwrap_or_default();
        let body = Skill { description, version, size, files };
        let NewSkill { name, body } = {
            // Nothing is stored for a skill that will be refused.
            let Checked { name, body, .. } = Skill::check(NewSkill { name, body }, ())?;
            NewSkill { name, body }
        };
        let bytes = ReaderStream::new(tokio::fs::File::from_std(zip));
        let key = storage_key(owner, &body.version);
        self.blobs.put(&key, bytes, size).await.map_err(not_stored)?;
        Ok(NewSkill { name, body })
    }
}

/// The skills of ours.
fn built_in() -> Result<&'static [built_in::BuiltIn], Problem> {
    built_in::all().map_err(|err| upload::refused(err, "bundle"))
}

/// Where the zip of a skill is. No name of a workspace makes two segments of
/// its one, or leads upwards.
fn storage_key(workspace: &str, version: &SkillVersion) -> String {
    let workspace = match workspace {
        "" => "%7E".to_owned(),
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        name => utf8_percent_encode(name, ENCODED).to_string(),
    };
    format!("skills/{workspace}/{version}")
}

fn not_stored(err: PutError) -> Problem {
    match err {
        PutError::Full(err) => {
            Problem::new(Code::ResourceExhausted, "the disk of the files is full")
                .with_code("storage_full")
                .with_status(http::StatusCode::INSUFFICIENT_STORAGE)
                .caused_by(err)
        }
        PutError::TooLarge { .. } | PutError::Source(_) => {
            Problem::new(Code::Internal, "the skill changed while it was stored").caused_by(err)
        }
        PutError::Store(err) => {
            Problem::new(Code::Unavailable, "the skill cannot be stored now").caused_by(err)
        }
    }
}
