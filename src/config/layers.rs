//! The layers: the defaults, a file over them, the environment over both; nothing unknown in either.
//!
//! The default of a key says what kind of value it takes, so that a variable is read as what the
//! setting is: an account or a key made of digits stays the text it is, leading zeros and all.

use std::ffi::OsString;
use std::path::Path;

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::secrets::is_secret;
use super::{Config, ConfigFault, DEFAULTS, fault};

/// What all our variables begin with.
const PREFIX: &str = "COUNTERSIGN";

/// Reads the layers into one table. An empty variable counts as unset.
///
/// *Errors*: an unknown key, with the one that was probably meant; a value of another kind than the
/// setting has; a secret in the file. All name the file or the variable, and none shows a value.
pub(super) fn layered(
    file: Option<&Path>,
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Table, ConfigFault> {
    let defaults: Table = read("the defaults", DEFAULTS)?;
    let mut merged = defaults.clone();
    if let Some(path) = file {
        let whence = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|err| fault("--config", format_args!("no readable file at {whence}: {}", err.kind())))?;
        let over = read(&whence, &text)?;
        Over { known: &defaults, whence: &whence, text: &text }.lay(&mut merged, over, "")?;
    }
    // In one order, so that of several faults the same one is told each time.
    let mut variables: Vec<(String, OsString)> =
        environment.filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value))).collect();
    variables.sort();
    for (name, value) in variables.iter().filter(|(name, value)| is_ours(name) && !value.is_empty()) {
        let value = value.to_str().ok_or_else(|| fault(name, "is not Unicode text"))?;
        set(&mut merged, &defaults, name, value)?;
    }
    Ok(merged)
}

/// The configuration that a table of all layers is.
pub(super) fn typed(merged: Table) -> Result<Config, ConfigFault> {
    merged.try_into().map_err(|err: toml::de::Error| {
        let lines: Vec<String> = err.to_string().lines().map(|line| line.trim().to_owned()).collect();
        ConfigFault(lines.join(" ").trim().to_owned())
    })
}

/// Reads TOML. What a parser shows of the text is left out: it may hold a secret.
fn read(whence: &str, text: &str) -> Result<Table, ConfigFault> {
    toml::from_str(text).map_err(|err| {
        let line = line(text, err.span().map_or(0, |span| span.start));
        let what = err.message().lines().collect::<Vec<_>>().join(" ");
        fault(whence, format_args!("is not TOML, near line {line}: {what}"))
    })
}

/// The number of the line that the byte at `place` is in.
fn line(text: &str, place: usize) -> usize {
    text.get(..place).unwrap_or_default().matches('\n').count().saturating_add(1)
}

/// Whether a variable sets a setting, or was meant to: others, such as `COUNTERSIGN_CONFIG`, have
/// no double line in them.
fn is_ours(name: &str) -> bool {
    name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX)) && name.contains("__")
}

/// A layer that comes from a file.
struct Over<'a> {
    known: &'a Table,
    whence: &'a str,
    text: &'a str,
}

impl Over<'_> {
    /// Lays `over` on `below`, which has every key there is.
    fn lay(&self, below: &mut Table, over: Table, path: &str) -> Result<(), ConfigFault> {
        for (name, value) in over {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let Some(known) = below.get_mut(&name) else {
                return Err(unknown(self.known, &self.place(&path), &path));
            };
            if is_secret(&path, &value) {
                // Files are copied, committed and shown.
                return Err(fault(
                    &self.place(&path),
                    format_args!("{path} is a secret: set it by environment or {path}_file"),
                ));
            }
            match (known, value) {
                (Value::Table(known), Value::Table(over)) => self.lay(known, over, &path)?,
                (known, value) if std::mem::discriminant(known) == std::mem::discriminant(&value) => *known = value,
                (known, _) => return Err(fault(&self.place(&path), format_args!("{path} must be {}", kind(known)))),
            }
        }
        Ok(())
    }

    /// The file, and the line of the key `path` in it.
    fn place(&self, path: &str) -> String {
        let found = DeTable::parse(self.text).ok().and_then(|table| span_start(table.get_ref(), path));
        match found {
            Some(start) => format!("{}, line {}", self.whence, line(self.text, start)),
            None => self.whence.to_owned(),
        }
    }
}

/// Where the key `path` begins.
fn span_start(table: &DeTable<'_>, path: &str) -> Option<usize> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let (key, value) = table.iter().find(|(key, _)| key.get_ref() == first)?;
    match (rest, value.get_ref()) {
        (None, _) => Some(key.span().start),
        (Some(rest), DeValue::Table(inner)) => span_start(inner, rest),
        (Some(_), _) => None,
    }
}

/// Sets what a variable names.
fn set(merged: &mut Table, defaults: &Table, variable: &str, text: &str) -> Result<(), ConfigFault> {
    let path = variable.to_ascii_lowercase();
    let path = path.get(PREFIX.len()..).unwrap_or_default();
    if !path.starts_with("__") {
        let meant = path.trim_start_matches('_').to_ascii_uppercase();
        return Err(fault(variable, format_args!("two underscores follow {PREFIX}: {PREFIX}__{meant}")));
    }
    let names: Vec<&str> = path.strip_prefix("__").unwrap_or_default().split("__").collect();
    let dotted = names.join(".");
    let told = if dotted.is_empty() { path.trim_start_matches('_').replace("__", ".") } else { dotted };
    let Some(known) = find(merged, &names) else {
        return Err(unknown(defaults, variable, &told));
    };
    let wrong = |known: &Value| fault(variable, format_args!("{told} must be {}", kind(known)));
    let value = match known {
        Value::String(_) => Value::String(text.to_owned()),
        Value::Integer(_) => Value::Integer(text.trim().parse().map_err(|_| wrong(known))?),
        Value::Boolean(_) => Value::Boolean(text.trim().to_ascii_lowercase().parse().map_err(|_| wrong(known))?),
        // Of what its default holds; texts where the default is empty.
        Value::Array(kept) => {
            let numbers = kept.first().is_some_and(Value::is_integer);
            let item = |item: &str| match (numbers, item.parse()) {
                (true, Ok(number)) => Ok(Value::Integer(number)),
                (true, Err(_)) => Err(wrong(known)),
                (false, _) => Ok(Value::String(item.to_owned())),
            };
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Value::Array(items.map(item).collect::<Result<_, _>>()?)
        }
        Value::Float(_) | Value::Datetime(_) | Value::Table(_) => return Err(wrong(known)),
    };
    *known = value;
    Ok(())
}

fn find<'a>(table: &'a mut Table, names: &[&str]) -> Option<&'a mut Value> {
    let (first, rest) = names.split_first()?;
    let value = table.get_mut(*first)?;
    match (rest.is_empty(), value) {
        (true, value) => Some(value),
        (false, Value::Table(inner)) => find(inner, rest),
        (false, _) => None,
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a text, in quotes in a file",
        Value::Integer(_) => "a whole number",
        Value::Boolean(_) => "true or false",
        Value::Array(_) => "a list, in the environment with commas between its values",
        Value::Table(_) => "a section with keys in it",
        Value::Float(_) | Value::Datetime(_) => "of another kind",
    }
}

/// A key that there is not, and the one that was probably meant.
fn unknown(defaults: &Table, whence: &str, path: &str) -> ConfigFault {
    let shown: String = path.chars().filter(|c| !c.is_control()).take(80).collect();
    match meant(defaults, &shown) {
        Some(meant) => fault(whence, format_args!("unknown key {shown}; did you mean {meant}?")),
        None => fault(whence, format_args!("unknown key {shown}; docs/configuration.md has every key")),
    }
}

/// The known key nearest to `path`: the same name in another section, or a few letters away.
fn meant(defaults: &Table, path: &str) -> Option<String> {
    let mut known = Vec::new();
    name_all(defaults, "", &mut known);
    let last = path.rsplit('.').next().unwrap_or(path);
    let elsewhere: Vec<&String> =
        known.iter().filter(|key| key.rsplit_once('.').is_some_and(|(_, name)| name == last)).collect();
    let near = known.iter().map(|key| (strsim::osa_distance(key, path), key)).min();
    match (near, elsewhere.as_slice()) {
        (Some((distance, key)), _) if distance.saturating_mul(4) <= path.len() => Some(key.clone()),
        (_, [only]) => Some((*only).clone()),
        _ => None,
    }
}

fn name_all(table: &Table, path: &str, names: &mut Vec<String>) {
    for (name, value) in table {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if let Value::Table(inner) = value {
            name_all(inner, &path, names);
        }
        names.push(path);
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<Config, String> {
        let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        layered(None, variables).and_then(typed).map_err(|fault| fault.to_string())
    }

    fn refused(name: &str, value: &str) -> String {
        with(&[(name, value)]).err().unwrap_or_else(|| panic!("{name}={value} is taken"))
    }

    #[test]
    fn a_variable_is_read_as_what_its_setting_is() {
        let config = with(&[
            ("COUNTERSIGN__PAYMENTS__PAYEE_ACCOUNT", "0012345678"),
            ("COUNTERSIGN__SIGNER__API_KEY", "0000000000000000017"),
            ("COUNTERSIGN__RAIL__DEDUP", "86400"),
            ("COUNTERSIGN__AUTH__ISSUER", "true"),
            ("COUNTERSIGN__NOTIFY__ATTEMPTS", "3"),
            ("COUNTERSIGN__WORKER__ENABLED", "False"),
            ("COUNTERSIGN__PAYMENTS__CURRENCIES", "USD, JPY,"),
            ("countersign__server__listen", "127.0.0.1:1"),
            ("COUNTERSIGN__WEBHOOKS__SCHEDULE_S", "0, 7"),
        ])
        .unwrap();
        assert_eq!(config.webhooks.schedule_s, [0, 7]);
        assert_eq!(config.payments.payee_account, "0012345678", "no zero is lost");
        assert_eq!(config.signer.api_key.expose_secret(), "0000000000000000017");
        assert_eq!((config.rail.dedup.as_str(), config.auth.issuer.as_str()), ("86400", "true"));
        assert_eq!((config.notify.attempts, config.worker.enabled), (3, false));
        assert_eq!(config.payments.currencies, ["USD", "JPY"]);
        assert_eq!(config.server.listen, "127.0.0.1:1");
    }

    #[test]
    fn an_empty_variable_counts_as_unset_and_others_variables_are_not_ours() {
        let config = with(&[
            ("COUNTERSIGN__SERVER__LISTEN", ""),
            ("COUNTERSIGN__SERVER__NO_SUCH", ""),
            ("COUNTERSIGN_CONFIG", "x"),
            ("COUNTERSIGN_SIGNER_LISTEN", "x"),
            ("OTHER__SERVER__LISTEN", "x"),
        ])
        .unwrap();
        assert_eq!(config.server.listen, "127.0.0.1:8080");
    }

    #[test]
    fn an_unknown_key_is_answered_with_the_one_that_was_meant() {
        for (variable, key, meant) in [
            ("COUNTERSIGN__NOTIFY__ATEMPTS", "notify.atempts", "notify.attempts"),
            ("COUNTERSIGN__SERVER__LISTN", "server.listn", "server.listen"),
            ("COUNTERSIGN__SEVER__LISTEN", "sever.listen", "server.listen"),
            ("COUNTERSIGN__NOTIFY_ATTEMPTS", "notify_attempts", "notify.attempts"),
            ("COUNTERSIGN__SERVER__LEASE_MS", "server.lease_ms", "worker.lease_ms"),
        ] {
            let told = refused(variable, "1");
            assert_eq!(told, format!("configuration: {variable}: unknown key {key}; did you mean {meant}?"));
        }
        let told = refused("COUNTERSIGN_NOTIFY__ATTEMPTS", "1");
        assert!(told.ends_with("two underscores follow COUNTERSIGN: COUNTERSIGN__NOTIFY__ATTEMPTS"), "{told}");
        let told = refused("COUNTERSIGN__ZZZ__QQQQQQ", "1");
        assert!(told.ends_with("unknown key zzz.qqqqqq; docs/configuration.md has every key"), "{told}");
    }

    #[test]
    fn a_value_of_another_kind_is_refused_and_not_shown() {
        for (variable, value, what) in [
            ("COUNTERSIGN__NOTIFY__ATTEMPTS", "many", "a whole number"),
            ("COUNTERSIGN__NOTIFY__ATTEMPTS", "1.5", "a whole number"),
            ("COUNTERSIGN__WORKER__ENABLED", "maybe", "true or false"),
            ("COUNTERSIGN__WORKER", "maybe", "a section"),
        ] {
            let told = refused(variable, value);
            assert!(told.contains(variable) && told.contains(what) && !told.contains(value), "{told}");
        }
        for value in ["-1", "5000000000"] {
            let told = refused("COUNTERSIGN__NOTIFY__ATTEMPTS", value);
            assert!(told.contains("notify.attempts") && told.lines().count() == 1, "{told}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_variable_that_is_no_text_is_refused() {
        use std::os::unix::ffi::OsStringExt as _;
        let one = [(OsString::from("COUNTERSIGN__AUTH__ISSUER"), OsString::from_vec(vec![0xff]))];
        assert!(layered(None, one.into_iter()).unwrap_err().to_string().contains("COUNTERSIGN__AUTH__ISSUER"));
    }
}
