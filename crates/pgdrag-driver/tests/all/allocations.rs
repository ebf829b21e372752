//! Does a statement cost no heap allocation once its buffers have grown?

#![allow(unsafe_code)] // an allocator cannot be counted without implementing one

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::support::{Server, run, timers};
use pgdrag_driver::job::Action;
use pgdrag_driver::job::PgbenchJob;
use pgdrag_driver::script::Scripts;
use pgdrag_driver::session::Params;
use pgdrag_driver::workload::{Terminal, Workload};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a count for each thread.
struct Counting;

// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` above, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_transaction_on_grown_buffers_allocates_nothing() {
    run(async {
        let test = "a_transaction_on_grown_buffers_allocates_nothing";
        let Some(server) = Server::start(test).await else { return };
        let mut conn = server.connect().await;
        conn.simple("create table t (n int, amount numeric(12,2), x text)").await.expect("made");
        let insert = conn.prepare("insert into t values ($1, $2, $3)").await.expect("prepared");
        let select = conn.prepare("select n, amount, x from t where n = $1 limit 3").await;
        let select = select.expect("prepared");
        let mut params = Params::new();
        let mut allocated = 0;
        for n in 0..50 {
            // The first ones grow the buffers; the others must find them large enough.
            if n == 10 {
                allocated = ALLOCATIONS.get();
            }
            conn.begin();
            conn.execute(&insert, params.int4(n).numeric(1_00, 2).text("x")).await.expect("insert");
            for line in 0..5 {
                params.int4(n).numeric(line, 2).text("some text");
            }
            conn.batch(&insert, &mut params).await.expect("batch");
            let mut sum = 0;
            for row in conn.query(&select, params.int4(n)).await.expect("select") {
                let row = row.expect("a row");
                sum += row.numeric(1, 2).expect("an amount") + i64::from(row.int4(0).expect("n"));
                assert!(!row.text(2).expect("a text").is_empty());
            }
            assert!(sum > 0);
            conn.commit().await.expect("commit");

            conn.begin();
            let mut flight = conn.flight().expect("nothing is outstanding");
            for line in 0..5 {
                params.int4(n).numeric(line, 2).text("some text");
            }
            flight.batch(&insert, &mut params).expect("queued");
            flight.execute(&select, params.int4(n)).expect("queued");
            let mut answers = flight.commit().await.expect("flight arrives");
            for _ in 0..5 {
                assert_eq!(answers.take().expect("a row is in").rows_affected().expect("sound"), 1);
            }
            assert_eq!(answers.take().expect("the rows").rows().count(), 3);
        }
        assert_eq!(ALLOCATIONS.get() - allocated, 0);
    });
}

#[test]
fn a_script_of_prepared_statements_allocates_nothing() {
    run(async {
        let claim = "a_script_of_prepared_statements_allocates_nothing";
        let Some(server) = Server::start(claim).await else { return };
        let mut conn = server.connect().await;
        conn.simple("create table accounts as select 1 as aid, 5 as balance").await.expect("made");
        let text = "\\set aid random(1, 100000 * :scale)\n\\set delta random(-5000, 5000)\n\
                    begin;\nupdate accounts set balance = balance + :delta where aid = :aid;\n\
                    \\if :delta > 0\nselect balance from accounts where aid = :aid;\n\\endif\nend;\n";
        let job: PgbenchJob = serde_json::from_value(serde_json::json!({
            "scripts": [{"name": "mine", "text": text, "weight": 1}], "statements": "prepared",
            "variables": {}, "scale": 1, "max_tries": 3, "allow_shell": false, "time_statements": false, "tables": null,
        }))
        .expect("a sound job");
        let scripts = Scripts::new(&job, Action::Run, 7).expect("a sound script");
        let mut terminal = scripts.terminal(0, 1, &mut conn).await.expect("a terminal");
        let timers = timers();
        let mut allocated = 0;
        for n in 0..50 {
            if n == 10 {
                allocated = ALLOCATIONS.get();
            }
            terminal.draw();
            terminal.attempt(&mut conn, &timers).await.expect("committed");
        }
        assert_eq!(ALLOCATIONS.get() - allocated, 0);
    });
}
