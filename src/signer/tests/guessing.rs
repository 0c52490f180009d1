//! Links are addresses that nobody guesses: long, random, kept as hashes, and a near miss is a miss.

use std::sync::Mutex;

use super::*;
use crate::proof::from_b64url;
use crate::signer::{ChannelSettings, Way};

/// The system's randomness, and what it gave.
#[derive(Debug, Default)]
struct Noted(Mutex<Vec<Vec<u8>>>);

impl Entropy for Noted {
    fn fill(&self, bytes: &mut [u8]) {
        SystemEntropy.fill(bytes);
        self.0.lock().unwrap().push(bytes.to_vec());
    }
}

impl Noted {
    /// How often exactly these bytes were given.
    fn given(&self, bytes: &[u8]) -> usize {
        self.0.lock().unwrap().iter().filter(|given| *given == bytes).count()
    }

    /// How often as many bytes were given.
    fn draws(&self, length: usize) -> usize {
        self.0.lock().unwrap().iter().filter(|given| given.len() == length).count()
    }
}

/// The path's last part, 32 bytes in base64url.
fn token(path: &str) -> String {
    let token = path.rsplit('/').next().unwrap();
    assert_eq!(from_b64url(token).map(|bytes| bytes.len()), Some(32), "{token}");
    token.to_owned()
}

fn holds(haystack: &[u8], needle: &str) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle.as_bytes())
}

#[tokio::test]
async fn a_token_is_32_random_bytes_of_its_own_and_the_database_holds_only_its_hash() {
    let place = tempfile::tempdir().unwrap();
    let (database, messages) = (place.path().join("signer.db"), place.path().join("messages"));
    let mut settings = settings(&database, true);
    let channel = ChannelSettings::File { path: messages.clone() };
    settings.reaching.channels = [("file".to_owned(), channel)].into();
    settings.directory[0].ways = vec![Way { channel: "file".to_owned(), to: "ann".to_owned() }];
    let entropy = Arc::new(Noted::default());
    let bench = Bench::by_chance(settings, Arc::clone(&entropy) as _).await;
    let (id, _) = bench.registered(&["ann"]).await;
    let mut tokens = vec![token(&bench.link(&id).await), token(&bench.link(&id).await)];
    let body = json!({"round": 1, "notification": 1, "signers": ["ann"]});
    assert_eq!(bench.post(&format!("/api/v1/payments/{id}/notify"), "n1", &body).await.json()["outcome"], "notified");
    let message = std::fs::read_to_string(&messages).unwrap();
    let (_, told) = message.split_once(&format!("{ORIGIN}/sign/")).unwrap();
    tokens.push(token(told.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_').next().unwrap()));
    for token in &tokens {
        assert_eq!(entropy.given(&from_b64url(token).unwrap()), 1, "drawn for it, and for nothing else");
    }
    // An invitation's is made from as many, with what the database does not hold.
    let before = entropy.draws(32);
    let (document, path) = bench.invited("ann", 60).await;
    tokens.push(token(&path));
    tokens.push(token(&bench.invited("ann", 60).await.1));
    assert_eq!(entropy.draws(32) - before, 2);
    let again = json!({"document": document.canonical().unwrap()});
    let again = bench.post("/api/v1/invitations", &document.invitation_id, &again).await.json();
    assert_eq!(again["url"], format!("{ORIGIN}{path}"), "the same request is answered the same");

    let mut different = tokens.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!((different.len(), tokens.len()), (5, 5));
    let mut kept = Vec::new();
    for file in std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path()) {
        if file != messages {
            kept.extend(std::fs::read(file).unwrap());
        }
    }
    for token in &tokens {
        let hash = crate::proof::sha256_hex(token);
        assert!(holds(&kept, &hash), "its hash is what a link is found by");
        assert!(!holds(&kept, token), "{token} is in the database");
    }
}

/// An answer without what is of the moment.
type Shown = (u16, String, Vec<(String, String)>);

impl Bench {
    /// What each address behind a token answers.
    async fn behind(&self, token: &str) -> Vec<Shown> {
        let body = json!({"document": "x", "jws": "y"}).to_string();
        let made = json!({"label": "x", "client_data_json": "e30", "attestation_object": "AAAA"}).to_string();
        let get = |path: String| Request::get(path).body(Body::empty()).unwrap();
        let post = |path: String, accept: &str, body: &str| {
            let request = Request::post(path).header("content-type", "application/json").header("accept", accept);
            request.body(body.to_owned().into()).unwrap()
        };
        let requests = [
            get(format!("/sign/{token}")),
            get(format!("/sign/{token}?signer_id=ann&decision=approve")),
            get(format!("/sign/{token}/qr.svg")),
            post(format!("/sign/{token}/decisions"), "application/json", &body),
            post(format!("/sign/{token}/decisions"), "text/html", &body),
            post(format!("/sign/{token}/viewed"), "*/*", ""),
            get(format!("/enrol/{token}")),
            post(format!("/enrol/{token}"), "application/json", &made),
            post(format!("/enrol/{token}"), "text/html", &made),
        ];
        let mut shown = Vec::new();
        for request in requests {
            let answer = self.send(request).await;
            let headers =
                answer.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
            shown.push((answer.status, answer.text.clone(), headers.collect()));
        }
        shown
    }
}

/// What is nearly a token: one character is another, or in the other case, or too much, or missing.
fn near(token: &str) -> Vec<String> {
    let mut near = vec![format!("{token}A"), format!("{token}="), token[1..].to_owned(), token[..42].to_owned()];
    near.extend([token.to_ascii_lowercase(), token.to_ascii_uppercase(), token.chars().rev().collect()]);
    // The last character holds four bits: the same 32 bytes have three more spellings.
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let last = alphabet.find(&token[42..]).unwrap();
    near.extend((1..4).map(|more| format!("{}{}", &token[..42], &alphabet[last + more..=last + more])));
    for place in [0, 21, 42] {
        let other = if &token[place..=place] == "w" { "g" } else { "w" };
        near.push(format!("{}{other}{}", &token[..place], &token[place + 1..]));
    }
    near
}

#[tokio::test]
async fn whoever_guesses_is_told_the_same_whether_or_not_they_came_near() {
    let bench = Bench::new().await;
    let (id, _) = bench.registered(&["ann"]).await;
    let mut never = [0; 32];
    SystemEntropy.fill(&mut never);
    let unknown = bench.behind(&b64url(never)).await;
    assert!(unknown.iter().all(|(status, ..)| *status == 404), "{unknown:#?}");

    let lapsed = token(&bench.link(&id).await);
    bench.clock.advance(20 * MINUTE);
    let live = token(&bench.link(&id).await);
    let invited = token(&bench.invited("ann", 60).await.1);
    assert_ne!(bench.behind(&live).await, unknown);
    assert_ne!(bench.behind(&invited).await, unknown);
    for (what, token) in [("a live link", &live), ("a lapsed one", &lapsed), ("an invitation", &invited)] {
        for guess in near(token) {
            assert_eq!(bench.behind(&guess).await, unknown, "{what}: {token}: {guess}");
        }
    }
    // One kind of token opens nothing of the other kind.
    assert_eq!(bench.behind(&live).await[6..], unknown[6..]);
    assert_eq!(bench.behind(&invited).await[..6], unknown[..6]);
    // Whoever finds an old link learns that it was one, and of what it was nothing.
    let old = bench.behind(&lapsed).await;
    assert!(old[..6].iter().all(|(status, ..)| *status == 410), "{old:#?}");
    let said: String = old.iter().map(|(_, text, _)| text.as_str()).collect();
    for word in ["PO-2026-117", "199.00", "Widgets", "ann of Finance", "DE8937", REFERENCE, &id] {
        assert!(!said.contains(word), "{word}: {said}");
    }
    // And once it is forgotten, not even that.
    let mut session = bench.service.desk.store.write().await.unwrap();
    session.forget_links(bench.clock.now()).await.unwrap();
    session.commit().await.unwrap();
    assert_eq!(bench.behind(&lapsed).await, unknown);
}
