//! What a token must be: its algorithm, audience, signature, header and times.

use super::*;

#[tokio::test]
async fn each_kind_of_key_verifies_its_own_algorithm() {
    let bench = bench().await;
    let claims = bench.claims();
    let tokens = [
        signed(&json!({ "alg": "RS256", "kid": "k1" }), &claims, &rsa(), Algorithm::RS256),
        signed(&json!({ "alg": "ES256", "kid": "k2", "typ": "JWT" }), &claims, &ec(), Algorithm::ES256),
        mint().sign(&claims),
    ];
    for token in tokens {
        assert_eq!(bench.verifier.verify(&token).await.unwrap().client.as_str(), "agent-a");
    }
}

#[tokio::test]
async fn b04_audience_and_issuer_are_exact_and_required() {
    let bench = bench().await;
    for aud in [json!(AUD), json!(["other", AUD])] {
        assert!(bench.verify(&bench.with(json!({ "aud": aud }))).await.is_ok(), "{aud}");
    }
    let foreign = [
        Value::Null,
        json!("other"),
        json!([]),
        json!(""),
        json!(format!("{AUD}/")),
        json!(format!("{AUD}.evil.example")),
        json!(AUD.to_uppercase()),
        json!([AUD, 7]),
        json!({ AUD: true }),
    ];
    for aud in foreign {
        assert_eq!(bench.verify(&bench.with(json!({ "aud": aud }))).await, Err(AuthFault::Audience), "{aud}");
    }
    for iss in [Value::Null, json!("https://evil.example"), json!(format!("{ISS}/")), json!([ISS])] {
        assert_eq!(bench.verify(&bench.with(json!({ "iss": iss }))).await, Err(AuthFault::Issuer), "{iss}");
    }
}

#[tokio::test]
async fn b05_a_public_key_is_never_taken_for_a_secret() {
    let bench = bench().await;
    let claims = bench.claims();
    let der = STANDARD.decode(include_str!("../testdata/rsa.pem").lines().nth(1).unwrap()).unwrap();
    let jwk = jwk_rsa().to_string();
    let secrets: [&[u8]; 4] = [include_bytes!("../testdata/rsa.pem"), &der, jwk.as_bytes(), RSA_N.as_bytes()];
    for secret in secrets {
        for (name, algorithm) in [("HS256", Algorithm::HS256), ("HS384", Algorithm::HS384), ("HS512", Algorithm::HS512)]
        {
            let key = EncodingKey::from_secret(secret).unwrap();
            for kid in ["k1", "hm"] {
                let token = signed(&json!({ "alg": name, "kid": kid }), &claims, &key, algorithm);
                assert_eq!(bench.verifier.verify(&token).await, Err(AuthFault::Algorithm));
            }
        }
    }
}

#[tokio::test]
async fn b05_no_algorithm_is_no_algorithm() {
    let bench = bench().await;
    let claims = encoded(&bench.claims());
    for header in [json!({ "alg": "none" }), json!({ "alg": "nOnE" }), json!({ "alg": "" })] {
        let token = format!("{}.{claims}.", encoded(&header));
        assert_eq!(bench.verifier.verify(&token).await, Err(AuthFault::Algorithm), "{header}");
    }
    let token = format!("{}.{claims}.", encoded(&json!({ "kid": "k1" })));
    assert_eq!(bench.verifier.verify(&token).await, Err(AuthFault::Malformed));
}

#[tokio::test]
async fn b05_a_tampered_token_is_refused() {
    let bench = bench().await;
    let token = mint().sign(&bench.claims());
    let (message, _) = token.rsplit_once('.').unwrap();
    assert_eq!(bench.verifier.verify(&format!("{message}.")).await, Err(AuthFault::Signature));
    assert_eq!(bench.verifier.verify(message).await, Err(AuthFault::Malformed));
    assert_eq!(bench.verifier.verify(&format!("{token}.x")).await, Err(AuthFault::Malformed));
    assert_eq!(bench.verifier.verify("junk").await, Err(AuthFault::Malformed));
    let other = mint().sign(&bench.with(json!({ "sub": "agent-b" })));
    let parts: Vec<&str> = token.split('.').collect();
    let swapped = format!("{}.{}.{}", parts[0], other.split('.').nth(1).unwrap(), parts[2]);
    assert_eq!(bench.verifier.verify(&swapped).await, Err(AuthFault::Signature));
}

#[tokio::test]
async fn b05_the_header_brings_no_key_and_no_extension() {
    let bench = bench().await;
    let claims = bench.claims();
    let evil = Mint::from_seed(&[9; 32]);
    let kid = mint().kid().to_owned();
    let own = jwk_ed(&evil);
    for (header, fault) in [
        (json!({ "alg": "EdDSA", "kid": kid, "jwk": own }), AuthFault::Signature),
        (
            json!({ "alg": "EdDSA", "kid": kid, "jku": "http://127.0.0.1:1/evil", "x5u": "http://127.0.0.1:1/evil" }),
            AuthFault::Signature,
        ),
        (json!({ "alg": "EdDSA", "kid": evil.kid(), "jwk": own }), AuthFault::UnknownKey),
        (json!({ "alg": "EdDSA", "kid": "../../dev/null" }), AuthFault::UnknownKey),
        (json!({ "alg": "EdDSA", "kid": "k1' OR 1=1" }), AuthFault::UnknownKey),
        (json!({ "alg": "EdDSA", "kid": 7 }), AuthFault::Malformed),
        (json!({ "alg": "EdDSA" }), AuthFault::NoKeyId),
        (json!({ "alg": "EdDSA", "kid": "k1" }), AuthFault::Algorithm),
    ] {
        assert_eq!(bench.verifier.verify(&evil.sign_with(&header, &claims)).await, Err(fault), "{header}");
    }
    for (header, fault) in [
        (json!({ "alg": "EdDSA", "kid": kid, "crit": ["exp"] }), AuthFault::Critical),
        (json!({ "alg": "EdDSA", "kid": kid, "crit": ["b64"], "b64": true }), AuthFault::Critical),
        (json!({ "alg": "EdDSA", "kid": kid, "typ": "logout+jwt" }), AuthFault::Type),
    ] {
        assert_eq!(bench.verifier.verify(&mint().sign_with(&header, &claims)).await, Err(fault), "{header}");
    }
    let good = json!({ "alg": "EdDSA", "kid": kid, "typ": "application/at+JWT", "jwk": own });
    assert!(bench.verifier.verify(&mint().sign_with(&good, &claims)).await.is_ok());
}

#[tokio::test]
async fn an_algorithm_off_the_list_is_refused_though_the_key_is_there() {
    let mut auth = auth();
    auth.algorithms = vec!["ES256".into()];
    let bench = bench_of(auth, fixed(&all_keys())).await;
    assert_eq!(bench.verify(&bench.claims()).await, Err(AuthFault::Algorithm));
}

#[tokio::test]
async fn a_shared_secret_algorithm_is_a_start_up_error() {
    for bad in ["HS256", "none", "RS512"] {
        let mut auth = auth();
        auth.algorithms = vec![bad.into()];
        let made = Verifier::new(&auth, AUD.into(), Arc::new(ShiftedClock::default()), fixed(&all_keys())).await;
        assert!(made.unwrap_err().to_string().contains("auth.algorithms"), "{bad}");
    }
}

#[tokio::test]
async fn a_single_key_needs_no_kid() {
    let bench = bench_of(auth(), fixed(&mint().jwks())).await;
    let claims = bench.claims();
    assert!(bench.verifier.verify(&mint().sign_with(&json!({ "alg": "EdDSA" }), &claims)).await.is_ok());
    let other = json!({ "alg": "EdDSA", "kid": "other" });
    assert_eq!(bench.verifier.verify(&mint().sign_with(&other, &claims)).await, Err(AuthFault::UnknownKey));
}

#[tokio::test]
async fn times_are_judged_by_the_given_clock_with_30_seconds_of_leeway() {
    let bench = bench().await;
    let now = bench.clock.now().seconds();
    for (claims, verdict) in [
        (json!({ "exp": now - 25 }), Ok(())),
        (json!({ "exp": now - 31 }), Err(AuthFault::Expired)),
        (json!({ "exp": null }), Err(AuthFault::NoExpiry)),
        (json!({ "exp": "soon" }), Err(AuthFault::Malformed)),
        (json!({ "exp": 1e300 }), Err(AuthFault::Malformed)),
        (json!({ "exp": format!("{}.5", now + 60).parse::<f64>().unwrap() }), Ok(())),
        (json!({ "nbf": now + 25 }), Ok(())),
        (json!({ "nbf": now + 40 }), Err(AuthFault::NotYetValid)),
        (json!({ "nbf": "later" }), Err(AuthFault::Malformed)),
    ] {
        let seen = bench.verify(&bench.with(claims.clone())).await.map(|_| ());
        assert_eq!(seen, verdict, "{claims}");
    }
    let token = mint().sign(&bench.claims());
    assert!(bench.verifier.verify(&token).await.is_ok());
    bench.clock.advance(331_000_000);
    assert_eq!(bench.verifier.verify(&token).await, Err(AuthFault::Expired));
    let refusal = Refusal::from(AuthFault::Expired);
    assert_eq!(refusal.code, Code::TokenExpired);
}
