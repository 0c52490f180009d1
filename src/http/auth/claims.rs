//! From verified claims to a principal.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::fault::AuthFault;
use crate::config;
use crate::domain::{AgentId, Principal, Role, TenantId, Timestamp};

/// What the configuration asks of the claims.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub(super) issuer: String,
    pub(super) audience: String,
    pub(super) leeway: Duration,
    pub(super) tenant_claim: String,
    pub(super) default_tenant: String,
    pub(super) roles_claim: String,
    pub(super) client_claim: String,
}

impl Rules {
    pub(super) fn new(auth: &config::Auth, audience: String) -> Self {
        Self {
            issuer: auth.issuer.clone(),
            audience,
            leeway: Duration::from_secs(auth.leeway_s),
            tenant_claim: auth.tenant_claim.clone(),
            default_tenant: auth.default_tenant.clone(),
            roles_claim: auth.roles_claim.clone(),
            client_claim: auth.client_claim.clone(),
        }
    }

    /// Checks issuer, audience and times; the instant is the token's expiry.
    pub(super) fn check(&self, claims: &Value, now: Timestamp) -> Result<Timestamp, AuthFault> {
        if claims.get("iss").and_then(Value::as_str) != Some(self.issuer.as_str()) {
            return Err(AuthFault::Issuer);
        }
        if !names(claims.get("aud"), &self.audience) {
            return Err(AuthFault::Audience);
        }
        let expiry = instant(claims, "exp")?.ok_or(AuthFault::NoExpiry)?;
        if now >= expiry.plus(self.leeway) {
            return Err(AuthFault::Expired);
        }
        match instant(claims, "nbf")? {
            Some(start) if now.plus(self.leeway) < start => Err(AuthFault::NotYetValid),
            _ => Ok(expiry),
        }
    }

    /// The principal that the claims name.
    pub(super) fn principal(&self, claims: &Value) -> Result<Principal, AuthFault> {
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
        if subject.is_empty() || subject.len() > 255 || subject.chars().any(char::is_control) {
            return Err(AuthFault::Subject);
        }
        let roles = self.roles(claims);
        if roles.len() > 1 && roles.contains(&Role::Agent) {
            return Err(AuthFault::AgentCombined);
        }
        let mut scopes: BTreeSet<String> = words(claims.get("scope")).map(str::to_owned).collect();
        scopes.extend(words(claims.get("scp")).map(str::to_owned));
        Ok(Principal {
            tenant: self.tenant(claims)?,
            client: self.client(claims, subject)?,
            subject: subject.to_owned(),
            roles,
            scopes,
        })
    }

    fn roles(&self, claims: &Value) -> BTreeSet<Role> {
        words(at(claims, &self.roles_claim)).filter_map(Role::from_name).collect()
    }

    fn tenant(&self, claims: &Value) -> Result<TenantId, AuthFault> {
        let name = match at(claims, &self.tenant_claim) {
            None | Some(Value::Null) => self.default_tenant.as_str(),
            Some(Value::String(name)) => name,
            Some(_) => return Err(AuthFault::Tenant),
        };
        name.parse().map_err(|_| AuthFault::Tenant)
    }

    fn client(&self, claims: &Value, subject: &str) -> Result<AgentId, AuthFault> {
        for claim in [at(claims, &self.client_claim), claims.get("azp")] {
            match claim {
                None | Some(Value::Null) => {}
                Some(Value::String(name)) => return name.parse().map_err(|_| AuthFault::Client),
                Some(_) => return Err(AuthFault::Client),
            }
        }
        subject.parse().map_err(|_| AuthFault::Client)
    }
}

/// The claim at `path`: a claim of that whole name, else step by step along the dots.
///
/// Some issuers name claims by URL, dots and all.
fn at<'a>(claims: &'a Value, path: &str) -> Option<&'a Value> {
    if path.is_empty() {
        return None;
    }
    claims.get(path).or_else(|| path.split('.').try_fold(claims, |value, step| value.get(step)))
}

/// The words of a claim: a string cut at white space, or an array that holds strings only.
///
/// An array with anything else in it has no words: an odd claim never grants more than a clean one.
fn words(claim: Option<&Value>) -> Box<dyn Iterator<Item = &str> + '_> {
    match claim {
        Some(Value::String(text)) => Box::new(text.split_ascii_whitespace()),
        Some(Value::Array(items)) if items.iter().all(Value::is_string) => {
            Box::new(items.iter().filter_map(Value::as_str))
        }
        _ => Box::new(std::iter::empty()),
    }
}

/// Whether `aud` names `wanted`, exactly.
fn names(aud: Option<&Value>, wanted: &str) -> bool {
    match aud {
        Some(Value::String(one)) => one == wanted,
        Some(Value::Array(all)) => {
            all.iter().all(Value::is_string) && all.iter().any(|one| one.as_str() == Some(wanted))
        }
        _ => false,
    }
}

/// A `NumericDate` (RFC 7519 §2): seconds, perhaps with a fraction, which is cut off.
fn instant(claims: &Value, name: &str) -> Result<Option<Timestamp>, AuthFault> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let number = value.as_number().ok_or(AuthFault::Malformed)?;
    let text = number.to_string();
    let whole = match number.as_i64() {
        Some(seconds) => seconds,
        None => text.split('.').next().and_then(|whole| whole.parse().ok()).ok_or(AuthFault::Malformed)?,
    };
    Ok(Some(Timestamp::from_micros(whole.saturating_mul(1_000_000))))
}
