//! Who looked, how often links are issued, and ways that lead nowhere.

use super::*;
use crate::domain::Timestamp;

#[tokio::test]
async fn only_the_pages_own_word_makes_delivered_viewed() {
    let receiver = Receiver::new().await;
    let bench = Bench::on(by(vec![("chat", receiver.hook("chat"))], &[("chat", "@ann")])).await;
    let (id, _) = bench.registered(&["ann"]).await;
    bench.notify(&id, 1, &["ann"]).await;
    let url = receiver.posts()[0]["data"]["url"].as_str().unwrap().to_owned();
    let link = url.strip_prefix(ORIGIN).unwrap();
    let beacon = async |method: &str, path: &str, headers: &[(&str, &str)]| {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        bench.send(request.body(Body::empty()).unwrap()).await
    };
    let viewed = format!("{link}/viewed");
    // Scanners and browsers that look ahead.
    assert_eq!(beacon("GET", link, &[]).await.status, 200);
    assert_eq!(beacon("HEAD", link, &[]).await.status, 200);
    assert_eq!(beacon("GET", &viewed, &[]).await.status, 405);
    assert_eq!(beacon("HEAD", &viewed, &[]).await.status, 405);
    assert_eq!(beacon("POST", &viewed, &[("sec-purpose", "prefetch;prerender")]).await.status, 204);
    assert_eq!(beacon("POST", &viewed, &[("origin", "https://elsewhere.example")]).await.fault().0, 403);
    assert_eq!(bench.told(&id).await, ["ann chat delivered"]);
    let before = bench.clock.now();
    assert_eq!(beacon("POST", &viewed, &[("origin", ORIGIN), ("sec-fetch-site", "same-origin")]).await.status, 204);
    bench.clock.advance(MINUTE);
    assert_eq!(beacon("POST", &viewed, &[]).await.status, 204);
    assert_eq!(bench.told(&id).await, ["ann chat delivered", "ann page viewed"]);
    let at = bench.status(&id).await["receipts"][1]["at"].as_str().unwrap().to_owned();
    let at = Timestamp::parse_rfc3339(&at).unwrap();
    assert!(at.since(before) < Duration::from_secs(30), "the first look counts");
    // A link that was passed on says that somebody looked.
    let passed_on = format!("{}/viewed", bench.link(&id).await);
    assert_eq!(beacon("POST", &passed_on, &[]).await.status, 204);
    assert_eq!(bench.told(&id).await[2], " page viewed");
    assert_eq!(beacon("POST", "/sign/nothing/viewed", &[]).await.fault(), (404, "unknown_link".to_owned()));
    bench.clock.advance(16 * MINUTE);
    assert_eq!(beacon("POST", &viewed, &[]).await.status, 204, "a link in a message lasts longer than one on request");
    assert_eq!(beacon("POST", &passed_on, &[]).await.fault(), (410, "link_expired".to_owned()));
    bench.clock.advance(6 * 60 * MINUTE);
    assert_eq!(beacon("POST", &viewed, &[]).await.fault(), (410, "link_expired".to_owned()));
    let second = bench.registration(2, &["ann"]);
    assert_eq!(bench.post("/api/v1/payments", "register-2", &second).await.status, 200);
    assert_eq!(bench.told(&id).await, [""; 0], "a new round was seen by nobody");
}

#[tokio::test]
async fn links_are_issued_only_so_often_for_one_payment() {
    let mut settings = settings(Path::new(":memory:"), true);
    (settings.reaching.links, settings.reaching.links_within) = (3, Duration::from_mins(10));
    let bench = Bench::on(settings).await;
    let (id, _) = bench.registered(&["ann"]).await;
    let other = bench.another("pay_1", "ann").await;
    let path = format!("/api/v1/payments/{id}/sign-link");
    bench.link(&id).await;
    bench.clock.advance(MINUTE);
    bench.link(&id).await;
    let last = bench.link(&id).await;
    // Those in messages are not counted.
    bench.notify(&id, 1, &["ann"]).await;
    let refused = bench.get(&path).await;
    assert_eq!(refused.fault(), (429, "too_many_links".to_owned()));
    let wait: i64 = refused.header("retry-after").parse().unwrap();
    assert!((530..=541).contains(&wait), "{wait}");
    assert_eq!(bench.get(&last).await.status, 200, "those there are lead on");
    bench.link(&other).await;
    bench.clock.advance(wait * 1_000_000);
    bench.link(&id).await;
    assert_eq!(bench.get(&path).await.fault().0, 429, "one left the window, one came");
}

#[tokio::test]
async fn a_way_that_leads_nowhere_is_refused_at_the_start() {
    let receiver = Receiver::new().await;
    let mail = crate::signer::Mail {
        host: "mail.example".to_owned(),
        port: 587,
        tls: crate::signer::MailTls::Starttls,
        ca_pem: None,
        from: "Countersign <pay@example.com>".to_owned(),
        login: None,
        within: Duration::from_secs(5),
    };
    let mut clear = mail.clone();
    (clear.tls, clear.login) = (crate::signer::MailTls::None, Some(("u".to_owned(), "SECRET-PASSWORD".into())));
    let refused = async |channels: Vec<(&str, ChannelSettings)>, order: &[(&str, &str)]| {
        let clock = Arc::new(ShiftedClock::default());
        let opened = SignerService::open(by(channels, order), clock as Arc<_>, Arc::new(SystemEntropy)).await;
        let fault = opened.map(drop).expect_err("it was opened").to_string();
        assert!(!fault.contains("SECRET"), "{fault}");
        fault
    };
    let bare =
        ChannelSettings::Webhook { url: "ftp://SECRET".into(), secret: SECRET.into(), within: Duration::from_secs(1) };
    let unsigned = ChannelSettings::Webhook {
        url: "https://x.example".into(),
        secret: "SECRET".into(),
        within: Duration::from_secs(1),
    };
    let lasting = ChannelSettings::Webhook {
        url: "https://x.example".into(),
        secret: SECRET.into(),
        within: Duration::from_hours(1),
    };
    let smtp = ChannelSettings::Smtp;
    for (channels, order, word) in [
        (vec![], &[("mail", "ann@example.com")][..], "there is no channel"),
        (vec![("mail", smtp(mail.clone()))], &[("mail", "ann")][..], "mail address"),
        (vec![("push", receiver.push())], &[("push", "a/b")][..], "topic"),
        (vec![("Mail", smtp(mail.clone()))], &[][..], "a name is"),
        (vec![("mail", smtp(clear))], &[][..], "in the clear"),
        (vec![("mail", smtp(crate::signer::Mail { from: "nobody".to_owned(), ..mail }))], &[][..], "from"),
        (vec![("chat", bare)], &[][..], "url"),
        (vec![("chat", unsigned)], &[][..], "secret"),
        (vec![("chat", lasting)], &[][..], "time-out"),
    ] {
        let fault = refused(channels, order).await;
        assert!(fault.contains(word), "{fault}");
    }
}
