//! Messages on their way to people: gathered, held back, handed to one channel after another.
//!
//! A message is a row before anything is tried, and each attempt at it is one too. A channel is tried at most once for
//! a message: an attempt that a crash cut short may have arrived, so the next thing to try is the next channel, and
//! whether to ask again is the gateway's to say, with a new notification. When all are used up the message is
//! unreachable, which the answer to `notify` or the payment's status tells.
//!
//! Nothing is sent in a person's quiet hours, and above a rate what comes is held and leaves as one message.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Desk;
use super::channels::{LONGEST, Letter, Missed, Way, Wording};
use super::directory::Contact;
use super::link;
use super::store::{KeptPayment, Message, Session, StoreFault, Trying};
use crate::domain::Timestamp;
use crate::proof::PaymentDocument;

/// How long an attempt keeps others from taking its message over: past the longest of its time-outs.
const LEASE: Duration = Duration::from_secs(LONGEST.as_secs() + 30);
/// How often what is due is looked for when nothing is said to be new.
const EVERY: Duration = Duration::from_millis(500);

/// A letter that was written down as being tried, and the messages in it.
struct Carried {
    letter: Letter,
    messages: Vec<Message>,
    place: i64,
}

/// What is done with messages that are due.
#[derive(Default)]
struct Plan {
    /// They leave now, these together in each letter.
    letters: Vec<Vec<Message>>,
    /// They wait, until then and for that.
    held: Vec<(Message, Timestamp, &'static str)>,
}

/// Carries messages until `stop`; each person's on their own.
pub(super) async fn run(desk: &Arc<Desk>, stop: CancellationToken) {
    let mut under_way: JoinSet<String> = JoinSet::new();
    let mut busy: HashSet<String> = HashSet::new();
    loop {
        match due(desk).await {
            Ok(people) => {
                for signer in people {
                    if busy.insert(signer.clone()) {
                        let desk = Arc::clone(desk);
                        under_way.spawn(async move {
                            dispatch(&desk, &signer).await;
                            signer
                        });
                    }
                }
            }
            Err(fault) => tracing::error!(error = %fault, "the messages that are due can't be read"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
            Some(ended) = under_way.join_next() => drop(ended.map(|signer| busy.remove(&signer))),
        }
        while let Some(ended) = under_way.try_join_next() {
            drop(ended.map(|signer| busy.remove(&signer)));
        }
        if under_way.is_empty() {
            // A task that panicked has left its person's name.
            busy.clear();
        }
    }
}

/// Carries once what is due; for how many people.
pub(super) async fn tick(desk: &Arc<Desk>) -> Result<usize, StoreFault> {
    let people = due(desk).await?;
    futures::future::join_all(people.iter().map(|signer| dispatch(desk, signer))).await;
    Ok(people.len())
}

async fn due(desk: &Desk) -> Result<Vec<String>, StoreFault> {
    desk.store.read().await?.due_people(desk.now()).await
}

/// Carries what is due for one person, to its end.
pub(super) async fn dispatch(desk: &Desk, signer: &str) {
    match gather(desk, signer).await {
        Ok(letters) => drop(futures::future::join_all(letters.into_iter().map(|it| carry(desk, it))).await),
        Err(fault) => {
            tracing::error!(signer.id = signer, error = %fault, "messages could not be gathered; they stay due");
        }
    }
    desk.settled();
}

/// Decides what leaves now and writes it down as being tried.
async fn gather(desk: &Desk, signer: &str) -> Result<Vec<Carried>, StoreFault> {
    let now = desk.now();
    let mut session = desk.store.write().await?;
    let mut payments = HashMap::new();
    let mut wanted: BTreeMap<i64, Vec<Message>> = BTreeMap::new();
    for message in session.due_messages(signer, now).await? {
        let Some(message) = take_over(&mut session, message, now).await? else { continue };
        if is_wanted(&mut session, &mut payments, &message, now).await? {
            wanted.entry(message.place).or_default().push(message);
        } else {
            session.put_message(&message, "dropped", "", now, now).await?;
        }
    }
    let contact = desk.directory.contact(signer);
    let mut carried = Vec::new();
    for (place, messages) in wanted {
        // What was begun goes on: another channel is no second message.
        let plan = match (place, contact) {
            (0, Some(contact)) => plan(desk, &mut session, contact, &payments, messages, now).await?,
            _ => Plan { letters: vec![messages], ..Plan::default() },
        };
        for (message, until, why) in plan.held {
            session.put_message(&message, "held", why, until, now).await?;
        }
        for messages in plan.letters {
            carried.extend(begin(desk, &mut session, &payments, messages, place, now).await?);
        }
    }
    session.commit().await?;
    Ok(carried)
}

/// A message whose attempt did not end is tried on the next channel: this one may have taken it.
async fn take_over(session: &mut Session, message: Message, now: Timestamp) -> Result<Option<Message>, StoreFault> {
    if message.state != "trying" {
        return Ok(Some(message));
    }
    session.end_attempt_at(&message.id, message.place, Some("in_doubt"), now).await?;
    session.next_place(&message, now).await?;
    Ok(session.message(&message.id).await?.filter(|message| message.state == "due"))
}

/// Whether the message still says something: its round is open and its person has not decided since.
async fn is_wanted(
    session: &mut Session,
    payments: &mut HashMap<String, KeptPayment>,
    message: &Message,
    now: Timestamp,
) -> Result<bool, StoreFault> {
    if !payments.contains_key(&message.payment_id) {
        let Some(payment) = session.payment(&message.payment_id).await? else { return Ok(false) };
        payments.insert(message.payment_id.clone(), payment);
    }
    let Some(payment) = payments.get(&message.payment_id) else { return Ok(false) };
    if !payment.is_open() || payment.round != message.round || payment.expires_at() <= now {
        return Ok(false);
    }
    let words = session.words(payment).await?;
    let decided = |kept: &super::store::KeptDecision| {
        kept.stands() && kept.signer_id == message.signer_id && kept.decided_at >= message.created_at
    };
    Ok(!words.iter().any(decided))
}

/// What leaves now of what a person has not been told yet.
async fn plan(
    desk: &Desk,
    session: &mut Session,
    contact: &Contact,
    payments: &HashMap<String, KeptPayment>,
    messages: Vec<Message>,
    now: Timestamp,
) -> Result<Plan, StoreFault> {
    let mut plan = Plan::default();
    let mut leaving = messages;
    if let Some(until) = contact.hours.quiet_until(now) {
        leaving = plan.hold(leaving, payments, until, "quiet_hours");
    }
    let Some(first) = leaving.first() else { return Ok(plan) };
    let digest = desk.reaching.digest;
    let begun = session.letters_since(&first.signer_id, now.minus(digest.within)).await?;
    let most = usize::try_from(digest.most).unwrap_or(usize::MAX);
    let room = most.saturating_sub(begun.len());
    if leaving.len() <= room {
        plan.letters = leaving.into_iter().map(|message| vec![message]).collect();
        return Ok(plan);
    }
    if room == 0 {
        // The window has room again when the oldest of the letters that fill it leaves it.
        let oldest = begun.get(begun.len().saturating_sub(most)).copied().unwrap_or_default();
        leaving = plan.hold(leaving, payments, Timestamp::from_micros(oldest).plus(digest.within), "digest");
    }
    if !leaving.is_empty() {
        plan.letters = vec![leaving];
    }
    Ok(plan)
}

impl Plan {
    /// Holds what can wait until then, and gives back what can't: held until it can no longer be decided, it would never
    /// be told at all.
    fn hold(
        &mut self,
        messages: Vec<Message>,
        payments: &HashMap<String, KeptPayment>,
        until: Timestamp,
        why: &'static str,
    ) -> Vec<Message> {
        let in_time = |message: &Message| payments.get(&message.payment_id).is_some_and(|it| it.expires_at() > until);
        let (held, urgent): (Vec<_>, Vec<_>) = messages.into_iter().partition(in_time);
        self.held.extend(held.into_iter().map(|message| (message, until, why)));
        urgent
    }
}

/// Writes a letter and the attempt at it down; `None` when none of its messages is left to send.
async fn begin(
    desk: &Desk,
    session: &mut Session,
    payments: &HashMap<String, KeptPayment>,
    messages: Vec<Message>,
    place: i64,
    now: Timestamp,
) -> Result<Option<Carried>, StoreFault> {
    let Some(signer) = messages.first().map(|message| message.signer_id.clone()) else { return Ok(None) };
    let contact = desk.directory.contact(&signer);
    let Some((contact, way)) = contact.and_then(|contact| Some((contact, way_at(contact, place)?))) else {
        // Used up, by an attempt that did not end; or the directory no longer says how.
        let reason = if place > 0 { "in_doubt" } else { "no_channel" };
        for message in &messages {
            session.put_message(message, "unreachable", reason, now, now).await?;
        }
        return Ok(None);
    };
    let letter_id = desk.mint("msg_");
    let trying = Trying { place, channel: &way.channel, letter: &letter_id, until: now.plus(LEASE) };
    let mut begun = Vec::with_capacity(messages.len());
    for message in messages {
        if session.try_message(&message, &trying, now).await? {
            begun.push(Message { state: "trying".to_owned(), ..message });
        }
    }
    let mut told = HashSet::new();
    let wording = Wording { language: contact.language, hours: &contact.hours };
    let mut items = Vec::new();
    for message in &begun {
        let Some(payment) = payments.get(&message.payment_id).filter(|it| told.insert(it.id.clone())) else { continue };
        if items.len() < Wording::MOST
            && let Some(document) = PaymentDocument::parse(&payment.payload)
        {
            let url = link::issue(desk, session, payment, &signer, now).await?.url;
            items.push(wording.item(&document, &payment.payment_digest, url));
        }
    }
    let letter = wording.letter(letter_id, &signer, items, told.len());
    Ok((!begun.is_empty()).then_some(Carried { letter, messages: begun, place }))
}

fn way_at(contact: &Contact, place: i64) -> Option<&Way> {
    contact.ways.get(usize::try_from(place).ok()?)
}

/// Hands a letter to one channel after another until one takes it.
async fn carry(desk: &Desk, carried: Carried) {
    let Carried { letter, mut messages, mut place } = carried;
    let Some(contact) = desk.directory.contact(&letter.signer_id) else { return };
    while let Some(way) = way_at(contact, place) {
        let missed = attempt(desk, way, &letter).await.err();
        let next = if missed.is_some() { way_at(contact, place.saturating_add(1)) } else { None };
        match note(desk, &letter, &messages, place, missed, next).await {
            Ok(left) => messages = left,
            Err(fault) => {
                // The lease ends, and the next channel is tried then.
                tracing::error!(letter.id = %letter.id, error = %fault, "how a message ended could not be noted");
                return;
            }
        }
        desk.settled();
        if missed.is_none() || messages.is_empty() {
            return;
        }
        place = place.saturating_add(1);
    }
}

/// One attempt, bounded whatever the channel does.
async fn attempt(desk: &Desk, way: &Way, letter: &Letter) -> Result<(), Missed> {
    let Some(channel) = desk.channels.get(&way.channel) else { return Err(Missed::NoConnection) };
    let began = Instant::now();
    let sent = tokio::time::timeout(channel.within(), channel.send(&way.to, letter)).await;
    let sent = sent.unwrap_or(Err(Missed::Timeout));
    let outcome = sent.err().map_or("delivered", Missed::as_str);
    tracing::info!(
        letter.id = %letter.id, signer.id = %letter.signer_id, channel = %way.channel, outcome,
        payments = letter.waiting, duration.ms = began.elapsed().as_millis(), "a message was tried"
    );
    sent
}

/// Notes how an attempt ended, and begins the next one in the same transaction; the messages that it is for.
async fn note(
    desk: &Desk,
    letter: &Letter,
    messages: &[Message],
    place: i64,
    missed: Option<Missed>,
    next: Option<&Way>,
) -> Result<Vec<Message>, StoreFault> {
    let now = desk.now();
    let mut session = desk.store.write().await?;
    let mut left = Vec::new();
    for message in messages {
        let stood = Message { state: "trying".to_owned(), place, ..message.clone() };
        // Taken over meanwhile: others go on with it.
        if !session.end_attempt_at(&message.id, place, missed.map(Missed::as_str), now).await? {
            continue;
        }
        match (missed, next) {
            (None, _) => session.put_message(&stood, "delivered", "", now, now).await?,
            (Some(missed), None) => session.put_message(&stood, "unreachable", missed.as_str(), now, now).await?,
            (Some(_), Some(way)) => {
                let place = place.saturating_add(1);
                let trying = Trying { place, channel: &way.channel, letter: &letter.id, until: now.plus(LEASE) };
                if session.try_message(&stood, &trying, now).await? {
                    left.push(Message { place, ..stood });
                }
            }
        }
    }
    session.commit().await?;
    Ok(left)
}
