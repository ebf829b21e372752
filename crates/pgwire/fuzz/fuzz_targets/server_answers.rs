//! Can any bytes of a server make the decoder panic, or read what is not there?

#![no_main]

use libfuzzer_sys::fuzz_target;
use pgwire::auth::{Binding, Request, Scram};
use pgwire::backend::{self, RawRow};
use pgwire::value;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some(message)) = backend::decode(rest) {
        let length = message.wire_bytes();
        assert!(length <= rest.len(), "a message of {length} bytes out of {}", rest.len());
        assert_needs_all_of_it(&rest[..length]);
        read(message.body);
        rest = &rest[length..];
    }
    read(bytes);
});

/// A message that has not arrived whole is waited for; nothing is taken for one before.
fn assert_needs_all_of_it(whole: &[u8]) {
    let arrived = backend::decode(&whole[..whole.len() - 1]).expect("the whole of it was sound");
    assert!(arrived.is_none(), "a message before its last byte");
}

/// Reads a body as everything that it could stand for, whatever its tag says.
fn read(body: &[u8]) {
    authenticate(body);
    if let Ok(report) = backend::report(body) {
        assert_eq!(report.sqlstate.len(), 5, "it becomes a key that errors are counted under");
        assert!(report.message.len() <= 3_000, "texts for people are cut");
    }
    if let Ok(tag) = backend::command_tag(body) {
        let _ = backend::rows_affected(tag);
    }
    let _ = backend::parameter_types(body);
    let _ = backend::columns(body);
    if let Ok(row) = RawRow::parse(body) {
        assert_eq!(row.iter().count(), row.len());
        row.iter().flatten().for_each(interpret);
        assert!(row.get(row.len()).is_none(), "a column behind the last one");
    }
}

fn authenticate(body: &[u8]) {
    match Request::parse(body) {
        Ok(Request::SaslContinue(answer)) => {
            let _ = Scram::new("secret", Binding::Unsupported).go_on(answer);
        }
        Ok(Request::SaslFinal(answer)) => {
            let _ = Scram::new("secret", Binding::Unsupported).finish(answer);
        }
        _ => {}
    }
}

fn interpret(value: &[u8]) {
    let _ = value::as_integer(value);
    let _ = value::as_float8(value);
    let _ = value::as_text(value);
    let _ = value::as_timestamp(value);
    for scale in [0, 2, 4] {
        let _ = value::as_numeric(value, scale);
    }
}
