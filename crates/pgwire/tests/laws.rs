//! Laws of the protocol's two directions, on arbitrary input.

use bytes::BytesMut;
use pgwire::auth::{Binding, ITERATIONS_MAX, Request, Scram};
use pgwire::backend::{self, Malformed, RawRow, Tag, decode};
use pgwire::frontend::{self, BindTemplate};
use pgwire::value::Format;
use pgwire::{copy, numeric, text, value};
use proptest::collection::vec;
use proptest::prelude::*;

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("a short body");
    [&[tag], &length.to_be_bytes()[..], body].concat()
}

/// All messages of `bytes`, which arrive in parts that end at `cuts`.
fn decode_in_parts(bytes: &[u8], cuts: &[usize]) -> Result<Vec<(Tag, Vec<u8>)>, Malformed> {
    let (mut found, mut buffer, mut from) = (Vec::new(), Vec::new(), 0);
    for to in cuts.iter().copied().chain([bytes.len()]) {
        buffer.extend_from_slice(&bytes[from..to]);
        from = to;
        while let Some(message) = decode(&buffer)? {
            found.push((message.tag, message.body.to_vec()));
            let taken = message.wire_bytes();
            buffer.drain(..taken);
        }
    }
    Ok(found)
}

fn literal(oid: u32, value: &[u8]) -> String {
    let mut out = BytesMut::new();
    text::literal(&mut out, oid, Some(value)).expect("a value of that type");
    String::from_utf8(out.to_vec()).expect("text")
}

fn known_tag() -> impl Strategy<Value = u8> {
    proptest::sample::select(b"RK23CdcGHDIEvnNAtS1sZT".to_vec())
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_never_a_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
        let _ = backend::report(&bytes);
        let _ = backend::columns(&bytes);
        let _ = backend::parameter_types(&bytes);
        let _ = backend::command_tag(&bytes).map(backend::rows_affected);
        let _ = RawRow::parse(&bytes).map(|row| row.iter().count());
        let _ = Request::parse(&bytes);
        let _ = value::as_numeric(&bytes, 2);
        let _ = (value::as_integer(&bytes), value::as_float8(&bytes), value::as_text(&bytes));
        let _ = (text::as_integer(&bytes), text::as_float8(&bytes), text::as_timestamp(&bytes));
        for (scale, oid) in [(0, 21), (2, 23), (20, 20), (255, 701), (1, 1114), (1, 1700), (1, 25)] {
            let _ = text::as_numeric(&bytes, scale);
            let _ = text::literal(&mut BytesMut::new(), oid, Some(&bytes));
        }
    }

    #[test]
    fn a_numeric_form_of_arbitrary_words_is_never_a_panic(
        words in vec(prop_oneof![any::<i16>(), -3..9_i16, 0..10_000_i16], 4..12),
        scale in 0_u8..=255,
    ) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let _ = numeric::decode(&bytes, scale);
    }

    #[test]
    fn messages_are_the_same_wherever_the_stream_is_cut(
        messages in vec((known_tag(), vec(any::<u8>(), 0..40)), 0..8),
        cuts in vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let stream: Vec<u8> =
            messages.iter().flat_map(|(tag, body)| message(*tag, body)).collect();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.sort_unstable();
        let parts = decode_in_parts(&stream, &cuts).expect("whole messages");
        prop_assert_eq!(&parts, &decode_in_parts(&stream, &[]).expect("whole messages"));
        let bodies: Vec<_> = parts.into_iter().map(|(_, body)| body).collect();
        prop_assert_eq!(bodies, messages.into_iter().map(|(_, body)| body).collect::<Vec<_>>());
    }

    #[test]
    fn a_numeric_comes_back_as_it_went(unscaled: i64, scale in 0..=numeric::SCALE_MAX) {
        let form = numeric::encode(unscaled, scale);
        prop_assert_eq!(numeric::decode(form.as_bytes(), scale), Ok(unscaled));
    }

    #[test]
    fn a_numeric_of_less_scale_is_read_at_a_larger_one(cents in -1_000_000_i64..1_000_000) {
        let form = numeric::encode(cents, 2);
        prop_assert_eq!(numeric::decode(form.as_bytes(), 4), Ok(cents * 100));
        let dollars = numeric::decode(form.as_bytes(), 0);
        prop_assert_eq!(dollars.ok(), (cents % 100 == 0).then_some(cents / 100));
    }

    #[test]
    fn a_numeric_comes_back_from_its_literal(unscaled: i64, scale in 0..=numeric::SCALE_MAX) {
        let form = numeric::encode(unscaled, scale);
        let literal = literal(1700, form.as_bytes());
        let digits = literal.trim_matches(['(', ')']);
        prop_assert_eq!(literal.starts_with('('), unscaled < 0);
        prop_assert_eq!(text::as_numeric(digits.as_bytes(), scale), Ok(unscaled), "{}", literal);
    }

    #[test]
    fn a_timestamp_comes_back_from_its_literal(
        // from 0001-01-01 to the end of 9999
        us in -63_082_281_600_000_000_i64..252_455_616_000_000_000,
    ) {
        let literal = literal(1114, &us.to_be_bytes());
        prop_assert_eq!(text::as_timestamp(literal.trim_matches('\'').as_bytes()), Ok(us), "{}", literal);
    }

    #[test]
    fn values_come_back_from_a_row(int: i64, small: i16, float: f64, text in "[^\0]{0,20}") {
        let mut values = Vec::new();
        value::put_int8(&mut values, int);
        value::put_int2(&mut values, small);
        value::put_null(&mut values);
        value::put_float8(&mut values, float);
        value::put_text(&mut values, &text);
        value::put_timestamp(&mut values, int);
        prop_assert_eq!(value::bytes_of(&values, 6), values.len());
        prop_assert_eq!(value::bytes_of(&values, 3), 12 + 6 + 4);
        let body = [&6_i16.to_be_bytes()[..], &values].concat();
        let row = RawRow::parse(&body).expect("six values");
        let get = |column| row.get(column).expect("a value");
        prop_assert_eq!(value::as_integer(get(0)), Ok(int));
        prop_assert_eq!(value::as_integer(get(1)), Ok(i64::from(small)));
        prop_assert_eq!(row.get(2), None);
        prop_assert_eq!(value::as_float8(get(3)).map(f64::to_bits), Ok(float.to_bits()));
        prop_assert_eq!(value::as_text(get(4)), Ok(text.as_str()));
        prop_assert_eq!(value::as_timestamp(get(5)), Ok(int));
    }

    #[test]
    fn a_row_that_claims_more_than_it_has_is_malformed(
        columns in 1_i16..50,
        lengths in vec(0_i32..20, 0..3),
    ) {
        let mut body = columns.to_be_bytes().to_vec();
        for length in lengths.iter().take(usize::from(columns.unsigned_abs()) - 1) {
            value::put_bytes(&mut body, &vec![7; usize::try_from(*length).unwrap_or(0)]);
        }
        prop_assert!(RawRow::parse(&body).is_err());
    }
}

#[test]
fn numerics_have_postgresqls_own_bytes() {
    // (unscaled, scale, digits, weight, sign): SELECT numeric_send(…) says the same
    for (unscaled, scale, digits, weight, sign) in [
        (0_i64, 2_u8, &[][..], 0_i16, 0_u16),
        (1, 0, &[1], 0, 0),
        (-123_45, 2, &[123, 4500], 0, 0x4000),
        (100_000_000, 0, &[1], 2, 0),
        (1, 4, &[1], -1, 0),
        (10_000_00, 2, &[1], 1, 0),
    ] {
        let count = u16::try_from(digits.len()).expect("a few digits");
        let head = [count, weight.cast_unsigned(), sign, u16::from(scale)];
        let words: Vec<u8> =
            head.iter().chain(digits).flat_map(|word| word.to_be_bytes()).collect();
        assert_eq!(numeric::encode(unscaled, scale).as_bytes(), words, "{unscaled} / 10^{scale}");
    }
}

#[test]
fn literals_are_what_people_write() {
    // (type, value, literal)
    for (oid, value, wanted) in [
        (23, &5_i32.to_be_bytes()[..], "5"),
        (23, &(-5_i32).to_be_bytes(), "(-5)"),
        (701, &0.1_f64.to_be_bytes(), "'0.1'"),
        (25, b"it's", "'it''s'"),
        (1043, b"a\\b", " E'a\\\\b'"),
        (1700, numeric::encode(-5, 2).as_bytes(), "(-0.05)"),
        (1114, &0_i64.to_be_bytes(), "'2000-01-01 00:00:00.000000'"),
        (1114, &(-1_i64).to_be_bytes(), "'1999-12-31 23:59:59.999999'"),
        (1114, &(60 * 86_400_000_000_i64 - 1).to_be_bytes(), "'2000-02-29 23:59:59.999999'"),
    ] {
        assert_eq!(literal(oid, value), wanted);
    }
    let mut out = BytesMut::new();
    assert!(text::literal(&mut out, 1114, Some(&i64::MAX.to_be_bytes())).is_err());
    assert!(text::literal(&mut out, 3802, Some(b"{}")).is_err());
    text::literal(&mut out, 23, None).expect("a NULL of any type");
    assert_eq!(out, &b"NULL"[..]);
}

#[test]
fn text_that_is_no_value_is_malformed() {
    for text in ["", "-", ".", "1.2.3", "1e3", "0x1", "NaN", "9223372036854775808", "0.001", "١"] {
        assert!(text::as_numeric(text.as_bytes(), 2).is_err(), "{text}");
    }
    for text in
        ["", "2000-01-01", "2000-01-01 1:2", "2000-13", "infinity", "2000-01-01 00:00:00+01"]
    {
        assert!(text::as_timestamp(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn a_text_that_is_written_in_place_has_the_form_of_the_documentation() {
    let mut out = BytesMut::new();
    let select = |out: &mut BytesMut| -> Result<(), frontend::Unsendable> {
        out.extend_from_slice(b"select");
        Ok(())
    };
    frontend::query_written(&mut out, select).expect("sendable");
    assert_eq!(out, message(b'Q', b"select\0"));
    let zero = |out: &mut BytesMut| -> Result<(), frontend::Unsendable> {
        out.extend_from_slice(b"'\0'");
        Ok(())
    };
    assert!(frontend::query_written(&mut out, zero).is_err());
    assert_eq!(out, message(b'Q', b"select\0"), "nothing of it is left");
}

#[test]
fn what_is_not_a_finite_number_is_malformed() {
    for sign in [0xC000_u16, 0xD000, 0xF000] {
        let words: Vec<u8> = [0, 0, sign, 0].iter().flat_map(|word| word.to_be_bytes()).collect();
        assert!(numeric::decode(&words, 2).is_err());
    }
}

#[test]
fn absurd_lengths_are_refused_before_anything_is_reserved() {
    for length in [0_u32, 3, 1 << 30, u32::MAX] {
        let head = [&b"D"[..], &length.to_be_bytes()].concat();
        assert!(decode(&head).is_err(), "length {length}");
    }
    assert_eq!(decode(b"D\0\0\x10\0"), Ok(None));
    assert!(decode(b"!").is_err());
}

#[test]
fn an_error_report_keeps_the_untranslated_severity() {
    let body = b"SFEHLER\0VERROR\0C40001\0Mno\0Dwhy\0Hhint\0\0";
    let report = backend::report(body).expect("a report");
    let texts = [report.severity, report.sqlstate, report.message, report.detail];
    assert_eq!(texts, ["ERROR", "40001", "no", "why"]);
}

#[test]
fn command_tags_count_rows() {
    // (tag, rows)
    for (tag, rows) in
        [("UPDATE 3", 3), ("INSERT 0 7", 7), ("COPY 10", 10), ("BEGIN", 0), ("CREATE TABLE", 0)]
    {
        assert_eq!(backend::rows_affected(tag), rows, "{tag}");
    }
}

#[test]
fn a_bind_message_has_the_form_of_the_documentation() {
    let mut values = Vec::new();
    value::put_int4(&mut values, 5);
    value::put_null(&mut values);
    let mut out = BytesMut::new();
    BindTemplate::new("s1", 2, Format::Binary).expect("a name").bind(&mut out, &values);
    // the unnamed portal, the statement, one format for all (binary), two values, binary results
    let body = b"\0s1\0\0\x01\0\x01\0\x02\0\0\0\x04\0\0\0\x05\xff\xff\xff\xff\0\x01\0\x01";
    assert_eq!(out, message(b'B', body));
}

#[test]
fn texts_with_a_zero_byte_cannot_be_sent() {
    let mut out = BytesMut::new();
    assert!(frontend::query(&mut out, "select '\0'").is_err());
    assert!(BindTemplate::new("s\0", 0, Format::Text).is_err());
}

#[test]
fn a_binary_copy_has_a_header_rows_and_a_trailer() {
    let mut out = Vec::new();
    copy::header(&mut out);
    copy::row(&mut out, 1);
    value::put_int2(&mut out, 258);
    copy::trailer(&mut out);
    let (header, rest) = out.split_at(19);
    assert_eq!(header, b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0");
    assert_eq!(rest, b"\0\x01\0\0\0\x02\x01\x02\xff\xff");
}

#[test]
fn a_report_without_a_sqlstate_or_with_a_novel_in_it_is_not_kept() {
    for body in [&b"SERROR\0Mno\0\0"[..], b"C4000\0\0", b"C40 01\0\0", b"C400011\0\0"] {
        assert!(backend::report(body).is_err(), "{body:?}");
    }
    let body = [b"C40001\0M", "x".repeat(1 << 20).as_bytes(), b"\0\0"].concat();
    let report = backend::report(&body).expect("a report");
    assert_eq!(report.message.len(), 1000);
}

#[test]
fn a_server_cannot_keep_the_client_busy_with_hashing() {
    let mut scram = Scram::new("secret", Binding::Unsupported);
    let first = String::from_utf8_lossy(scram.answer()).into_owned();
    let (_, nonce) = first.split_once("r=").expect("a nonce");
    let asked = |iterations: u64| format!("r={nonce}x,s=c2FsdA==,i={iterations}");
    let refused = scram.go_on(asked(ITERATIONS_MAX + 1).as_bytes()).expect_err("too much");
    assert_eq!(refused.to_string(), "SCRAM with more than 2000000 iterations");
    scram.go_on(asked(10).as_bytes()).expect("little work");
}
