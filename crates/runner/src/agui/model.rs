//! Which model answers a client that may not have named one.

use serde_json::{Map, Value, json};
use wire::agent::ModelConfig;

use crate::fields::{BadBody, Fields};

/// Puts a model into the configuration: the one that is there, that of
/// `forwardedProps.model`, or the server's own. With none of them it is the
/// scripted one.
pub(super) fn choose(
    props: &mut Fields,
    config: &mut Map<String, Value>,
    usual: Option<&ModelConfig>,
) -> Result<(), BadBody> {
    let asked = props.take("model")?;
    if config.get("model").is_some_and(|model| !model.is_null()) {
        return match asked {
            None => Ok(()),
            Some(_) => Err(props.wrong("model", "is of no use beside `config.model`")),
        };
    }
    let model = match (asked, usual) {
        (None, None) => return Ok(()),
        (None, Some(usual)) => json!(usual),
        (Some(Value::String(name)), Some(usual)) => json!(ModelConfig { name, ..usual.clone() }),
        (Some(Value::String(_)), None) => {
            let must = "must be an object with `provider` and `name`: this server has no model \
                        of its own that could be called by another name";
            return Err(props.wrong("model", must));
        }
        (Some(model @ Value::Object(_)), _) => model,
        (Some(_), _) => return Err(props.wrong("model", "must be a name or an object")),
    };
    config.insert("model".to_owned(), model);
    Ok(())
}
