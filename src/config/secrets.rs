//! Which settings are secrets, where one may come from, and what is shown of it.

use secrecy::{ExposeSecret as _, SecretString};
use toml::{Table, Value};
use url::Url;

use super::urls::shown_url;
use super::{ConfigFault, fault, whsec};

/// Settings whose every value is a secret. `database.url` is one beside them, if it has a password.
const SECRETS: [&str; 4] = ["signer.api_key", "signer.callback_secret", "rail.api_key", "webhooks.secrets"];
/// More are no rotation.
pub(super) const MOST: usize = 2;
/// What stands in place of a secret that is set.
const SHOWN: &str = "REDACTED";

/// Whether `value`, given for the setting `path`, is or holds a secret.
pub(super) fn is_secret(path: &str, value: &Value) -> bool {
    match value {
        Value::String(text) if path == "database.url" => has_password(text),
        Value::String(text) => SECRETS.contains(&path) && !text.trim().is_empty(),
        Value::Array(all) => SECRETS.contains(&path) && !all.is_empty(),
        _ => false,
    }
}

/// What is not seen to have none counts as having one.
fn has_password(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else { return text.contains('@') };
    url.password().is_some() || url.query_pairs().any(|(name, _)| name.eq_ignore_ascii_case("password"))
}

/// `table` without its secrets, and without what a URL may carry of them.
pub(super) fn redacted(table: &Table, path: &str) -> Table {
    let row = |(name, value): (&String, &Value)| {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let value = match value {
            Value::Table(inner) => Value::Table(redacted(inner, &path)),
            secret if is_secret(&path, secret) => Value::String(SHOWN.to_owned()),
            plain => shown(plain),
        };
        (name.clone(), value)
    };
    table.iter().map(row).collect()
}

fn shown(value: &Value) -> Value {
    match value {
        Value::String(text) if text.contains("://") => Value::String(shown_url(text)),
        Value::Array(all) => Value::Array(all.iter().map(shown).collect()),
        plain => plain.clone(),
    }
}

/// An API key: there, long enough, in one piece, and fit for a header.
pub fn api_key(setting: &str, value: &SecretString) -> Result<(), ConfigFault> {
    const LEAST: usize = 16;
    let text = value.expose_secret();
    if text.trim().is_empty() {
        return Err(required(setting));
    }
    if text.len() < LEAST || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(fault(setting, format_args!("must be at least {LEAST} visible ASCII characters")));
    }
    Ok(())
}

/// The keys of a `whsec_` secret, or of two while one replaces the other: a line each, or with a comma
/// between.
pub fn whsecs(setting: &str, value: &SecretString) -> Result<Vec<Vec<u8>>, ConfigFault> {
    let pieces = value.expose_secret().split([',', '\n']).map(str::trim).filter(|piece| !piece.is_empty());
    let keys: Vec<Vec<u8>> =
        pieces.map(|piece| whsec(setting, &SecretString::from(piece.to_owned()))).collect::<Result<_, _>>()?;
    match keys.len() {
        0 => Err(required(setting)),
        1..=MOST => Ok(keys),
        _ => Err(fault(setting, "must be one, or two while one replaces the other")),
    }
}

fn required(setting: &str) -> ConfigFault {
    fault(setting, format_args!("is required; set it by environment or {setting}_file"))
}

/// Takes a secret from its file; a trailing line end is not part of it.
pub(super) fn resolve(setting: &str, value: &mut SecretString, file: &str) -> Result<(), ConfigFault> {
    if file.is_empty() {
        return Ok(());
    }
    let given = value.expose_secret();
    let default = setting == "database.url" && given == "sqlite://countersign.db";
    if !given.is_empty() && !default {
        return Err(fault(setting, format_args!("and {setting}_file are both set; set one")));
    }
    let text = std::fs::read_to_string(file)
        .map_err(|err| fault(&format!("{setting}_file"), format_args!("can't be read: {}", err.kind())))?;
    *value = SecretString::from(text.trim_end_matches(['\r', '\n']).to_owned());
    Ok(())
}
