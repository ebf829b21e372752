//! Is a session encrypted when it is to be, and is the right server believed and no other?

use crate::support::run;
use crate::support::tls::{
    Authority, Certified, Offer, Scripted, asking, expire, name, self_signed, speaking,
};
use pgdrag_driver::session::{ChannelBinding, Connection, Target, Trust};
use pgdrag_driver::tls::{Roots, TlsTerms, Verify};

const SIGNER: &str = "no root certificate given has signed it";
const HOST: &str = "it is another host's";
const EXPIRED: &str = "it has expired";

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("a short body");
    [&[tag], &length.to_be_bytes()[..], body].concat()
}

/// What a session begins with that is let in.
fn welcome() -> Vec<Vec<u8>> {
    vec![[message(b'R', &[0; 4]), message(b'K', &[0; 8]), message(b'Z', b"I")].concat()]
}

fn target(port: u16, tls: &TlsTerms, trust: Trust) -> Target {
    Target::new("localhost", port, "me", "db", Some("correct horse"), "pgdrag test")
        .secured(trust, Some(tls), Some("127.0.0.1"))
        .expect("certificates that can be read")
}

/// Whether a client that asks this connects; and what the server heard.
async fn attempt(offer: Offer, tls: &TlsTerms) -> (Result<(), String>, Vec<Vec<u8>>) {
    let server = Scripted::start(offer, welcome());
    let target = target(server.port, tls, Trust::default());
    let found = Connection::connect(&target).await;
    // It leaves now, and the server may end.
    let found = found.map(drop).map_err(|error| error.to_string());
    (found, server.heard())
}

async fn with_certificate(certified: &Certified, tls: &TlsTerms) -> Result<(), String> {
    let (found, heard) = attempt(Offer::Tls(speaking(certified, None)), tls).await;
    assert_eq!(found.is_err(), heard.is_empty(), "who is not trusted hears nothing");
    found
}

#[test]
fn certificates_are_verified_as_far_as_is_asked() {
    run(async {
        let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
        let good = ours.localhost();
        let named = |host: &'static str| ours.sign(move |params| name(params, host));
        let common_name = ours.sign(|params| {
            params.distinguished_name.push(rcgen::DnType::CommonName, "localhost");
        });
        let other_names = ours.sign(|params| {
            params.distinguished_name.push(rcgen::DnType::CommonName, "localhost");
            name(params, "db1");
        });
        let expired = ours.sign(|params| {
            name(params, "localhost");
            expire(params);
        });
        // (certificate, root, what is said with verify: none, ca, full; "": it is trusted)
        let cases = [
            ("good", good, &ours, ["", "", ""]),
            ("another signer", theirs.localhost(), &ours, ["", SIGNER, SIGNER]),
            ("another host", named("db1"), &ours, ["", "", HOST]),
            ("a Common Name", common_name, &ours, ["", "", ""]),
            ("a Common Name beside other names", other_names, &ours, ["", "", HOST]),
            ("expired", expired, &ours, ["", EXPIRED, EXPIRED]),
            ("self-signed by somebody", self_signed(), &ours, ["", SIGNER, SIGNER]),
        ];
        for (case, certified, root, expected) in cases {
            for (verify, why) in [Verify::None, Verify::Ca, Verify::Full].into_iter().zip(expected)
            {
                let found = with_certificate(&certified, &asking(verify, Some(root))).await;
                let wanted = if why.is_empty() {
                    Ok(())
                } else {
                    Err(format!("cannot trust the server's certificate: {why}"))
                };
                assert_eq!(found, wanted, "{case}, {verify:?}");
            }
        }
    });
}

#[test]
fn a_certificate_that_signs_itself_is_trusted_where_it_is_a_root() {
    run(async {
        let own = self_signed();
        let roots = Some(Roots::Pem(own.certificate.clone()));
        let trusting = TlsTerms { roots, ..asking(Verify::Full, None) };
        assert_eq!(with_certificate(&own, &trusting).await, Ok(()));
        let other = TlsTerms { roots: Some(Roots::Pem(self_signed().certificate)), ..trusting };
        assert!(with_certificate(&own, &other).await.is_err());
    });
}

#[test]
fn a_server_without_tls_hears_nothing_but_the_request_for_it() {
    run(async {
        let ask = asking(Verify::None, None);
        let cases: [(&'static [u8], &str); 2] = [
            (b"N", "server does not speak TLS, and the job asks for it"),
            (b"E", "server answered 0x45 to the request for TLS"),
        ];
        for (answer, complaint) in cases {
            let (found, heard) = attempt(Offer::Answer(answer), &ask).await;
            assert_eq!(found, Err(complaint.to_owned()));
            assert!(heard.is_empty(), "{heard:?}");
        }
    });
}

#[test]
fn words_in_clear_text_behind_the_agreement_on_tls_are_not_believed() {
    run(async {
        // Somebody in between adds the server's welcome to its `S`: CVE-2021-23222 in libpq.
        let (found, heard) = attempt(
            Offer::Answer(b"SR\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"),
            &asking(Verify::None, None),
        )
        .await;
        let complaint = found.expect_err("not encrypted");
        assert!(complaint.starts_with("TLS failed"), "{complaint}");
        // A hello of TLS, and perhaps why it was given up; no startup message.
        let heard = heard.concat();
        assert_eq!(heard.first(), Some(&0x16));
        assert!(!heard.windows(4).any(|part| part == b"user"));
    });
}

#[test]
fn tls_can_begin_at_once() {
    run(async {
        let certified = Authority::new("ours").localhost();
        let direct = TlsTerms { is_direct: true, ..asking(Verify::None, None) };
        let (found, _) = attempt(Offer::Direct(speaking(&certified, None)), &direct).await;
        assert_eq!(found, Ok(()));
    });
}

#[test]
fn a_client_shows_its_certificate() {
    run(async {
        let ours = Authority::new("ours");
        let (server, client) = (ours.localhost(), ours.sign(|_| {}));
        let nameless = asking(Verify::Full, Some(&ours));
        let (found, _) = attempt(Offer::Tls(speaking(&server, Some(&ours))), &nameless).await;
        let complaint = found.expect_err("no certificate");
        assert!(complaint.contains("CertificateRequired"), "{complaint}");
        let named = TlsTerms {
            certificate: Some(client.certificate),
            key: Some(client.key),
            ..asking(Verify::Full, Some(&ours))
        };
        let (found, _) = attempt(Offer::Tls(speaking(&server, Some(&ours))), &named).await;
        assert_eq!(found, Ok(()));
    });
}

#[test]
fn what_is_no_certificate_or_key_is_refused_without_a_word_of_it() {
    let ask = |certificate: Option<&str>, key: Option<&str>| TlsTerms {
        certificate: certificate.map(str::to_owned),
        key: key.map(str::to_owned),
        ..asking(Verify::None, None)
    };
    let own = self_signed();
    let cases = [
        (ask(Some(&own.certificate), Some("secret")), "cannot read the client's key"),
        (ask(Some("secret"), Some(&own.key)), "there are no client's certificate"),
        (ask(Some(&own.certificate), None), "a client's certificate needs its key"),
    ];
    for (job, complaint) in cases {
        let target = Target::new("localhost", 1, "me", "db", None, "test");
        let refused = target.secured(Trust::default(), Some(&job), None).err().expect(complaint);
        assert!(refused.starts_with(complaint), "{refused}");
        assert!(!refused.contains("secret"), "{refused}");
    }
}

#[test]
fn scram_is_bound_to_the_servers_certificate() {
    run(async {
        let certified = Authority::new("ours").localhost();
        let offered = message(b'R', b"\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
        // It lets the session in without a proof, which is not believed.
        let answers = vec![offered, message(b'R', &[0; 4])];
        let server = Scripted::start(Offer::Tls(speaking(&certified, None)), answers);
        let trust = Trust { channel_binding: ChannelBinding::Require, methods: None };
        let target = target(server.port, &asking(Verify::None, None), trust);
        let refused = Connection::connect(&target).await.err().expect("no proof").to_string();
        assert_eq!(refused, "server did not prove that it knows the password");
        let said = server.heard().concat();
        let bound = b"SCRAM-SHA-256-PLUS\0\0";
        assert!(said.windows(bound.len()).any(|part| part == bound));
        assert!(said.windows(24).any(|part| part == b"p=tls-server-end-point,,"));
    });
}

#[test]
fn an_answer_of_many_records_arrives_whole() {
    run(async {
        let certified = Authority::new("ours").localhost();
        let mut answers = welcome();
        let row = message(b'D', &[&[0, 1, 0, 0, 0xc3, 0x50][..], &vec![b'x'; 50_000]].concat());
        let end = [message(b'C', b"SELECT 200\0"), message(b'Z', b"I")].concat();
        let columns = message(b'T', b"\0\x01x\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0");
        answers.push([columns, row.repeat(200), end].concat());
        let server = Scripted::start(Offer::Tls(speaking(&certified, None)), answers);
        let target = target(server.port, &asking(Verify::None, None), Trust::default());
        let mut conn = Connection::connect(&target).await.expect("connects");
        let rows = conn.simple_rows("select").await.expect("an answer");
        assert_eq!(rows.len(), 200);
        assert!(rows.iter().all(|row| row[0].as_ref().is_some_and(|text| text.len() == 50_000)));
    });
}
