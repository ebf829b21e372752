//! Does a connection do what it says, on a real PostgreSQL?

use std::time::Duration;

use crate::support::{PASSWORD, Server, one_number, one_text, run};
use pgdrag_driver::error::Error;
use pgdrag_driver::session::{Connection, Params, connect_within};

macro_rules! server_or_skip {
    ($test:literal) => {
        match Server::start($test).await {
            Some(server) => server,
            None => return,
        }
    };
}

async fn add_roles(server: &Server) {
    let sql = format!(
        "set password_encryption = 'scram-sha-256'; create role scram login password '{PASSWORD}';
         create role clear login password '{PASSWORD}';
         set password_encryption = 'md5'; create role md5 login password '{PASSWORD}'"
    );
    server.connect().await.simple(&sql).await.expect("roles are made");
}

#[test]
fn tcp_connections_authenticate_by_every_method() {
    run(async {
        let server = server_or_skip!("tcp_connections_authenticate_by_every_method");
        add_roles(&server).await;
        for user in ["scram", "md5", "clear"] {
            let target = server.tcp_target(user, Some(PASSWORD));
            let mut conn = Connection::connect(&target).await.expect(user);
            assert_eq!(one_text(&mut conn, "select current_user").await, user);

            let wrong = Connection::connect(&server.tcp_target(user, Some("wrong"))).await;
            assert_eq!(wrong.err().expect(user).sqlstate(), "28P01");
            let none = Connection::connect(&server.tcp_target(user, None)).await;
            let message = none.err().expect(user).to_string();
            assert_eq!(message, format!("server asks for a password of role \"{user}\""));
        }
    });
}

#[test]
fn statements_take_and_return_every_type() {
    run(async {
        let server = server_or_skip!("statements_take_and_return_every_type");
        let mut conn = server.connect().await;
        let statement = conn
            .prepare(
                "select $1::int2, $2::int4, $3::int8, $4::float8, $5::text, $6::char(4),
                        $7::timestamp, $8::numeric(12,2), $9::text",
            )
            .await
            .expect("statement is prepared");
        assert_eq!(statement.parameter_types().len(), 9);
        let mut params = Params::new();
        params.int2(-2).int4(4).int8(1 << 40).float8(0.5).text("naïve").text("ab");
        params.timestamp(86_400_000_000).numeric(-1234_05, 2).null();
        let rows = conn.query(&statement, &mut params).await.expect("query runs");
        let row = rows.first().expect("sound rows").expect("a row");
        assert_eq!((row.int4(0).unwrap(), row.int4(1).unwrap()), (-2, 4));
        assert_eq!((row.int8(2).unwrap(), row.float8(3).unwrap()), (1 << 40, 0.5));
        assert_eq!((row.text(4).unwrap(), row.text(5).unwrap()), ("naïve", "ab  "));
        assert_eq!(row.timestamp(6).unwrap(), 86_400_000_000);
        assert_eq!(row.numeric(7, 2).unwrap(), -1234_05);
        assert!(row.is_null(8) && row.text(8).is_err() && !row.is_null(9));

        // The server reads what was sent as the driver meant it.
        let shown = conn.prepare("select $1::timestamp::text || ' ' || $2::numeric::text").await;
        let shown = shown.expect("statement is prepared");
        params.timestamp(86_400_000_000).numeric(1_000_000_50, 2);
        let rows = conn.query(&shown, &mut params).await.expect("query runs");
        let text = rows.first().unwrap().unwrap().text(0).unwrap().to_owned();
        assert_eq!(text, "2000-01-02 00:00:00 1000000.50");
    });
}

#[test]
fn answers_longer_than_the_buffer_arrive_whole() {
    run(async {
        let server = server_or_skip!("answers_longer_than_the_buffer_arrive_whole");
        let mut conn = server.connect().await;
        let statement = conn
            .prepare("select n, repeat('x', n % 1000) from generate_series(1, $1::int) n")
            .await
            .expect("statement is prepared");
        let rows = conn.query(&statement, Params::new().int4(5000)).await.expect("query runs");
        let mut seen = 0;
        for row in rows {
            let row = row.expect("a sound row");
            seen += 1;
            assert_eq!(row.int4(0).unwrap(), seen);
            assert_eq!(i32::try_from(row.text(1).unwrap().len()), Ok(seen % 1000));
        }
        assert_eq!(seen, 5000);
        assert_eq!(one_number(&mut conn, "select 7").await, 7);
    });
}

#[test]
fn a_batch_larger_than_the_socket_neither_hangs_nor_loses_rows() {
    run(async {
        let server = server_or_skip!("a_batch_larger_than_the_socket_neither_hangs_nor_loses_rows");
        let mut conn = server.connect().await;
        conn.simple("create table t (n int, x text)").await.expect("table is made");
        let insert = conn.prepare("insert into t values ($1, $2)").await.expect("prepared");
        let mut params = Params::new();
        for n in 0..50_000 {
            params.int4(n).text("some text that takes room");
        }
        conn.begin();
        conn.batch(&insert, &mut params).await.expect("batch runs");
        conn.commit().await.expect("commit");
        assert_eq!(one_number(&mut conn, "select count(distinct n) from t").await, 50_000);
    });
}

#[test]
fn a_transaction_starts_with_its_first_statement_and_ends_with_commit() {
    run(async {
        let server = server_or_skip!("a_transaction_starts_with_its_first_statement");
        let (mut conn, mut other) = (server.connect().await, server.connect().await);
        conn.simple("create table t (n int)").await.expect("table is made");
        let insert = conn.prepare("insert into t values ($1)").await.expect("prepared");
        let mut params = Params::new();

        conn.begin();
        assert!(conn.is_in_transaction());
        assert_eq!(conn.execute(&insert, params.int4(1)).await.expect("insert"), 1);
        assert_eq!(one_number(&mut other, "select count(*) from t").await, 0);
        conn.commit().await.expect("commit");
        assert!(!conn.is_in_transaction());
        assert_eq!(one_number(&mut other, "select count(*) from t").await, 1);

        conn.begin();
        conn.execute(&insert, params.int4(2)).await.expect("insert");
        conn.rollback().await.expect("rollback");
        assert_eq!(one_number(&mut other, "select count(*) from t").await, 1);

        conn.begin();
        conn.simple("insert into t values (3)").await.expect("insert");
        assert!(conn.is_in_transaction());
        conn.rollback().await.expect("rollback");
        assert_eq!(one_number(&mut other, "select count(*) from t").await, 1);
    });
}

#[test]
fn after_an_error_the_transaction_is_rolled_back_and_the_connection_goes_on() {
    run(async {
        let server = server_or_skip!("after_an_error_the_transaction_is_rolled_back");
        let mut conn = server.connect().await;
        conn.simple("create table t (n int primary key)").await.expect("table is made");
        let insert = conn.prepare("insert into t values ($1)").await.expect("prepared");
        let mut params = Params::new();
        conn.begin();
        conn.execute(&insert, params.int4(1)).await.expect("insert");
        let error = conn.execute(&insert, params.int4(1)).await.expect_err("a duplicate");
        assert_eq!((error.sqlstate(), error.is_retriable()), ("23505", false));
        assert!(!conn.is_broken());
        let error = conn.commit().await.expect_err("COMMIT of a failed transaction");
        assert_eq!(error.sqlstate(), "25P02");

        for row in [2, 2] {
            params.int4(row);
        }
        conn.begin();
        assert_eq!(conn.batch(&insert, &mut params).await.expect_err("twice").sqlstate(), "23505");
        conn.rollback().await.expect("rollback");
        assert_eq!(one_number(&mut conn, "select count(*) from t").await, 0);
    });
}

#[test]
fn values_that_do_not_fit_the_statement_are_refused_and_forgotten() {
    run(async {
        let server = server_or_skip!("values_that_do_not_fit_the_statement");
        let mut conn = server.connect().await;
        let statement = conn.prepare("select $1::int4 + $2::int4").await.expect("prepared");
        let mut params = Params::new();
        params.int4(1);
        let refused = conn.execute(&statement, &mut params).await.expect_err("one is missing");
        assert_eq!(refused.sqlstate(), "08P01");
        params.int4(1).int4(2).int4(3);
        let refused = conn.batch(&statement, &mut params).await.expect_err("one too many");
        assert_eq!(refused.to_string(), "3 values for a statement of 2 parameters");
        params.int4(1).int4(2);
        assert_eq!(conn.execute(&statement, &mut params).await.expect("both are there"), 1);
    });
}

#[test]
fn copy_takes_rows_in_and_a_bad_row_leaves_the_connection_usable() {
    run(async {
        let server = server_or_skip!("copy_takes_rows_in");
        let mut conn = server.connect().await;
        conn.simple("create table t (n int, amount numeric(6,2))").await.expect("table is made");

        let mut rows = Vec::new();
        pgwire::copy::header(&mut rows);
        for n in 0..1000 {
            pgwire::copy::row(&mut rows, 2);
            pgwire::value::put_int4(&mut rows, n);
            pgwire::value::put_numeric(&mut rows, i64::from(n), 2);
        }
        pgwire::copy::trailer(&mut rows);
        let mut copy = conn.copy_in("copy t from stdin (format binary)").await.expect("copy");
        for part in rows.chunks(777) {
            copy.send(part).await.expect("rows are sent");
        }
        assert_eq!(copy.finish().await.expect("copy ends"), 1000);
        assert_eq!(one_text(&mut conn, "select sum(amount) from t").await, "4995.00");

        let mut copy = conn.copy_in("copy t from stdin").await.expect("copy");
        copy.send(b"1\tno number\n").await.expect("not looked at yet");
        assert_eq!(copy.finish().await.expect_err("a bad row").sqlstate(), "22P02");
        let error = conn.copy_in("copy nowhere from stdin").await.err().expect("no such table");
        assert_eq!(error.sqlstate(), "42P01");
        assert_eq!(one_number(&mut conn, "select count(*) from t").await, 1000);
    });
}

#[test]
fn a_running_statement_is_cancelled_from_outside() {
    run(async {
        let server = server_or_skip!("a_running_statement_is_cancelled_from_outside");
        let (mut conn, mut other) = (server.connect().await, server.connect().await);
        let token = conn.cancel_token();
        let cancel = async {
            let asleep = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
            while one_number(&mut other, asleep).await == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            token.cancel().await.expect("server takes the request");
        };
        let (slept, ()) = tokio::join!(conn.simple("select pg_sleep(600)"), cancel);
        assert_eq!(slept.expect_err("cancelled").sqlstate(), "57014");
        assert_eq!(one_number(&mut conn, "select 1").await, 1);
    });
}

#[test]
fn an_abandoned_answer_makes_the_connection_refuse_further_work() {
    run(async {
        let server = server_or_skip!("an_abandoned_answer");
        let mut conn = server.connect().await;
        let query = conn.simple("select pg_sleep(600)");
        assert!(tokio::time::timeout(Duration::from_millis(50), query).await.is_err());
        assert!(conn.is_broken());
        assert_eq!(conn.simple("select 1").await.expect_err("refused").sqlstate(), "08006");
    });
}

#[test]
fn a_terminated_session_says_why() {
    run(async {
        let server = server_or_skip!("a_terminated_session_says_why");
        let (mut conn, mut other) = (server.connect().await, server.connect().await);
        let pid = one_text(&mut conn, "select pg_backend_pid()").await;
        let sql = format!("select pg_terminate_backend({pid}, 5000)");
        other.simple(&sql).await.expect("terminated");
        let error = conn.simple("select 1").await.expect_err("the session is gone");
        assert_eq!(error.sqlstate(), "57P01");
        assert!(conn.is_broken());
    });
}

#[test]
fn a_listener_that_never_answers_is_given_up() {
    run(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("an address").port();
        let target = pgdrag_driver::session::Target::new("127.0.0.1", port, "u", "d", None, "a");
        let error = connect_within(&target, Duration::from_millis(50)).await.err().expect("mute");
        assert!(matches!(error, Error::Io(_)), "{error}");
    });
}
