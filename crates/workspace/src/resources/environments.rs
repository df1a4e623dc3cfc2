//! Named environments: variables, whose values are secrets, and a script that
//! runs before the first model call.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wire::workspace::ResourceKind;

use super::{
    Checked, Resource, check_name, check_text,
    checks::check_variable,
    crud,
    masked::{Given, Masked, Values, mask},
};
use crate::{member::Owner, problem::Problem};

/// Largest setup script.
const SCRIPT: usize = 256 << 10;

/// An environment.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Environment {
    /// The names of its variables, each with null for its value: values are
    /// never answered.
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    variables: Masked,
    /// Runs in the sandbox before the first model call.
    pub(crate) setup_script: String,
}

/// An environment as it is sent.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewEnvironment {
    /// Its name.
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    /// Its variables. Null keeps the value that is there; a variable that is
    /// not sent is gone.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    variables: Given,
    /// Runs in the sandbox before the first model call.
    #[serde(default)]
    setup_script: String,
}

crud!(
    Environment,
    NewEnvironment,
    Owner,
    "/api/environments",
    "environments",
    "an environment",
    "environments",
    create_environment,
    list_environments,
    get_environment,
    replace_environment,
    delete_environment
);

impl Resource for Environment {
    const KIND: ResourceKind = ResourceKind::Environment;
    type Input = NewEnvironment;
    type Secrets = Values;

    fn check(input: NewEnvironment, before: Values) -> Result<Checked<Environment>, Problem> {
        let NewEnvironment { name, variables, setup_script } = input;
        check_name("name", &name)?;
        check_text("setupScript", &setup_script, SCRIPT)?;
        let (variables, secrets) = mask("variables", variables, &before, check_variable)?;
        Ok(Checked { name, body: Environment { variables, setup_script }, secrets })
    }
}
