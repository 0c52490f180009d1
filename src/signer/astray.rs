//! Whoever goes astray among the pages' addresses with a browser is told so by a page, a program by JSON.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};

use super::Desk;
use super::language::Language;
use super::page;
use super::refused::Refused;
use super::sign::wants_page;

/// Turns a refusal below the pages' addresses into a page, for whoever asks for one.
pub(super) async fn guard(State(desk): State<Arc<Desk>>, language: Language, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let wanted = wants_page(request.headers()) && page::is_below_pages(&path);
    let response = next.run(request).await;
    let Some(refused) = response.extensions().get::<Refused>().filter(|_| wanted) else { return response };
    let html = page::astray(language, &desk.address, refused, &path);
    let mut page = (response.status(), Html(html)).into_response();
    for name in [header::ALLOW, header::RETRY_AFTER] {
        if let Some(value) = response.headers().get(&name) {
            page.headers_mut().insert(name, value.clone());
        }
    }
    page
}
