//! The signed note in its one form, against a vector made by another program (Python's cryptography).

use countersign::domain::Timestamp;
use countersign::proof::{Checkpoint, NoteFault, NoteSigner, NoteVerifier, Piece, Pieces, b64url, last_note};
use proptest::prelude::*;

const NOTE: &str = "pay.example/countersign-audit-v1/acme\n1024\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n2026-01-02T03:04:05.000Z\n\n\u{2014} pay.example 3T7xMmuyO1+LcDa8/yKqWf5T+w9tSQaOMkQX50fLLZ+2IgQsdBgUTIzwTEyHuSqvNyjjtZBQEteK+VX1FfEdWmI6Bg0=\n";
const PUBLIC: &str = "pay.example+dd3ef132+AddamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea";
const PRIVATE: &str = "PRIVATE+KEY+pay.example+dd3ef132+AZ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g";

fn open(note: &str) -> Result<Checkpoint, NoteFault> {
    Checkpoint::open(note, &[NoteVerifier::parse(PUBLIC).unwrap()])
}

fn at() -> Timestamp {
    Timestamp::parse_rfc3339("2026-01-02T03:04:05.000Z").unwrap()
}

fn head() -> String {
    b64url(std::array::from_fn::<u8, 32, _>(|n| u8::try_from(n).unwrap()))
}

#[test]
fn a_note_is_signed_and_read_as_another_program_does() {
    let signer = NoteSigner::parse(PRIVATE).unwrap();
    assert_eq!(signer.verifier().to_text(), PUBLIC);
    assert_eq!((signer.to_text(), signer.origin()), (PRIVATE.to_owned(), "pay.example"));
    assert_eq!(signer.sign("acme", 1024, &head(), at()).unwrap(), NOTE);
    let read = open(NOTE).unwrap();
    assert_eq!((read.tenant.as_str(), read.size, read.head), ("acme", 1024, head()));
    assert!(!format!("{signer:?}").contains("nWGx"), "a key is not shown");
}

#[test]
fn any_change_to_a_note_is_refused() {
    for at in 0..NOTE.len() {
        for bit in 0..8 {
            let mut bytes = NOTE.as_bytes().to_vec();
            bytes[at] ^= 1 << bit;
            assert!(open(&String::from_utf8_lossy(&bytes)).is_err(), "byte {at} bit {bit}");
        }
        assert!(!NOTE.is_char_boundary(at) || open(&NOTE[..at]).is_err(), "cut at {at}");
    }
    let with = |from: &str, to: &str| NOTE.replacen(from, to, 1);
    for (note, fault) in [
        (with("1024", "1025"), NoteFault::Signature),
        (with("acme", "beta"), NoteFault::Signature),
        (with("1024", "01024"), NoteFault::Malformed),
        (with("1024", "+1024"), NoteFault::Malformed),
        (with("1024", "0"), NoteFault::Malformed),
        (with("1024", "-1"), NoteFault::Malformed),
        (with("1024", "9223372036854775808"), NoteFault::Malformed),
        (with("05.000Z", "05Z"), NoteFault::Malformed),
        (with("05.000Z", "05.000+00:00"), NoteFault::Malformed),
        (with("Hh8=\n", "Hh9=\n"), NoteFault::Malformed),
        (with("Hh8=\n", "Hh8\n"), NoteFault::Malformed),
        (with("/acme", "/a/cme"), NoteFault::Malformed),
        (with("000Z\n", "000Z\nmore\n"), NoteFault::Malformed),
        (with("\u{2014} pay.example", "\u{2014} pay.exemple"), NoteFault::Malformed),
        (with("\u{2014}", "-"), NoteFault::Malformed),
        (with("3T7x", "3T7y"), NoteFault::Foreign),
        (format!("{NOTE}\n"), NoteFault::Malformed),
        (format!("{NOTE}{}", NOTE.lines().last().unwrap()), NoteFault::Malformed),
        (NOTE.replace('\n', "\r\n"), NoteFault::Malformed),
    ] {
        assert_eq!(open(&note), Err(fault), "{note}");
    }
    assert_eq!(Checkpoint::open(NOTE, &[]), Err(NoteFault::Foreign));
    let other = NoteSigner::from_seed("pay.example", &[1; 32]).unwrap();
    assert_eq!(Checkpoint::open(NOTE, &[other.verifier().clone()]), Err(NoteFault::Foreign));
    assert!(Checkpoint::open(NOTE, &[other.verifier().clone(), NoteVerifier::parse(PUBLIC).unwrap()]).is_ok());
}

#[test]
fn what_no_chain_has_is_not_signed_and_what_is_no_key_is_not_read() {
    let signer = NoteSigner::parse(PRIVATE).unwrap();
    for (tenant, size, head) in [
        ("acme", 0, head()),
        ("acme", -1, head()),
        ("../acme", 1, head()),
        ("a\nb", 1, head()),
        ("", 1, head()),
        ("acme", 1, String::new()),
        ("acme", 1, "x".to_owned()),
    ] {
        assert_eq!(signer.sign(tenant, size, &head, at()), Err(NoteFault::Malformed), "{tenant} {size} {head}");
    }
    for origin in ["", "a b", "a+b", "a/b", "a\nb", &"x".repeat(65)] {
        assert!(NoteSigner::from_seed(origin, &[1; 32]).is_err(), "{origin}");
    }
    for text in [PRIVATE, PUBLIC] {
        for (from, to) in [("dd3e", "dd3f"), ("example", "exemple"), ("+A", "+B"), ("+dd", "+DD"), ("pay", " pay")] {
            let text = text.replacen(from, to, 1);
            assert!(NoteSigner::parse(&text).is_err() && NoteVerifier::parse(&text).is_err(), "{text}");
        }
        assert!(NoteSigner::parse(&format!("{text}=")).is_err() && NoteVerifier::parse(&format!("{text}\n")).is_err());
    }
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut cutter = Pieces::default();
    let mut found: Vec<Piece> = text.lines().filter_map(|line| cutter.push(line)).collect();
    found.extend(cutter.end());
    found
}

#[test]
fn a_file_is_cut_into_its_notes_and_what_is_none() {
    let note = |line| Piece::Note { line, text: NOTE.to_owned() };
    let one = format!("{NOTE}\n");
    assert_eq!(pieces(""), []);
    assert_eq!(pieces(&one.repeat(3)), [note(1), note(8), note(15)]);
    assert_eq!(pieces(&format!("{one}\n\n{one}")), [note(1), note(10)]);
    for cut in (1..NOTE.len()).filter(|cut| NOTE.is_char_boundary(*cut)) {
        let closed = pieces(&format!("{one}{}\n#\n{one}", &NOTE[..cut]));
        assert_eq!((&closed[0], closed.last()), (&note(1), Some(&closed[closed.len() - 1])), "{cut}");
        assert!(matches!(closed.last(), Some(Piece::Note { .. })), "{cut}: {closed:?}");
        assert!(
            closed[1..closed.len() - 1].iter().all(|piece| matches!(piece, Piece::CutOff { line: 8 })),
            "{cut}: {closed:?}"
        );
        assert_eq!(pieces(&format!("{one}{}", &NOTE[..cut])), [note(1), Piece::Unreadable { line: 8 }], "{cut}");
    }
}

#[test]
fn the_end_of_a_file_says_what_was_kept_last_and_whether_it_was_kept_whole() {
    let one = format!("{NOTE}\n");
    assert_eq!(last_note(""), (None, true));
    assert_eq!(last_note(&one), (Some(NOTE.to_owned()), true));
    for cut in (1..one.len()).filter(|cut| one.is_char_boundary(*cut)) {
        let (last, open) = last_note(&format!("{one}{}", &one[..cut]));
        assert_eq!((last.as_deref(), open), (Some(NOTE), false), "{cut}");
        let closed = format!("{one}{}\n#\n", &one[..cut]);
        assert_eq!(last_note(&closed), (Some(NOTE.to_owned()), true), "{cut}");
    }
}

proptest! {
    #[test]
    fn no_text_is_a_checkpoint_and_none_makes_a_reader_stumble(text in "(?s).{0,300}") {
        prop_assert!(open(&text).is_err());
        let _ = (pieces(&text), last_note(&text), NoteVerifier::parse(&text), NoteSigner::parse(&text));
    }

    #[test]
    fn lines_put_together_at_random_lose_no_whole_note(order in proptest::collection::vec(0_usize..8, 0..40)) {
        let lines: Vec<&str> = NOTE.lines().chain(["", "#"]).collect();
        let text: String = order.iter().fold(String::new(), |text, at| text + lines[*at] + "\n");
        let whole = pieces(&format!("{text}\n#\n{NOTE}\n"));
        let is_note = matches!(whole.last(), Some(Piece::Note { .. }));
        prop_assert!(is_note);
    }
}
