//! Every value that can't be used is refused before anything starts, with its setting and the reason.

use secrecy::ExposeSecret as _;

use super::secrets::{api_key, whsecs};
use super::urls::{UrlFault, bare_url, base_url, database_url, web_url};
use super::{Config, ConfigFault, Database, fault, ms};
use crate::domain::{Account, Currency, TenantId};
use crate::telemetry;

/// No span is longer: what lies beyond is a slip, and would run off the end of time.
const LONGEST_S: u64 = 366 * 24 * 3_600;
/// But for retention, which has to be longer than the longest window of a limit: a year.
const LONGEST_KEPT_S: u64 = 10 * LONGEST_S;
/// How long a worker may sleep, and how long what a dead one held may lie.
const IDLE_MS: u64 = 3_600_000;
/// Below it a call's deadline would leave its answer no time.
const SHORTEST_DEADLINE_MS: u64 = 1_000;

impl Config {
    /// Checks what a gateway or worker needs before it starts.
    ///
    /// *Errors*: the first setting that is missing or can't be used; never its value.
    pub fn check(&self) -> Result<(), ConfigFault> {
        self.check_server()?;
        self.database.check()?;
        self.check_auth()?;
        self.check_peers()?;
        self.webhooks.check()?;
        self.audit.check()?;
        self.passkeys.check()?;
        self.check_payments()?;
        self.check_numbers()?;
        self.check_spans()?;
        telemetry::check(&self.telemetry)
    }

    fn check_server(&self) -> Result<(), ConfigFault> {
        let server = &self.server;
        url("server.public_url", bare_url(&server.public_url))?;
        let listen = server.listen.rsplit_once(':');
        if !listen.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()) {
            return Err(fault("server.listen", "must be an address and a port, such as 127.0.0.1:8080"));
        }
        for (host, number) in server.allowed_hosts.iter().zip(1..) {
            bare_url(&format!("http://{host}/")).map_err(|_| {
                fault("server.allowed_hosts", format_args!("number {number} must be a host or host:port"))
            })?;
        }
        for (origin, number) in server.allowed_origins.iter().zip(1..) {
            bare_url(origin).map_err(|why| fault("server.allowed_origins", format_args!("number {number} {why}")))?;
        }
        if server.call_deadline_ms < SHORTEST_DEADLINE_MS {
            return Err(fault("server.call_deadline_ms", format_args!("must be at least {SHORTEST_DEADLINE_MS}")));
        }
        Ok(())
    }

    fn check_auth(&self) -> Result<(), ConfigFault> {
        let auth = &self.auth;
        if auth.issuer.trim().is_empty() {
            return Err(fault("auth.issuer", "is required: the \"iss\" of the tokens you accept"));
        }
        match (auth.jwks_url.is_empty(), auth.jwks_file.is_empty()) {
            (true, true) => {
                return Err(fault("auth.jwks_url", "is required (or auth.jwks_file): where the issuer's keys are"));
            }
            (false, false) => return Err(fault("auth.jwks_url", "and auth.jwks_file are both set; set one")),
            (false, true) => url("auth.jwks_url", web_url(&auth.jwks_url))?,
            (true, false) => {}
        }
        if auth.roles_claim.trim().is_empty() {
            return Err(fault("auth.roles_claim", "is required: the claim that names a token's roles"));
        }
        if !auth.default_tenant.is_empty() {
            auth.default_tenant.parse::<TenantId>().map_err(|err| fault("auth.default_tenant", err.message))?;
        }
        match web_url(&auth.issuer) {
            // It is published as the authorization server.
            Err(why @ UrlFault::NotWeb) if auth.authorization_servers.is_empty() => {
                return Err(fault(
                    "auth.issuer",
                    format_args!("{why}, unless auth.authorization_servers names others"),
                ));
            }
            Ok(_) | Err(UrlFault::NotWeb) => {}
            Err(why) => return Err(fault("auth.issuer", why)),
        }
        for (server, number) in auth.authorization_servers.iter().zip(1..) {
            web_url(server)
                .map_err(|why| fault("auth.authorization_servers", format_args!("number {number} {why}")))?;
        }
        Ok(())
    }

    fn check_peers(&self) -> Result<(), ConfigFault> {
        url("signer.url", base_url(&self.signer.url))?;
        url("rail.url", base_url(&self.rail.url))?;
        api_key("signer.api_key", &self.signer.api_key)?;
        api_key("rail.api_key", &self.rail.api_key)?;
        whsecs("signer.callback_secret", &self.signer.callback_secret)?;
        if !self.signer.callback_url.is_empty() {
            url("signer.callback_url", web_url(&self.signer.callback_url))?;
        }
        if !self.telemetry.otlp_endpoint.is_empty() {
            url("telemetry.otlp_endpoint", base_url(&self.telemetry.otlp_endpoint))?;
        }
        let Some(Some(life)) = self.dedup()? else { return Ok(()) };
        if life.as_secs() > LONGEST_S {
            return Err(too_long("rail.dedup", LONGEST_S));
        }
        if life / 2 <= ms(self.rail.total_timeout_ms) {
            let why = "a key's life must be more than twice rail.total_timeout_ms; else say \"none\"";
            return Err(fault("rail.dedup", why));
        }
        Ok(())
    }

    fn check_payments(&self) -> Result<(), ConfigFault> {
        let payments = &self.payments;
        for code in payments.currencies.iter().chain([&payments.currency]) {
            code.parse::<Currency>()
                .map_err(|_| fault("payments.currencies", format_args!("{code:?} is not a current ISO 4217 code")))?;
        }
        if !payments.currencies.contains(&payments.currency) {
            return Err(fault("payments.currency", "must be one of payments.currencies"));
        }
        Account::parse("payer_account", &payments.payer_account)
            .map_err(|err| fault("payments.payer_account", err.message))?;
        if !payments.payee_account.is_empty() {
            Account::parse("payee_account", &payments.payee_account)
                .map_err(|err| fault("payments.payee_account", err.message))?;
        }
        Ok(())
    }

    /// Numbers of which there must be at least one.
    fn check_numbers(&self) -> Result<(), ConfigFault> {
        let positive = [
            ("server.body_limit_bytes", self.server.body_limit_bytes == 0),
            ("server.max_connections", self.server.max_connections == 0),
            ("server.calls_per_minute", self.server.calls_per_minute == 0),
            ("server.calls_burst", self.server.calls_burst == 0),
            ("database.pool_size", self.database.pool_size == 0),
            ("notify.attempts", self.notify.attempts == 0),
            ("worker.batch", self.worker.batch == 0),
        ];
        match positive.iter().find(|(_, is_zero)| *is_zero) {
            Some((setting, _)) => Err(fault(setting, "must be more than zero")),
            None => Ok(()),
        }
    }

    /// Spans: long enough to be one, and short enough that what they end at can be written down.
    fn check_spans(&self) -> Result<(), ConfigFault> {
        const LONGEST_MS: u64 = LONGEST_S * 1_000;
        let (signer, rail) = (&self.signer, &self.rail);
        let positive = [
            ("server.header_timeout_ms", self.server.header_timeout_ms, LONGEST_MS),
            ("server.call_deadline_ms", self.server.call_deadline_ms, LONGEST_MS),
            ("database.busy_timeout_ms", self.database.busy_timeout_ms, LONGEST_MS),
            ("payments.expires_after_s", self.payments.expires_after_s, LONGEST_S),
            ("payments.execute_within_s", self.payments.execute_within_s, LONGEST_S),
            ("notify.base_ms", self.notify.base_ms, LONGEST_MS),
            ("notify.cap_ms", self.notify.cap_ms, LONGEST_MS),
            ("notify.slow_ms", self.notify.slow_ms, LONGEST_MS),
            ("notify.check_every_ms", self.notify.check_every_ms, LONGEST_MS),
            ("worker.tick_ms", self.worker.tick_ms, IDLE_MS),
            ("worker.lease_ms", self.worker.lease_ms, IDLE_MS),
            ("signer.connect_timeout_ms", signer.connect_timeout_ms, LONGEST_MS),
            ("signer.read_timeout_ms", signer.read_timeout_ms, LONGEST_MS),
            ("signer.total_timeout_ms", signer.total_timeout_ms, LONGEST_MS),
            ("rail.connect_timeout_ms", rail.connect_timeout_ms, LONGEST_MS),
            ("rail.read_timeout_ms", rail.read_timeout_ms, LONGEST_MS),
            ("rail.total_timeout_ms", rail.total_timeout_ms, LONGEST_MS),
            ("rail.in_flight_s", rail.in_flight_s, LONGEST_S),
            ("rail.query_base_ms", rail.query_base_ms, LONGEST_MS),
            ("rail.query_cap_ms", rail.query_cap_ms, LONGEST_MS),
            ("webhooks.timeout_ms", self.webhooks.timeout_ms, LONGEST_MS),
            ("audit.checkpoint_every_ms", self.audit.checkpoint_every_ms, LONGEST_MS),
        ];
        let any = [
            ("server.drain_ms", self.server.drain_ms, LONGEST_MS),
            ("auth.leeway_s", self.auth.leeway_s, LONGEST_S),
            ("notify.auto_after_ms", self.notify.auto_after_ms, LONGEST_MS),
            ("signer.breaker_wait_ms", signer.breaker_wait_ms, LONGEST_MS),
            ("rail.breaker_wait_ms", rail.breaker_wait_ms, LONGEST_MS),
            ("rail.read_lag_ms", rail.read_lag_ms, LONGEST_MS),
            ("retention.finished_after_s", self.retention.finished_after_s, LONGEST_KEPT_S),
            ("restore.asleep_s", self.restore.asleep_s, LONGEST_S),
        ];
        if let Some((setting, ..)) = positive.iter().find(|(_, value, _)| *value == 0) {
            return Err(fault(setting, "must be more than zero"));
        }
        let waits = self.webhooks.schedule_s.iter().map(|wait| ("webhooks.schedule_s", *wait, LONGEST_S));
        let reminders = self.notify.remind_after_s.iter().map(|wait| ("notify.remind_after_s", *wait, LONGEST_S));
        let spans = positive.into_iter().chain(any).chain(waits).chain(reminders);
        if let Some((setting, _, longest)) = spans.into_iter().find(|(_, value, longest)| value > longest) {
            return Err(too_long(setting, longest));
        }
        self.notify.reminders()?;
        if self.worker.lease_ms <= rail.total_timeout_ms.max(signer.total_timeout_ms) {
            return Err(fault(
                "worker.lease_ms",
                "must be longer than rail.total_timeout_ms and signer.total_timeout_ms",
            ));
        }
        if rail.in_flight_s.saturating_mul(1_000) <= self.worker.lease_ms {
            let why = "must be longer than worker.lease_ms, in which an attempt may still leave";
            return Err(fault("rail.in_flight_s", why));
        }
        Ok(())
    }
}

fn too_long(setting: &str, longest: u64) -> ConfigFault {
    fault(setting, format_args!("must be at most {longest}"))
}

/// Says of a URL that can't be used whose it is.
fn url<T>(setting: &str, judged: Result<T, UrlFault>) -> Result<(), ConfigFault> {
    judged.map(drop).map_err(|why| fault(setting, why))
}

impl Database {
    /// Checks what kind of database it is.
    ///
    /// *Errors*: one that is not spoken here.
    pub fn check(&self) -> Result<(), ConfigFault> {
        url("database.url", database_url(self.url.expose_secret()))
    }
}
