//! Protected-resource metadata (RFC 9728): where a client learns who issues tokens for us.

use axum::Router;
use axum::http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_TYPE};
use axum::routing::get;
use serde_json::json;
use url::Url;

use super::challenge::METADATA_PATH;

/// The routes that publish the metadata of `resource`, without authentication.
///
/// Both at the root and at the path-inserted address, since clients try either first. Public data:
/// any origin may read it.
pub fn router(resource: &str, authorization_servers: &[String], scopes: &[String]) -> Router {
    let mut document = json!({
        "resource": resource,
        "authorization_servers": authorization_servers,
        "bearer_methods_supported": ["header"],
        "resource_name": "Countersign payment desk",
    });
    if let (false, Some(fields)) = (scopes.is_empty(), document.as_object_mut()) {
        fields.insert("scopes_supported".to_owned(), json!(scopes));
    }
    let text = document.to_string();
    let answer = move || {
        let text = text.clone();
        async move {
            let headers = [
                (CONTENT_TYPE, "application/json"),
                (CACHE_CONTROL, "max-age=300"),
                (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
            ];
            (headers, text)
        }
    };
    let own =
        Url::parse(resource).map_or_else(|_| "/mcp".to_owned(), |url| url.path().trim_end_matches('/').to_owned());
    let mut paths = vec![METADATA_PATH.to_owned(), format!("{METADATA_PATH}/mcp"), format!("{METADATA_PATH}{own}")];
    paths.sort();
    paths.dedup();
    paths.into_iter().fold(Router::new(), |router, path| router.route(&path, get(answer.clone())))
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn both_paths_publish_the_same_document() {
        for (resource, extra) in
            [("https://pay.example/mcp", None), ("https://pay.example/desk/mcp", Some("/desk/mcp"))]
        {
            let router = router(resource, &["https://idp.example".to_owned()], &["pay".to_owned()]);
            for path in ["", "/mcp"].into_iter().chain(extra) {
                let request = Request::get(format!("{METADATA_PATH}{path}")).body(Body::empty()).unwrap();
                let response = router.clone().oneshot(request).await.unwrap();
                assert_eq!(response.status(), 200, "{path}");
                assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
                let body = to_bytes(response.into_body(), 4_096).await.unwrap();
                let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
                assert_eq!(body["resource"], resource);
                assert_eq!(body["authorization_servers"], json!(["https://idp.example"]));
                assert_eq!(body["bearer_methods_supported"], json!(["header"]));
                assert_eq!(body["scopes_supported"], json!(["pay"]));
            }
        }
    }
}
