//! Where keys come from: turned, withdrawn, out of reach, unusable.

use super::*;

/// A JWKS server that answers with what `body` holds and counts its requests.
fn jwks_server(body: Arc<std::sync::Mutex<String>>) -> (String, Arc<AtomicUsize>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/jwks", listener.local_addr().unwrap());
    let hits = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&hits);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            counted.fetch_add(1, Ordering::SeqCst);
            // Long enough for a caller to hang up meanwhile.
            std::thread::sleep(Duration::from_millis(50));
            let text = body.lock().unwrap().clone();
            let status = if text.is_empty() { "503 Service Unavailable" } else { "200 OK" };
            let length = text.len();
            let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}");
        }
    });
    (url, hits)
}

#[tokio::test]
async fn keys_turn_at_most_once_a_minute_and_old_tokens_fall_with_them() {
    let body = Arc::new(std::sync::Mutex::new(mint().jwks()));
    let (url, hits) = jwks_server(Arc::clone(&body));
    let bench = bench_of(auth(), KeySource::Url(url)).await;
    let old = mint().sign(&bench.claims());
    assert!(bench.verifier.verify(&old).await.is_ok());
    let next = Mint::from_seed(&[8; 32]);
    *body.lock().unwrap() = next.jwks();
    let new = next.sign(&bench.claims());
    for _ in 0..5 {
        assert_eq!(bench.verifier.verify(&new).await, Err(AuthFault::UnknownKey));
    }
    assert_eq!(hits.load(Ordering::SeqCst), 1, "within the minute nothing is fetched");
    bench.clock.advance(30_000_000);
    assert!(bench.verifier.verify(&old).await.is_ok());
    bench.clock.advance(31_000_000);
    assert!(bench.verifier.verify(&new).await.is_ok());
    assert_eq!(hits.load(Ordering::SeqCst), 2);
    assert_eq!(bench.verifier.verify(&old).await, Err(AuthFault::UnknownKey), "the cache fell with the key");
}

#[tokio::test]
async fn a_caller_that_hangs_up_does_not_take_the_reload_with_it() {
    let body = Arc::new(std::sync::Mutex::new(mint().jwks()));
    let (url, _) = jwks_server(Arc::clone(&body));
    let bench = bench_of(auth(), KeySource::Url(url)).await;
    let next = Mint::from_seed(&[8; 32]);
    *body.lock().unwrap() = next.jwks();
    bench.clock.advance(61_000_000);
    let token = next.sign(&bench.claims());
    let hung_up = tokio::time::timeout(Duration::from_millis(10), bench.verifier.verify(&token)).await;
    assert!(hung_up.is_err());
    assert!(bench.verifier.verify(&token).await.is_ok());
}

#[tokio::test]
async fn an_issuer_that_is_down_stops_no_start_and_heals() {
    let body = Arc::new(std::sync::Mutex::new(String::new()));
    let (url, _) = jwks_server(Arc::clone(&body));
    let bench = bench_of(auth(), KeySource::Url(url)).await;
    assert!(!bench.verifier.has_keys());
    let token = mint().sign(&bench.claims());
    assert_eq!(bench.verifier.verify(&token).await, Err(AuthFault::KeysUnavailable));
    *body.lock().unwrap() = mint().jwks();
    bench.clock.advance(6_000_000);
    assert!(bench.verifier.verify(&token).await.is_ok());
    // Losing the issuer later changes nothing for known keys.
    *body.lock().unwrap() = String::new();
    bench.clock.advance(120_000_000);
    assert!(bench.verifier.verify(&mint().sign(&bench.claims())).await.is_ok());
}

#[tokio::test]
async fn a_withdrawn_key_goes_though_no_token_names_a_new_one() {
    let body = Arc::new(std::sync::Mutex::new(all_keys()));
    let (url, hits) = jwks_server(Arc::clone(&body));
    let bench = bench_of(auth(), KeySource::Url(url)).await;
    *body.lock().unwrap() = json!({ "keys": [jwk_rsa(), jwk_ec()] }).to_string();
    bench.clock.advance(601_000_000);
    let token = mint().sign(&bench.claims());
    let _ = bench.verifier.verify(&token).await;
    for _ in 0..200 {
        if bench.verifier.verify(&token).await == Err(AuthFault::UnknownKey) {
            assert_eq!(hits.load(Ordering::SeqCst), 2);
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the withdrawn key is still accepted");
}

#[tokio::test]
async fn a_key_file_that_cannot_be_used_is_a_start_up_error() {
    let path = std::env::temp_dir().join(format!("countersign-jwks-{}", std::process::id()));
    for (content, why) in [(None, "can't be read"), (Some("{}"), "not a JWK set"), (Some(r#"{"keys":[]}"#), "no key")] {
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let source = KeySource::File(path.clone());
        let made = Verifier::new(&auth(), AUD.into(), Arc::new(ShiftedClock::default()), source).await;
        let fault = made.unwrap_err().to_string();
        assert!(fault.contains("auth.jwks_file") && fault.contains(why), "{fault}");
    }
    std::fs::write(&path, mint().jwks()).unwrap();
    let bench = bench_of(auth(), KeySource::File(path.clone())).await;
    std::fs::remove_file(&path).unwrap();
    assert!(bench.verify(&bench.claims()).await.is_ok());
}
