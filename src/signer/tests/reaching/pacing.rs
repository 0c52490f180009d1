//! Quiet hours, many at once, and what is no longer worth telling.

use super::*;
use crate::domain::Timestamp;
use crate::signer::Digest;

#[tokio::test]
async fn nothing_is_sent_in_quiet_hours_and_everything_after_them() {
    let receiver = Receiver::new().await;
    let mut settings = by(vec![("chat", receiver.hook("chat"))], &[("chat", "@ann")]);
    settings.directory[0].zone = "Europe/Berlin".to_owned();
    settings.directory[0].quiet_hours = "22:00-07:00".to_owned();
    let bench = Bench::on(settings).await;
    let at = |text: &str| Timestamp::parse_rfc3339(text).unwrap();
    let go_to = |text: &str| bench.clock.advance(at(text).micros() - bench.clock.now().micros());
    go_to("2027-01-10T22:30:00Z");
    let first = bench.another("pay_1", "ann").await;
    let answer = bench.notify(&first, 1, &["ann"]).await;
    assert_eq!(
        (&answer["outcome"], short(&answer)),
        (&json!("notified"), vec!["ann chat deferred quiet_hours".to_owned()])
    );
    assert_eq!(answer["receipts"][0]["at"], "2027-01-11T06:00:00.000Z");
    let second = bench.another("pay_2", "ann").await;
    bench.notify(&second, 1, &["ann"]).await;
    // One that can't wait for the morning is told now.
    let mut urgent = document(1);
    urgent.payment_id = "pay_3".to_owned();
    let mut body = bench.registration_of(&urgent.canonical().unwrap(), 1, &["ann"]);
    body["reference"] = json!("pay_3");
    let id = bench.post("/api/v1/payments", "urgent", &body).await.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(short(&bench.notify(&id, 1, &["ann"]).await), ["ann chat delivered"]);
    assert_eq!(receiver.posts().len(), 1);
    go_to("2027-01-11T05:59:50Z");
    assert_eq!(bench.service.tick_messages().await.unwrap(), 0);
    go_to("2027-01-11T06:00:01Z");
    assert_eq!(bench.service.tick_messages().await.unwrap(), 1);
    let posts = receiver.posts();
    assert_eq!(posts.len(), 3, "two payments, two messages: that is no crowd");
    assert_eq!(bench.told(&first).await, ["ann chat delivered"]);
    // What is asked now is told now.
    let third = bench.another("pay_4", "ann").await;
    assert_eq!(short(&bench.notify(&third, 1, &["ann"]).await), ["ann chat delivered"]);
}

#[tokio::test]
async fn a_storm_of_fifty_payments_is_a_handful_of_messages() {
    let receiver = Receiver::new().await;
    let mut settings = by(vec![("chat", receiver.hook("chat"))], &[("chat", "@ann")]);
    settings.reaching.digest = Digest { most: 3, within: Duration::from_mins(10) };
    let bench = Bench::on(settings).await;
    let mut ids = Vec::new();
    for number in 0..50 {
        let id = bench.another(&format!("pay_{number}"), "ann").await;
        let answer = bench.notify(&id, 1, &["ann"]).await;
        assert_eq!(answer["outcome"], "notified");
        ids.push(id);
    }
    assert_eq!(receiver.posts().len(), 3, "three by themselves");
    assert_eq!(bench.told(&ids[3]).await, ["ann chat deferred digest"]);
    assert_eq!(bench.service.tick_messages().await.unwrap(), 0);
    // Three of those that wait are over meanwhile.
    for id in &ids[3..6] {
        let over = json!({"round": 1, "reason": "cancelled"});
        assert_eq!(
            bench.post(&format!("/api/v1/payments/{id}/cancel"), &format!("over-{id}"), &over).await.status,
            200
        );
    }
    bench.clock.advance(10 * MINUTE + 1_000_000);
    assert_eq!(bench.service.tick_messages().await.unwrap(), 1);
    let posts = receiver.posts();
    assert_eq!(posts.len(), 4, "the rest in one");
    let data = &posts[3]["data"];
    assert_eq!((&data["waiting"], &data["title"]), (&json!(44), &json!("44 payments wait for you")));
    assert_eq!(data["payments"].as_array().unwrap().len(), 10);
    assert!(posts[3]["text"].as_str().unwrap().contains("And 34 more."));
    for id in &ids[6..] {
        assert_eq!(bench.told(id).await, ["ann chat delivered"]);
    }
    assert_eq!(bench.told(&ids[3]).await, [""; 0], "nothing is said of what was over");
    // All are reminded in the same minute: what there is room for, then one for the rest.
    for (place, id) in ids.iter().enumerate().skip(6) {
        bench.notify(id, 2, &["ann"]).await;
        assert!(receiver.posts().len() <= 6, "{place}");
    }
    bench.clock.advance(10 * MINUTE + 1_000_000);
    bench.service.tick_messages().await.unwrap();
    assert_eq!(receiver.posts().len(), 7);
    assert_eq!(receiver.posts()[6]["data"]["waiting"], 42);
    for round in 0..20 {
        bench.clock.advance(10 * MINUTE);
        assert_eq!(bench.service.tick_messages().await.unwrap(), 0, "{round}");
    }
}

#[tokio::test]
async fn a_reminder_that_meets_a_held_message_tells_of_the_payment_once() {
    let receiver = Receiver::new().await;
    let mut settings = by(vec![("chat", receiver.hook("chat"))], &[("chat", "@ann")]);
    settings.reaching.digest = Digest { most: 1, within: Duration::from_mins(10) };
    let bench = Bench::on(settings).await;
    let first = bench.another("pay_1", "ann").await;
    bench.notify(&first, 1, &["ann"]).await;
    bench.notify(&first, 2, &["ann"]).await;
    bench.notify(&first, 3, &["ann"]).await;
    bench.clock.advance(10 * MINUTE + 1_000_000);
    bench.service.tick_messages().await.unwrap();
    let posts = receiver.posts();
    assert_eq!((posts.len(), &posts[1]["data"]["waiting"]), (2, &json!(1)));
    assert_eq!(bench.told(&first).await, ["ann chat delivered"]);
}

#[tokio::test]
async fn who_has_decided_meanwhile_is_not_told_any_more() {
    let receiver = Receiver::new().await;
    let mut settings = by(vec![("chat", receiver.hook("chat"))], &[("chat", "@ann")]);
    settings.reaching.digest = Digest { most: 1, within: Duration::from_mins(10) };
    let bench = Bench::on(settings).await;
    let other = bench.another("pay_1", "ann").await;
    bench.notify(&other, 1, &["ann"]).await;
    let (id, body) = bench.registered(&["ann"]).await;
    assert_eq!(short(&bench.notify(&id, 1, &["ann"]).await), ["ann chat deferred digest"]);
    let (text, jws) = signed(&body, "ann", Choice::Approve);
    assert_eq!(bench.decide(&bench.link(&id).await, &text, &jws).await.status, 200);
    bench.clock.advance(10 * MINUTE + 1_000_000);
    bench.service.tick_messages().await.unwrap();
    assert_eq!(receiver.posts().len(), 1);
}

impl Bench {
    /// Registers a payment that ends in five minutes; the service's id.
    async fn urgent(&self, reference: &str) -> String {
        let mut document = document(1);
        document.payment_id = reference.to_owned();
        let mut body = self.registration_of(&document.canonical().unwrap(), 1, &["ann"]);
        body["reference"] = json!(reference);
        body["expires_at"] = json!(self.clock.now().plus_micros(5 * MINUTE).rfc3339());
        let answer = self.post("/api/v1/payments", &format!("register-{reference}"), &body).await;
        answer.json()["id"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn what_can_not_wait_for_the_digest_does_not() {
    let receiver = Receiver::new().await;
    let mut settings = by(vec![("chat", receiver.hook("chat"))], &[("chat", "@ann")]);
    settings.reaching.digest = Digest { most: 1, within: Duration::from_mins(10) };
    let bench = Bench::on(settings).await;
    let first = bench.another("pay_1", "ann").await;
    bench.notify(&first, 1, &["ann"]).await;
    let waits = bench.another("pay_2", "ann").await;
    assert_eq!(short(&bench.notify(&waits, 1, &["ann"]).await), ["ann chat deferred digest"]);
    let urgent = bench.urgent("pay_3").await;
    assert_eq!(short(&bench.notify(&urgent, 1, &["ann"]).await), ["ann chat delivered"], "over before the digest");
    let posts = receiver.posts();
    assert_eq!((posts.len(), &posts[1]["data"]["waiting"]), (2, &json!(1)));
    assert_eq!(posts[1]["data"]["payments"][0]["payment_id"], "pay_3");
    assert_eq!(bench.told(&waits).await, ["ann chat deferred digest"], "the rest waits");
}

#[tokio::test]
async fn one_that_is_urgent_does_not_wake_anybody_for_the_others() {
    let receiver = Receiver::new().await;
    let mut settings = by(vec![("chat", receiver.hook("chat"))], &[("chat", "@ann")]);
    settings.directory[0].zone = "Europe/Berlin".to_owned();
    settings.directory[0].quiet_hours = "22:00-07:00".to_owned();
    let bench = Bench::on(settings).await;
    let night = Timestamp::parse_rfc3339("2027-01-10T22:30:00Z").unwrap();
    bench.clock.advance(night.micros() - bench.clock.now().micros());
    // All of them are due when the service comes to them.
    let waits = bench.another("pay_1", "ann").await;
    let urgent = bench.urgent("pay_2").await;
    let mut session = bench.service.desk.store.write().await.unwrap();
    let now = bench.clock.now();
    for (number, id) in [&waits, &urgent].into_iter().enumerate() {
        let payment = session.payment(id).await.unwrap().unwrap();
        session.add_notification(&payment, 1, r#"["ann"]"#, now).await.unwrap();
        let message = crate::signer::store::Message {
            id: format!("ntf_{number}"),
            payment_id: id.clone(),
            round: 1,
            number: 1,
            signer_id: "ann".to_owned(),
            state: "due".to_owned(),
            place: 0,
            due_at: now.micros(),
            reason: String::new(),
            created_at: now.micros(),
        };
        session.add_message(&message).await.unwrap();
    }
    session.commit().await.unwrap();
    assert_eq!(bench.service.tick_messages().await.unwrap(), 1);
    assert_eq!(bench.told(&urgent).await, ["ann chat delivered"]);
    assert_eq!(bench.told(&waits).await, ["ann chat deferred quiet_hours"]);
    let posts = receiver.posts();
    assert_eq!((posts.len(), &posts[0]["data"]["payments"][0]["payment_id"]), (1, &json!("pay_2")));
}
