//! Does a server that breaks the protocol get an error, and never a panic or memory without end?

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use crate::support::run;
use pgdrag_driver::error::Error;
use pgdrag_driver::session::{Connection, Params, Target};

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("a short body");
    [&[tag], &length.to_be_bytes()[..], body].concat()
}

fn ready() -> Vec<u8> {
    message(b'Z', b"I")
}

fn command(tag: &str) -> Vec<u8> {
    message(b'C', &[tag.as_bytes(), b"\0"].concat())
}

/// A row of integers.
fn row(values: &[i32]) -> Vec<u8> {
    let mut body = i16::try_from(values.len()).expect("a few").to_be_bytes().to_vec();
    for value in values {
        pgwire::value::put_int4(&mut body, *value);
    }
    message(b'D', &body)
}

/// What every session begins with: it is let in.
fn greeting() -> Vec<u8> {
    [message(b'R', &[0; 4]), message(b'K', &[0; 8]), ready()].concat()
}

/// A server that says what a list tells it to, whatever it is asked.
struct Liar {
    directory: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl Liar {
    /// Gives each of `answers` when something has come in, and closes the connection after the last.
    fn start(answers: &[Vec<u8>]) -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("pgdrag-liar-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).expect("the directory is new");
        let listener = UnixListener::bind(directory.join(".s.PGSQL.1")).expect("a free name");
        let answers: Vec<_> = [greeting()].into_iter().chain(answers.iter().cloned()).collect();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut question = vec![0; 1 << 16];
            for answer in answers {
                if stream.read(&mut question).expect("a question") == 0 {
                    return;
                }
                // A client that has heard enough may hang up.
                let _ = stream.write_all(&answer);
            }
        });
        Self { directory, thread: Some(thread) }
    }

    fn target(&self) -> Target {
        let host = self.directory.to_str().expect("an ASCII path");
        Target::new(host, 1, "u", "d", None, "a")
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        let ended = self.thread.take().expect("ends once").join();
        std::fs::remove_dir_all(&self.directory).expect("the directory is ours");
        assert!(ended.is_ok() || std::thread::panicking(), "the liar failed");
    }
}

/// What a text query and one after it make of these answers.
async fn ask(answers: &[Vec<u8>]) -> (Result<(), Error>, Result<(), Error>) {
    let liar = Liar::start(answers);
    let mut conn = Connection::connect(&liar.target()).await.expect("connects");
    let first = conn.simple("select").await;
    let second = conn.simple("select").await;
    (first, second)
}

#[test]
fn a_ready_for_query_too_many_is_a_breach_and_the_connection_is_given_up() {
    run(async {
        let answer = [command("SELECT 0"), ready(), ready()].concat();
        let (first, second) = ask(&[answer]).await;
        first.expect("its own answer is whole");
        assert_eq!(second.expect_err("surplus").to_string(), "ReadyForQuery without a question");
    });
}

#[test]
fn an_answer_without_parts_or_with_foreign_ones_is_a_breach() {
    run(async {
        // (answer, complaint)
        let cases = [
            (ready(), "answer has 0 parts instead of 1"),
            ([message(b'R', &[0; 4]), ready()].concat(), "unexpected Authentication in an answer"),
            ([message(b's', b""), ready()].concat(), "unexpected PortalSuspended in an answer"),
            (
                [command("SELECT 0"), message(b'Z', b"?")].concat(),
                "unknown transaction status [63]",
            ),
            (
                [message(b'E', b"Mno\0\0"), ready()].concat(),
                "report has no SQLSTATE of five characters",
            ),
            (b"!".to_vec(), "unknown message tag 0x21 from the server"),
            (b"D\xff\xff\xff\xff".to_vec(), "message DataRow claims a length of 4294967295 bytes"),
        ];
        for (answer, complaint) in cases {
            let (first, second) = ask(&[answer]).await;
            assert_eq!(first.expect_err(complaint).to_string(), complaint);
            assert_eq!(second.expect_err("given up").to_string(), "connection is broken");
        }
    });
}

#[test]
fn an_answer_that_breaks_off_is_a_broken_connection() {
    run(async {
        let (first, _) = ask(&[command("SELECT 0")]).await;
        assert_eq!(first.expect_err("no end").sqlstate(), "08006");
        let last_words = message(b'E', b"SFATAL\0C57P01\0Mgo away\0\0");
        let (first, _) = ask(&[last_words]).await;
        assert_eq!(first.expect_err("no end").sqlstate(), "57P01");
    });
}

#[test]
fn what_a_server_says_in_passing_is_no_part_of_an_answer() {
    run(async {
        let passing = [
            message(b'N', b"SNOTICE\0C00000\0Mhm\0\0"),
            message(b'S', b"TimeZone\0UTC\0"),
            message(b'A', b"\0\0\0\0channel\0payload\0"),
        ]
        .concat();
        let spread = |parts: &[Vec<u8>]| {
            parts
                .iter()
                .flat_map(|part| [&passing[..], part, &passing].concat())
                .collect::<Vec<_>>()
        };
        let answer = spread(&[row(&[1]), row(&[2]), command("SELECT 2"), ready()]);
        let liar = Liar::start(&[answer.clone(), answer]);
        let mut conn = Connection::connect(&liar.target()).await.expect("connects");
        for _ in 0..2 {
            let mut flight = conn.flight().expect("nothing is outstanding");
            flight.text("select").expect("queued");
            let mut answers = flight.send().await.expect("whole");
            let rows = answers.take().expect("an answer").rows();
            assert_eq!(rows.count(), 2);
            assert_eq!(rows.into_iter().last().unwrap().unwrap().values().count(), 1);
            assert!(answers.next().expect("sound").is_none());
        }
    });
}

#[test]
fn rows_of_another_shape_than_asked_for_are_errors_and_no_panics() {
    run(async {
        let described =
            [message(b'1', b""), message(b't', &[0, 0]), message(b'n', b""), ready()].concat();
        let bound = message(b'2', b"");
        let null = message(b'D', b"\0\x01\xff\xff\xff\xff");
        let odd = message(b'D', b"\0\x01\0\0\0\x03abc");
        let cut = message(b'D', b"\0\x05\0\0\0\x01a");
        for bad in [row(&[]), null, odd, cut] {
            let answer = [bound.clone(), bad, command("SELECT 1"), ready()].concat();
            let liar = Liar::start(&[described.clone(), answer]);
            let mut conn = Connection::connect(&liar.target()).await.expect("connects");
            let statement = conn.prepare("select").await.expect("described");
            let rows = conn.query(&statement, &mut Params::new()).await.expect("whole");
            let read = rows.first().and_then(|row| row.expect("a row").int4(0));
            assert_eq!(read.expect_err("no integer").sqlstate(), "08P01");
        }
    });
}

#[test]
fn rows_without_end_are_cut_off() {
    run(async {
        // 80 MB in rows of 1 MB.
        let mut body = b"\0\x01".to_vec();
        pgwire::value::put_bytes(&mut body, &vec![b'x'; 1 << 20]);
        let (first, _) = ask(&[message(b'D', &body).repeat(80)]).await;
        let complaint = first.expect_err("too long").to_string();
        assert_eq!(complaint, "answer is longer than 67108864 bytes");
    });
}
