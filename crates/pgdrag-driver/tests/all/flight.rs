//! Do statements that travel together do what they would do alone, on a real PostgreSQL?

use crate::support::{Server, one_number, one_text, run};
use pgdrag_driver::session::{Connection, Params, Protocol, Statement};
use pgwire::value::Format;

macro_rules! server_or_skip {
    ($test:literal) => {
        match Server::start($test).await {
            Some(server) => server,
            None => return,
        }
    };
}

const PROTOCOLS: [Protocol; 3] = [Protocol::Simple, Protocol::Extended, Protocol::Prepared];

async fn prepare(conn: &mut Connection, sql: &str, protocol: Protocol) -> Statement {
    conn.statement(sql, protocol, Format::Binary).await.expect(sql)
}

#[test]
fn a_transaction_in_one_flight_is_answered_statement_by_statement() {
    run(async {
        let server = server_or_skip!("a_transaction_in_one_flight");
        let mut conn = server.connect().await;
        conn.simple("create table t (n int)").await.expect("table is made");
        for protocol in PROTOCOLS {
            conn.set_protocol(protocol).await.expect("known");
            let insert = prepare(&mut conn, "insert into t values ($1)", protocol).await;
            let all = prepare(&mut conn, "select n from t order by n", protocol).await;
            let clear = prepare(&mut conn, "delete from t", protocol).await;
            let mut params = Params::new();
            params.int4(3).int4(1).int4(2);
            conn.begin();
            let mut flight = conn.flight().expect("nothing is outstanding");
            assert_eq!(flight.batch(&insert, &mut params).expect("three rows"), 3);
            flight.execute(&all, &mut params).expect("queued");
            flight.execute(&clear, &mut params).expect("queued");
            let mut answers = flight.commit().await.expect("flight arrives");
            for _ in 0..3 {
                assert_eq!(answers.take().unwrap().command().unwrap(), "INSERT 0 1");
            }
            let rows = answers.take().expect("the rows").rows();
            let numbers: Vec<_> =
                rows.into_iter().map(|row| row.unwrap().int4(0).unwrap()).collect();
            assert_eq!(numbers, [1, 2, 3], "{protocol:?}");
            assert_eq!(answers.take().expect("the delete").rows_affected().unwrap(), 3);
            assert_eq!(answers.take().expect("COMMIT").command().unwrap(), "COMMIT");
            assert!(answers.next().expect("sound").is_none() && answers.take().is_err());
            assert!(!conn.is_in_transaction());
        }
    });
}

#[test]
fn nothing_is_prepared_until_it_is_asked_for() {
    run(async {
        let server = server_or_skip!("nothing_is_prepared_until_it_is_asked_for");
        let mut conn = server.connect().await;
        let prepared = "select count(*) from pg_prepared_statements";
        for (protocol, found) in
            [(Protocol::Simple, 0), (Protocol::Extended, 0), (Protocol::Prepared, 3)]
        {
            conn.set_protocol(protocol).await.expect("known");
            assert_eq!(one_number(&mut conn, prepared).await, found, "{protocol:?}");
        }
    });
}

#[test]
fn a_statement_that_fails_within_a_flight_fails_all_of_it_and_nothing_is_committed() {
    run(async {
        let server = server_or_skip!("a_statement_that_fails_within_a_flight");
        let mut conn = server.connect().await;
        conn.simple("create table t (n int primary key)").await.expect("table is made");
        for protocol in PROTOCOLS {
            conn.set_protocol(protocol).await.expect("known");
            let insert = prepare(&mut conn, "insert into t values ($1)", protocol).await;
            let mut params = Params::new();
            conn.begin();
            let mut flight = conn.flight().expect("nothing is outstanding");
            for number in [1, 2, 1, 4] {
                flight.execute(&insert, params.int4(number)).expect("queued");
            }
            let error = flight.commit().await.expect_err("1 comes twice");
            assert_eq!(error.sqlstate(), "23505");
            assert!(!conn.is_broken(), "{protocol:?}");
            conn.rollback().await.expect("rolls back");
            assert_eq!(one_number(&mut conn, "select count(*) from t").await, 0, "{protocol:?}");
        }
    });
}

#[test]
fn what_stands_behind_a_sync_runs_even_if_something_before_has_failed() {
    run(async {
        let server = server_or_skip!("what_stands_behind_a_sync");
        let mut conn = server.connect().await;
        conn.simple("create table t (n int primary key)").await.expect("table is made");
        let insert = conn.prepare("insert into t values ($1)").await.expect("prepared");
        let mut params = Params::new();
        let mut flight = conn.flight().expect("nothing is outstanding");
        flight.execute(&insert, params.int4(1)).expect("queued").sync();
        flight.execute(&insert, params.int4(1)).expect("queued");
        flight.execute(&insert, params.int4(2)).expect("queued").sync();
        flight.execute(&insert, params.int4(3)).expect("queued");
        assert_eq!(flight.send().await.expect_err("1 comes twice").sqlstate(), "23505");
        assert_eq!(
            one_text(&mut conn, "select string_agg(n::text, ' ' order by n) from t").await,
            "1 3"
        );
    });
}

#[test]
fn the_result_sets_of_a_text_are_told_apart() {
    run(async {
        let server = server_or_skip!("the_result_sets_of_a_text");
        let mut conn = server.connect().await;
        let mut flight = conn.flight().expect("nothing is outstanding");
        let sql = "select 1 as one; ; create table t (n int); select 2 as two, null::text as three";
        flight.text(sql).expect("queued").text("").expect("queued");
        let mut answers = flight.send().await.expect("flight arrives");
        let one = answers.take().expect("the first select");
        assert_eq!(one.columns().unwrap(), Some(vec![("one".to_owned(), 23)]));
        assert_eq!(one.rows().first().unwrap().unwrap().int4(0).unwrap(), 1);
        let made = answers.take().expect("the table");
        assert_eq!((made.command().unwrap(), made.columns().unwrap()), ("CREATE TABLE", None));
        let row = answers.take().expect("the last select").rows().first().unwrap().unwrap();
        assert!(row.is_null(1) && row.bytes(0).unwrap() == b"2");
        assert_eq!(answers.take().expect("the empty text").command().unwrap(), "");
        assert!(answers.next().expect("sound").is_none());
    });
}

#[test]
fn statements_take_values_as_text_without_being_asked_about() {
    run(async {
        let server = server_or_skip!("statements_take_values_as_text");
        let mut conn = server.connect().await;
        let sql = "select $1::int4 + 1 as next, $2::text as word";
        let unnamed = Statement::unnamed(sql, 2).expect("sendable");
        let named = conn.statement(sql, Protocol::Prepared, Format::Text).await.expect("prepared");
        let columns = vec![("next".to_owned(), 23), ("word".to_owned(), 25)];
        assert_eq!(named.columns(), columns);
        let mut params = Params::new();
        for statement in [unnamed, named] {
            let mut flight = conn.flight().expect("nothing is outstanding");
            params.text("41").text("naïve");
            flight.execute_described(&statement, &mut params).expect("queued");
            let answer = flight.send().await.expect("flight arrives").take().expect("an answer");
            assert_eq!(answer.columns().unwrap().as_ref(), Some(&columns));
            let row = answer.rows().first().unwrap().unwrap();
            assert_eq!((row.bytes(0).unwrap(), row.text(1).unwrap()), (&b"42"[..], "naïve"));
        }
    });
}

#[test]
fn rows_of_two_forms_do_not_travel_together() {
    run(async {
        let server = server_or_skip!("rows_of_two_forms");
        let mut conn = server.connect().await;
        let binary = conn.prepare("select 1").await.expect("prepared");
        let text = Statement::unnamed("select 1", 0).expect("sendable");
        let mut flight = conn.flight().expect("nothing is outstanding");
        flight.execute(&binary, &mut Params::new()).expect("queued");
        assert!(flight.execute(&text, &mut Params::new()).is_err());
        assert_eq!(one_number(&mut conn, "select 1").await, 1, "a dropped flight was not sent");
    });
}

#[test]
fn values_mean_the_same_in_every_protocol() {
    run(async {
        let server = server_or_skip!("values_mean_the_same_in_every_protocol");
        let mut conn = server.connect().await;
        let sql = "select $1::int2, - $2::int4, $3::int8, $4::float8, $5::text, $6::varchar,
                   $7::timestamp, $8::numeric, $9::char(3), $1::int2 - $8";
        for standard in ["on", "off"] {
            let set = format!("set standard_conforming_strings = {standard}");
            conn.simple(&set).await.expect("set");
            for protocol in PROTOCOLS {
                let statement = prepare(&mut conn, sql, protocol).await;
                let mut params = Params::new();
                params.int2(-2).int4(-4).int8(i64::MIN).float8(-0.1).text("it's a \\ and a $1");
                params.null().timestamp(-86_399_999_999).numeric(-5_00, 2).text("ab");
                let row = conn.query(&statement, &mut params).await.expect("runs").first();
                let row = row.unwrap().expect("a row");
                assert_eq!((row.int4(0).unwrap(), row.int4(1).unwrap()), (-2, 4), "{protocol:?}");
                assert_eq!(row.int8(2).unwrap(), i64::MIN);
                assert_eq!(row.float8(3).unwrap().to_bits(), (-0.1_f64).to_bits());
                assert_eq!(row.text(4).unwrap(), "it's a \\ and a $1");
                assert!(row.is_null(5));
                assert_eq!(row.timestamp(6).unwrap(), -86_399_999_999);
                assert_eq!(row.numeric(7, 2).unwrap(), -5_00);
                assert_eq!((row.text(8).unwrap(), row.numeric(9, 2).unwrap()), ("ab ", 3_00));
            }
        }
    });
}

#[test]
fn rows_that_nobody_wants_take_no_room_and_are_counted() {
    run(async {
        let server = server_or_skip!("rows_that_nobody_wants");
        let mut conn = server.connect().await;
        let mut flight = conn.flight().expect("nothing is outstanding");
        // 100 MB: more than an answer may hold.
        flight.text("select repeat('x', 1000) from generate_series(1, 100000)").expect("queued");
        flight.discard_rows();
        let answer = flight.send().await.expect("flight arrives").take().expect("an answer");
        assert_eq!((answer.rows_affected().unwrap(), answer.rows().count()), (100_000, 0));
    });
}

#[test]
fn a_hundred_thousand_notices_take_no_room() {
    run(async {
        let server = server_or_skip!("a_hundred_thousand_notices");
        let mut conn = server.connect().await;
        let sql = "do $$ begin for n in 1..100000 loop
                   raise notice '%', repeat('x', 1000); end loop; end $$; select 7";
        assert_eq!(one_number(&mut conn, sql).await, 7);
    });
}

#[test]
fn a_copy_among_statements_ends_in_an_error() {
    run(async {
        let server = server_or_skip!("a_copy_among_statements");
        let mut conn = server.connect().await;
        conn.simple("create table t (n int)").await.expect("table is made");
        let error = conn.simple("copy t from stdin").await.expect_err("no rows come");
        assert_eq!(error.sqlstate(), "57014");
        assert!(!conn.is_broken());
        conn.simple("insert into t values (5); copy t to stdout").await.expect("rows go nowhere");
        let copy = conn.prepare("copy t from stdin").await.expect("prepared");
        let error = conn.execute(&copy, &mut Params::new()).await.expect_err("no rows come");
        assert_eq!(error.to_string(), "COPY FROM STDIN is not supported here");
        assert!(conn.is_broken());
    });
}
