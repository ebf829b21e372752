//! How does a session with the server begin?

use pgwire::auth::{self, Request, Scram};
use pgwire::backend::{self, Reader, Tag};
use pgwire::frontend;

use crate::error::Error;
use crate::io::stream::Stream;
use crate::session::exchange::Exchange;
use crate::session::target::{CancelToken, Target};

/// Connects, authenticates, and waits until the server takes commands.
pub(crate) async fn open(target: &Target) -> Result<(Exchange, CancelToken), Error> {
    let mut exchange = Exchange::new(Stream::connect(&target.address).await?);
    frontend::startup(
        &mut exchange.out,
        &[
            ("user", &target.user),
            ("database", &target.database),
            ("application_name", &target.application_name),
            ("client_encoding", "UTF8"),
        ],
    )?;
    exchange.send().await?;
    authenticate(&mut exchange, target).await?;

    let mut cancel = CancelToken { address: target.address.clone(), process_id: 0, secret_key: 0 };
    loop {
        exchange.forget();
        let message = exchange.next().await?;
        let body = exchange.body(&message);
        match message.tag {
            Tag::BackendKeyData => {
                let mut reader = Reader::new(body);
                cancel.process_id = reader.int4()?;
                cancel.secret_key = reader.int4()?;
            }
            Tag::ErrorResponse => return Err(Error::from_report(backend::report(body)?)),
            Tag::ReadyForQuery => return Ok((exchange, cancel)),
            _ => {}
        }
    }
}

async fn authenticate(exchange: &mut Exchange, target: &Target) -> Result<(), Error> {
    let mut scram: Option<Scram> = None;
    loop {
        exchange.forget();
        let message = exchange.next().await?;
        let body = exchange.body(&message).to_vec();
        match message.tag {
            Tag::Authentication => {}
            Tag::ErrorResponse => return Err(Error::from_report(backend::report(&body)?)),
            Tag::NoticeResponse | Tag::NegotiateProtocolVersion => continue,
            tag => return Err(Error::Protocol(format!("{tag:?} during authentication"))),
        }
        match Request::parse(&body)? {
            Request::Done => return Ok(()),
            Request::ClearText => {
                frontend::password(&mut exchange.out, password(target)?.as_bytes())?;
            }
            Request::Md5(salt) => {
                let answer = auth::md5(&target.user, password(target)?, salt);
                frontend::password(&mut exchange.out, answer.as_bytes())?;
            }
            Request::Sasl(true) => {
                let started = scram.insert(Scram::new(password(target)?));
                frontend::sasl_first(&mut exchange.out, auth::SCRAM, started.answer())?;
            }
            Request::Sasl(false) => {
                return Err(Error::Protocol("server offers no SCRAM-SHA-256".into()));
            }
            Request::SaslContinue(answer) => {
                let scram = started(&mut scram)?;
                scram.go_on(answer)?;
                frontend::sasl_next(&mut exchange.out, scram.answer())?;
            }
            Request::SaslFinal(answer) => started(&mut scram)?.finish(answer)?,
        }
        exchange.send().await?;
    }
}

fn started(scram: &mut Option<Scram>) -> Result<&mut Scram, Error> {
    scram.as_mut().ok_or_else(|| Error::Protocol("SASL answer before its request".into()))
}

fn password(target: &Target) -> Result<&str, Error> {
    target.password.as_deref().ok_or_else(|| {
        Error::Protocol(format!("server asks for a password of role \"{}\"", target.user))
    })
}
