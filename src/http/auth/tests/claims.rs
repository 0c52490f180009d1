//! What a token's claims grant, and for how long that is remembered.

use super::*;

#[tokio::test]
async fn b06_roles_are_exact_words_in_every_usual_encoding() {
    let bench = bench().await;
    let grants = [json!("agent"), json!("x agent y"), json!("x  agent\ty"), json!(["agent"]), json!(["x", "agent"])];
    for roles in grants {
        let seen = bench.verify(&bench.with(json!({ "roles": roles }))).await.unwrap();
        assert!(seen.is(Role::Agent) && seen.roles.len() == 1, "{roles}");
    }
    let nothing = [
        Value::Null,
        json!(""),
        json!([]),
        json!("agentx"),
        json!("xagent"),
        json!("Agent"),
        json!({ "agent": true }),
        json!(7),
        json!(["agent", 7]),
        json!(["agent operator"]),
    ];
    for roles in nothing {
        let seen = bench.verify(&bench.with(json!({ "roles": roles }))).await.unwrap();
        assert!(seen.roles.is_empty(), "{roles}");
    }
}

#[tokio::test]
async fn scopes_come_from_scope_and_scp() {
    let bench = bench().await;
    for changes in [json!({ "scope": "a b" }), json!({ "scp": ["a", "b"] }), json!({ "scope": "a", "scp": "b" })] {
        let seen = bench.verify(&bench.with(changes)).await.unwrap();
        assert_eq!(seen.scopes.into_iter().collect::<Vec<_>>(), ["a", "b"]);
    }
}

#[tokio::test]
async fn an_agent_with_a_second_role_is_refused_whole() {
    let bench = bench().await;
    for roles in [json!(["agent", "signer"]), json!("operator agent"), json!(["auditor", "x", "agent"])] {
        assert_eq!(bench.verify(&bench.with(json!({ "roles": roles }))).await, Err(AuthFault::AgentCombined));
    }
    assert!(bench.verify(&bench.with(json!({ "roles": ["signer", "operator"] }))).await.is_ok());
    assert_eq!(Refusal::from(AuthFault::AgentCombined).code, Code::Unauthenticated);
}

#[tokio::test]
async fn tenant_client_and_subject_are_names() {
    let mut auth = auth();
    auth.tenant_claim = "org.id".into();
    auth.roles_claim = "https://x.example/roles".into();
    let bench = bench_of(auth.clone(), fixed(&all_keys())).await;
    let claims = bench.with(json!({ "org": { "id": "acme" }, "https://x.example/roles": "signer", "azp": "app-1" }));
    let seen = bench.verify(&claims).await.unwrap();
    assert_eq!((seen.tenant.as_str(), seen.client.as_str(), seen.subject.as_str()), ("acme", "app-1", "agent-a"));
    assert!(seen.is(Role::Signer) && !seen.is(Role::Agent));
    let client = bench.verify(&bench.with(json!({ "client_id": "c", "azp": "app-1" }))).await.unwrap();
    assert_eq!((client.client.as_str(), client.tenant.as_str()), ("c", "default"));
    for (changes, fault) in [
        (json!({ "org": { "id": "a b" } }), AuthFault::Tenant),
        (json!({ "org": { "id": "" } }), AuthFault::Tenant),
        (json!({ "org": { "id": 7 } }), AuthFault::Tenant),
        (json!({ "client_id": 7 }), AuthFault::Client),
        (json!({ "client_id": "a b" }), AuthFault::Client),
        (json!({ "sub": null }), AuthFault::Subject),
        (json!({ "sub": "" }), AuthFault::Subject),
        (json!({ "sub": 7 }), AuthFault::Subject),
        (json!({ "sub": "a\u{0}b" }), AuthFault::Subject),
    ] {
        assert_eq!(bench.verify(&bench.with(changes.clone())).await, Err(fault), "{changes}");
    }
    auth.default_tenant = String::new();
    let strict = bench_of(auth, fixed(&all_keys())).await;
    assert_eq!(strict.verify(&strict.claims()).await, Err(AuthFault::Tenant));
}

#[tokio::test]
async fn a_verified_token_is_remembered_for_a_minute_and_never_past_its_expiry() {
    let bench = bench().await;
    let checks = || bench.verifier.checked.load(Ordering::Relaxed);
    let token = mint().sign(&bench.claims());
    for _ in 0..3 {
        bench.verifier.verify(&token).await.unwrap();
    }
    assert_eq!(checks(), 1);
    bench.clock.advance(61_000_000);
    bench.verifier.verify(&token).await.unwrap();
    assert_eq!(checks(), 2);
    let short = mint().sign(&bench.with(json!({ "exp": bench.clock.now().seconds() + 5 })));
    bench.verifier.verify(&short).await.unwrap();
    bench.clock.advance(36_000_000);
    assert_eq!(bench.verifier.verify(&short).await, Err(AuthFault::Expired));
}

#[tokio::test]
async fn a_minted_token_says_what_was_granted() {
    let bench = bench_of(auth(), fixed(&mint().jwks())).await;
    let grant = Grant {
        issuer: ISS,
        audience: AUD,
        subject: "ann",
        tenant: "acme",
        client: "app-1",
        roles: &[Role::Signer, Role::Operator],
        scope: "pay",
        issued_at: bench.clock.now(),
        valid_for: Duration::from_mins(1),
    };
    let seen = bench.verifier.verify(&mint().token(&grant)).await.unwrap();
    assert_eq!((seen.tenant.as_str(), seen.client.as_str(), seen.subject.as_str()), ("acme", "app-1", "ann"));
    assert!(seen.is(Role::Signer) && seen.is(Role::Operator) && seen.scopes.contains("pay"));
    assert_eq!(Mint::from_pem("junk").unwrap_err(), MintFault::Key);
}
