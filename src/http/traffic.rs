//! What goes on on one connection, and when it has held its seat long enough.
//!
//! hyper bounds the head of an HTTP/1.1 request and asks an HTTP/2 client for signs of life. What
//! neither bounds is counted here: a body that never comes, a connection that carries no call, an
//! answer that is not taken.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body as AnyBody;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};
use tower::ServiceExt as _;

use super::problem::problem_as;
use crate::domain::{Code, Refusal};

/// How long a connection that is told to go may take to send what it has.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// What to do with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Look again then.
    Wait(Instant),
    /// It carries nothing: ask it to end.
    Leave,
    /// It won't end, or holds what it was given: close it.
    Cut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Its body is still to come.
    Arriving,
    /// It is attended to.
    Working,
    /// Its answer is on the way, since then.
    Answering(Instant),
}

/// The requests on one connection.
#[derive(Debug)]
pub(super) struct Traffic {
    patience: Duration,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    requests: HashMap<u64, Phase>,
    next: u64,
    changed: Instant,
    /// Since when the connection is asked to end.
    asked: Option<Instant>,
    stopping: bool,
}

impl Traffic {
    pub(super) fn new(patience: Duration) -> Arc<Self> {
        let now = Now { requests: HashMap::new(), next: 0, changed: Instant::now(), asked: None, stopping: false };
        Arc::new(Self { patience, now: Mutex::new(now) })
    }

    /// The process stops: what is attended to may end, nothing else is waited for.
    pub(super) fn stop(&self) {
        let mut now = self.now();
        now.stopping = true;
        now.asked.get_or_insert_with(Instant::now);
    }

    /// Whether no request has come yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.now().next == 0
    }

    /// What to do with the connection. To be asked again at the end of each wait.
    pub(super) fn verdict(&self) -> Verdict {
        let mut now = self.now();
        let moment = Instant::now();
        let over = |since: Instant, span: Duration| since + span <= moment;
        let answers = now.requests.values().filter_map(|phase| match phase {
            Phase::Answering(since) => Some(*since),
            Phase::Arriving | Phase::Working => None,
        });
        let oldest = answers.min();
        if oldest.is_some_and(|since| over(since, self.patience)) {
            return Verdict::Cut;
        }
        let step = if now.stopping { GRACE.min(self.patience) } else { self.patience };
        let busy = if now.stopping {
            now.requests.values().any(|phase| *phase == Phase::Working)
        } else {
            !now.requests.is_empty()
        };
        if busy {
            // What begins after this look lasts at least a step.
            return Verdict::Wait(oldest.map_or(moment + step, |since| (since + self.patience).min(moment + step)));
        }
        match now.asked {
            Some(asked) if over(asked.max(now.changed), GRACE) => Verdict::Cut,
            Some(asked) => Verdict::Wait(asked.max(now.changed) + GRACE),
            None if over(now.changed, self.patience) => {
                now.asked = Some(moment);
                Verdict::Leave
            }
            None => Verdict::Wait(now.changed + self.patience),
        }
    }

    /// Answers a request, whose body gets as long as a head does.
    pub(super) async fn serve(
        self: Arc<Self>,
        router: Router,
        request: Request<Incoming>,
    ) -> Result<Response<Answer>, Infallible> {
        let version = request.version();
        let ticket = self.admit(request.body().is_end_stream());
        let late = Arc::new(AtomicBool::new(false));
        let request = request.map(|body| Arriving {
            limit: (!body.is_end_stream()).then(|| Box::pin(tokio::time::sleep(self.patience))),
            body,
            late: Arc::clone(&late),
            traffic: Arc::clone(&self),
            id: ticket.id,
        });
        let Ok(mut response) = router.oneshot(request).await;
        if late.load(Ordering::Relaxed) {
            response = too_late(version);
        }
        ticket.set(Phase::Answering(Instant::now()));
        Ok(response.map(|body| Answer { body, _ticket: ticket }))
    }

    fn admit(self: &Arc<Self>, whole: bool) -> Ticket {
        let mut now = self.now();
        let id = now.next;
        now.next = id.wrapping_add(1);
        now.requests.insert(id, if whole { Phase::Working } else { Phase::Arriving });
        now.changed = Instant::now();
        Ticket { traffic: Arc::clone(self), id }
    }

    /// The body is there, or nobody waits for it any more.
    fn arrived(&self, id: u64) {
        if let Some(phase @ Phase::Arriving) = self.now().requests.get_mut(&id) {
            *phase = Phase::Working;
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn too_late(version: Version) -> Response<AnyBody> {
    let refusal = Refusal::new(Code::InvalidArgument, "the body did not arrive in time");
    let mut response = problem_as(StatusCode::REQUEST_TIMEOUT, &refusal, "");
    // HTTP/2 has no such header (RFC 9113 §8.2.2); there the stream ends, and the connection as an idle one.
    if version < Version::HTTP_2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// A request on the connection, until it is dropped.
#[derive(Debug)]
struct Ticket {
    traffic: Arc<Traffic>,
    id: u64,
}

impl Ticket {
    fn set(&self, phase: Phase) {
        let mut now = self.traffic.now();
        now.requests.insert(self.id, phase);
        now.changed = Instant::now();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut now = self.traffic.now();
        now.requests.remove(&self.id);
        now.changed = Instant::now();
    }
}

/// A request's body that must be there in time, whole.
#[derive(Debug)]
struct Arriving {
    body: Incoming,
    limit: Option<Pin<Box<Sleep>>>,
    late: Arc<AtomicBool>,
    traffic: Arc<Traffic>,
    id: u64,
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match polled {
            Poll::Pending => {
                if self.limit.as_mut().is_some_and(|limit| limit.as_mut().poll(cx).is_ready()) {
                    self.late.store(true, Ordering::Relaxed);
                    return Poll::Ready(Some(Err("the body did not arrive in time".into())));
                }
                Poll::Pending
            }
            Poll::Ready(frame) => {
                if frame.is_none() || self.body.is_end_stream() {
                    self.traffic.arrived(self.id);
                }
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.traffic.arrived(self.id);
    }
}

/// An answer's body; while it is there, the answer has not been taken.
#[derive(Debug)]
pub(super) struct Answer {
    body: AnyBody,
    _ticket: Ticket,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
