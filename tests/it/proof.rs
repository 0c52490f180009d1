//! What is signed and chained, against vectors made by another program (Python's hashlib, json, cryptography).

use std::collections::BTreeMap;

use countersign::domain::Choice;
use countersign::proof::{
    AuditFacts, Challenge, DecisionDocument, GENESIS, PaymentDocument, ProofFault, PublicKey, SigningKey, b64url,
    claimed_key_id, compare_code, decision_digest, from_b64url, jcs, key_id_of, link, payment_digest, sha256_hex,
    sign_detached, tagged_digest, verify_detached,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// `json.dumps(p, sort_keys=True, separators=(",", ":"), ensure_ascii=False)`
const P: &str = r#"{"amount_minor":"19900","aud":"https://pay.example","created_at":"2026-01-02T03:04:05.000Z","currency":"USD","currency_exponent":"2","execute_by":"2026-01-04T03:04:05.000Z","expires_at":"2026-01-03T03:04:05.000Z","mandate_id":"","order_id":"order-1","payee_account":"DE89370400440532013000","payee_name":"Zażółć \"GmbH\" / 東京 😀","payer_account":"acct-operating","payment_id":"pay_01KDYYZZ8800000000000000007","policy_digest":"cd","policy_id":"house","policy_version":"7","purpose":"Invoice 42","requester_agent":"agent-1","requester_principal":"olivia","required":"2","round":"1","tenant":"acme","typ":"countersign/payment/v1"}"#;
/// `b64url(sha256(b"countersign/payment/v1\0" + P))`
const P_DIGEST: &str = "-goVfXW_c1j6_RMy_0eBp0hwZz7yE35sVGcD6rDsDE0";
const D: &str = r#"{"challenge_expires_at":"2026-01-03T03:04:05.000Z","decision":"approve","issued_at":"2026-01-02T03:05:05.000Z","key_id":"key-1","nonce":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8","payment_digest":"-goVfXW_c1j6_RMy_0eBp0hwZz7yE35sVGcD6rDsDE0","reason":"","signer_id":"ana","typ":"countersign/approval/v1"}"#;
/// `b64url(sha256(b"countersign/approval/v1\0" + D))`
const D_DIGEST: &str = "d7r-bOeP791d1lxmzSuXf-UHO1aOXdXtHGeCInO1ACU";
/// D signed with the key of RFC 8032 test 1.
const JWS: &str = "eyJhbGciOiJFZERTQSIsImtpZCI6ImtleS0xIiwidHlwIjoiY291bnRlcnNpZ24tYXBwcm92YWwrandzIn0..LU6AFz5OXCF5EXFOEkedVW3K37Sg84luCozobwK6SgL1-8ejLQulOFoPKHx3m9B85opRIf-miqPmg6VZxPU7CQ";
const HEADER: &str = r#"{"alg":"EdDSA","kid":"key-1","typ":"countersign-approval+jws"}"#;

/// RFC 8032 §7.1: secret and public keys of tests 1 to 3.
const RFC_8032: [(&str, &str); 3] = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
    ),
];

fn bytes(hex: &str) -> [u8; 32] {
    std::array::from_fn(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
}

fn key() -> SigningKey {
    SigningKey::from_seed(&bytes(RFC_8032[0].0))
}

fn verify(payload: &str, jws: &str) -> Result<(), ProofFault> {
    verify_detached(&key().public(), "key-1", payload, jws)
}

fn payment_document() -> PaymentDocument {
    PaymentDocument::parse(P).unwrap()
}

#[test]
fn canonical_json_sorts_as_rfc_8785_does_and_escapes_no_more_than_it_must() {
    let keys = ["\u{20ac}", "\r", "\u{fb33}", "1", "\u{1f600}", "\u{80}", "\u{f6}"];
    let object: BTreeMap<&str, &str> = keys.into_iter().map(|key| (key, "")).collect();
    // RFC 8785 §3.2.3: by UTF-16 units, so the emoji comes before U+FB33.
    let sorted = "{\"\\r\":\"\",\"1\":\"\",\"\u{80}\":\"\",\"ö\":\"\",\"€\":\"\",\"😀\":\"\",\"\u{fb33}\":\"\"}";
    assert_eq!(jcs(&object).unwrap(), sorted);

    let text = BTreeMap::from([("k", "\u{8}\t\n\u{c}\r\"\\/\u{b}\u{1f}\u{7f}é€😀<>&'\u{2028}")]);
    assert_eq!(jcs(&text).unwrap(), "{\"k\":\"\\b\\t\\n\\f\\r\\\"\\\\/\\u000b\\u001f\u{7f}é€😀<>&'\u{2028}\"}");
}

#[test]
fn digests_are_those_of_another_program() {
    assert_eq!(payment_document().canonical().unwrap(), P);
    assert_eq!(payment_digest(P), P_DIGEST);
    assert_eq!(decision_digest(D), D_DIGEST);
    assert_eq!(b64url(tagged_digest("t", "x")), "b8o_z-szZR8HDpkDNwoHA0TTZZ18yBkPxOIoOCILISg");
    assert_eq!(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(compare_code(P_DIGEST), "-goVfXW_");
}

#[test]
fn a_tag_and_a_text_can_not_trade_places() {
    assert_ne!(tagged_digest("ab", "c"), tagged_digest("a", "bc"));
    assert_ne!(payment_digest(D), decision_digest(D));
}

#[test]
fn any_changed_character_of_a_payment_changes_its_digest() {
    for (i, _) in P.char_indices() {
        let mut changed = P.to_owned();
        changed.insert(i, '0');
        assert_ne!(payment_digest(&changed), P_DIGEST, "at {i}");
    }
}

#[test]
fn base64url_has_one_spelling() {
    assert_eq!(from_b64url("AAEC"), Some(vec![0, 1, 2]));
    for text in ["AAE=", "AAF", "AA+/", "AA\n", " AA", "A", "AAEC.", "ＡＡ"] {
        assert_eq!(from_b64url(text), None, "{text:?}");
    }
}

#[test]
fn the_amount_shown_is_the_amount_signed_or_none() {
    let document = payment_document();
    assert_eq!(document.amount_text().as_deref(), Some("199.00 USD"));
    let with = |amount: &str, currency: &str, exponent: &str| PaymentDocument {
        amount_minor: amount.to_owned(),
        currency: currency.to_owned(),
        currency_exponent: exponent.to_owned(),
        ..document.clone()
    };
    assert_eq!(with("19900", "JPY", "0").amount_text().as_deref(), Some("19900 JPY"));
    let unclear = [
        ("19900", "USD", "0"),
        ("19900", "JPY", "2"),
        ("0", "USD", "2"),
        ("-5", "USD", "2"),
        ("1e3", "USD", "2"),
        ("19900", "usd", "2"),
        ("19900", "USD", ""),
    ];
    for (amount, currency, exponent) in unclear {
        assert_eq!(with(amount, currency, exponent).amount_text(), None, "{amount} {currency} {exponent}");
    }
}

#[test]
fn a_decision_is_rebuilt_from_its_challenge_and_reads_back() {
    let challenge = Challenge {
        signer_id: "ana".to_owned(),
        nonce: b64url(std::array::from_fn::<u8, 32, _>(|i| u8::try_from(i).unwrap())),
        issued_at: "2026-01-02T03:05:05.000Z".to_owned(),
        challenge_expires_at: "2026-01-03T03:04:05.000Z".to_owned(),
    };
    let decision = DecisionDocument::answering(&challenge, P_DIGEST, "key-1", Choice::Approve, "");
    assert_eq!(decision.canonical().unwrap(), D);
    assert_eq!(DecisionDocument::parse(D), Some(decision.clone()));
    assert_eq!(decision.choice(), Some(Choice::Approve));

    let rejection = DecisionDocument::answering(&challenge, P_DIGEST, "key-1", Choice::Reject, "zły \"payee\"");
    let text = rejection.canonical().unwrap();
    assert_eq!(DecisionDocument::parse(&text).unwrap().choice(), Some(Choice::Reject));
    for word in ["", "Approve", "approve ", "yes"] {
        let other = DecisionDocument { decision: word.to_owned(), ..decision.clone() };
        assert_eq!(other.choice(), None, "{word:?}");
    }
}

/// Ways to write the same document, or nearly, that are not its canonical form.
fn near_misses(canonical: &str) -> Vec<(&'static str, String)> {
    let body = canonical.trim_matches(['{', '}']);
    let (first, rest) = body.split_once(',').unwrap();
    let (key, value) = first.split_once(':').unwrap();
    let values: Vec<&str> = body.split("\",\"").map(|pair| pair.split_once("\":\"").unwrap().1).collect();
    vec![
        ("a blank inside", canonical.replacen("\":\"", "\": \"", 1)),
        ("a blank before", format!(" {canonical}")),
        ("a line feed after", format!("{canonical}\n")),
        ("a byte order mark", format!("\u{feff}{canonical}")),
        ("another key order", format!("{{{rest},{first}}}")),
        ("the same key twice", format!("{{{first},{body}}}")),
        ("the same key twice, other value", format!("{{{key}:\"x\",{body}}}")),
        ("an unknown key", format!("{{{body},\"zzz\":\"\"}}")),
        ("a missing key", format!("{{{rest}}}")),
        ("a number", format!("{{{key}:1,{rest}}}")),
        ("null", format!("{{{key}:null,{rest}}}")),
        ("an escape that is not needed", canonical.replacen("countersign", "\\u0063ountersign", 1)),
        ("an escaped slash", canonical.replacen("countersign/", "countersign\\/", 1)),
        ("another type", canonical.replacen("/v1\"", "/v2\"", 1)),
        ("no type", canonical.replacen("countersign/", "", 1)),
        ("something after", format!("{canonical}{{}}")),
        ("an array", format!("[\"{}]", values.join("\",\""))),
        ("a string", format!("{canonical:?}")),
        ("half", canonical[..canonical.len() / 2].to_owned()),
        ("nothing", String::new()),
        ("a value only", value.to_owned()),
    ]
}

#[test]
fn only_the_canonical_form_of_a_document_is_read() {
    for (why, text) in near_misses(D) {
        assert_eq!(DecisionDocument::parse(&text), None, "{why}: {text}");
    }
    // P names its amount first and its type last, so the same ways apply.
    for (why, text) in near_misses(P) {
        assert_eq!(PaymentDocument::parse(&text), None, "{why}: {text}");
    }
    assert_eq!(PaymentDocument::parse(D), None);
    assert_eq!(DecisionDocument::parse(P), None);
}

#[test]
fn keys_are_those_of_rfc_8032() {
    for (secret, public) in RFC_8032 {
        assert_eq!(SigningKey::from_seed(&bytes(secret)).public().to_b64url(), b64url(bytes(public)));
    }
}

#[test]
fn keys_read_back_from_every_form_and_from_another_program() {
    let public = key().public();
    assert_eq!(PublicKey::from_b64url(&public.to_b64url()), Ok(public.clone()));
    assert_eq!(PublicKey::from_pem(&public.to_pem().unwrap()), Ok(public.clone()));
    let pem = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n";
    assert_eq!(PublicKey::from_pem(pem), Ok(public.clone()));
    let secret = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";
    assert_eq!(SigningKey::from_pem(secret).unwrap().public(), public);
    assert_eq!(SigningKey::from_pem(&key().to_pem().unwrap()).unwrap().public(), public);
    assert_eq!(key_id_of(&public), "ed25519-If4x36FUomFiahUB");
    assert_eq!(format!("{:?}", key()), "SigningKey(secret)");
}

#[test]
fn what_is_no_key_is_refused() {
    let good = key().public().to_b64url();
    let padded = format!("{good}=");
    let no_point = b64url(std::array::from_fn::<u8, 32, _>(|i| if i == 0 { NO_POINT } else { 0 }));
    for text in ["", "AAAA", &good[1..], padded.as_str(), no_point.as_str(), &b64url([7; 31]), &b64url([7; 33])] {
        assert_eq!(PublicKey::from_b64url(text), Err(ProofFault::Key), "{text}");
    }
    for pem in ["", "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----", &key().to_pem().unwrap()] {
        assert_eq!(PublicKey::from_pem(pem), Err(ProofFault::Key), "{pem}");
    }
    assert!(SigningKey::from_pem(&key().public().to_pem().unwrap()).is_err());
}

#[test]
fn a_good_signature_verifies_and_is_that_of_another_program() {
    assert_eq!(sign_detached(&key(), "key-1", D).unwrap(), JWS, "Ed25519 is deterministic");
    assert_eq!(verify(D, JWS), Ok(()));
    assert_eq!(claimed_key_id(JWS).as_deref(), Ok("key-1"));
}

#[test]
fn a_signature_binds_key_name_and_every_byte_of_the_payload() {
    let other = SigningKey::from_seed(&bytes(RFC_8032[1].0));
    assert_eq!(verify_detached(&other.public(), "key-1", D, JWS), Err(ProofFault::Signature));
    assert_eq!(verify_detached(&key().public(), "key-2", D, JWS), Err(ProofFault::Header));
    for payload in ["", P, &D[1..], &format!("{D} "), &D.replace("approve", "reject"), D_DIGEST] {
        assert_eq!(verify(payload, JWS), Err(ProofFault::Signature), "{payload}");
    }
    for i in 0..D.len() {
        let mut changed = D.as_bytes().to_vec();
        changed[i] ^= 1;
        assert_eq!(verify(std::str::from_utf8(&changed).unwrap(), JWS), Err(ProofFault::Signature), "byte {i}");
    }
}

#[test]
fn a_flipped_bit_anywhere_is_refused() {
    let (header, signature) = JWS.split_once("..").unwrap();
    let flipped = |part: &str, bit: usize| {
        let mut bytes = from_b64url(part).unwrap();
        bytes[bit / 8] ^= 1 << (bit % 8);
        b64url(bytes)
    };
    for bit in 0..512 {
        let jws = format!("{header}..{}", flipped(signature, bit));
        assert_eq!(verify(D, &jws), Err(ProofFault::Signature), "signature bit {bit}");
    }
    for bit in 0..HEADER.len() * 8 {
        assert!(verify(D, &format!("{}..{signature}", flipped(header, bit))).is_err(), "header bit {bit}");
    }
}

/// A y for which the curve has no point.
const NO_POINT: u8 = 2;

/// A JWS whose signature is good: only its header can be at fault.
fn signed_with(header: &str) -> String {
    // The key signs whatever header it is given, as a careless signer would.
    let header = b64url(header);
    let signing = ed25519_dalek::SigningKey::from_bytes(&bytes(RFC_8032[0].0));
    let signature = ed25519_dalek::Signer::sign(&signing, format!("{header}.{}", b64url(D)).as_bytes());
    format!("{header}..{}", b64url(signature.to_bytes()))
}

#[test]
fn a_header_leaves_the_signer_no_choice() {
    assert_eq!(verify(D, &signed_with(HEADER)), Ok(()), "the harness signs well");
    let reordered = r#"{"typ":"countersign-approval+jws","kid":"key-1","alg":"EdDSA"}"#;
    assert_eq!(verify(D, &signed_with(reordered)), Ok(()), "order means nothing in a JOSE header");

    let swap = |from: &str, to: &str| HEADER.replacen(from, to, 1);
    let with = |member: &str| HEADER.replacen('}', &format!(",{member}}}"), 1);
    let mut headers = vec![
        swap("\"kid\":\"key-1\"", "\"kid\":\"key-2\""),
        swap("\"kid\":\"key-1\"", "\"kid\":\"\""),
        swap("\"kid\":\"key-1\"", "\"kid\":\"KEY-1\""),
        swap("\"kid\":\"key-1\"", "\"kid\":[\"key-1\"]"),
        swap("\"kid\":\"key-1\",", ""),
        swap("\"alg\":\"EdDSA\",", ""),
        swap(",\"typ\":\"countersign-approval+jws\"", ""),
        with("\"crit\":[\"b64\"]"),
        with("\"b64\":false"),
        with("\"jwk\":{}"),
        with("\"jku\":\"https://evil.example\""),
        with("\"x5c\":[]"),
        with("\"cty\":\"\""),
        with("\"alg\":\"EdDSA\""),
        with("\"kid\":\"key-1\""),
        String::new(),
        "{}".to_owned(),
        "null".to_owned(),
        "\"EdDSA\"".to_owned(),
        r#"["EdDSA","key-1","countersign-approval+jws"]"#.to_owned(),
        format!("{HEADER}{{}}"),
    ];
    for alg in ["none", "None", "", "HS256", "ES256", "RS256", "Ed25519", "eddsa", "EDDSA", "EdDSA "] {
        headers.push(swap("\"EdDSA\"", &format!("{alg:?}")));
    }
    for typ in
        ["JWT", "", "jws", "countersign-approval", "COUNTERSIGN-APPROVAL+JWS", "application/countersign-approval+jws"]
    {
        headers.push(swap("\"countersign-approval+jws\"", &format!("{typ:?}")));
    }
    for header in headers {
        assert_eq!(verify(D, &signed_with(&header)), Err(ProofFault::Header), "{header}");
    }
}

#[test]
fn a_jws_is_detached_and_has_one_spelling() {
    let (header, signature) = JWS.split_once("..").unwrap();
    let malformed = [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        header.to_owned(),
        format!("{header}."),
        format!("{header}.."),
        format!("..{signature}"),
        format!("{header}.{signature}"),
        // The payload embedded, as an attached JWS has it: another payload could hide there.
        format!("{header}.{}.{signature}", b64url(D)),
        format!("{header}.{}.{signature}", b64url(P)),
        format!("{header}...{signature}"),
        format!("{JWS}."),
        format!("{JWS}.{signature}"),
        format!("{JWS}=="),
        format!("{JWS}\n"),
        format!(" {JWS}"),
        format!("{header}..{}", &signature[..84]),
        format!("{header}..{signature}AAAA"),
        format!("{header}..{}", signature.replace('-', "+").replace('_', "/")),
        "é..é".to_owned(),
        "x".repeat(100_000),
    ];
    for jws in malformed {
        let fault = verify(D, &jws).unwrap_err();
        assert!(matches!(fault, ProofFault::Malformed | ProofFault::Header), "{jws}: {fault}");
    }
    // The last character carries two bits; the other four must be zero.
    let kept = &JWS[..JWS.len() - 1];
    let spellings = ('A'..='Z').chain('a'..='z').chain('0'..='9').filter(|c| verify(D, &format!("{kept}{c}")).is_ok());
    assert_eq!(spellings.collect::<String>(), &JWS[JWS.len() - 1..]);
}

#[test]
fn a_key_of_small_order_signs_for_nobody() {
    // With the neutral element as key and R, and S = 0, plain verification accepts any message.
    let mut neutral = [0; 32];
    neutral[0] = 1;
    let mut signature = [0; 64];
    signature[0] = 1;
    let jws = format!("{}..{}", b64url(HEADER), b64url(signature));
    if let Ok(weak) = PublicKey::from_b64url(&b64url(neutral)) {
        for payload in [D, P, ""] {
            assert_eq!(verify_detached(&weak, "key-1", payload, &jws), Err(ProofFault::Signature));
        }
    }
    assert_eq!(verify(D, &jws), Err(ProofFault::Signature));
}

#[test]
fn a_signature_has_no_second_form() {
    // S + L satisfies the same equation; RFC 8032 §5.1.7 wants S < L.
    let order = bytes("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
    let (header, signature) = JWS.split_once("..").unwrap();
    let mut second = from_b64url(signature).unwrap();
    let mut carry = 0;
    for (byte, add) in second[32..].iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        *byte = u8::try_from(sum & 0xff).unwrap();
        carry = sum >> 8;
    }
    assert_eq!(carry, 0);
    assert_eq!(verify(D, &format!("{header}..{}", b64url(second))), Err(ProofFault::Signature));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, rng_seed: RngSeed::Fixed(11), ..ProptestConfig::default() })]

    #[test]
    fn what_is_signed_verifies_and_only_that(seed in any::<[u8; 32]>(), payload in "\\PC{0,80}", other in "\\PC{0,80}") {
        let key = SigningKey::from_seed(&seed);
        let key_id = key_id_of(&key.public());
        let jws = sign_detached(&key, &key_id, &payload).unwrap();
        prop_assert_eq!(verify_detached(&key.public(), &key_id, &payload, &jws), Ok(()));
        prop_assert_eq!(verify_detached(&key.public(), &key_id, &other, &jws).is_ok(), other == payload);
    }

    #[test]
    fn no_text_is_a_jws_by_chance_or_breaks_the_reader(text in "\\PC{0,120}|[A-Za-z0-9_.-]{0,200}") {
        prop_assert!(verify(D, &text).is_err());
        prop_assert_eq!(DecisionDocument::parse(&text), None);
    }
}

fn facts(seq: &str, from: &str, to: &str) -> AuditFacts {
    AuditFacts {
        seq: seq.to_owned(),
        ts: "2026-01-02T03:04:05.000Z".to_owned(),
        tenant: "acme".to_owned(),
        payment_id: "pay_x".to_owned(),
        version: seq.to_owned(),
        node: "n1".to_owned(),
        actor: "agent:agent-1".to_owned(),
        event: "payment.created".to_owned(),
        from: from.to_owned(),
        to: to.to_owned(),
        reason: String::new(),
        digest_of_details: String::new(),
    }
}

/// The chain after the two entries of the vectors.
const FIRST: &str = "n3DAdTKn4BH006XQDZYtKlfWSMD2LsezPCUjP2eN3-E";
const SECOND: &str = "J2j9c7xE6cB5mAVzGvNIEM7RWqvLmaAy38ndF0jc98s";

#[test]
fn the_audit_chain_is_that_of_another_program() {
    // leaf = sha256(00 ‖ entry); chain = b64url(sha256(01 ‖ previous chain value ‖ leaf))
    let first = link(GENESIS, &facts("1", "", "CREATED")).unwrap();
    assert_eq!(first.chain, FIRST);
    assert_eq!(
        first.canonical,
        r#"{"actor":"agent:agent-1","digest_of_details":"","event":"payment.created","from":"","node":"n1","payment_id":"pay_x","reason":"","seq":"1","tenant":"acme","to":"CREATED","ts":"2026-01-02T03:04:05.000Z","version":"1"}"#
    );
    let second = link(&first.chain, &facts("2", "CREATED", "AWAITING_SIGNER")).unwrap();
    assert_eq!(second.chain, SECOND);
}

#[test]
fn any_change_to_any_field_changes_the_chain_from_there_on() {
    let fields = serde_json::to_value(facts("1", "", "CREATED")).unwrap();
    let fields = fields.as_object().unwrap();
    assert_eq!(fields.len(), 12);
    let mut seen = vec![FIRST.to_owned()];
    for (name, value) in fields {
        let mut changed = fields.clone();
        changed.insert(name.clone(), format!("{}x", value.as_str().unwrap()).into());
        let changed: AuditFacts = serde_json::from_value(changed.into()).unwrap();
        let chain = link(GENESIS, &changed).unwrap().chain;
        assert!(!seen.contains(&chain), "{name}");
        assert_ne!(link(&chain, &facts("2", "CREATED", "AWAITING_SIGNER")).unwrap().chain, SECOND, "{name}");
        seen.push(chain);
    }
}

#[test]
fn any_change_to_what_came_before_changes_the_chain() {
    let next = facts("2", "CREATED", "AWAITING_SIGNER");
    for i in 0..FIRST.len() {
        let mut before = FIRST.as_bytes().to_vec();
        before[i] ^= 1;
        assert_ne!(link(std::str::from_utf8(&before).unwrap(), &next).unwrap().chain, SECOND, "byte {i}");
    }
    assert_ne!(link(GENESIS, &next).unwrap().chain, SECOND, "an entry cut out");
    let swapped = link(&link(GENESIS, &next).unwrap().chain, &facts("1", "", "CREATED")).unwrap();
    assert_ne!(swapped.chain, SECOND, "entries in another order");
}

#[test]
fn a_private_key_file_has_the_form_that_every_tool_reads() {
    // PKCS#8 version 1 (RFC 8410): 48 bytes, version 0, and no public half behind the private one.
    let pem = key().to_pem().unwrap();
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let der = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, body).unwrap();
    assert_eq!((der.len(), &der[..5]), (48, &[0x30, 0x2e, 0x02, 0x01, 0x00][..]));
}
