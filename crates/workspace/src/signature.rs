//! Signed addresses: for those who can send no key, such as an `EventSource` or
//! an agent that fetches its skills.

use serde::Deserialize;
use utoipa::IntoParams;
use wire::Code;

use crate::{clock, keyring::BadSignature, problem::Problem, state::Workspace};

/// What signing puts behind an address.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Signed {
    /// When the address stops being good, in Unix seconds.
    pub(crate) exp: i64,
    /// The signature.
    pub(crate) sig: String,
}

impl Workspace {
    /// Whether `signed` stands for `subject`, and still does.
    pub(crate) fn check_signature(&self, subject: &str, signed: &Signed) -> Result<(), Problem> {
        let verified = self.keyring.verify(subject, signed.exp, &signed.sig, clock::now());
        verified.map_err(|refused| {
            let code = match refused {
                BadSignature::Forged => "bad_signature",
                BadSignature::Expired => "expired",
            };
            Problem::new(Code::PermissionDenied, refused.to_string()).with_code(code)
        })
    }
}
