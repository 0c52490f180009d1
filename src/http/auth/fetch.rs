//! Fetching a JWK set: bounded in time and size, no redirects.

use std::time::Duration;

/// The largest JWK set that is read.
const MAX_BYTES: usize = 256 * 1024;

/// A client for key sets. A redirect is not followed: keys come from the address configured.
pub(super) fn client() -> Result<reqwest::Client, String> {
    reqwest::Client::builder()
        .connect_timeout(Duration::from_secs(2))
        .timeout(Duration::from_secs(5))
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("countersign/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|_| "the HTTP client can't be built".to_owned())
}

/// The body of a 200 answer of `url`.
pub(super) async fn json(client: &reqwest::Client, url: &str) -> Result<Vec<u8>, String> {
    let kind = |err: &reqwest::Error| {
        if err.is_timeout() {
            "the issuer did not answer in time".to_owned()
        } else {
            "the issuer can't be reached".to_owned()
        }
    };
    let mut answer = client.get(url).header("accept", "application/json").send().await.map_err(|err| kind(&err))?;
    if answer.status() != reqwest::StatusCode::OK {
        return Err(format!("the issuer answered {}", answer.status().as_u16()));
    }
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|err| kind(&err))? {
        if body.len() + chunk.len() > MAX_BYTES {
            return Err("the JWK set is larger than 256 KiB".to_owned());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
